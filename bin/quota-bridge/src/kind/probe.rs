//! Determines the watermark of a scope: a consistent read at some time returns the current resource version, and this
//! time is the watermark once the watch has reached that version.
//!
//! A read without a quorum is not enough: an API server that is cut off from etcd answers from its cache, and changes
//! that are not in the cache would count as sent.

use std::{sync::Arc, time::Duration};

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
    /// The number of consecutive reads whose version was before that of the watch.
    behind: u32,
    /// The time at which a list was last requested because no watch reported progress.
    listed: Option<Instant>,
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListMetadata,
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
        let is_shown = self.is_shown(version, SHOWS_SOON).await
            || self.is_shown_besides(version).await
            || self.is_shown_by_list(version, before).await;
        if is_shown {
            let time = self.shared.publisher.on_their_clock(time);
            self.shared.watermarks.advance(&self.scope, time, version);
        }
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
