//! The session of one consumer: from its creation to its end. No message is acknowledged: the cursor in the ledger is
//! the acknowledgement (`intake/record.rs`).

use std::{
    iter::Peekable,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        consumer::{AckPolicy, DeliverPolicy, pull},
        stream::Stream as ServerStream,
    },
};
use bytes::Bytes;
use futures::{
    FutureExt as _, Stream, StreamExt as _,
    future::{BoxFuture, OptionFuture},
    stream::BoxStream,
};
use quota_core::{
    decide,
    event::{Cursor, RelistScope},
    source::{self, Follower, Identity},
};
use quota_semantics::{Name, Timestamp};
use tokio::time::{Instant, MissedTickBehavior};

use super::{
    Ended, Intake, find, identify, incarnation, is_all_ours,
    message::{Delivered, MessagePosition, MessageReader, one_by_one},
    report_few_replicas,
};
use crate::{
    intake::{
        payload::{Events, Reader, Rejected},
        record::{Chunk, Consumed, cursor, note, record_patiently, reset},
    },
    metrics::{Limit, Rejection, Source, limit_reached},
    now,
    writer::Unavailable,
};

/// Bytes of messages that one pull requests, at least.
const PULL_BYTES: usize = 8 * 1024 * 1024;

/// The lifetime of a pull request, and the interval of the server's heartbeats.
const PULL_EXPIRES: Duration = Duration::from_secs(30);
const PULL_HEARTBEAT: Duration = Duration::from_secs(5);

/// After this time the server may delete a consumer without pull requests.
const CONSUMER_INACTIVE: Duration = Duration::from_secs(60);

/// A consumer that has been silent for this long although there are messages has stalled. A busy server may need longer
/// than a poll to start a new consumer, which must not be given up for that reason.
const SILENCE: Duration = Duration::from_secs(3);

/// How a session gets its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// From a consumer.
    Consumer,
    /// One by one, since the client library cannot read what a consumer delivers.
    OneByOne,
}

/// Consumes the stream until the session ends. All recorded events are durable then.
pub(super) async fn run(intake: &Intake, reading: Reading) -> Ended {
    let mut connected = intake.connected.clone();
    let interrupted = async {
        tokio::select! {
            () = intake.stop.cancelled() => Ended::Stopped,
            () = intake.ledger.wait_until_decides(false) => Ended::Following,
            _ = connected.wait_for(|connected| !connected) => Ended::Disconnected,
        }
    };
    tokio::pin!(interrupted);
    let opened = tokio::select! {
        ended = &mut interrupted => return ended,
        opened = Session::open(intake, reading) => opened,
    };
    match opened {
        Ok((session, messages)) => session.live(messages, interrupted).await,
        Err(ended) => ended,
    }
}

type Messages = BoxStream<'static, Result<Delivered, Ended>>;

struct Session<'a> {
    intake: &'a Intake,
    stream: ServerStream,
    reader: MessageReader,
    incarnation: Name,
    /// Whether every message of the stream is for this ledger.
    is_all_ours: bool,
    /// The last consumed and durable position.
    position: u64,
    /// Once this position is consumed, all messages that the stream held at this time are consumed.
    target: Option<(u64, Timestamp)>,
    /// Since when the consumer has been observed to be silent although there are messages.
    silent_since: Option<Instant>,
}

type Recording<'a> = BoxFuture<'a, Result<Option<Consumed>, Unavailable>>;

impl<'a> Session<'a> {
    async fn open(intake: &'a Intake, reading: Reading) -> Result<(Self, Messages), Ended> {
        let stream = find(intake).await?;
        let reader = MessageReader::new(&intake.client, &stream);
        let source = &intake.source;
        let cursor = cursor(&intake.ledger, source).await?;
        let identity = identify(&stream, &reader, cursor.as_ref()).await?;
        let mut session = Self {
            intake,
            reader,
            incarnation: incarnation(&stream),
            is_all_ours: is_all_ours(&stream.cached_info().config, &intake.settings.subject),
            stream,
            position: cursor.map_or(0, |cursor| cursor.position),
            target: None,
            silent_since: None,
        };
        session.report_properties();
        session.resume(identity).await?;
        session.meet_publisher().await;
        if intake.ledger.watermark().required().is_some() {
            intake.publishers.request_watermarks(&intake.client).await;
        }
        let position = session.position;
        let messages = match reading {
            Reading::Consumer => {
                let messages = session.deliveries().await?;
                tracing::info!(stream = %source, position, "consuming");
                messages
            }
            Reading::OneByOne => {
                tracing::warn!(
                    stream = %source,
                    position,
                    "the connection cannot take a message after this position; reading messages one by one"
                );
                let subject = session.subject().to_owned();
                one_by_one(session.reader.clone(), subject, position).boxed()
            }
        };
        Ok((session, messages))
    }

