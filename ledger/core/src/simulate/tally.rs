//! The demand on each limit of a simulation.

use std::collections::BTreeMap;

use hashbrown::{Equivalent, HashMap};

use serde::Serialize;

use super::Refusing;
use crate::{decide::Need, event::Sequence, state::LimitNow};
use quota_semantics::{Name, Timestamp, admission::LimitKind, quantity::Quantity};

/// The most different amounts that are kept of one limit, the largest ones.
const AMOUNTS_MAX: usize = 4096;

/// The most that are kept of all limits; then those of each limit do not grow any more.
const AMOUNTS_OF_ALL_MAX: usize = 1 << 20;

/// A limit on one resource, and what it would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitOutcome {
    /// Whether it is one of a quota or of a group.
    pub kind: LimitKind,
    /// The namespace; none: it is one of a group, for all of its namespaces together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource.
    pub resource: Name,
    /// The limit at the end of the period; none: the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    /// Recorded grants that need some of it.
    pub grants: u64,
    /// Those that it refuses.
    pub refused: u64,
    /// When it refuses the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_refused: Option<Timestamp>,
    /// The most that is used and reserved if nothing is refused.
    pub peak: Quantity,
    /// When that was reached first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_time: Option<Timestamp>,
    /// The entry with which it was reached first.
    pub peak_sequence: Sequence,
    /// The least limit that refuses no recorded grant.
    pub least_refusing_none: Quantity,
    /// A limit that refuses at most one of a hundred recorded grants.
    #[serde(rename = "leastRefusing1Percent")]
    pub least_refusing_1_percent: Quantity,
    /// How long the limit was reached if nothing is refused.
    pub time_full: String,
}

/// A quota or group in a namespace, or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LimitId {
    namespace: Option<Name>,
    name: Name,
    is_group: bool,
}

/// The same, borrowed. Its hash is the same, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitRef<'a> {
    namespace: Option<&'a Name>,
    name: &'a Name,
    is_group: bool,
}

impl<'a> LimitRef<'a> {
    pub(super) const fn quota(namespace: &'a Name, name: &'a Name) -> Self {
        Self { namespace: Some(namespace), name, is_group: false }
    }

    pub(super) const fn group(namespace: Option<&'a Name>, name: &'a Name) -> Self {
        Self { namespace, name, is_group: true }
    }

    pub(super) fn of(namespace: &'a Name, need: &Need<'a>) -> Self {
        Self {
            namespace: need.is_own.then_some(namespace),
            name: need.limit,
            is_group: need.kind == LimitKind::ClusterResourceQuota,
        }
    }
}

impl Equivalent<LimitId> for LimitRef<'_> {
    fn equivalent(&self, id: &LimitId) -> bool {
        (self.namespace, self.name, self.is_group) == (id.namespace.as_ref(), &id.name, id.is_group)
    }
}

impl From<&LimitRef<'_>> for LimitId {
    fn from(id: &LimitRef<'_>) -> Self {
        let LimitRef { namespace, name, is_group } = *id;
        Self { namespace: namespace.cloned(), name: name.clone(), is_group }
    }
}

impl LimitId {
    const fn by_ref(&self) -> LimitRef<'_> {
        LimitRef { namespace: self.namespace.as_ref(), name: &self.name, is_group: self.is_group }
    }

    const fn kind(&self) -> LimitKind {
        match self.is_group {
            true => LimitKind::ClusterResourceQuota,
            false => LimitKind::ResourceQuota,
        }
    }

    pub(super) fn refusing(self, resource: Option<Name>) -> Refusing {
        Refusing { kind: self.kind(), name: self.name, resource }
    }
}

/// All limits that are measured, or refuse something.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    places: HashMap<LimitId, usize>,
    limits: Vec<OfLimit>,
    /// How many amounts are kept of them.
    amounts: usize,
}

/// The resources of a limit, by name.
#[derive(Debug, Default)]
struct OfLimit(Vec<(Name, Tally)>);

