//! The publisher: takes lines from the queue, and puts them into the stream, one message at a time.
//!
//! Each message names the sequence of the message before it. So of two bridges that publish at the same time, one is
//! refused: the Lease selects the bridge that tries to publish, the stream decides which one may.

mod queue;
mod stream;

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quota_semantics::{Span, Timestamp};
use tokio::sync::mpsc;

pub use queue::{Closed, Line, Queue};
use stream::{Found, PublishOutcome};
pub use stream::{Stream, StreamError, Unfit};

use crate::{
    lease::{Held, Mark},
    line, metrics,
    watermarks::Watermarks,
};

/// The maximum number of lines of a message.
const MESSAGE_LINES: u64 = 500;

/// The maximum size of a message, in bytes; a single line may be longer.
const MESSAGE_BYTES: usize = 256 * 1024;

/// The first and the maximum delay between attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The time for which taking over is retried while another bridge publishes.
const CONTEST: Duration = Duration::from_secs(30);

/// The interval at which the clock is compared with that of the NATS servers.
const CLOCK_EVERY: Duration = Duration::from_secs(60);

/// The difference of clocks, in nanoseconds, up to which watermarks are not corrected.
const CLOCK_TOLERANCE: i64 = 1_000_000_000;

/// The reason for the end of the publisher.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Another bridge publishes.
    #[error("another publisher has taken over the subject {0}")]
    Deposed(String),
    /// The subject holds the objects of another cluster.
    #[error(
        "the subject {subject} holds the objects of the cluster with uid {theirs}, not {ours}: \
         set another \"cluster\", or adopt_cluster = true if that cluster was replaced by this one"
    )]
    OtherCluster {
        /// The subject.
        subject: String,
        /// The uid of the cluster whose objects the subject holds.
        theirs: String,
        /// The uid of the bridge's cluster.
        ours: String,
    },
    /// The stream is unsuitable.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The reading tasks have ended.
    #[error("nobody reads any more")]
    Idle,
}

/// The status of the publisher.
#[derive(Debug, Default)]
pub struct Status {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    failing_since: Option<Instant>,
    /// The time by which this clock is ahead of that of the servers, in nanoseconds.
    ahead: i64,
    took_over: bool,
    adoption: Adoption,
    /// The number of lines of the queue that are in the stream.
    published: u64,
}

/// The progress of replacing the objects of another cluster, or of a lost history, by those of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Adoption {
    /// The subject held no other objects.
    #[default]
    None,
    /// Not every kind was listed yet.
    Listing,
    /// Every kind was listed, and the lists are published.
    Complete,
}

impl Status {
    /// The time for which a waiting message could not be published; none if publishing works.
    pub fn failing_for(&self) -> Option<Duration> {
        self.inner.lock().failing_since.map(|since| since.elapsed())
    }

    /// Whether the publisher has taken over the subject.
    pub fn took_over(&self) -> bool {
        self.inner.lock().took_over
    }

    /// Converts a time of this clock to the clock of the servers. Small differences are not corrected.
    pub fn on_their_clock(&self, time: Timestamp) -> Timestamp {
        let ahead = self.inner.lock().ahead;
        match ahead.abs() > CLOCK_TOLERANCE {
            true => time.minus(Span::from_nanoseconds(ahead)),
            false => time,
        }
    }

    /// Whether the subject held the objects of another cluster, or of a history that the cluster has lost, when it was
    /// taken over. Their versions are not comparable, so each kind must be listed with a reset.
    pub fn adopts(&self) -> bool {
        self.inner.lock().adoption != Adoption::None
    }

    /// The number of lines of the queue that are in the stream.
    pub fn published(&self) -> u64 {
        self.inner.lock().published
    }

    /// Records that every kind was listed, and the lists are published.
    pub fn listed(&self) {
        let mut inner = self.inner.lock();
        if inner.adoption == Adoption::Listing {
            inner.adoption = Adoption::Complete;
        }
    }

    fn succeeded(&self) {
        self.inner.lock().failing_since = None;
    }

    fn failed(&self) {
        let mut inner = self.inner.lock();
        inner.failing_since.get_or_insert_with(Instant::now);
    }
}

