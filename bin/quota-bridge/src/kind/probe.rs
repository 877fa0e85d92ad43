//! Determines the watermark of a scope: a consistent read at some time returns the current resource version, and this
//! time is the watermark once the watch has reached that version.
//!
//! A read without a quorum is not enough: an API server that is cut off from etcd answers from its cache, and changes
//! that are not in the cache would count as sent.

use std::{sync::Arc, time::Duration};

use quota_semantics::Timestamp;
use serde::Deserialize;
use tokio::{sync::mpsc, time::Instant};

use super::{
    ListMetadata, Relist, Shared, Shown, Watched, jitter, machine::WentBack, reader,
    warn_of_restore,
};
use crate::{
    discovery::Served,
    kubernetes::{Failure, JSON},
    line::Scope,
    metrics, watermarks,
};

/// The time in which the watch may reach the version of the read by itself.
const SHOWS_SOON: Duration = Duration::from_secs(1);

/// The minimum time between two reads, however often watermarks are requested.
pub(crate) const AWAITED_EVERY: Duration = Duration::from_millis(500);

/// The timeout of the second watch, in seconds. The server reports progress two seconds before the end.
const SHORT_WATCH: u64 = 3;

/// The idle timeout of the second watch.
const SHORT_WATCH_IDLE: Duration = Duration::from_secs(5);

/// The interval of lists of a kind whose watches report no progress, and the maximum age of its watermarks.
const LIST_EVERY: Duration = Duration::from_secs(30);

pub(super) struct Probe {
    shared: Arc<Shared>,
    scope: Scope,
    label: String,
    path: String,
    shown: Shown,
    relists: mpsc::UnboundedSender<Relist>,
    reads: Reads,
    /// The number of consecutive reads whose version was before that of the watch.
    behind: u32,
    /// The time at which a list was last requested because no watch reported progress.
    listed: Option<Instant>,
}

/// The answer of a second watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Besides {
    /// The first watch has reached the version: it has delivered all that the second one did.
    Shown,
    /// The first watch is behind, or nobody knows whether it is.
    Behind,
    /// The server reported neither changes nor progress.
    Silent,
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListMetadata,
}

/// A consistent read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    /// When it began.
    time: Timestamp,
    /// The version that it returned.
    version: u64,
}

/// Reads whose versions the watch has not reached yet: the first one and the last one.
///
/// A watch that is always some seconds behind reaches none of them soon, but each of them some time. So the first one is
/// kept, however many follow.
#[derive(Debug, Default)]
struct Reads {
    first: Option<Read>,
    last: Option<Read>,
}

impl Reads {
    /// A read was made.
    fn note(&mut self, read: Read) {
        if self.last.is_some_and(|last| read.version < last.version) {
            // The server was restored: the earlier versions are those of a lost history.
            *self = Self::default();
        }
        self.first.get_or_insert(read);
        self.last = Some(read);
    }

    /// The latest of the reads that the watch has reached, if it has shown all up to this version. Nothing is reached, nor
    /// will be, while it is not certain what was shown.
    fn reached(&mut self, shown: Option<u64>) -> Option<Read> {
        let Some(shown) = shown else {
            *self = Self::default();
            return None;
        };
        let is_reached = |read: &mut Read| read.version <= shown;
        if let Some(last) = self.last.take_if(is_reached) {
            self.first = None;
            return Some(last);
        }
        let first = self.first.take_if(is_reached)?;
        self.first = self.last;
        Some(first)
    }
}

impl Probe {
    pub(super) fn new(
        shared: Arc<Shared>,
        served: &Served,
        scope: Scope,
        shown: Shown,
        relists: mpsc::UnboundedSender<Relist>,
    ) -> Self {
        Self {
            label: scope.resource.to_string(),
            path: served.path(scope.namespace.as_deref()),
            shared,
            scope,
            shown,
            relists,
            reads: Reads::default(),
            behind: 0,
            listed: None,
        }
    }

