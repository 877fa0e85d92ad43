//! One number over one period.

use std::collections::BTreeMap;

use super::{Level, Moment, Period, nanoseconds};
use quota_semantics::{Timestamp, quantity::Quantity};

/// Parts of a whole that a percentile is given in.
const WHOLE: u128 = 10_000;

/// A share of time, for percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(u16);

impl Percentile {
    /// 95 %.
    pub const P95: Self = Self(9_500);
    /// All of the time: the maximum.
    pub const MAX: Self = Self(10_000);

    /// Hundredths of a percent, at most 10,000.
    #[must_use]
    pub fn of_basis_points(points: u16) -> Self {
        Self(points.min(10_000))
    }

    /// Hundredths of a percent.
    #[must_use]
    pub const fn basis_points(self) -> u16 {
        self.0
    }

    /// Whether a part of the time is more than what may lie above this percentile.
    fn is_exceeded(self, part: u64, whole: u64) -> bool {
        u128::from(part) * WHOLE > u128::from(whole) * (WHOLE - u128::from(self.0))
    }
}

/// The largest values of a number, and how long it had them: as many as percentiles from some share on need.
#[derive(Clone, Debug)]
pub struct Tail {
    lowest: Percentile,
    /// The longest time that may be measured.
    most: u64,
    /// Nanoseconds by value.
    values: BTreeMap<Quantity, u64>,
    /// The nanoseconds of all these values.
    kept: u64,
}

impl Tail {
    /// For percentiles from `lowest` on, of at most this many nanoseconds.
    #[must_use]
    pub fn new(lowest: Percentile, most: u64) -> Self {
        Self { lowest, most, values: BTreeMap::new(), kept: 0 }
    }

    /// The number had a value for some nanoseconds.
    pub fn hold(&mut self, value: &Quantity, nanoseconds: u64) {
        if self.is_above(value) {
            return;
        }
        match self.values.get_mut(value) {
            Some(time) => *time = time.saturating_add(nanoseconds),
            None => {
                self.values.insert(value.clone(), nanoseconds);
            }
        }
        self.kept = self.kept.saturating_add(nanoseconds);
        // What lies above the least value is too long already for it to be the percentile.
        while let Some(least) = self.values.first_entry()
            && let above = self.kept - *least.get()
            && self.lowest.is_exceeded(above, self.most)
        {
            least.remove();
            self.kept = above;
        }
    }

    /// How many values are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a value is too small to be kept.
    fn is_above(&self, value: &Quantity) -> bool {
        let least = self.values.first_key_value();
        least.is_some_and(|(least, _)| value < least)
            && self.lowest.is_exceeded(self.kept, self.most)
    }

    /// The least value that is not exceeded for longer than the share leaves of a time, which must not be longer than
    /// the time that may be measured. None, if nothing was measured, or for a share below the lowest.
    #[must_use]
    pub fn percentile(&self, share: Percentile, nanoseconds: u64) -> Option<&Quantity> {
        if share < self.lowest {
            return None;
        }
        let mut above = 0_u64;
        let mut found = None;
        for (value, time) in self.values.iter().rev() {
            if found.is_some() && share.is_exceeded(above, nanoseconds) {
                break;
            }
            found = Some(value);
            above = above.saturating_add(*time);
        }
        found
    }
}

/// The largest value, and the moment at which it was first reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The value.
    pub value: Quantity,
    /// Its entry and time: the beginning of the period, if the value is older.
    pub at: Moment,
}

/// The fold of one number over a period: feed it every change, in order.
#[derive(Clone, Debug)]
pub struct Meter {
    period: Period,
    since: Moment,
    level: Option<Level>,
    /// Up to when each amount of the level is part of its integral: an amount is integrated once it changes.
    integrated: Integrated,
    measure: Measure,
}

#[derive(Clone, Copy, Debug)]
struct Integrated {
    used: Timestamp,
    reserved: Timestamp,
    hard: Timestamp,
}

/// What one number was over a period. Integrals are in units times nanoseconds: see [`unit_hours`](super::unit_hours).
#[derive(Clone, Debug)]
pub struct Measure {
    /// The nanoseconds in which there was such a number.
    pub nanoseconds: u64,
    /// The integral of `used`.
    pub used: Quantity,
    /// The integral of `reserved`.
    pub reserved: Quantity,
    /// The integral of `hard`.
    pub hard: Quantity,
    /// The nanoseconds in which there was a limit.
    pub limited: u64,
    /// The nanoseconds in which it was full, summed up over its limits.
    pub full: u128,
    /// The least of `used + reserved`.
    pub least: Option<Quantity>,
    /// The largest of `used + reserved`.
    pub peak: Option<Peak>,
    /// The largest values of `used + reserved`, for percentiles.
    pub tail: Tail,
    /// What it was at the end; none: there was no such number.
    pub last: Option<Level>,
}