/// The identity of the publisher and of its cluster.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The id of this publisher, for as long as it publishes.
    pub instance: String,
    /// The uid of the namespace `kube-system`.
    pub cluster_uid: String,
    /// Whether the objects of another cluster on the subject may be replaced.
    pub adopt_cluster: bool,
    /// The Lease of this publisher; none if there is none.
    pub(crate) lease: Option<Held>,
}

/// Publishes the queued lines.
pub struct Publisher {
    stream: Stream,
    identity: Identity,
    status: Arc<Status>,
    /// The number of the current or latest message.
    number: u64,
    /// The sequence of the last message of the subject.
    expected: u64,
    clock_compared: Option<Instant>,
    /// The cluster that is being replaced. Messages name this cluster until every kind was listed: a bridge that takes
    /// over before that must begin again.
    replaced: Option<String>,
    /// The mark of the Lease in the history that was lost, in messages for as long as `replaced` would be.
    lost: Option<Mark>,
    /// The watermarks, which are withdrawn when messages of the stream are lost.
    watermarks: Watermarks,
    /// Requests a relist of all kinds.
    relist: Box<dyn Fn() + Send + Sync>,
}

impl Publisher {
    /// A publisher that has not taken over yet. `watermarks` are withdrawn, and `relist` is called, when messages of
    /// the stream are lost.
    pub fn new(
        stream: Stream,
        identity: Identity,
        status: Arc<Status>,
        watermarks: Watermarks,
        relist: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            stream,
            identity,
            status,
            number: 0,
            expected: 0,
            clock_compared: None,
            replaced: None,
            lost: None,
            watermarks,
            relist: Box::new(relist),
        }
    }

    /// Takes over the subject, and publishes. Returns the reason for the end.
    pub async fn run(mut self, mut lines: mpsc::Receiver<Line>) -> Ended {
        if let Err(ended) = self.take_over().await {
            return ended;
        }
        self.status.inner.lock().took_over = true;
        tracing::info!(
            subject = self.stream.subject(),
            sequence = self.expected,
            instance = self.identity.instance,
            "took over the subject"
        );
        let mut next: Option<Line> = None;
        loop {
            let Some(mut first) = (match next.take() {
                Some(line) => Some(line),
                None => lines.recv().await,
            }) else {
                return Ended::Idle;
            };
            let mut message = self.text(&mut first);
            let mut count: u64 = 1;
            while count < MESSAGE_LINES {
                let Ok(mut line) = lines.try_recv() else {
                    break;
                };
                if message.len() + line.text.len() >= MESSAGE_BYTES {
                    next = Some(line);
                    break;
                }
                let text = self.text(&mut line);
                if !message.is_empty() && !text.is_empty() {
                    message.push(b'\n');
                }
                message.extend_from_slice(&text);
                count += 1;
            }
            if !message.is_empty()
                && let Err(ended) = self.publish(message).await
            {
                return ended;
            }
            self.status.inner.lock().published += count;
        }
    }

    /// Takes the text of a line; nothing if the line is not true any more, since messages were lost.
    fn text(&self, line: &mut Line) -> Vec<u8> {
        match line.losses {
            Some(losses) if losses != self.watermarks.losses() => Vec::new(),
            _ => std::mem::take(&mut line.text),
        }
    }

    /// Appends a message after the current last one: the stream then refuses all later messages of another publisher.
    async fn take_over(&mut self) -> Result<(), Ended> {
        let begun = Instant::now();
        let mut wait = Waits::new();
        loop {
            let last = match self.look(&mut wait).await {
                Ok(last) => last,
                Err(unfit) => return Err(unfit.into()),
            };
            self.replaced = self.other_cluster(last.as_ref())?;
            self.lost = self.lost_history(last.as_ref());
            let is_other = self.replaced.is_some() || self.lost.is_some();
            self.status.inner.lock().adoption = match is_other {
                true => Adoption::Listing,
                false => Adoption::None,
            };
            self.expected = last.map_or(0, |found| found.last.sequence);
            let none = BTreeMap::new();
            let hello = line::bookmark(&self.identity.cluster_uid, &self.identity.instance, &none);
            match self.publish(hello).await {
                Ok(false) => {}
                Err(Ended::Deposed(_)) if begun.elapsed() < CONTEST => {}
                result => return result.map(drop),
            }
        }
    }

    /// The cluster whose objects the subject holds, if it is another one and may be replaced.
    fn other_cluster(&self, last: Option<&Found>) -> Result<Option<String>, Ended> {
        let ours = &self.identity.cluster_uid;
        let theirs = last.and_then(|found| found.cluster_uid.clone());
        match theirs.filter(|theirs| theirs != ours) {
            Some(theirs) if !self.identity.adopt_cluster => Err(Ended::OtherCluster {
                subject: self.stream.subject().to_owned(),
                theirs,
                ours: ours.clone(),
            }),
            other => Ok(other),
        }
    }

    /// The mark that the last publisher's Lease had, if the Lease had not come that far when this publisher took it: the
    /// cluster has lost the history in between.
    fn lost_history(&self, last: Option<&Found>) -> Option<Mark> {
        let lease = self.identity.lease.as_ref()?;
        let mark = last.and_then(|found| found.mark.clone());
        let lost = mark.filter(|mark| lease.found.as_ref() < Some(mark))?;
        tracing::warn!(
            %lost,
            "the lease lacks renewals of the last publisher: the API server was restored, and everything is listed again"
        );
        Some(lost)
    }

    /// Publishes a message, however long that takes. Returns false if the messages before it are gone from the stream: the
    /// message is dropped with them, since it may hold the end of a relist or watermarks, and all else is listed again.
    async fn publish(&mut self, message: Vec<u8>) -> Result<bool, Ended> {
        self.number += 1;
        let id = MessageId { instance: self.identity.instance.clone(), number: self.number };
        let payload = bytes::Bytes::from(message);
        if self.status.inner.lock().adoption == Adoption::Complete {
            (self.replaced, self.lost) = (None, None);
        }
        let cluster_uid = self.replaced.as_ref().unwrap_or(&self.identity.cluster_uid);
        let lease = self.identity.lease.as_ref();
        let mark =
            self.lost.clone().or_else(|| lease.and_then(|lease| lease.current.lock().clone()));
        let mut waits = Waits::new();
        let begun = Instant::now();
        loop {
            let answer = self.stream.publish(
                &id,
                self.expected,
                (cluster_uid, mark.as_ref()),
                payload.clone(),
            );
            match answer.await {
                PublishOutcome::Stored(sequence) => {
                    self.expected = sequence;
                    break;
                }
                PublishOutcome::Refused => {
                    metrics::publish_refused();
                    let found = self.look(&mut waits).await?;
                    let last = found.map(|found| found.last);
                    match refused(&id, self.expected, last.as_ref()) {
                        Verdict::Stored(sequence) => {
                            self.expected = sequence;
                            break;
                        }
                        Verdict::Again => waits.wait().await,
                        Verdict::Lost(sequence) => {
                            tracing::warn!(
                                sequence,
                                "messages are gone from the stream, everything is listed again"
                            );
                            self.expected = sequence;
                            self.watermarks.lose();
                            (self.relist)();
                            self.status.succeeded();
                            return Ok(false);
                        }
                        Verdict::Deposed => {
                            return Err(Ended::Deposed(self.stream.subject().to_owned()));
                        }
                    }
                }
                PublishOutcome::TooLong(unfit) => return Err(unfit.into()),
                PublishOutcome::Failed(error) => {
                    self.status.failed();
                    if waits.is_first() {
                        tracing::warn!(%error, "cannot publish");
                    }
                    waits.wait().await;
                }
            }
        }
        self.status.succeeded();
        metrics::published(begun.elapsed());
        self.compare_clocks().await;
        Ok(true)
    }

    /// The last message of the subject, once the stream can be read.
    async fn look(&self, waits: &mut Waits) -> Result<Option<Found>, Unfit> {
        loop {
            match self.stream.last().await {
                Ok(last) => return Ok(last),
                Err(StreamError::Unfit(unfit)) => return Err(unfit),
                // No other bridge would find it either, so this is no reason to release the Lease.
                Err(StreamError::Missing(stream)) => {
                    self.status.succeeded();
                    if waits.is_first() {
                        tracing::warn!(stream, "waits for the stream, which quotad makes");
                    }
                    waits.wait().await;
                }
                Err(StreamError::Unreachable(error)) => {
                    self.status.failed();
                    if waits.is_first() {
                        tracing::warn!(error, "cannot read the stream");
                    }
                    waits.wait().await;
                }
            }
        }
    }

    /// Compares the clocks, from time to time: the server has just stored a message with its time.
    async fn compare_clocks(&mut self) {
        let is_due = self.clock_compared.is_none_or(|at| at.elapsed() >= CLOCK_EVERY);
        if !is_due {
            return;
        }
        let now = crate::watermarks::now();
        if let Ok(Some(found)) = self.stream.last().await
            && found.last.sequence == self.expected
        {
            self.clock_compared = Some(Instant::now());
            let ahead = now.since(found.time).nanoseconds();
            self.status.inner.lock().ahead = ahead;
            metrics::clock_skew(ahead);
            if ahead.abs() > CLOCK_TOLERANCE {
                tracing::warn!(
                    ahead_seconds = ahead / 1_000_000_000,
                    "this clock differs from that of NATS; watermarks are corrected"
                );
            }
        }
    }
}

