//! The invariants: every decided entry is followed here, and compared with the content of the ledger.

use std::collections::{BTreeMap, BTreeSet};

use quota_core::{
    audit::{Held, Naive},
    codec,
    decide::Policy,
    event::{Entry, Event, Reservation},
    state::State,
};
use quota_journal::{Durable, FileReader, Hash, Reader as _};
use quota_semantics::{Name, Timestamp, quantity::Quantity, uid::Uid};

use super::session::SOURCE;

/// The violation of an invariant, beginning with its number.
pub(crate) type Checked = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(format!($($what)+));
        }
    };
}
pub(crate) use ensure;

/// All decided entries, and those of them that must not be lost any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) entries: Vec<Entry>,
    pub(crate) fold: Fold,
    /// All entries up to here were acknowledged.
    pub(crate) acknowledged: u64,
    /// The positions that were reported as durable, and the chain there.
    positions: BTreeMap<u64, Hash>,
    /// The digests of the state at some of those positions.
    digests: BTreeMap<u64, [u8; 32]>,
    /// The grant of the last entry: the next entry may state that it waits for a name.
    granted: Option<Granted>,
    /// The latest ledger time: an entry with an earlier time is wrong.
    pub(crate) latest: Timestamp,
}

/// A grant whose limits are still to be checked.
#[derive(Clone, Debug)]
struct Granted {
    key: Key,
    at: u64,
    /// The amounts that were held for it before.
    before: Vec<Held>,
}

/// The identity of an object and of its reservation.
type Key = (Name, Uid);

fn key(namespace: &Name, uid: &Uid) -> Key {
    (namespace.clone(), uid.clone())
}

/// The result of the entries, in the simplest form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fold {
    pub(crate) naive: Naive,
    pending: BTreeMap<Key, Timestamp>,
    /// Names of pending reservations.
    names: BTreeMap<Key, Box<str>>,
    /// Creations by what was requested: the entries that granted them.
    created: BTreeMap<(Key, String), u64>,
    /// The state of the source since it last began anew.
    pub(crate) source: SourceFold,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SourceFold {
    pub(crate) position: u64,
    pub(crate) rejected: BTreeSet<u64>,
    pub(crate) gaps: Vec<(u64, u64)>,
}

impl SourceFold {
    pub(crate) fn is_gap(&self, position: u64) -> bool {
        self.gaps.iter().any(|(first, last)| (*first..=*last).contains(&position))
    }
}

/// The request for a reservation, apart from its time to live.
fn requested(reservation: &Reservation) -> String {
    let Reservation { name, api_version, kind, footprint, requested, .. } = reservation;
    let (footprint, version) = match requested {
        Some(requested) => (&requested.footprint, requested.after_version),
        None => (footprint, None),
    };
    format!("{name} {api_version} {kind} {version:?} {footprint:?}")
}

impl Fold {
    /// Whether a reservation is pending for an object, or for another of its name.
    pub(crate) fn is_pending(&self, uid: &Uid, namespace: &Name, name: &str) -> bool {
        let is_named = |other: &Key| {
            let pending_name = self.names.get(other);
            other.0 == *namespace
                && pending_name.is_some_and(|pending_name| **pending_name == *name)
        };
        self.pending.contains_key(&key(namespace, uid)) || self.pending.keys().any(is_named)
    }