impl Meter {
    /// A meter for a period, for percentiles from `lowest` on.
    #[must_use]
    pub fn new(period: Period, lowest: Percentile) -> Self {
        Self {
            period,
            since: Moment { time: period.from, sequence: 0 },
            level: None,
            integrated: Integrated { used: period.from, reserved: period.from, hard: period.from },
            measure: Measure {
                nanoseconds: 0,
                used: Quantity::ZERO,
                reserved: Quantity::ZERO,
                hard: Quantity::ZERO,
                limited: 0,
                full: 0,
                least: None,
                peak: None,
                tail: Tail::new(lowest, period.nanoseconds()),
                last: None,
            },
        }
    }

    /// From this moment on the number has this level; none: there is no such number. What was before the period holds
    /// at its beginning; what is behind it is ignored.
    pub fn set(&mut self, at: Moment, level: Option<Level>) {
        if at.time >= self.period.to && at.time > self.period.from {
            return;
        }
        self.hold(at.time);
        let time = at.time.max(self.period.from);
        self.integrate(time, level.as_ref());
        self.since = Moment { time, ..at };
        self.level = level;
    }

    /// Integrates the amounts that are others from now on.
    fn integrate(&mut self, now: Timestamp, next: Option<&Level>) {
        let (last, measure) = (self.level.as_ref(), &mut self.measure);
        let amount =
            |of: fn(&Level) -> &Quantity, integral: &mut Quantity, since: &mut Timestamp| {
                if last.map(of) == next.map(of) {
                    return;
                }
                if let Some(last) = last {
                    integrate(integral, of(last), nanoseconds(*since, now));
                }
                *since = now;
            };
        let since = &mut self.integrated;
        amount(|level| &level.used, &mut measure.used, &mut since.used);
        amount(|level| &level.reserved, &mut measure.reserved, &mut since.reserved);
        amount(|level| &level.hard, &mut measure.hard, &mut since.hard);
    }

    /// The present level.
    #[must_use]
    pub const fn level(&self) -> Option<&Level> {
        self.level.as_ref()
    }

    fn hold(&mut self, until: Timestamp) {
        let nanoseconds = nanoseconds(self.since.time, until);
        if nanoseconds == 0 {
            return;
        }
        let Some(level) = &self.level else {
            return;
        };
        let measure = &mut self.measure;
        measure.nanoseconds += nanoseconds;
        if level.limits > 0 {
            measure.limited += nanoseconds;
        }
        measure.full += u128::from(level.full) * u128::from(nanoseconds);
        let demand = level.demand();
        if measure.least.as_ref().is_none_or(|least| demand < *least) {
            measure.least = Some(demand.clone());
        }
        measure.tail.hold(&demand, nanoseconds);
        if measure.peak.as_ref().is_none_or(|peak| demand > peak.value) {
            measure.peak = Some(Peak { value: demand, at: self.since });
        }
    }

    /// The result at the end of the period.
    #[must_use]
    pub fn finish(mut self) -> Measure {
        self.hold(self.period.to);
        self.integrate(self.period.to, None);
        self.measure.last = self.level;
        self.measure
    }
}

/// Adds an amount that held for some nanoseconds.
pub(super) fn integrate(integral: &mut Quantity, amount: &Quantity, nanoseconds: u64) {
    if !amount.is_zero() {
        integral.add_assign(&amount.times(nanoseconds));
    }
}

impl Measure {
    /// The mean of `used + reserved` over this many nanoseconds: those of the period, or those in which there was such a
    /// number.
    #[must_use]
    pub fn mean(&self, nanoseconds: u64) -> Quantity {
        let mut demand = self.used.clone();
        demand.add_assign(&self.reserved);
        demand.divided(nanoseconds)
    }

    /// A percentile of `used + reserved` over the time in which there was such a number.
    #[must_use]
    pub fn percentile(&self, share: Percentile) -> Option<&Quantity> {
        self.tail.percentile(share, self.nanoseconds)
    }
}
