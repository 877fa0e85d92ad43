//! How the consumption of the stream stands.

use std::{sync::Arc, time::Duration};

use quota_ledger::{Span, Timestamp};
use tokio::sync::watch;

use crate::{api::Sources, metrics, writer::now};

/// A stream that was checked this many polls ago without having been caught up with is lagging.
const POLLS: u32 = 3;

/// Shared by the intake, which writes it, and those who show it.
#[derive(Clone, Debug)]
pub struct Status(Arc<watch::Sender<Standing>>);

/// How the consumption of the stream stood at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the server is connected.
    pub connected: bool,
    /// Last position of the stream, as it was last seen; 0: never seen, or empty.
    pub last_sequence: u64,
    /// Last position that is consumed, and durable.
    pub cursor: u64,
    /// When the server received the last message that is consumed.
    pub last_message_time: Option<Timestamp>,
    /// Everything that the stream held at this time is consumed.
    pub caught_up_to: Option<Timestamp>,
    tolerance: Span,
}

impl Standing {
    /// Whether the stream has been caught up with at least once since the start.
    #[must_use]
    pub const fn caught_up_once(&self) -> bool {
        self.caught_up_to.is_some()
    }

    /// Whether there may be events that are not consumed yet: the connection is lost, or the stream has not been
    /// caught up with for a few polls.
    #[must_use]
    pub fn is_lagging(&self, now: Timestamp) -> bool {
        !self.connected
            || self
                .caught_up_to
                .is_none_or(|time| now.since(time) > self.tolerance)
    }
}

impl Sources for Status {
    fn are_caught_up(&self) -> bool {
        self.0.borrow().caught_up_once()
    }

    fn lag(&self) -> bool {
        self.0.borrow().is_lagging(now())
    }
}

impl Status {
    pub(super) fn new(poll_interval: Duration) -> Self {
        let tolerance = poll_interval
            .saturating_mul(POLLS)
            .max(Duration::from_secs(2));
        let tolerance = i64::try_from(tolerance.as_nanos()).unwrap_or(i64::MAX);
        Self(Arc::new(watch::Sender::new(Standing {
            connected: false,
            last_sequence: 0,
            cursor: 0,
            last_message_time: None,
            caught_up_to: None,
            tolerance: Span::from_nanoseconds(tolerance),
        })))
    }

    /// How it stands now.
    #[must_use]
    pub fn get(&self) -> Standing {
        self.0.borrow().clone()
    }

    /// Waits until the stream has been caught up with once.
    pub async fn caught_up_once(&self) {
        let mut standing = self.0.subscribe();
        // Fails only without a sender, and that is held here.
        let _ = standing.wait_for(Standing::caught_up_once).await;
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.0
            .send_modify(|standing| standing.connected = connected);
        metrics::stream_connected(connected);
    }

    pub(super) fn set_cursor(&self, position: u64, time: Option<Timestamp>) {
        self.0.send_modify(|standing| {
            standing.cursor = position;
            standing.last_message_time = time.or(standing.last_message_time);
        });
    }

    pub(super) fn set_last_sequence(&self, last: u64) {
        self.0.send_modify(|standing| standing.last_sequence = last);
    }

    pub(super) fn set_caught_up(&self, to: Timestamp) {
        self.0
            .send_modify(|standing| standing.caught_up_to = standing.caught_up_to.max(Some(to)));
    }

    pub(super) fn tell_lag(&self, now: Timestamp) {
        let standing = self.get();
        let messages = standing.last_sequence.saturating_sub(standing.cursor);
        let age = standing
            .caught_up_to
            .map_or(0, |time| now.since(time).nanoseconds());
        metrics::stream_lag(
            messages,
            Duration::from_nanos(u64::try_from(age).unwrap_or(0)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_lags_until_caught_up_and_when_that_is_long_ago() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let status = Status::new(Duration::from_secs(1));
        status.set_connected(true);
        assert!(status.get().is_lagging(at(0)) && !status.get().caught_up_once());
        status.set_caught_up(at(10));
        status.set_caught_up(at(9));
        assert!(!status.get().is_lagging(at(13)) && status.get().caught_up_once());
        assert!(status.get().is_lagging(at(14)));
        status.set_connected(false);
        assert!(status.get().is_lagging(at(11)));
    }
}
