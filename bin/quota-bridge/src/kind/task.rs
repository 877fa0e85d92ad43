//! The task of one scope: carries out the steps of the [`Machine`], and queues the resulting lines.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use quota_semantics::uid::Uid;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use super::{
    Alive, ListMetadata, Reader, Relist, Shared, Watched, jitter,
    machine::{Brackets, Event, Machine, Page, Rules, Step},
    reader, warn_of_restore,
};
use crate::{
    discovery::Served,
    kubernetes::{Failure, JSON, METADATA, METADATA_WATCH},
    line::{self, Scope},
    metrics,
    publisher::Closed,
};

/// The timeout with which a watch that begins with a list is opened.
const WATCH_LIST_TIMEOUT: Duration = Duration::from_secs(290);

pub(super) struct Task {
    shared: Arc<Shared>,
    scope: Scope,
    /// The name of the kind in metrics.
    label: String,
    path: String,
    reader: Reader,
    machine: Machine,
    filter: Filter,
    requests: mpsc::UnboundedReceiver<Relist>,
    show: watch::Sender<Option<u64>>,
    begun: Instant,
    /// How often the stream had lost messages when the current list began.
    losses: u64,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    kind: &'a str,
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// The reason to leave a watch.
enum Left {
    Over,
    Failed(Failure),
    Closed,
}

impl From<Closed> for Left {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        served: &Served,
        scope: Scope,
        requests: mpsc::UnboundedReceiver<Relist>,
        show: watch::Sender<Option<u64>>,
    ) -> Self {
        let rules = Rules {
            page: shared.config.list.page.get(),
            watch_list: shared.watch_list && !served.aggregated,
            every: shared.config.list.every.get(),
            may_be_empty: !served.aggregated,
        };
        Self {
            label: scope.resource.to_string(),
            path: served.path(scope.namespace.as_deref()),
            reader: Reader::new(served, shared.charging.clone()),
            machine: Machine::new(rules, shared.ids.clone()),
            filter: Filter::default(),
            shared,
            scope,
            requests,
            show,
            begun: Instant::now(),
            losses: 0,
        }
    }

