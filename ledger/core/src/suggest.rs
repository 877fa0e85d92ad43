//! Suggestions: limits that fit what was taken in a period, and when a limit will be reached.
//!
//! A suggestion is a percentile of `used + reserved`, with headroom, rounded up to an amount that people write. At the
//! percentile 100 it is no less than the most that any moment took, however short it was: such a limit would have
//! refused nothing that was granted.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    event::{Entry, Sequence},
    state::State,
    time::{
        Changes, Key, Level, Meter, Moment, Names, Percentile, Period, Subject, Tracker, Wanted,
    },
};
use quota_semantics::{
    Name, Timestamp,
    admission::LimitKind,
    quantity::{Format, Quantity},
    quota::extension::{Carrier, Extensions},
};

/// Fewest days with a peak from which a trend follows.
const DAYS_MIN: usize = 5;

/// Most days whose peaks are kept: the last ones.
const DAYS_MAX: usize = 31;

const DAY: i64 = 86_400_000_000_000;

/// What is suggested.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The share of time, in hundredths of a percent, in which a suggested limit suffices.
    pub percentile: u16,
    /// What is added, in percent.
    pub headroom: u32,
}

/// A limit that denied requests, and how many: kind, namespace of a quota, name, resource.
pub type Denials = BTreeMap<(LimitOf, Name), u64>;

/// A quota or group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitOf {
    /// The namespace of a quota; none: it is a group.
    pub namespace: Option<Name>,
    /// Its name.
    pub name: Name,
}

/// A suggested limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// Whether it is one of a quota or of a group.
    pub kind: LimitKind,
    /// The namespace of a quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource.
    pub resource: Name,
    /// The present limit.
    pub hard: Quantity,
    /// The most that was used and reserved.
    pub peak: Quantity,
    /// When that was reached first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_time: Option<Timestamp>,
    /// The entry with which it was reached first.
    pub peak_sequence: Sequence,
    /// The percentile of what was used and reserved.
    pub percentile: Quantity,
    /// The suggested limit; none: nothing can be said, since the group sets amounts aside, or limits each member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested: Option<Quantity>,
    /// How long the limit was reached, in seconds.
    pub time_full: String,
    /// Remembered denials of this limit in the period.
    pub denials: u64,
    /// In how many seconds the limit is reached, or that of a group that counts the namespace, by the trend of the daily
    /// peaks; none: not by that trend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<u64>,
}

/// Suggestions for all limits, in the making.
pub struct Suggesting {
    tracker: Tracker,
    takes: Takes,
}

impl Suggesting {
    /// Begins with the state at the beginning of the period. Groups are followed whichever namespaces are wanted: they
    /// limit these, too.
    #[must_use]
    pub fn begin(state: &State, period: Period, wish: Wish, namespaces: Names) -> Self {
        let groups: Option<Names> = Some(Box::new(|_| true));
        let wanted = Wanted { sums: false, quotas: true, namespaces, groups };
        let mut takes = Takes { period, wish, slots: Vec::new() };
        let tracker = Tracker::begin(wanted, state, &mut takes);
        Self { tracker, takes }
    }

    /// An entry of the period, and the state before it.
    pub fn before(&mut self, state: &State, entry: &Entry) {
        self.tracker.before(state, entry);
    }

    /// The state behind the last entry.
    pub fn after(&mut self, state: &State) {
        self.tracker.after(state, &mut self.takes);
    }

    /// The suggestions for the limits that there are at the end, by namespace, name and resource; groups first: those
    /// that are wanted.
    #[must_use]
    pub fn finish(
        self,
        state: &State,
        denials: &Denials,
        groups: impl Fn(&Name) -> bool,
    ) -> Vec<Suggestion> {
        let Takes { period, wish, slots } = self.takes;
        let slots = slots.into_iter();
        let mut suggestions: Vec<_> =
            slots.filter_map(|slot| slot.finish(state, period, wish, denials)).collect();
        bound_by_groups(state, &mut suggestions);
        suggestions.retain(|it| it.namespace.is_some() || groups(&it.name));
        let place = |it: &Suggestion| (it.namespace.clone(), it.name.clone(), it.resource.clone());
        suggestions.sort_by_cached_key(place);
        suggestions
    }
}

