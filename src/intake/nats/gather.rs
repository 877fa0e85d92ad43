//! Collects messages into chunks of events, each with the cursor after it.

use std::{iter::Peekable, sync::Arc};

use async_nats::HeaderMap;
use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _};
use quota_core::{
    event::Cursor,
    source::{self, Follower},
};
use quota_semantics::{Name, Timestamp};

use super::{
    Ended, Intake,
    message::{Delivered, MessagePosition},
};
use crate::{
    clock::now,
    intake::{
        payload::{Events, Reader, Rejected},
        record::{Chunk, Consumed},
    },
    metrics::{Limit, Rejection, limit_reached},
};

/// Collects messages until a chunk is full or no more are available.
pub(super) struct Gather<'a> {
    intake: &'a Intake,
    incarnation: Name,
    follower: Follower,
    /// The subject of the last message.
    subject: String,
    /// The message that is being read.
    reading: Option<Reading>,
    chunk: Chunk,
    /// The last message that was read completely, unless an earlier piece covers it.
    last: Option<Read>,
}

struct Reading {
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
        self.reading = Some(Reading { events, message: Read { place, payload } });
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
#[must_use]
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
