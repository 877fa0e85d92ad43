//! The consumer of the stream, as the daemon's session, but step by step: the decisions are the core's own
//! ([`identify`], [`Follower`], `source::record`), the order of the steps follows `src/intake/nats/session.rs`.

use std::collections::VecDeque;

use quota_core::{
    event::{Cursor, DeadLetter},
    source::{self, Consumed, Follower, Identity, Observation, identify, identify_by_message},
};
use quota_semantics::{Name, Timestamp};

use super::{
    account::{Checked, ensure},
    daemon::{Errand, Job, Told},
    settings::StreamFaults,
    stream::{Message, Stream},
};
use quota_testkit::simulation::{Random, Report};

pub(crate) const SOURCE: &str = "OBJECTS";

/// Most items of a chunk.
const CHUNK: usize = 5;

#[derive(Debug)]
enum Phase {
    /// The stream has not been identified.
    Closed,
    /// The cursor is being requested.
    Reading,
    /// The cursor has been read.
    Found(Option<Cursor>),
    /// The events to be recorded before any message is consumed; they may be on their way.
    Noting {
        left: VecDeque<Errand>,
        is_sent: bool,
    },
    Live,
    /// Over, once the pending events are durable: the next session reads the cursor, which must not move then.
    Ending,
}

/// A delivery of the server: the consumer sequence, the stream sequence, and the message.
type Delivery = (u64, u64, Message);

/// One life of the consumer.
#[derive(Debug)]
pub(crate) struct Session {
    /// The number of the session: answers to earlier sessions are ignored.
    life: u64,
    phase: Phase,
    incarnation: Name,
    /// The last position that is consumed and durable.
    pub(crate) position: u64,
    target: Option<(u64, Timestamp)>,
    follower: Follower,
    wire: VecDeque<Delivery>,
    /// The last delivery of the consumer on the server.
    sent: (u64, u64),
    /// The position up to which chunks were submitted.
    handed_in: u64,
    items: Vec<Observation>,
    cursor: Option<Cursor>,
    is_recording: bool,
}

impl Session {
    pub(crate) fn closed(life: u64) -> Self {
        Self {
            life,
            phase: Phase::Closed,
            incarnation: Name::default(),
            position: 0,
            target: None,
            follower: Follower::new(true, 0),
            wire: VecDeque::new(),
            sent: (0, 0),
            handed_in: 0,
            items: Vec::new(),
            cursor: None,
            is_recording: false,
        }
    }

    /// Begins the next session.
    pub(crate) fn close(&mut self) {
        *self = Self::closed(self.life + 1);
    }

    /// The consumer is gone, or cannot be trusted any more.
    pub(crate) fn end(&mut self) {
        match self.is_recording {
            true => self.phase = Phase::Ending,
            false => self.close(),
        }
    }

    /// Takes one step towards the next message. Returns the job to be decided.
    pub(crate) fn step(&mut self, stream: &Stream) -> Option<Job> {
        let errand = self.errand(stream)?;
        Some(Job::Session(self.life, errand))
    }

    fn errand(&mut self, stream: &Stream) -> Option<Errand> {
        match &mut self.phase {
            Phase::Closed => {
                self.phase = Phase::Reading;
                Some(Errand::Cursor)
            }
            Phase::Reading | Phase::Ending | Phase::Noting { is_sent: true, .. } => None,
            Phase::Found(cursor) => {
                let cursor = cursor.take();
                self.take_up(cursor.as_ref(), stream);
                None
            }
            Phase::Noting { left, is_sent } => {
                let errand = left.pop_front();
                *is_sent = errand.is_some();
                if errand.is_none() {
                    self.phase = Phase::Live;
                    self.follower = Follower::new(true, self.position);
                    self.sent = (0, self.position);
                    self.handed_in = self.position;
                }
                errand
            }
            Phase::Live => self.live(),
        }
    }

    /// I12: each position up to a chunk's cursor is an event of it, or is reported as lost. This holds for this session
    /// because every message of the stream is for it, and is one event.
    pub(crate) fn check(&mut self, job: &Job) -> Checked {
        let Job::Session(_, Errand::Record { items, consumed }) = job else {
            return Ok(());
        };
        let (from, to) = (self.handed_in, consumed.cursor.position);
        let positions = |item: &Observation| match item {
            Observation::Gap { positions, .. } => positions.end() - positions.start() + 1,
            _ => 1,
        };
        let covered: u64 = items.iter().map(positions).sum();
        ensure!(
            from + covered == to,
            "I12: of {} messages up to {to}, {covered} are covered",
            to - from
        );
        Ok(())
    }

    /// The queue accepted the job of [`Session::step`].
    pub(crate) fn taken(&mut self, to: Option<u64>) {
        self.handed_in = to.unwrap_or(self.handed_in);
    }

    /// The queue had no room for the job of [`Session::step`].
    pub(crate) fn put_back(&mut self, job: Job) {
        let Job::Session(_, errand) = job else {
            return;
        };
        match (&mut self.phase, errand) {
            (_, Errand::Cursor) => self.phase = Phase::Closed,
            (Phase::Noting { left, is_sent }, errand) => {
                left.push_front(errand);
                *is_sent = false;
            }
            (_, Errand::Record { items, consumed }) => {
                self.items = items;
                self.cursor = Some(consumed.cursor);
                self.is_recording = false;
            }
            _ => {}
        }
    }