impl OfLimit {
    /// That of a resource, looked for from a place on; and its place.
    fn tally(&mut self, resource: &Name, from: usize) -> (&mut Tally, usize) {
        let mut at = from;
        while self.0.get(at).is_some_and(|(name, _)| name != resource && name < resource) {
            at += 1;
        }
        if self.0.get(at).is_none_or(|(name, _)| name != resource) {
            self.0.insert(at, (resource.clone(), Tally::default()));
        }
        (&mut self.0[at].1, at)
    }
}

#[derive(Debug, Default)]
struct Tally {
    hard: Option<Quantity>,
    refused: u64,
    first_refused: Option<Timestamp>,
    peak: Option<(Quantity, Timestamp, Sequence)>,
    needs: Needs,
    full: u64,
    full_since: Option<Timestamp>,
}

impl Tallies {
    /// That of a limit.
    fn of(&mut self, id: &LimitRef<'_>) -> usize {
        if let Some(&place) = self.places.get(id) {
            return place;
        }
        self.places.insert(id.into(), self.limits.len());
        self.limits.push(OfLimit::default());
        self.limits.len() - 1
    }

    /// A recorded grant needs an amount.
    pub(super) fn ask(&mut self, namespace: &Name, need: &Need<'_>) {
        let limit = self.of(&LimitRef::of(namespace, need));
        let (tally, _) = self.limits[limit].tally(need.resource, 0);
        tally.needs.add(&need.total, &mut self.amounts);
    }

    /// A recorded grant is refused by these limits.
    pub(super) fn refuse(&mut self, refusing: &[(LimitId, Name)], time: Timestamp) {
        for (limit, resource) in refusing {
            let limit = self.of(&limit.by_ref());
            let (tally, _) = self.limits[limit].tally(resource, 0);
            tally.refused += 1;
            tally.first_refused.get_or_insert(time);
        }
    }

    /// The levels of a limit from a moment on; none: it does not apply.
    pub(super) fn measure(
        &mut self,
        id: LimitRef<'_>,
        levels: Option<LimitNow<'_>>,
        time: Timestamp,
        sequence: Sequence,
    ) {
        let Some(levels) = levels else {
            let known = self.places.get(&id).and_then(|&place| self.limits.get_mut(place));
            for (_, tally) in known.into_iter().flat_map(|limit| &mut limit.0) {
                tally.end_full(time);
            }
            return;
        };
        let limit = self.of(&id);
        let limit = &mut self.limits[limit];
        let mut next = 0;
        for (resource, hard, taken) in levels.iter() {
            let (tally, at) = limit.tally(resource, next);
            tally.measure(hard, taken, time, sequence);
            next = at + 1;
        }
    }

    pub(super) fn finish(self, to: Timestamp) -> Vec<LimitOutcome> {
        let mut places: Vec<_> = self.places.into_iter().collect();
        places.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut limits = self.limits;
        let limits = places.into_iter().flat_map(|(id, place)| {
            let tallies = std::mem::take(&mut limits[place].0).into_iter();
            tallies.map(move |(resource, tally)| tally.finish(&id, resource, to))
        });
        limits.collect()
    }
}

impl Tally {
    fn measure(&mut self, hard: &Quantity, taken: Quantity, time: Timestamp, sequence: Sequence) {
        if self.hard.as_ref() != Some(hard) {
            self.hard = Some(hard.clone());
        }
        match taken >= *hard {
            true => {
                self.full_since.get_or_insert(time);
            }
            false => self.end_full(time),
        }
        if self.peak.as_ref().is_none_or(|(peak, ..)| taken > *peak) {
            self.peak = Some((taken, time, sequence));
        }
    }

    fn end_full(&mut self, time: Timestamp) {
        if let Some(since) = self.full_since.take() {
            let full = u64::try_from(time.since(since).nanoseconds()).unwrap_or_default();
            self.full = self.full.saturating_add(full);
        }
    }