/// Increasing delays.
struct Waits(Duration);

impl Waits {
    const fn new() -> Self {
        Self(WAITS.0)
    }

    fn is_first(&self) -> bool {
        self.0 == WAITS.0
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(WAITS.1);
    }
}

// The meaning of a refused message. Pure: the last message of the stream goes in, the reaction comes out.

/// Publisher and number of a message: the content of `Nats-Msg-Id`.
///
/// Never the uid and version of an object: the server drops ids that it has seen within its duplicate window, and would
/// drop objects of a relist that were sent shortly before, so that the ledger ends existing objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageId {
    /// The id of the publisher, for as long as it publishes.
    pub instance: String,
    /// The number of the publisher's message, from 1.
    pub number: u64,
}

impl MessageId {
    /// Parses the output of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let (instance, number) = text.rsplit_once('/')?;
        Some(Self { instance: instance.to_owned(), number: number.parse().ok()? })
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.instance, self.number)
    }
}

/// The last message of the subject in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    /// The sequence of the message in the stream.
    pub sequence: u64,
    /// The id of the message; none: it was not published by a bridge.
    pub id: Option<MessageId>,
}

/// The meaning of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The message is in the stream, and its acknowledgement was lost.
    Stored(u64),
    /// The expected message is the last one: retry.
    Again,
    /// Acknowledged messages are gone: claim the subject again, after this sequence, and list everything.
    Lost(u64),
    /// Another publisher is active.
    Deposed,
}