    pub(super) async fn run(mut self, every: Duration) {
        // The first one as early as possible.
        if self.shown.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut awaited = self.shared.awaited.clone();
        loop {
            let begun = Instant::now();
            awaited.mark_unchanged();
            self.probe().await;
            tokio::select! {
                () = tokio::time::sleep(every.mul_f64(0.9 + 0.2 * jitter())) => {}
                Ok(()) = awaited.changed() => tokio::time::sleep_until(begun + AWAITED_EVERY.min(every)).await,
            }
        }
    }

    async fn probe(&mut self) {
        self.advance();
        let Some(before) = *self.shown.borrow() else {
            return;
        };
        let time = watermarks::now();
        let Some(version) = self.read().await else {
            return;
        };
        if version < before {
            self.went_back(version, before);
            return;
        }
        self.behind = 0;
        let read = Read { time, version };
        self.reads.note(read);
        let is_shown = self.is_shown(version, SHOWS_SOON).await
            || match self.besides(version).await {
                Besides::Shown => true,
                Besides::Behind => false,
                Besides::Silent => self.is_shown_by_list(version, before).await,
            };
        if is_shown {
            // It is the latest read. A second watch may have reached the version before the first one.
            self.reads = Reads::default();
            self.advance_to(read);
        } else {
            tracing::debug!(resource = self.label, version, "the watch is behind");
            self.advance();
        }
    }

    /// Advances the watermark to the latest read that the watch has reached.
    fn advance(&mut self) {
        let shown = *self.shown.borrow();
        if let Some(read) = self.reads.reached(shown) {
            self.advance_to(read);
        }
    }

    fn advance_to(&self, Read { time, version }: Read) {
        let time = self.shared.publisher.on_their_clock(time);
        self.shared.watermarks.advance(&self.scope, time, version);
    }

    /// A quorum read of the server's resource version.
    async fn read(&self) -> Option<u64> {
        let path = format!("{}?limit=1", self.path);
        match self.shared.client.get(&path, JSON).await {
            Ok(body) => {
                let listed: Listed = serde_json::from_slice(&body).ok()?;
                listed.metadata.resource_version.parse().ok()
            }
            Err(failure) => {
                metrics::error(&self.label, &failure);
                self.shared.watermarks.failed(&self.scope, &failure.label());
                None
            }
        }
    }

    /// Counts a read whose version is before that of the watch. After two in a row the server counts as restored: a
    /// watch from a version in the future is silent forever.
    fn went_back(&mut self, version: u64, before: u64) {
        self.reads = Reads::default();
        self.behind += 1;
        if self.behind >= 2 {
            let newest = before;
            warn_of_restore(&self.label, WentBack { version, newest });
            self.behind = 0;
            let _ = self.relists.send(Relist::Reset);
        }
    }

    /// Whether the watch reaches the version within this time.
    async fn is_shown(&mut self, version: u64, within: Duration) -> bool {
        let shown = self.shown.wait_for(|shown| shown.is_none_or(|shown| shown >= version));
        match tokio::time::timeout(within, shown).await {
            Ok(Ok(shown)) => shown.is_some(),
            _ => false,
        }
    }

    /// Whether a list reaches the version. Servers before Kubernetes 1.31 report progress only as often as etcd does,
    /// which may be never, so without changes no watch reaches the version. A list does, but is expensive, and
    /// therefore rare.
    async fn is_shown_by_list(&mut self, version: u64, before: u64) -> bool {
        let is_idle = *self.shown.borrow() == Some(before);
        let is_due = self.listed.is_none_or(|at| at.elapsed() >= LIST_EVERY);
        if !is_idle || !is_due {
            return false;
        }
        self.listed = Some(Instant::now());
        if self.relists.send(Relist::Again).is_err() {
            return false;
        }
        // There is no watermark during a list.
        let listed = self.shown.wait_for(|shown| shown.is_some_and(|shown| shown >= version));
        let listed = tokio::time::timeout(LIST_EVERY, listed).await;
        matches!(listed, Ok(Ok(_)))
    }

