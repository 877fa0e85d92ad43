//! The status of the consumption of the stream.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use quota_semantics::{Name, Span, Timestamp};
use quota_service::health::Health;
use tokio::sync::watch;

use super::publishers::Publishers;
use crate::{
    config::Nats,
    intake::{RequestedRelist, Sources},
    metrics, now,
    writer::Ledger,
};

/// A stream lags if the last poll at which it was fully consumed is longer ago than this many polls.
const POLLS: u32 = 3;

/// The status that the intake writes and other parts read.
#[derive(Clone)]
pub struct Status {
    stream: Arc<watch::Sender<StreamStatus>>,
    ledger: Ledger,
    publishers: Publishers,
}

/// The progress of the consumption of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// Whether the server is connected.
    pub connected: bool,
    /// Last position of the stream at the last check; 0 if it was never checked, or is empty.
    pub last_sequence: u64,
    /// The last consumed and durable position.
    pub cursor: u64,
    /// When the server received the last consumed message.
    pub last_message_time: Option<Timestamp>,
    /// All messages that the stream held at this time are consumed.
    pub caught_up_to: Option<Timestamp>,
    /// Whether the recorded objects of some kind are to be replaced by the publisher's next listing.
    pub is_outdated: bool,
    /// Why the stream could not be consumed at the last attempt.
    pub obstacle: Option<String>,
    /// When the consumption began.
    since: Timestamp,
    tolerance: Span,
}

impl StreamStatus {
    fn new(poll_interval: Duration, since: Timestamp) -> Self {
        let tolerance = poll_interval.saturating_mul(POLLS).max(Duration::from_secs(2));
        let tolerance = i64::try_from(tolerance.as_nanos()).unwrap_or(i64::MAX);
        Self {
            connected: false,
            last_sequence: 0,
            cursor: 0,
            last_message_time: None,
            caught_up_to: None,
            is_outdated: false,
            obstacle: None,
            since,
            tolerance: Span::from_nanoseconds(tolerance),
        }
    }

    /// Whether the stream has been caught up with at least once since the start.
    pub const fn caught_up_once(&self) -> bool {
        self.caught_up_to.is_some()
    }

    /// The time since the stream was last fully consumed.
    pub fn lag(&self, now: Timestamp) -> Duration {
        let since = self.caught_up_to.unwrap_or(self.since);
        Duration::from_nanos(u64::try_from(now.since(since).nanoseconds()).unwrap_or(0))
    }

    /// Whether there may be unconsumed events: the connection is lost, or the stream has not been fully consumed for a
    /// few polls. Or the recorded objects were counted by an outdated rule.
    pub fn is_lagging(&self, now: Timestamp) -> bool {
        !self.connected
            || self.is_outdated
            || self.caught_up_to.is_none_or(|time| now.since(time) > self.tolerance)
    }
}

impl Sources for Status {
    /// A follower consumes nothing: its events are the leader's.
    fn are_caught_up(&self) -> bool {
        !self.ledger.decides()
            || self.stream.borrow().caught_up_once() && self.ledger.watermark().is_known()
    }

    fn lag(&self) -> bool {
        let now = now();
        self.ledger.decides()
            && (self.stream.borrow().is_lagging(now) || self.has_old_watermark(now))
    }

    fn request_relist(&self, kinds: BTreeSet<Name>) -> Option<RequestedRelist> {
        Some(self.publishers.request_relist(kinds))
    }
}

impl Status {
    pub(super) fn new(settings: &Nats, ledger: Ledger, publishers: Publishers) -> Self {
        Self {
            stream: Arc::new(watch::Sender::new(StreamStatus::new(
                settings.poll_interval.get(),
                now(),
            ))),
            ledger,
            publishers,
        }
    }

    /// The present status.
    pub fn get(&self) -> StreamStatus {
        self.stream.borrow().clone()
    }

    /// Whether the publisher's watermarks are required, and too old.
    fn has_old_watermark(&self, now: Timestamp) -> bool {
        let watermark = self.ledger.watermark();
        let required = watermark.required();
        required.is_some_and(|required| now.since(watermark.get()) > required.max_age)
    }

    /// Whether the stream has been fully consumed once, and whether it is now.
    pub(crate) fn stream_health(&self) -> Health {
        if !self.ledger.decides() {
            return Health::Passed;
        }
        let (stream, now) = (self.get(), now());
        let lag = stream.lag(now).as_secs();
        let mut why = format!("not caught up with the stream for {lag}s");
        if !stream.connected {
            why.insert_str(0, "the NATS server is not connected; ");
        }
        if let Some(obstacle) = &stream.obstacle {
            why.push_str(": ");
            why.push_str(obstacle);
        }
        match (stream.caught_up_once(), stream.is_lagging(now)) {
            (false, _) => Health::Failed(why),
            (true, true) => Health::Lagging(why),
            (true, false) => Health::Passed,
        }
    }