/// Judges the refusal of a message that was sent with the expected sequence `expected` (0: no message).
pub fn refused(id: &MessageId, expected: u64, last: Option<&Last>) -> Verdict {
    let Some(Last { sequence, id: of }) = last else {
        return match expected {
            0 => Verdict::Again,
            _ => Verdict::Lost(0),
        };
    };
    match of {
        Some(of) if of == id => Verdict::Stored(*sequence),
        _ if *sequence == expected => Verdict::Again,
        Some(of) if of.instance == id.instance => Verdict::Lost(*sequence),
        _ => Verdict::Deposed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_judged_by_what_the_stream_holds() {
        let id = |text| MessageId::parse(text).unwrap();
        let mine = id("me/8");
        let last = |sequence, text: &str| Last { sequence, id: MessageId::parse(text) };
        for (expected, held, verdict) in [
            // The acknowledgement was lost.
            (20, Some(last(21, "me/8")), Verdict::Stored(21)),
            // A cluster that temporarily has no leader refuses as well.
            (20, Some(last(20, "me/7")), Verdict::Again),
            (0, None, Verdict::Again),
            // Purged, or deleted and recreated.
            (20, None, Verdict::Lost(0)),
            // Restored from a backup.
            (20, Some(last(12, "me/3")), Verdict::Lost(12)),
            // Another bridge has taken over, or another program publishes there.
            (20, Some(last(21, "you/1")), Verdict::Deposed),
            (20, Some(last(21, "no id")), Verdict::Deposed),
        ] {
            assert_eq!(refused(&mine, expected, held.as_ref()), verdict, "{held:?}");
        }
        assert_eq!(id("a/b/3").to_string(), "a/b/3");
        assert_eq!(MessageId::parse("x"), None);
    }
}