/// A limit cannot be reached later than that of a group that counts the namespace.
fn bound_by_groups(state: &State, suggestions: &mut [Suggestion]) {
    let of_group = |it: &Suggestion| {
        let full = it.full_in_seconds.filter(|_| it.namespace.is_none())?;
        Some(((it.name.clone(), it.resource.clone()), full))
    };
    let groups: BTreeMap<(Name, Name), u64> = suggestions.iter().filter_map(of_group).collect();
    let mut counting: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    for it in suggestions.iter_mut().filter(|_| !groups.is_empty()) {
        let Some(namespace) = it.namespace.clone() else {
            continue;
        };
        let counting =
            counting.entry(namespace).or_insert_with_key(|namespace| state.groups_of(namespace));
        let full =
            counting.iter().filter_map(|group| groups.get(&(group.clone(), it.resource.clone())));
        it.full_in_seconds = full.copied().chain(it.full_in_seconds).min();
    }
}

/// What was taken of each limit.
struct Takes {
    period: Period,
    wish: Wish,
    slots: Vec<Slot>,
}

struct Slot {
    key: Key,
    meter: Meter,
    /// The most that any moment took.
    peak: Option<(Quantity, Moment)>,
    days: Days,
}

impl Changes for Takes {
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        at: Moment,
        _: Option<&Level>,
        after: Option<&Level>,
    ) {
        let percentile = Percentile::of_basis_points(self.wish.percentile);
        while self.slots.len() <= slot {
            self.slots.push(Slot {
                key: key.clone(),
                meter: Meter::new(self.period, percentile),
                peak: None,
                days: Days::default(),
            });
        }
        let at = Moment { time: at.time.max(self.period.from), ..at };
        let slot = &mut self.slots[slot];
        slot.meter.set(at, after.cloned());
        let demand = after.map(Level::demand);
        let day = at.time.since(self.period.from).nanoseconds() / DAY;
        slot.days.set(day, demand.as_ref().map(Quantity::to_f64));
        if let Some(demand) = demand
            && slot.peak.as_ref().is_none_or(|(peak, _)| demand > *peak)
        {
            slot.peak = Some((demand, at));
        }
    }
}

impl Slot {
    fn finish(
        self,
        state: &State,
        period: Period,
        wish: Wish,
        denials: &Denials,
    ) -> Option<Suggestion> {
        let resource = self.key.resource;
        let (limit, extensions, hard, is_plain) = match self.key.subject {
            Subject::Namespace(_) => return None,
            Subject::Quota { namespace, name } => {
                let (record, _) = state.quota_record(&namespace, &name)?;
                let extensions = Extensions::from_metadata(&record.metadata, Carrier::Quota);
                let hard = record.spec.hard.get(&resource)?.clone();
                let namespace = Some(namespace);
                (LimitOf { namespace, name }, extensions, hard, true)
            }
            Subject::Group(name) => {
                let group = state.group(&name)?;
                let spec = &group.record.spec;
                let hard = spec.quota.hard.get(&resource)?.clone();
                // What is set aside for its children counts as well.
                let is_plain = !spec.extensions.each && group.children.is_empty();
                let extensions = spec.extensions.clone();
                let namespace = None;
                (LimitOf { namespace, name }, extensions, hard, is_plain)
            }
        };
        let days = self.days.finish(period);
        let measure = self.meter.finish();
        let (peak, at) = self.peak.unwrap_or_default();
        let percentile = match wish.percentile {
            10_000.. => peak.clone(),
            points => {
                let share = Percentile::of_basis_points(points);
                measure.percentile(share).cloned().unwrap_or_default()
            }
        };
        let denied = denials.get(&(limit.clone(), resource.clone()));
        let denied = denied.copied().unwrap_or_default();
        let mut basis = percentile.clone();
        if denied > 0 || measure.full > 0 {
            basis = basis.max(hard.clone());
        }
        let suggested = is_plain.then(|| {
            let mut suggested = rounded(&resource, &hard, &basis, wish.headroom);
            // Other fields of the manifest must not exceed the limit.
            for other in [extensions.soft.get(&resource), extensions.guaranteed.get(&resource)] {
                if let Some(other) = other.filter(|other| **other > suggested) {
                    suggested = other.clone();
                }
            }
            suggested
        });
        let as_written = |amount: Quantity| amount.in_format(hard.format());
        Some(Suggestion {
            kind: match limit.namespace {
                Some(_) => LimitKind::ResourceQuota,
                None => LimitKind::ClusterResourceQuota,
            },
            peak: as_written(peak),
            peak_time: (at.sequence > 0).then_some(at.time),
            peak_sequence: at.sequence,
            percentile: as_written(percentile),
            suggested,
            time_full: format!("{}s", measure.full / 1_000_000_000),
            denials: denied,
            full_in_seconds: full_in(&days, hard.to_f64()),
            namespace: limit.namespace,
            name: limit.name,
            resource,
            hard,
        })
    }
}

