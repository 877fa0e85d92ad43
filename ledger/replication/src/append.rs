//! An append that is on its way, from its first sending until it is known what is at its place.

use std::sync::Arc;

use crate::{clock::Millis, message::Message};

/// What was heard of a publish. Only that it was stored settles anything: a server that does not lead the stream any
/// more refuses what the true one stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Stored, at this sequence of the log's stream.
    Stored(u64),
    /// Refused, with the last sequence that the server named. It may be too low, or too high.
    Refused(Option<u64>),
    /// Nobody listens, the connection was lost, or something else was said.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) message: Message,
    pub(crate) bytes: Arc<[u8]>,
    /// When it was sent first: what it proves about leading, it proves for that time.
    pub(crate) first_sent: Millis,
    pub(crate) phase: Phase,
    /// How often it was sent.
    pub(crate) sendings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Sent; a reply is awaited until then.
    Sent {
        /// When it becomes ambiguous.
        until: Millis,
    },
    /// Ambiguous: what is at its place is being read.
    Reading,
    /// Nothing was there: the same is sent again then.
    Pausing {
        /// When.
        until: Millis,
    },
}

/// First wait before the same is sent again; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Millis = 20;
const LONGEST_PAUSE: Millis = 1_000;

impl Append {
    pub(crate) fn new(message: Message, now: Millis, wait: Millis) -> Self {
        let bytes = message.encode().into();
        Self {
            message,
            bytes,
            first_sent: now,
            phase: Phase::Sent { until: now + wait },
            sendings: 1,
        }
    }

    pub(crate) fn pause(&mut self, now: Millis) {
        let pause = FIRST_PAUSE << self.sendings.saturating_sub(1).min(10);
        let until = now + pause.min(LONGEST_PAUSE);
        self.phase = Phase::Pausing { until };
    }

    pub(crate) fn sent_again(&mut self, now: Millis, wait: Millis) {
        self.sendings += 1;
        self.phase = Phase::Sent { until: now + wait };
    }
}