    /// Runs until the publisher has ended.
    pub(super) async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Closed> {
        self.take_requests();
        let step = self.machine.next(self.begun.elapsed());
        self.publish_progress();
        match step {
            Step::Wait(wait) => {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    Some(relist) = self.requests.recv() => self.machine.relist(relist),
                }
                Ok(())
            }
            Step::Page(next) => self.page(next).await,
            Step::WatchList => {
                let seconds = WATCH_LIST_TIMEOUT.as_secs();
                let path = format!(
                    "{}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true\
                     &resourceVersionMatch=NotOlderThan&timeoutSeconds={seconds}",
                    self.path
                );
                self.watch(path).await
            }
            Step::Watch(version) => {
                let seconds = self.shared.config.watch.timeout.get().as_secs();
                let path = format!(
                    "{}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}",
                    self.path
                );
                self.watch(path).await
            }
        }
    }

    fn take_requests(&mut self) {
        while let Ok(relist) = self.requests.try_recv() {
            self.machine.relist(relist);
        }
    }

    fn publish_progress(&self) {
        let shown = self.machine.shown().and_then(|version| version.parse().ok());
        self.show.send_if_modified(|now| {
            let changes = *now != shown;
            *now = shown;
            changes
        });
    }

    fn failed(&mut self, failure: &Failure) {
        metrics::error(&self.label, failure);
        self.shared.watermarks.failed(&self.scope, &failure.label());
        tracing::warn!(resource = self.label, %failure, "cannot list or watch");
        self.machine.failed(failure, jitter());
    }

    async fn page(&mut self, next: Option<String>) -> Result<(), Closed> {
        let mut path = format!("{}?limit={}", self.path, self.machine.page_limit());
        if let Some(token) = next {
            let token =
                percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC);
            path.push_str(&format!("&continue={token}"));
        }
        let accept = match self.reader.needs_metadata_only() {
            true => METADATA,
            false => JSON,
        };
        let shared = self.shared.clone();
        let request = shared.client.open(&path, accept);
        let read = match shared.lists.open(request).await? {
            Ok((answer, permit)) => {
                let body = shared.lists.page(answer, permit).await?;
                body.and_then(|(body, permit)| Ok((self.read_page(&body)?, permit)))
            }
            Err(failure) => Err(failure),
        };
        match read {
            Err(Failure::TooLong(bytes)) if self.machine.halve_page() => {
                let limit = self.machine.page_limit();
                tracing::info!(
                    resource = self.label,
                    bytes,
                    limit,
                    "a page is too long: the next one has fewer objects"
                );
                Ok(())
            }
            Err(failure) => {
                if let Failure::TooLong(_) = failure {
                    let resource = &self.label;
                    tracing::error!(
                        resource,
                        "an object is longer than any page, or the server sends more objects than requested"
                    );
                }
                self.failed(&failure);
                Ok(())
            }
            // The permit is kept until the lines are queued: until then they are in memory.
            Ok(((page, mut objects), _permit)) => {
                let brackets = self.machine.page(&page, self.begun.elapsed(), jitter());
                self.open(&brackets).await?;
                for object in &mut objects {
                    self.add_limits(object);
                }
                for object in objects {
                    self.publish(object, true).await?;
                }
                self.close(brackets).await
            }
        }
    }

    fn read_page(&self, body: &Bytes) -> Result<(Page, Vec<Alive>), Failure> {
        let list: List<'_> = serde_json::from_slice(body)
            .map_err(|error| Failure::Unreadable(format!("a list: {error}")))?;
        if !self.reader.is_list(list.kind) {
            return Err(Failure::Unreadable(format!("a list of kind {:?}", list.kind)));
        }
        let items = list.items.unwrap_or_default();
        let mut objects = Vec::with_capacity(items.len());
        let mut unreadable = 0;
        for item in items {
            match self.reader.alive("ADDED", item.get()) {
                Ok(object) => objects.push(object),
                Err(error) => {
                    self.unreadable(&error);
                    unreadable += 1;
                }
            }
        }
        let page = Page {
            version: list.metadata.resource_version,
            next: list.metadata.next.filter(|token| !token.is_empty()),
            read: objects.len(),
            unreadable,
            is_short: body.len() <= self.shared.lists.page_max_bytes() / 4,
        };
        Ok((page, objects))
    }

    fn unreadable(&self, error: &str) {
        metrics::unreadable(&self.label);
        tracing::error!(
            resource = self.label,
            error,
            "an object cannot be read; nothing is ended by this relist"
        );
    }

    fn add_limits(&self, object: &mut Alive) {
        let limits = std::mem::take(&mut object.limits);
        self.shared.limited.add(&self.scope, limits);
    }

    /// Publishes the line of an object that was listed, or that may have changed.
    async fn publish(&mut self, object: Alive, is_listed: bool) -> Result<(), Closed> {
        let Alive { uid, version, fingerprint, line, lacks, .. } = object;
        let odd = lacks.map(|lacks| (uid.clone(), lacks));
        let is_news = match is_listed {
            true => {
                self.filter.list(uid, version, fingerprint);
                true
            }
            false => self.filter.changes(uid, version, fingerprint),
        };
        if !is_news {
            metrics::suppressed();
            return Ok(());
        }
        if let Some((uid, lacks)) = odd {
            metrics::shortened(&self.label);
            tracing::warn!(
                resource = self.label,
                %uid,
                lacks,
                "an object is not published as a whole"
            );
        }
        self.shared.queue.push(line).await
    }

    async fn open(&mut self, brackets: &Brackets) -> Result<(), Closed> {
        if let Some(back) = brackets.went_back {
            warn_of_restore(&self.label, back);
        }
        if let Some(begin) = &brackets.begin {
            tracing::info!(
                resource = self.label,
                id = begin.id,
                reset = begin.reset,
                "relist begins"
            );
            self.filter.begin();
            self.shared.limited.list_begins(&self.scope);
            self.losses = self.shared.watermarks.losses();
            let line = line::begin(&self.scope, begin);
            self.shared.queue.push(line).await?;
        }
        Ok(())
    }

    async fn close(&mut self, brackets: Brackets) -> Result<(), Closed> {
        if brackets.over {
            self.filter.end();
            metrics::relist(&self.label, brackets.end.is_some());
        }
        if let Some(end) = &brackets.end {
            tracing::info!(
                resource = self.label,
                id = end.id,
                version = end.version,
                "relist ends"
            );
            let line = line::end(&self.scope, end);
            self.shared.queue.push_unless_lost(line, self.losses).await?;
            self.shared.watermarks.listed(&self.scope, self.losses);
            self.shared.limited.list_ends(&self.scope);
        }
        Ok(())
    }

    async fn watch(&mut self, path: String) -> Result<(), Closed> {
        let accept = match self.reader.needs_metadata_only() {
            true => METADATA_WATCH,
            false => JSON,
        };
        let shared = self.shared.clone();
        let request = shared.client.watch(&path, accept);
        let opened = match self.machine.is_listing() {
            true => {
                let opened = shared.lists.open(request).await?;
                opened.map(|(lines, permit)| (lines, Some(permit)))
            }
            false => request.await.map(|lines| (lines, None)),
        };
        let (mut lines, mut permit) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                self.failed(&failure);
                return Ok(());
            }
        };
        metrics::watch_opened(&self.label);
        let opened = Instant::now();
        loop {
            let config = &self.shared.config;
            let is_listing = self.machine.is_listing();
            let idle = match is_listing {
                true => config.list.idle.get(),
                false => config.watch.idle.get(),
            };
            if !is_listing {
                permit = None;
            }
            let relist_at = self.begun + self.machine.relist_at();
            let line = tokio::select! {
                line = lines.next(idle) => line,
                // Other kinds do not wait for a list of which nothing arrives.
                () = tokio::time::sleep(super::PATIENCE), if permit.is_some() => {
                    permit = None;
                    continue;
                }
                Some(relist) = self.requests.recv() => {
                    self.machine.relist(relist);
                    match is_listing && relist == Relist::Again {
                        true => continue,
                        false => return Ok(()),
                    }
                }
                () = tokio::time::sleep_until(relist_at), if !is_listing => return Ok(()),
            };
            let left = match line {
                Ok(Some(line)) => self.line(&line).await,
                Ok(None) => Err(Left::Over),
                Err(failure) => Err(Left::Failed(failure)),
            };
            match left {
                Ok(()) => self.publish_progress(),
                Err(Left::Closed) => return Err(Closed),
                Err(Left::Over) => {
                    self.machine.closed(opened.elapsed(), jitter());
                    return Ok(());
                }
                Err(Left::Failed(failure)) => {
                    self.failed(&failure);
                    return Ok(());
                }
            }
        }
    }

    async fn line(&mut self, line: &Bytes) -> Result<(), Left> {
        let watched: Watched<'_> = serde_json::from_slice(line)
            .map_err(|error| Left::Failed(Failure::Unreadable(format!("a watch: {error}"))))?;
        let json = watched.object.get();
        let now = self.begun.elapsed();
        match watched.event {
            "ADDED" => self.alive("ADDED", json, now).await?,
            "MODIFIED" => self.alive("MODIFIED", json, now).await?,
            "DELETED" => match self.reader.deleted(json) {
                Ok(object) => {
                    metrics::event(&self.label);
                    let brackets = self.machine.event(Event::Deleted(&object.shown), now, jitter());
                    self.open(&brackets).await?;
                    self.filter.forget(&object.uid);
                    self.shared.queue.push(object.line).await?;
                }
                Err(error) => self.spoiled(&error, now).await?,
            },
            "BOOKMARK" => {
                let bookmark = reader::bookmark(json)
                    .map_err(|error| Left::Failed(Failure::Unreadable(error)))?;
                let event = match bookmark.ends_list {
                    true => Event::ListEnds(&bookmark.version),
                    false => Event::Bookmark(&bookmark.version),
                };
                let brackets = self.machine.event(event, now, jitter());
                self.open(&brackets).await?;
                self.close(brackets).await?;
            }
            "ERROR" => return Err(Left::Failed(Failure::of_event(json))),
            other => {
                let why = format!("an event of type {other:?}");
                return Err(Left::Failed(Failure::Unreadable(why)));
            }
        }
        Ok(())
    }

    async fn alive(&mut self, event: &'static str, json: &str, now: Duration) -> Result<(), Left> {
        let mut object = match self.reader.alive(event, json) {
            Ok(object) => object,
            Err(error) => return self.spoiled(&error, now).await,
        };
        metrics::event(&self.label);
        let is_listed = self.machine.is_listing();
        let brackets = self.machine.event(Event::Alive(&object.shown), now, jitter());
        self.open(&brackets).await?;
        self.add_limits(&mut object);
        self.publish(object, is_listed).await?;
        Ok(())
    }

    async fn spoiled(&mut self, error: &str, now: Duration) -> Result<(), Left> {
        self.unreadable(error);
        let brackets = self.machine.event(Event::Unreadable, now, jitter());
        self.open(&brackets).await?;
        Ok(())
    }
}