/// An amount with headroom, rounded up to one that people write.
fn rounded(resource: &str, hard: &Quantity, amount: &Quantity, headroom: u32) -> Quantity {
    const MI: i128 = 1 << 20;
    const GI: i128 = 1 << 30;
    let with_headroom = |amount: i64| {
        let percents = i128::from(amount) * (100 + i128::from(headroom));
        (percents + 99).div_euclid(100)
    };
    let up = |amount: i128, step: i128| (amount + step - 1).div_euclid(step) * step;
    let name = resource.strip_prefix("requests.").unwrap_or(resource);
    let name = name.strip_prefix("limits.").unwrap_or(name);
    if name == "cpu" {
        let milli = with_headroom(amount.milli_value());
        let milli = up(milli, if milli < 10_000 { 100 } else { 1000 });
        let text = match milli % 1000 {
            0 => (milli / 1000).to_string(),
            _ => format!("{milli}m"),
        };
        return text.parse().unwrap_or_else(|_| hard.clone());
    }
    let whole = with_headroom(amount.value());
    let is_bytes = hard.format() == Format::BinarySI
        || name.contains("storage")
        || name.contains("memory")
        || name.starts_with("hugepages-");
    let (whole, format) = match is_bytes {
        true => {
            let step = if whole < 10 * GI { 128 * MI } else { GI };
            (up(whole, step), Format::BinarySI)
        }
        false => (whole, Format::DecimalSI),
    };
    Quantity::new(i64::try_from(whole).unwrap_or(i64::MAX), format)
}

/// The peak of each day of the period, as far as there was a number.
#[derive(Clone, Debug, Default)]
struct Days {
    peaks: Vec<(i64, f64)>,
    now: Option<f64>,
    day: i64,
}

impl Days {
    fn set(&mut self, day: i64, amount: Option<f64>) {
        self.advance(day);
        self.now = amount;
        self.hold();
    }

    fn advance(&mut self, day: i64) {
        // Days that are not kept need not be gone through.
        self.day = self.day.max(day - DAYS_MAX as i64);
        while self.day < day {
            self.day += 1;
            self.hold();
        }
    }

    fn hold(&mut self) {
        let Some(now) = self.now else { return };
        match self.peaks.last_mut() {
            Some((day, peak)) if *day == self.day => *peak = peak.max(now),
            _ => self.peaks.push((self.day, now)),
        }
        if self.peaks.len() > DAYS_MAX {
            self.peaks.remove(0);
        }
    }