    /// Whether the publisher has sent a watermark of each required kind, and how old the watermarks are; none if no
    /// watermarks are required.
    pub(crate) fn watermark_health(&self) -> Option<Health> {
        let watermark = self.ledger.watermark();
        let required = watermark.required()?;
        if !self.ledger.decides() {
            return Some(Health::Passed);
        }
        let is_known = watermark.is_known();
        let now = now();
        let late = self.ledger.peek(|state| {
            let late = required.resources.iter().filter_map(|resource| {
                let time = state.watermark_of(&required.source, resource);
                let age = time.map(|time| now.since(time));
                let is_late = match is_known {
                    true => age.is_none_or(|age| age > required.max_age),
                    false => time.is_none_or(|time| time <= required.since),
                };
                is_late.then(|| match (age, state.is_listed(&required.source, resource)) {
                    (Some(age), _) => {
                        format!("{resource} {}s ago", age.nanoseconds() / 1_000_000_000)
                    }
                    (None, true) => format!("{resource} never"),
                    (None, false) => format!("{resource} not listed"),
                })
            });
            late.collect::<Vec<_>>().join(", ")
        });
        Some(match (is_known, late.is_empty()) {
            (false, _) => {
                Health::Failed(format!("no watermark of each kind since the start: {late}"))
            }
            (true, false) => Health::Lagging(format!("old watermarks: {late}")),
            (true, true) => Health::Passed,
        })
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.stream.send_modify(|stream| stream.connected = connected);
        metrics::stream_connected(connected);
    }

    /// Another node consumes from now on: this node does not know that node's position.
    pub(super) fn follow(&self) {
        self.stream.send_modify(|stream| stream.caught_up_to = None);
    }

    pub(super) fn set_cursor(&self, position: u64, time: Option<Timestamp>) {
        self.stream.send_modify(|stream| {
            stream.cursor = position;
            stream.last_message_time = time.or(stream.last_message_time);
        });
    }

    pub(super) fn set_outdated(&self, is_outdated: bool) {
        self.stream.send_modify(|stream| stream.is_outdated = is_outdated);
    }

    pub(super) fn set_last_sequence(&self, last: u64) {
        self.stream.send_modify(|stream| stream.last_sequence = last);
    }

    pub(super) fn set_caught_up(&self, to: Timestamp) {
        self.stream.send_modify(|stream| {
            stream.caught_up_to = stream.caught_up_to.max(Some(to));
            stream.obstacle = None;
        });
    }

    /// Records why the stream cannot be consumed, until it is caught up with.
    pub(super) fn set_obstacle(&self, why: &str) {
        self.stream.send_modify(|stream| stream.obstacle = Some(why.to_owned()));
    }

    /// Sets the metrics to the present status. Called at each scrape, since a source that is gone triggers no update.
    pub(crate) fn set_metrics(&self) {
        let (stream, now) = (self.get(), now());
        // Only the leader of a cluster consumes the stream.
        let (messages, lag) = match self.ledger.decides() {
            true => (stream.last_sequence.saturating_sub(stream.cursor), stream.lag(now)),
            false => (0, Duration::ZERO),
        };
        metrics::stream_lag(messages, lag);
        let Some(required) = self.ledger.watermark().required() else {
            return;
        };
        let ages = self.ledger.peek(|state| {
            let kinds = required.resources.iter();
            let age = |resource: &Name| {
                // A kind without a watermark has been awaited since the start.
                let time = state.watermark_of(&required.source, resource);
                (resource.clone(), now.since(time.unwrap_or(required.since)))
            };
            kinds.map(age).collect::<Vec<_>>()
        });
        for (resource, age) in ages {
            let age = u64::try_from(age.nanoseconds()).unwrap_or(0);
            metrics::watermark_age(&resource, Duration::from_nanos(age));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_lags_until_caught_up_and_when_that_is_long_ago() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let mut stream = StreamStatus::new(Duration::from_secs(1), at(0));
        stream.connected = true;
        assert!(stream.is_lagging(at(0)) && !stream.caught_up_once());
        assert_eq!(stream.lag(at(5)), Duration::from_secs(5));
        stream.caught_up_to = Some(at(10));
        assert!(!stream.is_lagging(at(13)) && stream.caught_up_once());
        assert!(stream.is_lagging(at(14)));
        assert_eq!(stream.lag(at(14)), Duration::from_secs(4));
        stream.connected = false;
        assert!(stream.is_lagging(at(11)));
    }
}
