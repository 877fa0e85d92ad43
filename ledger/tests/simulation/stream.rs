//! A stream on an unreliable server, and the producer that publishes to it.

use std::{collections::BTreeMap, ops::RangeInclusive};

use quota_core::{decide::Sighting, event::Observed};
use quota_semantics::{Name, Timestamp, object::Footprint};

use super::things::{footprint, namespace, uid};
use quota_testkit::simulation::Random;

/// A message: its sighting, or a payload that cannot be understood.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) time: Timestamp,
    pub(crate) payload: Vec<u8>,
    pub(crate) sighting: Option<Sighting>,
}

/// One incarnation of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    life: u64,
    pub(crate) messages: BTreeMap<u64, Message>,
    pub(crate) last: u64,
    published: u64,
    /// The positions that the server has used twice.
    reused: Option<RangeInclusive<u64>>,
}

impl Stream {
    pub(crate) fn incarnation(&self) -> Name {
        Name::from(format!("life-{}", self.life))
    }

    pub(crate) fn first(&self) -> u64 {
        self.messages.keys().next().map_or(self.last + 1, |first| *first)
    }

    pub(crate) fn publish(&mut self, time: Timestamp, sighting: Option<Sighting>) {
        self.last += 1;
        self.published += 1;
        let message = Message { time, payload: self.published.to_le_bytes().to_vec(), sighting };
        self.messages.insert(self.last, message);
    }

    /// Removes the oldest messages, as by age or by an operator.
    pub(crate) fn purge(&mut self, random: &mut Random) {
        let upto = self.first() + random.below(6);
        self.messages.retain(|position, _| *position >= upto);
    }

    /// Loses a range in the middle. Positions that were used twice are kept: only the message at the cursor shows that
    /// the messages before the cursor are others.
    pub(crate) fn lose_middle(&mut self, random: &mut Random) {
        let first = self.first() + random.below(self.messages.len() as u64);
        let lost = first..first + 1 + random.below(4);
        let reused = self.reused.clone();
        let is_reused =
            |position: &u64| reused.as_ref().is_some_and(|range| range.contains(position));
        self.messages.retain(|position, _| !lost.contains(position) || is_reused(position));
    }

    /// The server loses the last acknowledged messages, and reuses their positions.
    pub(crate) fn lose_tail(&mut self, random: &mut Random) {
        // A stream that has lost all its messages and its positions cannot be distinguished from a new one.
        let before = self.first() - 1;
        let end = self.last;
        self.last = self.last.saturating_sub(1 + random.below(5)).max(before);
        let last = self.last;
        self.messages.retain(|position, _| *position <= last);
        let before = self.reused.take().map_or((last + 1, end), RangeInclusive::into_inner);
        self.reused = Some(before.0.min(last + 1)..=before.1.max(end));
    }

    /// Deletes the stream, and creates it again under the same name.
    pub(crate) fn recreate(&mut self) {
        self.life += 1;
        self.messages.clear();
        self.last = 0;
        self.reused = None;
    }
}

/// The true state of an object.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) namespace: u8,
    pub(crate) version: u64,
    pub(crate) footprint: Footprint,
    pub(crate) is_alive: bool,
}

/// The true state of all objects, by number; a number is used for one object only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) objects: BTreeMap<u8, Truth>,
    version: u64,
}

impl Cluster {
    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Creates or changes an object; does nothing if it is deleted.
    pub(crate) fn change(&mut self, number: u8, space: u8, amount: u64) -> Option<Sighting> {
        let version = self.next_version();
        let truth = self.objects.entry(number).or_insert(Truth {
            namespace: space,
            version,
            footprint: Footprint::default(),
            is_alive: true,
        });
        truth.version = version;
        truth.footprint = footprint(amount, true, false);
        truth.is_alive.then(|| sighting(number, truth))
    }

    pub(crate) fn delete(&mut self, number: u8) -> Option<Sighting> {
        let truth = self.objects.get_mut(&number)?;
        truth.is_alive = false;
        Some(sighting(number, truth))
    }

    /// Lists everything again, as a producer does; live objects get a new version.
    pub(crate) fn list(&mut self) -> Vec<Sighting> {
        let mut listed = Vec::new();
        for (number, truth) in &mut self.objects {
            self.version += 1;
            truth.version = self.version;
            listed.push(sighting(*number, truth));
        }
        listed
    }
}

/// Some sources do not send versions.
pub(crate) fn is_versioned(number: u8) -> bool {
    !number.is_multiple_of(7)
}

fn sighting(number: u8, truth: &Truth) -> Sighting {
    if !truth.is_alive {
        return Sighting::Deleted {
            uid: uid(number),
            namespace: namespace(truth.namespace),
            quota: None,
        };
    }
    Sighting::Alive {
        object: Box::new(Observed {
            uid: uid(number),
            namespace: namespace(truth.namespace),
            resource: Name::from("pods"),
            name: format!("pod-{number}").into(),
            version: match is_versioned(number) {
                true => truth.version,
                false => 0,
            },
            footprint: truth.footprint.clone(),
            lapse: None,
            ends_reservation: false,
        }),
        quota: None,
    }
}
