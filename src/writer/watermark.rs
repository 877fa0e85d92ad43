//! Up to when the sources have been consumed.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use quota_core::state::State;
use quota_semantics::{Name, Timestamp};

/// The time up to which every source is known to have been consumed completely.
///
/// Without sources there is nothing to wait for. With one it is unknown until it has been caught up with, or until its
/// publisher has said how far it has shown each of the kinds that matter.
#[derive(Debug)]
pub struct Watermark {
    time: AtomicI64,
    required: Option<Required>,
    /// Whether it has ever been later than the start.
    is_known: AtomicBool,
}

/// Watermarks that a publisher gives, and the ledger holds.
#[derive(Clone, Debug)]
pub struct Required {
    /// The source: the principal whose events it sends.
    pub source: Name,
    /// The kinds that are waited for.
    pub resources: Vec<Name>,
    /// The start: what was shown up to a time before says nothing of now.
    pub since: Timestamp,
}

const UNKNOWN: i64 = i64::MIN;

impl Watermark {
    const fn at(time: i64, required: Option<Required>) -> Self {
        Self {
            time: AtomicI64::new(time),
            required,
            is_known: AtomicBool::new(time > UNKNOWN),
        }
    }

    /// There are no sources: the wall clock decides alone.
    #[must_use]
    pub const fn without_sources() -> Self {
        Self::at(i64::MAX, None)
    }

    /// There is a source, and nothing is known of it yet.
    #[must_use]
    pub const fn unknown() -> Self {
        Self::at(UNKNOWN, None)
    }

    /// The publisher of a source says it, by events of the ledger.
    #[must_use]
    pub const fn published(required: Required) -> Self {
        Self::at(UNKNOWN, Some(required))
    }

    /// Everything up to `time` has been consumed and is durable. Means nothing where the publisher says it.
    pub fn advance(&self, time: Timestamp) {
        if self.required.is_none() {
            self.time.fetch_max(time.nanoseconds(), Ordering::AcqRel);
            self.is_known.store(true, Ordering::Release);
        }
    }

    /// Takes over what the ledger holds of it. For the one writer.
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
    #[must_use]
    pub fn get(&self) -> Timestamp {
        Timestamp::from_nanoseconds(self.time.load(Ordering::Acquire))
    }

    /// Whether the sources have been caught up with at least once since the start.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// What its publisher has to say, if it is one that says it.
    #[must_use]
    pub const fn required(&self) -> Option<&Required> {
        self.required.as_ref()
    }
}