    fn finish(mut self, id: &LimitId, resource: Name, to: Timestamp) -> LimitOutcome {
        self.end_full(to);
        let (peak, peak_time, peak_sequence) = match self.peak {
            Some((peak, time, sequence)) => (peak, Some(time), sequence),
            None => Default::default(),
        };
        // The families of the limit and of what is needed of it may differ.
        let format = self.hard.as_ref().map(Quantity::format);
        let as_written = |amount: Quantity| match format {
            Some(format) => amount.in_format(format),
            None => amount,
        };
        LimitOutcome {
            kind: id.kind(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            resource,
            grants: self.needs.all,
            refused: self.refused,
            first_refused: self.first_refused,
            peak: as_written(peak),
            peak_time,
            peak_sequence,
            least_refusing_none: as_written(self.needs.largest(0)),
            least_refusing_1_percent: as_written(self.needs.largest(self.needs.all / 100)),
            time_full: seconds(self.full),
            hard: self.hard,
        }
    }
}

/// A time in seconds, such as `1.5s`.
fn seconds(nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let (whole, fraction) = (nanoseconds / SECOND, nanoseconds % SECOND);
    let fraction = format!("{fraction:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}s"),
        fraction => format!("{whole}.{fraction}s"),
    }
}

/// What requests need of a limit: how many need each amount.
#[derive(Debug, Default)]
struct Needs {
    all: u64,
    counts: BTreeMap<Quantity, u64>,
    /// The largest amount that is not kept.
    dropped: Option<Quantity>,
}

impl Needs {
    /// `kept` counts the amounts that are kept of all limits.
    fn add(&mut self, amount: &Quantity, kept: &mut usize) {
        self.all += 1;
        if self.dropped.as_ref().is_some_and(|dropped| amount <= dropped) {
            return;
        }
        match self.counts.get_mut(amount) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(amount.clone(), 1);
                *kept += 1;
            }
        }
        let is_full = self.counts.len() > 1 && *kept > AMOUNTS_OF_ALL_MAX;
        if self.counts.len() > AMOUNTS_MAX || is_full {
            self.dropped = self.counts.pop_first().map(|(amount, _)| amount);
            *kept -= 1;
        }
    }

    /// The least amount that at most `more` requests exceed; a larger one, if that is not kept.
    fn largest(&self, more: u64) -> Quantity {
        let mut above = 0;
        for (amount, count) in self.counts.iter().rev() {
            above += count;
            if above > more {
                return amount.clone();
            }
        }
        self.dropped.clone().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_is_the_least_amount_that_few_exceed() {
        let mut needs = Needs::default();
        assert_eq!(needs.largest(0), Quantity::default());
        for amount in 1..=200 {
            needs.add(&Quantity::from_units(amount), &mut 0);
        }
        assert_eq!(needs.largest(0), Quantity::from_units(200));
        assert_eq!(needs.largest(needs.all / 100), Quantity::from_units(198));
        assert_eq!(needs.largest(199), Quantity::from_units(1));
        assert_eq!(needs.largest(200), Quantity::default());
    }

    #[test]
    fn of_very_many_amounts_the_largest_are_kept() {
        let (mut needs, mut kept) = (Needs::default(), 0);
        let most = AMOUNTS_MAX as i64 * 3;
        for amount in 0..most {
            needs.add(&Quantity::from_units(amount * 7919 % most), &mut kept);
        }
        assert_eq!(kept, AMOUNTS_MAX);
        assert_eq!(needs.counts.len(), AMOUNTS_MAX);
        assert_eq!(needs.largest(0), Quantity::from_units(most - 1));
        assert_eq!(needs.largest(99), Quantity::from_units(most - 100));
        // What is not kept is no more than this.
        let dropped = needs.dropped.clone().unwrap();
        assert_eq!(needs.largest(needs.all - 1), dropped);
        // Beside very many others, it is the largest one.
        let (mut needs, mut kept) = (Needs::default(), AMOUNTS_OF_ALL_MAX);
        for amount in [3, 1, 5, 4] {
            needs.add(&Quantity::from_units(amount), &mut kept);
        }
        assert_eq!((needs.counts.len(), kept), (1, AMOUNTS_OF_ALL_MAX + 1));
        assert_eq!(needs.largest(0), Quantity::from_units(5));
        assert_eq!(needs.largest(1), Quantity::from_units(4));
    }
}
