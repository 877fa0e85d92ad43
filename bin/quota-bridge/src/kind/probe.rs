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
use crate::{bugs, clock, discovery::Served, kubernetes::JSON, line::Scope, metrics};

/// The time in which the watch may reach the version of the read by itself.
const SHOWS_SOON: Duration = Duration::from_secs(1);

/// The minimum time between two reads, however often watermarks are requested.
const AWAITED_EVERY: Duration = Duration::from_millis(500);

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

    pub(super) async fn run(mut self) {
        // The first one as early as possible.
        if self.shown.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let mut awaited = self.shared.awaited.clone();
        loop {
            let begun = Instant::now();
            awaited.mark_unchanged();
            self.probe().await;
            let every = self.shared.settings.watermark_every;
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
        let time = clock::now();
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
            || self.is_shown_besides(version).await
            || self.is_shown_by_list(version, before).await;
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
        let path = format!("{}?limit=1{}", self.path, bugs::read_parameters());
        match self.shared.client.get(&path, JSON).await {
            Ok(body) => {
                let listed: Listed = serde_json::from_slice(&body).ok()?;
                listed.metadata.resource_version.parse().ok()
            }
            Err(failure) => {
                metrics::error(&self.label, &failure);
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
            let _ = self.relists.send(Relist { reset: true });
        }
    }

    /// Whether the watch reaches the version within this time.
    async fn is_shown(&mut self, version: u64, within: Duration) -> bool {
        let shown = self
            .shown
            .wait_for(|shown| shown.is_none_or(|shown| shown >= version));
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
        if self.relists.send(Relist { reset: false }).is_err() {
            return false;
        }
        // There is no watermark during a list.
        let listed = self
            .shown
            .wait_for(|shown| shown.is_some_and(|shown| shown >= version));
        let listed = tokio::time::timeout(LIST_EVERY, listed).await;
        matches!(listed, Ok(Ok(_)))
    }

    /// Whether a second watch from the same version reaches the version. Without changes the first watch is silent for
    /// a minute, and the second one reports progress sooner. If the second one delivers changes, the first one must
    /// deliver them, too.
    async fn is_shown_besides(&mut self, version: u64) -> bool {
        let Some(from) = *self.shown.borrow() else {
            return false;
        };
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds={SHORT_WATCH}",
            self.path
        );
        let Ok(mut lines) = self.shared.client.watch(&path, JSON).await else {
            return false;
        };
        let mut last = from;
        while let Ok(Some(line)) = lines.next(SHORT_WATCH_IDLE).await {
            let Ok(watched) = serde_json::from_slice::<Watched<'_>>(&line) else {
                return false;
            };
            let Ok(bookmark) = reader::bookmark(watched.object.get()) else {
                return false;
            };
            let Ok(reached) = bookmark.version.parse::<u64>() else {
                return false;
            };
            match watched.event {
                "ADDED" | "MODIFIED" | "DELETED" => last = reached,
                "BOOKMARK" => {}
                _ => return false,
            }
            if reached >= version {
                return self.is_shown(last, SHOWS_SOON).await;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use fake_api::world::{Fault, Request};
    use quota_semantics::object::GroupResource;
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

    /// Where the queue is always some seconds behind, for example.
    #[tokio::test]
    async fn a_watch_that_is_always_behind_has_a_watermark_that_is_behind() {
        let (world, shared, _lines) = fakes::shared().await;
        let served = Served {
            resource: GroupResource::new("", "pods"),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            aggregated: false,
        };
        let scope = Scope {
            resource: served.resource.clone(),
            namespace: None,
        };
        let watermarks = shared.watermarks.clone();
        watermarks.watched(&served.resource, slice::from_ref(&scope));
        let (show, shown) = watch::channel(Some(world.revision()));
        let (relists, _requests) = mpsc::unbounded_channel();
        let mut probe = Probe::new(Arc::new(shared), &served, scope, shown, relists);
        // It takes no list to reach the version.
        probe.listed = Some(Instant::now());
        world.create("pods", "a", "p", json!({}));
        let version = world.revision();
        probe.probe().await;
        let late = clock::now();
        assert!(watermarks.progress().is_empty());
        // By now the watch has reached it. Nobody knows how far the server is.
        show.send_replace(Some(version));
        let fault = Fault::Status(503, 0);
        world.plan("pods", Request::List, fault, 1);
        probe.probe().await;
        match &watermarks.progress()["pods"] {
            Progress::Watermark {
                watermark,
                version: reached,
            } => {
                assert_eq!(*reached, version.to_string());
                assert!(*watermark < late);
            }
            other => panic!("{other:?}"),
        }
    }
}
