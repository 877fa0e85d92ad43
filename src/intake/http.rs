//! Events over HTTP: `POST /v1/events`.

use std::sync::Arc;

use bytes::Bytes;
use quota_core::event::Actor;
use quota_semantics::Name;

use super::{
    payload::Reader,
    record::{Chunk, Recorded, record},
};
use crate::{
    clock::now,
    metrics::Source,
    writer::{Ledger, Unavailable},
};

/// The source of dead letters that arrived over HTTP; their positions are line numbers.
pub const SOURCE: &str = "http";

/// The outcome for a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Counts of recorded events.
    pub recorded: Recorded,
    /// The numbers of rejected lines, and the reasons.
    pub rejected: Vec<(u64, String)>,
}

/// Records the events of a body: NDJSON, a JSON array, or one event. Answers when all are durable.
///
/// A large body becomes several batches, so after an error a part of it may be recorded. A repeated request is safe.
///
/// # Errors
/// [`Unavailable`].
pub async fn accept(
    ledger: &Ledger,
    reader: &Arc<Reader>,
    actor: &Arc<Actor>,
    max_batch_entries: usize,
    body: Bytes,
) -> Result<Answer, Unavailable> {
    let source = Name::from(SOURCE);
    let mut events = reader.read(body, now());
    let mut rejected_lines = Vec::new();
    let mut next_chunk = || {
        let mut chunk = Chunk::default();
        for event in events.by_ref() {
            match event {
                Ok(incoming) => chunk.add(incoming),
                Err(rejected) => {
                    let line = rejected.line;
                    rejected_lines.push((line, rejected.reason.clone()));
                    chunk.add_rejected(&source, line, rejected);
                }
            }
            if chunk.is_full(max_batch_entries) {
                break;
            }
        }
        chunk
    };
    let mut recorded = Recorded::default();
    let mut chunk = next_chunk();
    while !chunk.is_empty() {
        // The next chunk is read while the previous one is being recorded.
        let recording = record(ledger, actor, Source::Http, chunk);
        let (done, next) = futures::join!(recording, async { next_chunk() });
        let is_part_made = recorded != Recorded::default();
        recorded += done.map_err(|refused| refused.with_part_made(is_part_made))?;
        chunk = next;
    }
    Ok(Answer { recorded, rejected: rejected_lines })
}
