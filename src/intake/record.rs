//! From events to entries: each in one batch with how far its source was consumed.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use quota_ledger::{
    Name,
    decide::{self, Sighting, Verdict},
    desk::Desk,
    event::{Actor, Cursor, DEAD_LETTER_MAX_BYTES, DeadLetter, Event},
    size,
};

use super::{
    cut,
    payload::{Incoming, Rejected},
};
use crate::{
    metrics::{self, Source},
    writer::{Ledger, Sitting, Unavailable},
};

/// A chunk is full at this size, in bytes, so that its entries fit into one batch with those of others.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// First and longest wait before a full queue is tried again.
const PATIENCE: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// Events that become entries together.
#[derive(Debug, Default)]
pub struct Chunk {
    items: Vec<Item>,
    ignored: u64,
    size: usize,
}

#[derive(Debug)]
enum Item {
    Sighting(Sighting),
    Rejected(DeadLetter),
}

/// How far a source is consumed with a chunk.
#[derive(Clone, Debug)]
pub struct Consumed {
    /// The source's name.
    pub source: Name,
    /// Positions that were lost before they could be consumed, in order.
    pub gaps: Vec<RangeInclusive<u64>>,
    /// Where the source stands after the chunk.
    pub cursor: Cursor,
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// News.
    pub accepted: u64,
    /// Old, or of no concern to quotas.
    pub ignored: u64,
    /// Not understood.
    pub rejected: u64,
}

impl std::ops::AddAssign for Recorded {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.ignored += other.ignored;
        self.rejected += other.rejected;
    }
}

impl Chunk {
    /// Takes an event in.
    pub fn add(&mut self, incoming: Incoming) {
        self.size += incoming.size;
        match incoming.sighting {
            Some(sighting) => self.items.push(Item::Sighting(sighting)),
            None => self.ignored += 1,
        }
    }

    /// Takes in an event that was not understood, as a dead letter of `source` at `position`.
    pub fn add_rejected(&mut self, source: &Name, position: u64, rejected: Rejected) {
        let Rejected {
            rejection,
            reason,
            text,
            ..
        } = rejected;
        metrics::events_rejected(rejection);
        tracing::debug!(%source, position, reason, "an event was not understood");
        let kept = &text[..text.len().min(DEAD_LETTER_MAX_BYTES)];
        let mut payload = String::from_utf8_lossy(kept).into_owned();
        cut(&mut payload, DEAD_LETTER_MAX_BYTES);
        self.size += size::ENTRY + payload.len() + reason.len();
        let (source, reason, payload) = (source.clone(), reason.into(), payload.into());
        self.items.push(Item::Rejected(DeadLetter {
            source,
            position,
            reason,
            payload,
        }));
    }

    /// Whether it is to be recorded before more is taken in.
    #[must_use]
    pub fn is_full(&self, max_entries: usize) -> bool {
        self.items.len() >= max_entries || self.size >= CHUNK_BYTES
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty() && self.ignored == 0
    }
}

/// Makes a chunk entries, in one batch; answers when they are durable.
///
/// # Errors
/// [`Unavailable`]. Recording the same events again is safe.
pub async fn record(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    chunk: Chunk,
) -> Result<Recorded, Unavailable> {
    record_shared(ledger, actor, from, Arc::new((chunk, None))).await
}

/// As [`record`], in one batch with how far a source is consumed; if it is known to be consumed as far already,
/// nothing happens. While the queue is full it waits and tries again.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn record_patiently(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    chunk: Chunk,
    consumed: Option<Consumed>,
) -> Result<Recorded, Unavailable> {
    let shared = Arc::new((chunk, consumed));
    patiently(|| record_shared(ledger, actor, from, shared.clone())).await
}

/// Records events that stand by themselves. While the queue is full it waits and tries again.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub async fn note(ledger: &Ledger, actor: &Arc<Actor>, event: Event) -> Result<(), Unavailable> {
    patiently(|| {
        let (actor, event) = (actor.clone(), event.clone());
        ledger.decide(move |sitting| {
            sitting.desk.record(&actor, [event]);
        })
    })
    .await
}

async fn patiently<R, F: Future<Output = Result<R, Unavailable>>>(
    attempt: impl Fn() -> F,
) -> Result<R, Unavailable> {
    let [mut wait, longest] = PATIENCE;
    loop {
        match attempt().await {
            Err(Unavailable::Overloaded) => tokio::time::sleep(wait).await,
            answer => return answer,
        }
        wait = (wait * 2).min(longest);
    }
}

async fn record_shared(
    ledger: &Ledger,
    actor: &Arc<Actor>,
    from: Source,
    shared: Arc<(Chunk, Option<Consumed>)>,
) -> Result<Recorded, Unavailable> {
    let by = actor.clone();
    let decision = move |sitting: &mut Sitting<'_>| {
        let (chunk, consumed) = &*shared;
        decide(&mut sitting.desk, &by, chunk, consumed.as_ref())
    };
    let recorded = ledger.decide(decision).await?;
    let Recorded {
        accepted,
        ignored,
        rejected,
    } = recorded;
    metrics::events_consumed(from, accepted + ignored);
    metrics::events_duplicate(from, ignored);
    if rejected > 0 {
        let source = &actor.principal;
        tracing::warn!(%source, rejected, "events were not understood; they are kept as dead letters");
    }
    Ok(recorded)
}

fn decide(
    desk: &mut Desk<'_>,
    actor: &Arc<Actor>,
    chunk: &Chunk,
    consumed: Option<&Consumed>,
) -> Recorded {
    let advance = match consumed {
        None => None,
        Some(Consumed { source, cursor, .. }) => {
            match decide::advance(desk.state(), source, cursor) {
                None => return Recorded::default(),
                advance => advance,
            }
        }
    };
    if let Some(Consumed { source, gaps, .. }) = consumed {
        desk.record(
            actor,
            gaps.iter()
                .map(|gap| decide::gap(source, *gap.start(), *gap.end())),
        );
    }
    let mut recorded = Recorded {
        ignored: chunk.ignored,
        ..Recorded::default()
    };
    for item in &chunk.items {
        let (events, count) = match item {
            Item::Rejected(letter) => {
                (vec![decide::reject(letter.clone())], &mut recorded.rejected)
            }
            Item::Sighting(sighting) => match decide::observe(desk.state(), sighting) {
                Verdict::Accepted(events) => (events, &mut recorded.accepted),
                Verdict::Ignored => (Vec::new(), &mut recorded.ignored),
            },
        };
        *count += 1;
        desk.record(actor, events);
    }
    desk.record(actor, advance);
    recorded
}

#[cfg(test)]
mod tests;