    /// Whether the first watch has reached the version, as far as a second watch from the same version shows. Without
    /// changes the first watch is silent for a minute, and the second one reports progress sooner. If the second one
    /// delivers changes, the first one must deliver them, too.
    async fn besides(&mut self, version: u64) -> Besides {
        let Some(from) = *self.shown.borrow() else {
            return Besides::Behind;
        };
        match self.changed_besides(from, version).await {
            Ok(Some(last)) if self.is_shown(last, SHOWS_SOON).await => Besides::Shown,
            Ok(None) => Besides::Silent,
            // A server that does not remember the version does not tell whether there were changes since.
            Err(failure) if failure.is_expired() => Besides::Silent,
            Ok(Some(_)) | Err(_) => Besides::Behind,
        }
    }

    /// The version up to which the first watch must have shown all, according to a second watch from `from`: that of the
    /// last change before `version`, or `from` if there is none.
    ///
    /// If the second watch ends before it has reached `version`, further changes may be missing: then the answer is
    /// `version` after a change, which proves only that the kind is not idle, and None without one.
    async fn changed_besides(&self, from: u64, version: u64) -> Result<Option<u64>, Failure> {
        let unreadable = |error: &dyn ToString| Failure::Unreadable(error.to_string());
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={SHORT_WATCH}",
            self.path
        );
        let mut lines = self.shared.client.watch(&path, JSON).await?;
        let mut last = from;
        loop {
            let line = match lines.next(SHORT_WATCH_IDLE).await {
                Ok(Some(line)) => line,
                Ok(None) | Err(Failure::Silent) => return Ok((last > from).then_some(version)),
                Err(failure) => return Err(failure),
            };
            let watched: Watched<'_> =
                serde_json::from_slice(&line).map_err(|error| unreadable(&error))?;
            let object = watched.object.get();
            if watched.event == "ERROR" {
                return Err(Failure::of_event(object));
            }
            let bookmark = reader::bookmark(object).map_err(Failure::Unreadable)?;
            let reached = bookmark.version.parse();
            let reached: u64 = reached.map_err(|error| unreadable(&error))?;
            if watched.event != "BOOKMARK" {
                last = reached;
            }
            if reached >= version {
                return Ok(Some(last));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use quota_semantics::object::GroupResource;
    use quota_testkit::fake_api::world::{Fault, Request, World};
    use serde_json::json;
    use tokio::sync::watch;

    use super::*;
    use crate::{kind::fakes, line::Progress};

    fn read(time: i64, version: u64) -> Read {
        let time = Timestamp::from_nanoseconds(time);
        Read { time, version }
    }

    #[test]
    fn the_first_read_is_kept_until_it_is_reached_whatever_follows() {
        let mut reads = Reads::default();
        for time in 1..5 {
            reads.note(read(time, 10));
        }
        assert_eq!(reads.reached(Some(9)), None);
        reads.note(read(5, 50));
        reads.note(read(6, 60));
        assert_eq!(reads.reached(Some(49)), Some(read(1, 10)));
        assert_eq!(reads.reached(Some(59)), None);
        reads.note(read(7, 70));
        assert_eq!(reads.reached(Some(60)), Some(read(6, 60)));
        reads.note(read(8, 80));
        assert_eq!(reads.reached(Some(80)), Some(read(8, 80)), "the latest");
        assert_eq!(reads.reached(Some(99)), None);
    }

    #[test]
    fn reads_of_an_uncertain_watch_or_of_a_lost_history_are_dropped() {
        let mut reads = Reads::default();
        reads.note(read(1, 10));
        assert_eq!(reads.reached(None), None);
        assert_eq!(reads.reached(Some(10)), None);
        reads.note(read(2, 20));
        reads.note(read(3, 5));
        assert_eq!(reads.reached(Some(5)), Some(read(3, 5)));
        assert_eq!(reads.reached(Some(20)), None);
    }

    /// The probe of pods in a new cluster, and the ends of its channels. The watch has shown all that happened.
    struct Scene {
        world: World,
        probe: Probe,
        show: watch::Sender<Option<u64>>,
        requests: mpsc::UnboundedReceiver<Relist>,
    }

    impl Scene {
        async fn new() -> Self {
            let (world, shared, _lines) = fakes::shared().await;
            let served = Served {
                resource: GroupResource::new("", "pods"),
                version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                aggregated: false,
            };
            let scope = Scope { resource: served.resource.clone(), namespace: None };
            shared.watermarks.watched(&served.resource, slice::from_ref(&scope));
            let (show, shown) = watch::channel(Some(world.revision()));
            let (relists, requests) = mpsc::unbounded_channel();
            let probe = Probe::new(Arc::new(shared), &served, scope, shown, relists);
            Self { world, probe, show, requests }
        }

        /// The watermark and the version that it stands for.
        fn watermark(&self) -> Option<(Timestamp, u64)> {
            match self.probe.shared.watermarks.progress().get("pods")? {
                Progress::Watermark { watermark, version, .. } => {
                    Some((*watermark, version.parse().unwrap()))
                }
                other => panic!("{other:?}"),
            }
        }

        /// Something happens, but not to pods. Returns the version of the cluster.
        fn change_another_kind(&self) -> u64 {
            self.world.create("configmaps", "a", "c", json!({}));
            self.world.revision()
        }
    }

    #[tokio::test]
    async fn an_idle_kind_is_known_by_a_second_watch() {
        let mut scene = Scene::new().await;
        let version = scene.change_another_kind();
        scene.probe.probe().await;
        assert_eq!(scene.watermark().unwrap().1, version);
        assert!(scene.requests.try_recv().is_err(), "no list is needed");
    }

    #[tokio::test]
    async fn an_idle_kind_of_a_server_that_reports_no_progress_is_listed() {
        let mut scene = Scene::new().await;
        scene.world.set_minor(30);
        let version = scene.change_another_kind();
        let Scene { probe, requests, show, .. } = &mut scene;
        let list = async {
            assert_eq!(requests.recv().await, Some(Relist::Again));
            show.send_replace(Some(version));
        };
        tokio::join!(probe.probe(), list);
        assert_eq!(scene.watermark().unwrap().1, version);
    }

    /// Changes without progress do not show that no other change follows them.
    #[tokio::test]
    async fn a_change_that_both_watches_deliver_does_not_stand_for_a_later_version() {
        let mut scene = Scene::new().await;
        scene.world.set_minor(30);
        scene.world.create("pods", "a", "p", json!({}));
        let shown = scene.world.revision();
        scene.change_another_kind();
        let Scene { world, probe, show, .. } = &mut scene;
        let first_watch = async {
            while world.requests("pods", "Watch") == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            show.send_replace(Some(shown));
        };
        tokio::join!(probe.probe(), first_watch);
        assert_eq!(scene.watermark(), None);
    }

    /// A busy server, or a full queue, gets no more work by lists.
    #[tokio::test]
    async fn a_kind_that_may_not_be_idle_is_not_listed() {
        for is_refused in [true, false] {
            let mut scene = Scene::new().await;
            match is_refused {
                true => {
                    scene.change_another_kind();
                    let fault = Fault::Status(429, 9);
                    scene.world.plan("pods", Request::Watch, fault, 1);
                }
                // The line of this pod waits for room in the queue, so the version is not shown.
                false => drop(scene.world.create("pods", "a", "p", json!({}))),
            }
            scene.probe.probe().await;
            assert_eq!(scene.watermark(), None);
            assert!(scene.requests.try_recv().is_err(), "{is_refused}");
        }
    }

    /// Where the queue is always some seconds behind, for example.
    #[tokio::test]
    async fn a_watch_that_is_always_behind_has_a_watermark_that_is_behind() {
        let mut scene = Scene::new().await;
        scene.world.create("pods", "a", "p", json!({}));
        let version = scene.world.revision();
        scene.probe.probe().await;
        let late = watermarks::now();
        assert_eq!(scene.watermark(), None);
        // By now the watch has reached it. Nobody knows how far the server is.
        scene.show.send_replace(Some(version));
        let fault = Fault::Status(503, 0);
        scene.world.plan("pods", Request::List, fault, 1);
        scene.probe.probe().await;
        let (watermark, reached) = scene.watermark().unwrap();
        assert_eq!(reached, version);
        assert!(watermark < late);
    }
}