    fn finish(mut self, period: Period) -> Vec<(i64, f64)> {
        let last = period.to.since(period.from).nanoseconds() - 1;
        self.advance(last.max(0) / DAY);
        self.peaks
    }
}

/// In how many seconds a limit is reached by the trend of daily peaks (Theil-Sen: the median of the slopes between any
/// two), seen from the last one.
fn full_in(days: &[(i64, f64)], hard: f64) -> Option<u64> {
    const LONGEST: f64 = 10.0 * 365.0 * 86_400.0;
    let &(_, last) = days.last()?;
    if days.len() < DAYS_MIN {
        return None;
    }
    let later = |at: usize| days[at + 1..].iter();
    let slopes = days.iter().enumerate().flat_map(|(at, (day, peak))| {
        later(at).map(move |(later, other)| (other - peak) / (later - day) as f64)
    });
    let mut slopes: Vec<f64> = slopes.collect();
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    let slope = match slopes.len() % 2 {
        0 => f64::midpoint(slopes[middle - 1], slopes[middle]),
        _ => slopes[middle],
    };
    if slope <= 0.0 {
        return None;
    }
    let seconds = ((hard - last).max(0.0) / slope) * 86_400.0;
    (seconds <= LONGEST).then_some(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(resource: &str, hard: &str, amount: &str, headroom: u32) -> String {
        let [hard, amount] = [hard, amount].map(|text| text.parse().unwrap());
        rounded(resource, &hard, &amount, headroom).to_string()
    }

    #[test]
    fn suggestions_are_amounts_that_people_write() {
        assert_eq!(shown("pods", "100", "41", 20), "50");
        assert_eq!(shown("pods", "100", "0", 20), "0");
        assert_eq!(shown("requests.cpu", "10", "1234m", 0), "1300m");
        assert_eq!(shown("requests.cpu", "10", "2", 20), "2400m");
        assert_eq!(shown("limits.cpu", "100", "10100m", 0), "11");
        assert_eq!(shown("requests.memory", "10Gi", "1000Mi", 0), "1Gi");
        assert_eq!(shown("requests.memory", "10Gi", "1025Mi", 0), "1152Mi");
        assert_eq!(shown("requests.storage", "1Ti", "10241Mi", 0), "11Gi");
        assert_eq!(shown("requests.nvidia.com/gpu", "8", "3", 20), "4");
    }

    #[test]
    fn a_trend_needs_five_days_and_says_when_a_limit_is_reached() {
        let days = |peaks: &[f64]| (0..).zip(peaks.iter().copied()).collect::<Vec<_>>();
        assert_eq!(full_in(&days(&[1.0, 2.0, 3.0, 4.0]), 10.0), None);
        assert_eq!(full_in(&days(&[1.0, 2.0, 3.0, 4.0, 5.0]), 10.0), Some(5 * 86_400));
        // One outlier does not bend it.
        assert_eq!(full_in(&days(&[1.0, 2.0, 9.0, 4.0, 5.0]), 10.0), Some(5 * 86_400));
        assert_eq!(full_in(&days(&[5.0, 4.0, 3.0, 2.0, 1.0]), 10.0), None);
        assert_eq!(full_in(&days(&[5.0; 6]), 10.0), None);
        assert_eq!(full_in(&days(&[8.0, 9.0, 10.0, 11.0, 12.0]), 10.0), Some(0));
    }

    #[test]
    fn each_day_has_its_peak() {
        let mut days = Days::default();
        for (day, amount) in
            [(0, Some(1.0)), (0, Some(4.0)), (0, Some(2.0)), (2, None), (4, Some(3.0))]
        {
            days.set(day, amount);
        }
        let to = Timestamp::EPOCH.plus(quota_semantics::Span::from_nanoseconds(6 * DAY));
        let peaks = days.finish(Period { from: Timestamp::EPOCH, to });
        assert_eq!(peaks, [(0, 4.0), (1, 2.0), (2, 2.0), (4, 3.0), (5, 3.0)]);
    }
}
