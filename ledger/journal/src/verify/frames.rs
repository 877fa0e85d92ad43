//! The frames of one part of the ledger, each checked once.

use std::path::Path;

use super::{
    super::{Damage, Durable, frame::Frame},
    BatchRef, Observer,
};

/// The findings in a part.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) batches: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// Sequence of the first entry; 0 if there was none.
    pub(super) first_sequence: u64,
    /// The chain at the requested sequences.
    pub(super) ends: Vec<Durable>,
    pub(super) damages: Vec<Damage>,
}

/// Checks the frames of one file.
pub(super) struct Frames<'a> {
    pub(super) file: &'a Path,
    pub(super) awaited: &'a [(u64, Option<Durable>)],
    pub(super) observer: &'a dyn Observer,
    pub(super) seen: Findings,
}

impl<'a> Frames<'a> {
    pub(super) fn of(
        file: &'a Path,
        awaited: &'a [(u64, Option<Durable>)],
        observer: &'a dyn Observer,
    ) -> Self {
        Self {
            file,
            awaited,
            observer,
            seen: Findings::default(),
        }
    }

    /// Checks a frame that continues `before`.
    pub(super) fn take(&mut self, before: &Durable, frame: &Frame<'_>) {
        let seen = &mut self.seen;
        seen.batches += 1;
        seen.entries = seen.entries.saturating_add(u64::from(frame.count));
        seen.bytes = seen.bytes.saturating_add(frame.bytes.len() as u64);
        if seen.first_sequence == 0 {
            seen.first_sequence = frame.first_sequence;
        }
        let last = frame.last_sequence();
        if self.awaited.iter().any(|(awaited, _)| *awaited == last) {
            seen.ends.push(frame.end());
        }
        let right = self.observer.batch(BatchRef {
            first_sequence: frame.first_sequence,
            count: frame.count,
            time: frame.time,
            payload: frame.payload,
            hash: frame.hash,
            previous: before.hash,
        });
        if let Err(why) = right {
            seen.damages.push(Damage {
                sequence: Some(frame.first_sequence),
                ..Damage::new(self.file, why)
            });
        }
    }
}
