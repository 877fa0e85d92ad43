//! The status of the consumption of the stream.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use quota_semantics::{Name, Span, Timestamp};
use quota_service::health::Health;
use tokio::sync::watch;

use super::publishers::Publishers;
use crate::{
    config::Nats,
    intake::sources::{RequestedRelist, Sources},
    metrics,
    writer::{Ledger, now},
};

/// A stream that was checked this many polls ago without having been caught up with is lagging.
const POLLS: u32 = 3;

/// Shared by the intake, which writes it, and those who show it.
#[derive(Clone)]
pub struct Status {
    stream: Arc<watch::Sender<StreamStatus>>,
    ledger: Ledger,
    publishers: Publishers,
    max_watermark_age: Span,
}

/// Progress of the consumption of the stream at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStatus {
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
    /// What is recorded of some kind is to be replaced by what the publisher lists next.
    pub is_outdated: bool,
    /// Since when it is consumed.
    since: Timestamp,
    tolerance: Span,
}

impl StreamStatus {
    fn new(poll_interval: Duration, since: Timestamp) -> Self {
        let tolerance = poll_interval
            .saturating_mul(POLLS)
            .max(Duration::from_secs(2));
        let tolerance = i64::try_from(tolerance.as_nanos()).unwrap_or(i64::MAX);
        Self {
            connected: false,
            last_sequence: 0,
            cursor: 0,
            last_message_time: None,
            caught_up_to: None,
            is_outdated: false,
            since,
            tolerance: Span::from_nanoseconds(tolerance),
        }
    }

    /// Whether the stream has been caught up with at least once since the start.
    #[must_use]
    pub const fn caught_up_once(&self) -> bool {
        self.caught_up_to.is_some()
    }

    /// For how long it has not been known whether everything is consumed.
    #[must_use]
    pub fn lag(&self, now: Timestamp) -> Duration {
        let since = self.caught_up_to.unwrap_or(self.since);
        Duration::from_nanos(u64::try_from(now.since(since).nanoseconds()).unwrap_or(0))
    }

    /// Whether there may be events that are not consumed yet: the connection is lost, or the stream has not been
    /// caught up with for a few polls; or what is known was counted by another rule than now.
    #[must_use]
    pub fn is_lagging(&self, now: Timestamp) -> bool {
        !self.connected
            || self.is_outdated
            || self
                .caught_up_to
                .is_none_or(|time| now.since(time) > self.tolerance)
    }
}

impl Sources for Status {
    /// A node that follows another consumes nothing: what it has of the sources is what the leader has.
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
        Some(self.publishers.ask(kinds))
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
            max_watermark_age: settings.max_watermark_age.span(),
        }
    }

    /// The present status.
    #[must_use]
    pub fn get(&self) -> StreamStatus {
        self.stream.borrow().clone()
    }

    /// Whether a publisher says how far it is, and has not said so for too long.
    fn has_old_watermark(&self, now: Timestamp) -> bool {
        let watermark = self.ledger.watermark();
        watermark.required().is_some() && now.since(watermark.get()) > self.max_watermark_age
    }

    /// Whether the stream has been caught up with, and whether it is now.
    #[must_use]
    pub(crate) fn stream_health(&self) -> Health {
        if !self.ledger.decides() {
            return Health::Passed;
        }
        let (stream, now) = (self.get(), now());
        let lag = stream.lag(now).as_secs();
        let why = match stream.connected {
            true => format!("not caught up with the stream for {lag}s"),
            false => {
                format!(
                    "the NATS server is not connected; not caught up with the stream for {lag}s"
                )
            }
        };
        match (stream.caught_up_once(), stream.is_lagging(now)) {
            (false, _) => Health::Failed(why),
            (true, true) => Health::Lagging(why),
            (true, false) => Health::Passed,
        }
    }

    /// Whether a publisher has said how far it has reported each kind, and how long ago that was; none: that is not asked
    /// of any.
    #[must_use]
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
                    true => age.is_none_or(|age| age > self.max_watermark_age),
                    false => time.is_none_or(|time| time <= required.since),
                };
                is_late.then(
                    || match (age, state.is_listed(&required.source, resource)) {
                        (Some(age), _) => {
                            format!("{resource} {}s ago", age.nanoseconds() / 1_000_000_000)
                        }
                        (None, true) => format!("{resource} never"),
                        (None, false) => format!("{resource} not listed"),
                    },
                )
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

    /// Waits until the stream has been caught up with once.
    pub async fn caught_up_once(&self) {
        let mut stream = self.stream.subscribe();
        // Fails only without a sender, and that is held here.
        let _ = stream.wait_for(StreamStatus::caught_up_once).await;
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.stream
            .send_modify(|stream| stream.connected = connected);
        metrics::stream_connected(connected);
    }

    /// Another node consumes from now on: how far that is, this one will have to find out.
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
        self.stream
            .send_modify(|stream| stream.is_outdated = is_outdated);
    }

    pub(super) fn set_last_sequence(&self, last: u64) {
        self.stream
            .send_modify(|stream| stream.last_sequence = last);
    }

    pub(super) fn set_caught_up(&self, to: Timestamp) {
        self.stream
            .send_modify(|stream| stream.caught_up_to = stream.caught_up_to.max(Some(to)));
    }

    /// Sets the metrics to the present status. To be called at each scrape: a source that is gone reports nothing by itself.
    pub(crate) fn set_metrics(&self) {
        let (stream, now) = (self.get(), now());
        let messages = stream.last_sequence.saturating_sub(stream.cursor);
        metrics::stream_lag(messages, stream.lag(now));
        let Some(required) = self.ledger.watermark().required() else {
            return;
        };
        let ages = self.ledger.peek(|state| {
            let kinds = required.resources.iter();
            let age = |resource: &Name| {
                // What was never shown has been waited for since the start.
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