    /// The subject of the messages for this ledger.
    fn subject(&self) -> &'a str {
        match self.is_all_ours {
            true => ">",
            false => &self.intake.settings.subject,
        }
    }

    /// Logs once what this stream cannot do.
    fn report_properties(&self) {
        let Intake { source, settings, .. } = self.intake;
        if self.intake.has_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        report_few_replicas(self.intake, &self.stream);
        if !self.is_all_ours {
            tracing::warn!(
                stream = %source,
                subjects = ?self.stream.cached_info().config.subjects,
                consumed = settings.subject,
                "the subjects of the stream are not exactly nats.subject, or the stream copies others: a message that is \
                 removed from its middle is not noticed"
            );
        }
    }

    /// Records how the stream has changed since the last session.
    async fn resume(&mut self, identity: Identity) -> Result<(), Ended> {
        let Intake { ledger, actor, source, .. } = self.intake;
        match identity {
            Identity::Same | Identity::Held => {}
            Identity::New => tracing::info!(stream = %source, "consuming for the first time"),
            Identity::Renewed(why) => {
                tracing::warn!(stream = %source, why, "the stream is not the one consumed before; reading it from its beginning");
            }
        }
        if identity != Identity::Same {
            reset(ledger, actor, source, &self.incarnation).await?;
            self.position = 0;
        }
        if matches!(identity, Identity::Renewed(_)) {
            self.intake.publishers.want_all();
        }
        let first = self.stream.cached_info().state.first_sequence;
        if first > self.position.saturating_add(1) {
            self.mark_lost(first.saturating_sub(1)).await?;
        }
        self.intake.status.set_cursor(self.position, None);
        self.report_outdated();
        Ok(())
    }

    /// Records that the messages up to a position are lost.
    async fn mark_lost(&mut self, last: u64) -> Result<(), Ended> {
        let Intake { ledger, actor, source, .. } = self.intake;
        let first = self.position.saturating_add(1);
        tracing::warn!(stream = %source, first, last, "messages were removed before they were consumed");
        note(ledger, actor, decide::gap(source, first, last)).await?;
        self.intake.publishers.want_all();
        self.position = last;
        Ok(())
    }

    /// Learns from the subject of the last message, or else of the first message to come, which clusters have a
    /// publisher.
    async fn meet_publisher(&self) {
        let Intake { publishers, settings, .. } = self.intake;
        if publishers.has_no_publishers()
            && let Ok(Some(last)) = self.reader.last(&settings.subject).await
            && last.unreadable.is_none()
        {
            publishers.meet(&last.subject);
        }
    }

    /// The messages that a new consumer delivers.
    async fn deliveries(&self) -> Result<Messages, Ended> {
        let Intake { settings, client, .. } = self.intake;
        let consumer = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: self.position.saturating_add(1),
            },
            ack_policy: AckPolicy::None,
            filter_subject: match self.is_all_ours {
                true => String::new(),
                false => settings.subject.clone(),
            },
            inactive_threshold: CONSUMER_INACTIVE,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let consumer = self.stream.create_consumer(consumer).await;
        let consumer = consumer.map_err(Ended::failed("create a consumer"))?;
        // A message larger than the requested bytes would never be delivered.
        let bytes = PULL_BYTES.max(client.server_info().max_payload.saturating_mul(2));
        let messages = consumer
            .stream()
            .max_messages_per_batch(settings.fetch_messages.get())
            .max_bytes_per_batch(bytes)
            .expires(PULL_EXPIRES)
            .heartbeat(PULL_HEARTBEAT)
            .messages();
        let messages = messages.await.map_err(Ended::failed("ask for messages"))?;
        let messages = messages.map(|message| match message {
            Ok(message) => Delivered::from_consumer(message),
            Err(error) => Err(Ended::Undelivered(Box::new(error))),
        });
        Ok(messages.boxed())
    }

    async fn live(
        mut self,
        mut messages: Messages,
        mut interrupted: impl Future<Output = Ended> + Unpin,
    ) -> Ended {
        let intake = self.intake;
        let mut gather =
            Gather::new(intake, self.incarnation.clone(), self.is_all_ours, self.position);
        let mut ticks = tokio::time::interval(intake.settings.poll_interval.get());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut recording: Option<Recording<'_>> = None;
        let mut passed = false;
        let ended = loop {
            if recording.is_none() {
                recording = gather.piece().map(|piece| self.record(piece));
            }
            if passed && recording.is_none() {
                break Ended::Passed;
            }
            tokio::select! {
                biased;
                ended = &mut interrupted => break ended,
                Some(recorded) = OptionFuture::from(recording.as_mut()) => {
                    recording = None;
                    match recorded {
                        Ok(consumed) => self.settle(consumed),
                        Err(stopped) => break stopped.into(),
                    }
                }
                _ = ticks.tick() => {
                    let is_idle = recording.is_none() && gather.is_empty();
                    tokio::select! {
                        biased;
                        ended = &mut interrupted => break ended,
                        checked = self.check(&mut gather, is_idle) => if let Err(ended) = checked { break ended },
                    }
                }
                taken = gather.receive(&mut messages), if !passed && !gather.is_full() => match taken {
                    Ok(()) => {}
                    // The messages before it are still to be recorded.
                    Err(Ended::Passed) => passed = true,
                    Err(ended) => break ended,
                },
            }
        };
        // The next session begins at the cursor, which must not move any more.
        if let Some(Ok(consumed)) = OptionFuture::from(recording).await {
            self.settle(consumed);
        }
        ended
    }

    fn record(&self, piece: Piece) -> Recording<'a> {
        let Intake { ledger, actor, publishers, .. } = self.intake;
        Box::pin(async move {
            let Piece { chunk, consumed } = piece;
            let from = Source::Nats;
            let done = record_patiently(ledger, actor, from, chunk, consumed.clone()).await?;
            publishers.want_kinds(done.incomplete);
            Ok(consumed)
        })
    }

    /// Updates the position after events have become durable.
    fn settle(&mut self, consumed: Option<Consumed>) {
        if let Some(Consumed { cursor, .. }) = consumed {
            self.position = cursor.position;
            self.silent_since = None;
            self.intake.status.set_cursor(cursor.position, Some(cursor.time));
        }
        self.report_outdated();
        self.reach_target();
    }

    /// Reports whether a kind has to be listed before its recorded objects are right.
    fn report_outdated(&self) {
        let Intake { ledger, status, actor, .. } = self.intake;
        let is_outdated =
            ledger.peek(|state| state.awaited_resets(&actor.principal).next().is_some());
        status.set_outdated(is_outdated);
    }

    fn reach_target(&mut self) {
        let Intake { ledger, status, .. } = self.intake;
        if let Some((last, requested)) = self.target
            && self.position >= last
        {
            ledger.watermark().advance(requested);
            status.set_caught_up(requested);
            self.target = None;
            self.silent_since = None;
            self.request_relists();
        }
    }

    /// Requests the kinds that a watermark depends on, or whose objects are to be replaced, but that have not been
    /// listed: the publisher may not have received the request, or the daemon may have ended before sending it.
    fn request_relists(&self) {
        let Intake { ledger, publishers, actor, .. } = self.intake;
        if !publishers.may_request() {
            return;
        }
        let required = ledger.watermark().required();
        let unlisted = ledger.peek(|state| {
            let is_begun = |source: &Name, kind: &Name| {
                let scope =
                    RelistScope { resource: kind.clone(), namespace: None, source: source.clone() };
                state.relist(&scope).is_some()
            };
            let replaced = state.awaited_resets(&actor.principal);
            let replaced = replaced.map(|scope| (&scope.source, &scope.resource));
            let required = required.iter().flat_map(|required| {
                let kinds = required.resources.iter();
                kinds.map(|kind| (&required.source, kind))
            });
            let unlisted = required.filter(|(source, kind)| !state.is_listed(source, kind));
            let kinds = unlisted.chain(replaced);
            let kinds = kinds.filter(|(source, kind)| !is_begun(source, kind));
            kinds.map(|(_, kind)| kind.clone()).collect()
        });
        publishers.want_kinds(unlisted);
    }

    /// Checks how far the stream has got, and whether it is still the same. `is_idle`: no delivered message is being
    /// recorded.
    async fn check(&mut self, gather: &mut Gather<'_>, is_idle: bool) -> Result<(), Ended> {
        let requested = now();
        self.stream = find(self.intake).await?;
        let info = self.stream.cached_info();
        let last = info.state.last_sequence;
        if incarnation(&self.stream) != self.incarnation || last < self.position {
            return Err(Ended::Renewed);
        }
        if is_all_ours(&info.config, &self.intake.settings.subject) != self.is_all_ours {
            return Err(Ended::Changed);
        }
        gather.begins_at(info.state.first_sequence);
        self.intake.status.set_last_sequence(last);
        self.target.get_or_insert((last, requested));
        if is_idle && self.position < last {
            self.poll_stream_end(gather, last).await?;
        }
        self.reach_target();
        Ok(())
    }

    /// Handles a consumer that has delivered nothing although the stream goes further: either no message is for this
    /// ledger, or the consumer is stuck.
    async fn poll_stream_end(&mut self, gather: &mut Gather<'_>, last: u64) -> Result<(), Ended> {
        let next = self.position.saturating_add(1);
        if self.reader.next(next, self.subject()).await?.is_some() {
            let since = self.silent_since.get_or_insert_with(Instant::now);
            return match since.elapsed() < SILENCE {
                true => Ok(()),
                false => Err(Ended::Stalled),
            };
        }
        let first = self.stream.cached_info().state.first_sequence;
        match self.is_all_ours {
            true => self.mark_lost(last).await?,
            // Nobody knows what the removed messages were.
            false if first > next => self.mark_lost(first.saturating_sub(1).min(last)).await?,
            false => {}
        }
        self.position = last;
        gather.skip_to(last);
        self.intake.status.set_cursor(last, None);
        Ok(())
    }
}

