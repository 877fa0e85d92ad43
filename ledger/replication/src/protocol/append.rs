//! An append in flight: from its first sending until the message at its sequence has been read.

use std::sync::Arc;

use crate::protocol::{Millis, message::Message};

/// The reply to a publish. Only `Stored` is conclusive: a server that no longer leads the stream refuses messages that
/// the true leader stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Stored, at this sequence of the log's stream.
    Stored(u64),
    /// Refused, with the last sequence according to the server, which may be too low or too high.
    Refused(Option<u64>),
    /// No responders, a lost connection, or any other reply.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) message: Message,
    pub(crate) bytes: Arc<[u8]>,
    /// When it was sent first. A stored append proves leadership at that time only.
    pub(crate) first_sent: Millis,
    pub(crate) phase: Phase,
    /// How often it was sent.
    pub(crate) sendings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Sent; a reply is awaited.
    Sent {
        /// When it becomes ambiguous.
        until: Millis,
    },
    /// Ambiguous: the message at its sequence is being read.
    Reading,
    /// No message was there: the same bytes are sent again after a pause.
    Pausing {
        /// When.
        until: Millis,
    },
}

/// First pause before the same bytes are sent again; doubled up to [`LONGEST_PAUSE`].
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