    /// I7, I8, I9, and that no reservation is granted twice.
    fn apply(&mut self, entry: &Entry) -> Checked {
        self.naive.apply(entry);
        let at = entry.sequence;
        match &entry.event {
            Event::ReservationGranted(reservation) => {
                let uid = &reservation.uid;
                let key = key(&reservation.namespace, uid);
                let before = self.pending.insert(key.clone(), reservation.expiration);
                ensure!(before.is_none(), "I9: {uid} is granted at {at} while pending");
                self.names.insert(key.clone(), reservation.name.clone());
                if reservation.after_version == 0 {
                    let before = self.created.insert((key, requested(reservation)), at);
                    // A reservation that has ended is decided anew for an API server, and for no other client.
                    ensure!(
                        before.is_none() || entry.actor.user.is_some(),
                        "I10: {uid} is granted at {before:?} and again at {at}"
                    );
                }
            }
            Event::ReservationGrown { uid, namespace, expiration, .. }
            | Event::ReservationExtended { uid, namespace, expiration } => {
                let before = self.pending.insert(key(namespace, uid), *expiration);
                ensure!(before.is_some(), "I9: {uid} is not pending at {at}, but changed");
            }
            Event::ReservationReleased { uid, namespace }
            | Event::ReservationExpired { uid, namespace }
            | Event::ReservationCommitted { uid, namespace, .. }
            | Event::ReservationSuperseded { uid, namespace, .. } => {
                let before = self.pending.remove(&key(namespace, uid));
                ensure!(before.is_some(), "I9: {uid} is not pending at {at}, but settled");
            }
            Event::ObjectObserved(object) if object.ends_reservation => {
                let before = self.pending.remove(&key(&object.namespace, &object.uid));
                ensure!(before.is_some(), "I9: {} is not pending at {at}, but settled", object.uid);
            }
            Event::ObjectRefreshed { uid, namespace, ends_reservation: true, .. } => {
                let before = self.pending.remove(&key(namespace, uid));
                ensure!(before.is_some(), "I9: {uid} is not pending at {at}, but settled");
            }
            Event::ObjectDeleted { uid, namespace } => {
                self.pending.remove(&key(namespace, uid));
            }
            Event::SourceReset { .. } => self.source = SourceFold::default(),
            Event::SourceGapped { first, last, .. } => {
                let before = self.source.position;
                ensure!(*first > before, "I8: {first} is lost at {at}, but {before} is consumed");
                self.source.gaps.push((*first, *last));
                self.source.position = *last;
            }
            Event::SourceAdvanced { source, cursor } if *source == SOURCE => {
                let before = self.source.position;
                ensure!(
                    cursor.position > before,
                    "I8: {} is consumed at {at}, and {before} was before",
                    cursor.position
                );
                self.source.position = cursor.position;
            }
            Event::MessageRejected(letter) => {
                let is_new = self.source.rejected.insert(letter.position);
                ensure!(is_new, "I8: message {} counts again at {at}", letter.position);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The inputs of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) watermark: Timestamp,
    pub(crate) policy: &'a Policy,
}

impl Account {
    /// Follows a decided entry.
    pub(crate) fn follow(&mut self, entry: &Entry, sight: Sight<'_>) -> Checked {
        let at = entry.sequence;
        let expected = self.entries.len() as u64 + 1;
        ensure!(at == expected, "I7: entry {at} where {expected} is next");
        ensure!(entry.time >= self.latest, "I7: time goes back at {at}");
        self.latest = entry.time;
        if let Event::ReservationExpired { uid, namespace } = &entry.event {
            self.expired(&key(namespace, uid), entry, sight)?;
        }
        let completes = matches!(entry.event, Event::NameAwaited { .. });
        if !completes {
            self.within_limits()?;
        }
        let granted = match &entry.event {
            Event::ReservationGranted(granted) => Some(key(&granted.namespace, &granted.uid)),
            Event::ReservationGrown { uid, namespace, .. } => Some(key(namespace, uid)),
            _ => None,
        };
        let granted =
            granted.map(|key| Granted { before: self.fold.naive.held(&key.0, &key.1), key, at });
        self.entries.push(entry.clone());
        self.fold.apply(entry)?;
        if completes {
            self.within_limits()?;
        }
        self.granted = granted;
        Ok(())
    }

    /// I1: the last grant exceeded no limit.
    fn within_limits(&self) -> Checked {
        let Some(Granted { key, at, before }) = &self.granted else {
            return Ok(());
        };
        let (namespace, uid) = key;
        for held in self.fold.naive.held(namespace, uid) {
            ensure!(
                !held.counted.is_over() || !has_grown(before, &held),
                "I1: entry {at} grants {uid} {} {} of {}, which makes {} of {}",
                held.held,
                held.resource,
                held.quota,
                held.counted.sum(),
                held.counted.hard
            );
        }
        Ok(())
    }

    /// A reservation expires neither before its time, nor while an event that settles it may be on its way.
    fn expired(&self, key: &Key, entry: &Entry, sight: Sight<'_>) -> Checked {
        let (at, uid) = (entry.sequence, &key.1);
        let Some(expiration) = self.fold.pending.get(key) else {
            return Err(format!("I9: {uid} is not pending at {at}, but expired"));
        };
        ensure!(entry.time >= *expiration, "I9: {uid} expires at {at} before its time");
        let held_out = entry.time.minus(sight.policy.max_hold) >= *expiration;
        ensure!(
            sight.watermark >= *expiration || held_out,
            "I9: {uid} expires at {at} while the source is behind"
        );
        Ok(())
    }

    /// I2, I3, I11: the state, including decisions that are not durable, is the result of the entries.
    pub(crate) fn compare(&self, state: &State) -> Checked {
        self.within_limits()?;
        let differences = self.fold.naive.differences(state);
        ensure!(differences.is_empty(), "I2/I3: {}", differences.join("; "));
        for namespace in state.namespaces("") {
            let totals = state.totals(namespace);
            let mut all = totals.used.iter().chain(totals.reserved.iter());
            let negative = all.find(|(_, quantity)| quantity.is_negative());
            ensure!(negative.is_none(), "I11: {namespace} {negative:?}");
        }
        Ok(())
    }

    /// Records that the ledger was reported as durable up to here.
    pub(crate) fn publish(&mut self, durable: &Durable) {
        self.acknowledged = self.acknowledged.max(durable.sequence);
        self.positions.insert(durable.sequence, durable.hash);
    }

    /// Records the digest of the state at a durable position.
    pub(crate) fn note(&mut self, sequence: u64, digest: [u8; 32]) {
        self.digests.insert(sequence, digest);
    }

    /// I4 to I7: a start finds the decided entries, up to one that was not acknowledged.
    pub(crate) fn recovered(&mut self, durable: &Durable, state: &State) -> Checked {
        let last = durable.sequence;
        ensure!(
            last >= self.acknowledged,
            "I4: {} was acknowledged, but the ledger ends at {last}",
            self.acknowledged
        );
        ensure!(
            last <= self.entries.len() as u64,
            "I4: the ledger ends at {last}, but {} were decided",
            self.entries.len()
        );
        ensure!(
            state.head().sequence == last,
            "I5: the state is at {}, the ledger at {last}",
            state.head().sequence
        );
        if last < self.entries.len() as u64 {
            self.entries.truncate(usize::try_from(last).unwrap_or(usize::MAX));
            self.fold = Fold::default();
            for entry in &self.entries {
                self.fold.apply(entry)?;
            }
        }
        self.granted = None;
        self.latest = self.entries.last().map_or(Timestamp::EPOCH, |entry| entry.time);
        self.compare(state)?;
        self.publish(durable);
        self.note(last, state.digest());
        Ok(())
    }

    /// I4, I6, I7: every readable entry is the decided one, in its place in the chain. Returns the first readable
    /// entry.
    pub(crate) fn read_all(&self, reader: &FileReader) -> Result<u64, Unread> {
        let first = reader.first_sequence();
        let mut next = first;
        for stored in reader.read(first) {
            let stored = stored.map_err(Unread::Error)?;
            let batch = &stored.batch;
            let entries = codec::decode_entries(batch.first_sequence, batch.count, &batch.payload)
                .map_err(|error| Unread::Wrong(format!("I4: {error}")))?;
            for entry in entries {
                let at = entry.sequence;
                let decided =
                    at.checked_sub(1).and_then(|at| self.entries.get(usize::try_from(at).ok()?));
                if at != next || decided != Some(&entry) {
                    return Err(Unread::Wrong(format!(
                        "I4: {next} should be {decided:?}, and is {entry:?}"
                    )));
                }
                next += 1;
            }
            let noted = self.positions.get(&batch.last_sequence());
            if noted.is_some_and(|noted| *noted != stored.hash) {
                return Err(Unread::Wrong(format!(
                    "I6: another hash at {}",
                    batch.last_sequence()
                )));
            }
        }
        if next != self.entries.len() as u64 + 1 {
            return Err(Unread::Wrong(format!("I4: the reader ends before {next}")));
        }
        Ok(first)
    }

    /// I5, I13: folding all entries again gives every recorded state, live, from a snapshot, after a start.
    pub(crate) fn fold_again(&self) -> Checked {
        let mut state = State::default();
        for entry in &self.entries {
            state.apply(entry);
            if let Some(digest) = self.digests.get(&entry.sequence) {
                ensure!(state.digest() == *digest, "I5: another state at {}", entry.sequence);
            }
        }
        Ok(())
    }
}

/// Why not everything could be read.
pub(crate) enum Unread {
    Error(quota_journal::Error),
    Wrong(String),
}

fn has_grown(before: &[Held], now: &Held) -> bool {
    let earlier =
        before.iter().find(|held| held.quota == now.quota && held.resource == now.resource);
    now.held > earlier.map_or(Quantity::ZERO, |held| held.held.clone())
}