// Collects messages into chunks of events, each with the cursor after it.

/// Collects messages until a chunk is full or no more are available.
pub(super) struct Gather<'a> {
    intake: &'a Intake,
    incarnation: Name,
    follower: Follower,
    /// The subject of the last message.
    subject: String,
    /// The message that is being read.
    reading: Option<UnreadMessage>,
    chunk: Chunk,
    /// The last message that was read completely, unless an earlier piece covers it.
    last: Option<Read>,
}

struct UnreadMessage {
    events: Peekable<Events>,
    message: Read,
}

/// The data of a message that the cursor needs.
struct Read {
    place: MessagePosition,
    payload: Bytes,
}

/// Events to be recorded in one batch.
pub(super) struct Piece {
    pub(super) chunk: Chunk,
    pub(super) consumed: Option<Consumed>,
}

impl<'a> Gather<'a> {
    /// Begins after `position`, with the first message of a consumer.
    pub(super) fn new(intake: &'a Intake, incarnation: Name, gapless: bool, position: u64) -> Self {
        Self {
            intake,
            incarnation,
            follower: Follower::new(gapless, position),
            subject: String::new(),
            reading: None,
            chunk: Chunk::default(),
            last: None,
        }
    }

    /// Whether nothing is waiting to be recorded.
    pub(super) const fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.last.is_none() && self.reading.is_none()
    }

    pub(super) fn is_full(&self) -> bool {
        self.chunk.is_full(self.intake.max_batch_entries)
    }

    /// Positions up to this one hold no messages for this ledger.
    pub(super) fn skip_to(&mut self, position: u64) {
        self.follower.skip_to(position);
    }

    /// The stream holds nothing before this position any more.
    pub(super) fn begins_at(&mut self, position: u64) {
        self.follower.begins_at(position);
    }

    /// Waits for a message, and takes all available messages, up to a full chunk. Cancel safe: no message is lost if
    /// the future is dropped while it waits.
    pub(super) async fn receive<S>(&mut self, messages: &mut S) -> Result<(), Ended>
    where
        S: Stream<Item = Result<Delivered, Ended>> + Unpin,
    {
        if self.reading.is_none() {
            let message = messages.next().await;
            self.open(message, now())?;
        }
        self.read();
        let now = now();
        while !self.is_full() {
            let Some(message) = messages.next().now_or_never() else {
                break;
            };
            self.open(message, now)?;
            self.read();
        }
        Ok(())
    }

    /// The events to record now; none if there are none.
    pub(super) fn piece(&mut self) -> Option<Piece> {
        if self.chunk.is_empty() && self.last.is_none() {
            return None;
        }
        let consumed = self.last.take().map(|message| Consumed {
            source: self.intake.source.clone(),
            cursor: Cursor {
                incarnation: self.incarnation.clone(),
                position: message.place.stream_sequence,
                time: message.place.time,
                checksum: source::checksum(&message.payload),
            },
        });
        let next = Chunk::like(&self.chunk);
        let chunk = std::mem::replace(&mut self.chunk, next);
        Some(Piece { chunk, consumed })
    }

    fn open(
        &mut self,
        message: Option<Result<Delivered, Ended>>,
        now: Timestamp,
    ) -> Result<(), Ended> {
        let message = message.ok_or(Ended::Incomplete)??;
        let place = message.position;
        let gap = self
            .follower
            .take(place.consumer_sequence, place.stream_sequence)
            .map_err(|source::Incomplete| Ended::Incomplete)?;
        if let Some(gap) = gap {
            tracing::warn!(stream = %self.intake.source, ?gap, "messages were removed before they were consumed");
            self.chunk.add_gap(&self.intake.source, gap);
            self.intake.publishers.want_all();
        }
        let payload = message.payload.clone();
        let events = self.events(message, now).peekable();
        self.reading = Some(UnreadMessage { events, message: Read { place, payload } });
        Ok(())
    }

    fn meet(&mut self, subject: &str) {
        if self.subject != subject {
            self.intake.publishers.meet(subject);
            subject.clone_into(&mut self.subject);
        }
    }

    fn events(&mut self, message: Delivered, now: Timestamp) -> Events {
        let Intake { reader, settings, source, .. } = self.intake;
        if message.is_marker() {
            self.chunk.add_ignored();
            return reader.read(Bytes::new(), now);
        }
        if message.unreadable.is_none() {
            self.meet(&message.subject);
        }
        let payload = message.payload;
        let refused = match (payload.len(), message.unreadable) {
            (length, _) if length > settings.max_message_bytes.as_usize() => {
                limit_reached(Limit::MaxMessageBytes);
                Some((
                    Rejection::TooLarge,
                    format!("{length} bytes are more than nats.max_message_bytes"),
                ))
            }
            (_, Some(reason)) => {
                Some((Rejection::Malformed, format!("the message cannot be read: {reason}")))
            }
            _ if payload.trim_ascii().is_empty() => {
                Some((Rejection::Malformed, "the message is empty".to_owned()))
            }
            _ => None,
        };
        if let Some((rejection, reason)) = refused {
            let rejected = Rejected { line: 1, rejection, reason, resource: None, text: payload };
            self.chunk.add_rejected(source, self.follower.position(), rejected);
            return reader.read(Bytes::new(), now);
        }
        events(reader, message.headers.as_ref(), payload, now)
    }

    /// Continues to read the open message until the chunk is full. Peeks at the next event, so that the cursor is
    /// recorded with the message's last event and not with the next message.
    fn read(&mut self) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        while reading.events.peek().is_some() {
            if self.chunk.is_full(self.intake.max_batch_entries) {
                return;
            }
            match reading.events.next() {
                Some(Ok(incoming)) => {
                    let time = reading.message.place.time;
                    self.chunk.add_received(incoming, &self.intake.source, time);
                }
                Some(Err(mut rejected)) => {
                    if rejected.line > 1 {
                        rejected.reason = format!("line {}: {}", rejected.line, rejected.reason);
                    }
                    self.chunk.add_rejected(
                        &self.intake.source,
                        self.follower.position(),
                        rejected,
                    );
                }
                None => {}
            }
        }
        self.last = self.reading.take().map(|reading| reading.message);
    }
}

/// Parses the events of a message. Pods whose deletion is due by `now` no longer count.
pub fn events(
    reader: &Arc<Reader>,
    headers: Option<&HeaderMap>,
    payload: Bytes,
    now: Timestamp,
) -> Events {
    match headers.and_then(cloud_event_type) {
        Some(event_type) => reader.read_cloud_event(event_type, payload, now),
        None => reader.read(payload, now),
    }
}

/// The type of a CloudEvent in binary mode.
fn cloud_event_type(headers: &HeaderMap) -> Option<&str> {
    let header = |wanted: &str| {
        let mut all = headers.iter();
        let (_, values) =
            all.find(|(name, _)| AsRef::<str>::as_ref(name).eq_ignore_ascii_case(wanted))?;
        values.first().map(async_nats::HeaderValue::as_str)
    };
    header("ce-specversion").and_then(|_| header("ce-type"))
}