    fn take_up(&mut self, cursor: Option<&Cursor>, stream: &Stream) {
        self.incarnation = stream.incarnation();
        self.position = cursor.map_or(0, |cursor| cursor.position);
        let mut identity = identify(cursor, &self.incarnation, stream.last);
        if let (Identity::Held, Some(cursor)) = (identity, cursor) {
            let held = stream.messages.get(&cursor.position);
            identity = identify_by_message(cursor, held.map(|held| (held.time, &*held.payload)));
        }
        let mut left = VecDeque::new();
        if identity != Identity::Same {
            left.push_back(Errand::Reset(self.incarnation.clone()));
            self.position = 0;
        }
        let first = stream.first();
        if first > self.position + 1 {
            left.push_back(Errand::Gap(self.position + 1, first - 1));
            self.position = first - 1;
        }
        self.phase = Phase::Noting { left, is_sent: false };
    }

    /// The server delivers the next message, or skips, repeats or reorders messages.
    pub(crate) fn deliver(
        &mut self,
        stream: &Stream,
        faults: &StreamFaults,
        random: &mut Random,
        report: &mut Report,
    ) {
        if !matches!(self.phase, Phase::Live) || self.incarnation != stream.incarnation() {
            return;
        }
        let Some((position, message)) = stream.messages.range(self.sent.1 + 1..).next() else {
            return;
        };
        self.sent = (self.sent.0 + 1, *position);
        if random.chance(faults.drop) {
            report.count("message not delivered");
            return;
        }
        let delivery = (self.sent.0, *position, message.clone());
        self.wire.push_back(delivery.clone());
        if random.chance(faults.duplicate) {
            report.count("message delivered twice");
            // By the same consumer, or, as after a change of the server's leader, with a new number.
            if random.chance(500) {
                self.sent.0 += 1;
            }
            self.wire.push_back((self.sent.0, delivery.1, delivery.2));
        }
        if self.wire.len() > 1 && random.chance(faults.reorder) {
            report.count("messages out of order");
            self.wire.rotate_right(1);
        }
    }

    fn live(&mut self) -> Option<Errand> {
        if self.items.len() < CHUNK
            && let Some(delivery) = self.wire.pop_front()
        {
            self.take(delivery);
        }
        let cursor = self.cursor.take_if(|_| !self.is_recording)?;
        self.is_recording = true;
        Some(Errand::Record {
            items: std::mem::take(&mut self.items),
            consumed: Consumed { source: Name::from(SOURCE), cursor },
        })
    }

    fn take(&mut self, (count, position, message): Delivery) {
        let Ok(gap) = self.follower.take(count, position) else {
            return self.end();
        };
        self.items.extend(
            gap.map(|positions| Observation::Gap { source: Name::from(SOURCE), positions }),
        );
        self.items.push(match message.sighting {
            Some(sighting) => Observation::Sighting(sighting),
            None => Observation::Rejected {
                letter: DeadLetter {
                    source: Name::from(SOURCE),
                    position,
                    reason: "nobody understands it".into(),
                    payload: Box::default(),
                },
                resource: None,
            },
        });
        self.cursor = Some(Cursor {
            incarnation: self.incarnation.clone(),
            position,
            time: message.time,
            checksum: source::checksum(&message.payload),
        });
    }

    /// Takes the answer to a job, which is durable. Returns the time up to which everything is consumed, if that is
    /// reached now.
    pub(crate) fn settle(&mut self, life: u64, answer: Told) -> Option<Timestamp> {
        if life != self.life {
            return None;
        }
        match (&mut self.phase, answer) {
            (Phase::Reading, Told::Cursor(cursor)) => self.phase = Phase::Found(cursor),
            (Phase::Noting { is_sent, .. }, Told::Noted) => *is_sent = false,
            (Phase::Ending, Told::Recorded(_)) => self.close(),
            (Phase::Live, Told::Recorded(position)) => {
                self.position = position;
                self.is_recording = false;
            }
            _ => {}
        }
        self.reach_target()
    }

    fn reach_target(&mut self) -> Option<Timestamp> {
        let (_, requested) = self.target.take_if(|(last, _)| self.position >= *last)?;
        Some(requested)
    }

    /// Reads the last position of the stream, and checks its identity. Returns the same as [`Session::settle`].
    pub(crate) fn poll(&mut self, stream: &Stream, now: Timestamp) -> Option<Timestamp> {
        if !matches!(self.phase, Phase::Live) {
            return None;
        }
        if self.incarnation != stream.incarnation() || stream.last < self.position {
            self.end();
            return None;
        }
        self.target.get_or_insert((stream.last, now));
        let is_idle = !self.is_recording && self.items.is_empty() && self.wire.is_empty();
        if is_idle && self.position < stream.last {
            let next = stream.messages.range(self.position + 1..).next();
            match next {
                // Up to the end there are only lost messages.
                None => {
                    let left = VecDeque::from([Errand::Gap(self.position + 1, stream.last)]);
                    self.position = stream.last;
                    self.phase = Phase::Noting { left, is_sent: false };
                }
                // The consumer has stalled.
                Some((position, _)) if self.sent.1 >= *position => self.end(),
                Some(_) => {}
            }
            return None;
        }
        self.reach_target()
    }

    /// Whether everything is consumed.
    pub(crate) fn is_settled(&self, stream: &Stream) -> bool {
        matches!(self.phase, Phase::Live)
            && !self.is_recording
            && self.items.is_empty()
            && self.position == stream.last
            && self.incarnation == stream.incarnation()
    }
}
