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
use quota_core::event::{Actor, Entry, Sequence};
use quota_semantics::in_microseconds;
use serde::Deserialize;
use tokio::sync::broadcast;

use super::{
    App, Caller,
    history::walk,
    page::Params,
    problem::{Problem, Reason},
};
use crate::{watches::Slot, writer::Batch};

/// Interval of heartbeats on a silent watch.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Entries that are read from the journal at a time.
const PAGE: usize = 512;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
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
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let slot = app.watches().open(&actor);
    let slot = slot.map_err(|full| Problem::new(Reason::TooManyWatches, full.to_string()))?;
    let last = match headers.get("last-event-id") {
        None => None,
        Some(id) => Some(last_event(id)?),
    };
    // Subscribes before reading the journal, so that no entry is missed in between.
    let batches = app.ledger.watch();
    let next = match last {
        Some(last) => last.saturating_add(1),
        None => query
            .from
            .unwrap_or_else(|| app.ledger.durable().sequence + 1)
            .max(1),
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
        batches,
        next,
        _slot: slot,
    };
    let wanted = query.namespace.filter(|namespace| !namespace.is_empty());
    let events = follower
        .entries()
        .filter(move |entry| {
            let keep = wanted
                .as_deref()
                .is_none_or(|wanted| entry.event.namespace().is_some_and(|own| *own == *wanted));
            std::future::ready(keep)
        })
        .map(|entry| Ok::<_, Infallible>(event(&entry)))
        .take_until(stop.cancelled_owned());
    Ok(Sse::new(events)
        .keep_alive(KeepAlive::new().interval(HEARTBEAT))
        .into_response())
}

fn last_event(id: &http::HeaderValue) -> Result<Sequence, Problem> {
    let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| {
        Problem::new(
            Reason::Malformed,
            "Last-Event-ID must be the sequence of an entry",
        )
    })
}

fn event(entry: &Entry) -> sse::Event {
    let event = sse::Event::default()
        .id(entry.sequence.to_string())
        .event(entry.event.name());
    match in_microseconds(|| event.json_data(entry)) {
        Ok(event) => event,
        Err(_) => sse::Event::default().comment("an entry that cannot be shown"),
    }
}

/// Follows the ledger from an entry on: from the journal until it has caught up, then live; from the journal again
/// whenever it was too slow.
struct Follower {
    app: App,
    actor: Arc<Actor>,
    batches: broadcast::Receiver<Batch>,
    next: Sequence,
    _slot: Slot,
}

impl Follower {
    fn entries(self) -> impl Stream<Item = Entry> {
        stream::unfold(self, |mut follower| async move {
            let entries = follower.more().await?;
            Some((stream::iter(entries), follower))
        })
        .flatten()
    }

    /// The next entries; none when the watch has ended.
    async fn more(&mut self) -> Option<Vec<Entry>> {
        loop {
            if self.next <= self.app.ledger.durable().sequence {
                let walked = walk(&self.app, &self.actor.principal, self.next, PAGE, Some)
                    .await
                    .ok()?;
                return self.given(walked.found);
            }
            match self.batches.recv().await {
                Ok(batch) => {
                    let batch: Arc<Vec<Entry>> = batch;
                    let first = batch.first().map_or(0, |entry| entry.sequence);
                    if first > self.next {
                        continue;
                    }
                    let next = self.next;
                    let new: Vec<Entry> = batch
                        .iter()
                        .filter(|entry| entry.sequence >= next)
                        .cloned()
                        .collect();
                    if !new.is_empty() {
                        return self.given(new);
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    fn given(&mut self, entries: Vec<Entry>) -> Option<Vec<Entry>> {
        self.next = entries.last()?.sequence + 1;
        Some(entries)
    }
}
