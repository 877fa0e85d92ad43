//! Watches: entries as they become durable, as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse as _, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use futures::{Stream, StreamExt as _, stream};
use http::HeaderMap;
use quota_core::{
    event::{Actor, Entry, Sequence},
    size,
};
use quota_semantics::in_microseconds;
use serde::Deserialize;
use tokio::{
    sync,
    time::{Instant, timeout_at},
};

use super::{
    App, Caller, Params,
    entries::{self, Most, Namespaced, Order, Shown, walk},
    problem::{Problem, Reason},
};
use crate::{auth::Principal, fairness::Slot};

/// Interval of heartbeats on a silent watch.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After this time without even a heartbeat, since the journal is being read, a comment is sent.
const SILENCE: Duration = Duration::from_secs(20);

/// The entries that a watch takes at a time. They are in memory until the client has read them, and there are many
/// watches.
const PAGE: Most = Most { entries: 512, bytes: 256 * 1024 };

#[derive(Debug, Default, Deserialize)]
pub(super) struct WatchQuery {
    /// The first entry to send; none for the next entry.
    from: Option<Sequence>,
    namespace: Option<String>,
}

/// `GET /v1/watch`: from the entry after `Last-Event-ID`, else from `from`, else from now on.
pub(super) async fn watch(
    State(app): State<App>,
    Params(query): Params<WatchQuery>,
    Caller(actor): Caller,
    caller: Principal,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let slot = app.watches.open(&actor);
    let slot = slot.map_err(|full| Problem::new(Reason::TooManyWatches, full.to_string()))?;
    let last = match headers.get("last-event-id") {
        None => None,
        Some(id) => Some(last_event(id)?),
    };
    // Subscribes before reading the durable position, so that no entry is missed in between.
    let news = app.ledger.recent().subscribe();
    let next = match last {
        Some(last) => last.saturating_add(1),
        None => query.from.unwrap_or_else(|| app.ledger.durable().sequence + 1).max(1),
    };
    if next < app.reader.first_sequence() {
        let first = app.reader.first_sequence();
        let detail = format!("entries before {first} are not kept any more");
        return Err(Problem::new(Reason::Compacted, detail));
    }
    let stop = app.stop.clone();
    let follower = Follower {
        app,
        actor,
        wanted: Arc::new(Namespaced::new(query.namespace, &caller)),
        news,
        next,
        // At once: the client learns where the watch begins.
        beat: Instant::now(),
        _slot: slot,
    };
    let events = follower
        .items()
        .map(|item| Ok::<_, Infallible>(item.event()))
        .take_until(stop.cancelled_owned());
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(SILENCE)).into_response())
}

fn last_event(id: &http::HeaderValue) -> Result<Sequence, Problem> {
    let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| {
        Problem::new(Reason::Malformed, "Last-Event-ID must be the sequence of an entry")
    })
}

/// What a watch sends.
enum Item {
    Entry(Shown),
    /// The watch has sent all entries up to this one that its client wants.
    Position(Sequence),
}

impl Item {
    fn event(&self) -> sse::Event {
        let shown = match self {
            Self::Entry(shown) => shown,
            // Without data it is no event, but moves the place to resume at.
            Self::Position(last) => return sse::Event::default().id(last.to_string()),
        };
        let event = sse::Event::default()
            .id(shown.entry.sequence.to_string())
            .event(shown.entry.event.name());
        match in_microseconds(|| event.json_data(shown)) {
            Ok(event) => event,
            Err(_) => sse::Event::default().comment("an entry that cannot be shown"),
        }
    }
}

/// Follows the ledger from an entry on: through the latest batches, or through the journal if it is too slow for them.
/// It keeps no entries but those that it has taken last, since its client may stop reading at any time.
struct Follower {
    app: App,
    actor: Arc<Actor>,
    wanted: Arc<Namespaced>,
    news: sync::watch::Receiver<Sequence>,
    /// The first entry that it has not looked at.
    next: Sequence,
    /// When the next heartbeat is due.
    beat: Instant,
    _slot: Slot,
}

impl Follower {
    fn items(self) -> impl Stream<Item = Item> {
        stream::unfold(self, |mut follower| async move {
            let items = follower.more().await?;
            follower.beat = Instant::now() + HEARTBEAT;
            Some((stream::iter(items), follower))
        })
        .flatten()
    }

    /// The next entries, or a position; none when the watch has ended.
    async fn more(&mut self) -> Option<Vec<Item>> {
        loop {
            if Instant::now() >= self.beat {
                return Some(vec![Item::Position(self.next - 1)]);
            }
            let recent = self.app.ledger.recent().holding(self.next);
            let found = match recent {
                Some(batch) => self.taken_from(&batch),
                None if self.next <= self.app.ledger.durable().sequence => self.read().await?,
                None => {
                    // A heartbeat is due if nothing comes.
                    if let Ok(Err(_)) = timeout_at(self.beat, self.news.changed()).await {
                        return None;
                    }
                    continue;
                }
            };
            if !found.is_empty() {
                return Some(self.named(found).await.into_iter().map(Item::Entry).collect());
            }
        }
    }

    /// Entries with the objects that they are about, as far as they are found soon.
    async fn named(&self, entries: Vec<Entry>) -> Vec<Shown> {
        let plain = |entries: Vec<Entry>| entries.into_iter().map(Shown::plain).collect();
        if !entries::are_unnamed(entries.iter()) {
            return plain(entries);
        }
        let kept = entries.clone();
        let named = async {
            let turn = self.app.readers.turn(&self.actor.principal).await?;
            entries::named(&self.app, entries, false, turn).await
        };
        // Without the objects the entries are still true.
        named.await.map_or_else(|_| plain(kept), |(named, _)| named)
    }

    /// Some wanted entries of a batch.
    fn taken_from(&mut self, batch: &[Entry]) -> Vec<Entry> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        let seen = batch.partition_point(|entry| entry.sequence < self.next);
        for entry in &batch[seen..] {
            if found.len() == PAGE.entries || bytes >= PAGE.bytes {
                break;
            }
            self.next = entry.sequence + 1;
            if self.wanted.keeps(entry) {
                bytes += size::of_event(&entry.event);
                found.push(self.wanted.shown(entry.clone()));
            }
        }
        found
    }

    /// Some wanted entries of the journal. None if there are no entries at all, which ends the watch.
    async fn read(&mut self) -> Option<Vec<Entry>> {
        let wanted = self.wanted.clone();
        let pick = move |entry| wanted.keeps(&entry).then(|| wanted.shown(entry));
        let place = (self.next, Order::Asc);
        let walked = walk(&self.app, &self.actor.principal, place, PAGE, pick);
        let (walked, _turn) = walked.await.ok()?;
        self.next = walked.last? + 1;
        Some(walked.found)
    }
}
