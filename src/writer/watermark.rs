//! The watermark: the time up to which the sources have been consumed.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use quota_core::{decide::Consumed, state::State};
use quota_semantics::{Name, Span, Timestamp};

/// The time up to which every source has been consumed completely.
///
/// Without sources there is nothing to wait for. With a source the watermark is unknown until the source has been fully
/// consumed once, or until its publisher has sent watermarks of all required kinds.
#[derive(Debug)]
pub struct Watermark {
    time: AtomicI64,
    required: Option<Required>,
    /// Whether the watermark has ever been later than the start.
    is_known: AtomicBool,
}

/// Watermarks that a publisher sends, and the ledger stores.
#[derive(Clone, Debug)]
pub struct Required {
    /// The source: the principal whose events it sends.
    pub source: Name,
    /// The required kinds.
    pub resources: Vec<Name>,
    /// The start: a watermark before the start proves nothing about the present.
    pub since: Timestamp,
    /// A watermark that is older than this lags.
    pub max_age: Span,
}

const UNKNOWN: i64 = i64::MIN;

impl Watermark {
    const fn at(time: i64, required: Option<Required>) -> Self {
        Self { time: AtomicI64::new(time), required, is_known: AtomicBool::new(time > UNKNOWN) }
    }

    /// There are no sources: only the wall clock counts.
    pub const fn without_sources() -> Self {
        Self::at(i64::MAX, None)
    }

    /// There is a source, which has not been consumed yet.
    pub const fn unknown() -> Self {
        Self::at(UNKNOWN, None)
    }

    /// The publisher of a source sets the watermark by events of the ledger.
    pub const fn published(required: Required) -> Self {
        Self::at(UNKNOWN, Some(required))
    }

    /// All events up to `time` have been consumed and are durable. No effect if the publisher sets the watermark.
    pub fn advance(&self, time: Timestamp) {
        if self.required.is_none() {
            self.time.fetch_max(time.nanoseconds(), Ordering::AcqRel);
            self.is_known.store(true, Ordering::Release);
        }
    }

    /// Takes over the watermark in the ledger's state. Only the writer calls this.
    pub(super) fn follow(&self, state: &State) {
        let Some(required) = &self.required else {
            return;
        };
        let time = state.watermark(&required.source, &required.resources);
        let nanoseconds = time.map_or(UNKNOWN, Timestamp::nanoseconds);
        self.time.store(nanoseconds, Ordering::Release);
        if time.is_some_and(|time| time > required.since) {
            self.is_known.store(true, Ordering::Release);
        }
    }

    /// The time up to which everything has been consumed.
    pub fn get(&self) -> Timestamp {
        Timestamp::from_nanoseconds(self.time.load(Ordering::Acquire))
    }

    /// The same, with the source that reports the watermark of each kind, if one does.
    pub fn consumed(&self) -> Consumed<'_> {
        Consumed {
            watermark: self.get(),
            publisher: self.required.as_ref().map(|required| &required.source),
        }
    }

    /// Whether the sources have been fully consumed at least once since the start.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// The watermarks that the publisher has to send, if it sets the watermark.
    pub const fn required(&self) -> Option<&Required> {
        self.required.as_ref()
    }
}