// Filters out changes that leave the counted amounts as they are, and need not be published.

/// Version and fingerprint of each object, as last published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    published: HashMap<Uid, Published>,
    /// The objects that the current list contains so far.
    listed: HashMap<Uid, Published>,
}

#[derive(Clone, Copy, Debug)]
struct Published {
    version: u64,
    fingerprint: u64,
}

impl Filter {
    /// Begins a list.
    pub(crate) fn begin(&mut self) {
        self.listed = HashMap::new();
    }

    /// Records a listed object, which is always published. It counts as published from the end of the list on. Returns
    /// the version published before.
    pub(crate) fn list(&mut self, uid: Uid, version: u64, fingerprint: u64) -> Option<u64> {
        let now = Published { version, fingerprint };
        let before = self.published.get(&uid).map(|before| before.version);
        self.listed.insert(uid, now);
        before
    }

    /// Ends a list: objects that the list does not contain are gone.
    pub(crate) fn end(&mut self) {
        self.published = std::mem::take(&mut self.listed);
    }

    /// Whether a change has to be published. The change counts as published from then on.
    pub(crate) fn changes(&mut self, uid: Uid, version: u64, fingerprint: u64) -> bool {
        let now = Published { version, fingerprint };
        match self.published.insert(uid, now) {
            // Without a number it is not clear which one is newer.
            Some(before) if version > 0 && before.version > 0 => {
                version < before.version || fingerprint != before.fingerprint
            }
            _ => true,
        }
    }

    /// Removes a deleted object.
    pub(crate) fn forget(&mut self, uid: &Uid) {
        self.published.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_something_is_published() {
        let uid = |text| Uid::new(text).unwrap();
        let mut filter = Filter::default();
        assert!(filter.changes(uid("a"), 1, 10), "new");
        assert!(!filter.changes(uid("a"), 2, 10), "the same");
        assert!(filter.changes(uid("a"), 3, 11), "another");
        assert!(filter.changes(uid("a"), 2, 11), "back in time");
        assert!(filter.changes(uid("n"), 0, 0) && filter.changes(uid("n"), 0, 0));
        filter.forget(&uid("a"));
        assert!(filter.changes(uid("a"), 4, 11), "made anew");

        filter.begin();
        assert_eq!(filter.list(uid("b"), 5, 12), None);
        filter.end();
        assert!(!filter.changes(uid("b"), 6, 12));
        assert!(filter.changes(uid("a"), 7, 11), "not listed, so gone before");
    }
}
