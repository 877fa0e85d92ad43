//! One number over one period.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{Level, Moment, Period, Step, nanoseconds};
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
    /// The nanoseconds that may lie above the lowest percentile.
    above: u64,
    /// The least value that is kept, and its nanoseconds: of most numbers it is the only one.
    least: Option<(Quantity, u64)>,
    /// Nanoseconds by value, of all larger ones.
    larger: BTreeMap<Quantity, u64>,
    /// The nanoseconds of all these values.
    kept: u64,
}

impl Tail {
    /// For percentiles from `lowest` on, of at most this many nanoseconds.
    #[must_use]
    pub fn new(lowest: Percentile, most: u64) -> Self {
        let above = u128::from(most) * (WHOLE - u128::from(lowest.0)) / WHOLE;
        let above = u64::try_from(above).unwrap_or(u64::MAX);
        Self { lowest, above, least: None, larger: BTreeMap::new(), kept: 0 }
    }

    /// The number had a value for some nanoseconds.
    pub fn hold(&mut self, value: &Quantity, nanoseconds: u64) {
        let order = self.least.as_ref().map(|(least, _)| value.cmp(least));
        match (order, &mut self.least) {
            (Some(Ordering::Equal), Some((_, time))) => *time = time.saturating_add(nanoseconds),
            (Some(Ordering::Greater), _) => match self.larger.get_mut(value) {
                Some(time) => *time = time.saturating_add(nanoseconds),
                None => {
                    self.larger.insert(value.clone(), nanoseconds);
                }
            },
            // The time above it is too long already for it to be the percentile.
            (Some(Ordering::Less), _) if self.kept > self.above => return,
            _ => {
                let least = self.least.replace((value.clone(), nanoseconds));
                self.larger.extend(least);
            }
        }
        self.kept = self.kept.saturating_add(nanoseconds);
        while let Some((_, time)) = &self.least
            && let above = self.kept - time
            && above > self.above
        {
            self.least = self.larger.pop_first();
            self.kept = above;
            if self.larger.is_empty() {
                self.larger = BTreeMap::new();
            }
        }
    }

    /// How many values are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.larger.len() + usize::from(self.least.is_some())
    }

    /// Whether nothing was measured.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.least.is_none()
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
        let least = self.least.iter().map(|(value, time)| (value, time));
        for (value, time) in self.larger.iter().rev().chain(least) {
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
    /// The moment from which `used + reserved` and the limits are what they are now.
    since: Moment,
    demand: Quantity,
    /// Up to when each amount of the level is part of its integral: an amount is integrated once it changes.
    integrated: Integrated,
    /// Its last level is the present one.
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
            demand: Quantity::ZERO,
            integrated: Integrated { used: period.from, reserved: period.from, hard: period.from },
            measure: Measure {
                nanoseconds: 0,
                used: Quantity::ZERO,
                reserved: Quantity::ZERO,
                hard: Quantity::ZERO,
                limited: 0,
                full: 0,
                peak: None,
                tail: Tail::new(lowest, period.nanoseconds()),
                last: None,
            },
        }
    }

    /// From this moment on the number has this level; none: there is no such number. What was before the period holds
    /// at its beginning; what is behind it is ignored.
    pub fn set(&mut self, at: Moment, level: Option<Level>) {
        let Some(at) = self.within(at) else { return };
        self.hold(at.time);
        self.integrate(at.time, level.as_ref());
        self.since = at;
        self.demand = level.as_ref().map(Level::demand).unwrap_or_default();
        self.measure.last = level;
    }

    /// From this moment on a part of the number has another level. As [`set`](Self::set); if there is no such number,
    /// it begins with nothing but this part.
    pub fn shift(&mut self, at: Moment, step: &Step) {
        let Some(at) = self.within(at) else { return };
        let is_new = self.measure.last.is_none();
        let mut more = step.used.clone();
        more.add_assign(&step.reserved);
        let is_same = more.is_zero() && (step.limits, step.full) == (0, 0) && !is_new;
        if !is_same {
            self.hold(at.time);
            self.demand.add_assign(&more);
        }
        // What lasts for no time never began.
        if !is_same || at.time == self.since.time {
            self.since = at;
        }
        let (measure, since) = (&mut self.measure, &mut self.integrated);
        let level = measure.last.get_or_insert(Level::ZERO);
        let shift = |amount: &mut Quantity,
                     integral: &mut Quantity,
                     since: &mut Timestamp,
                     by: &Quantity| {
            if !by.is_zero() {
                integrate(integral, amount, nanoseconds(*since, at.time));
                *since = at.time;
                amount.add_assign(by);
            }
        };
        shift(&mut level.used, &mut measure.used, &mut since.used, &step.used);
        shift(&mut level.reserved, &mut measure.reserved, &mut since.reserved, &step.reserved);
        shift(&mut level.hard, &mut measure.hard, &mut since.hard, &step.hard);
        level.limits = level.limits.saturating_add_signed(step.limits);
        level.full = level.full.saturating_add_signed(step.full);
    }

    /// A moment as it counts; none: it is behind the period.
    fn within(&self, at: Moment) -> Option<Moment> {
        let is_behind = at.time >= self.period.to && at.time > self.period.from;
        (!is_behind).then(|| Moment { time: at.time.max(self.period.from), ..at })
    }

    /// Integrates the amounts that are others from now on.
    fn integrate(&mut self, now: Timestamp, next: Option<&Level>) {
        let Measure { used, reserved, hard, last, .. } = &mut self.measure;
        let last = last.as_ref();
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
        amount(|level| &level.used, used, &mut since.used);
        amount(|level| &level.reserved, reserved, &mut since.reserved);
        amount(|level| &level.hard, hard, &mut since.hard);
    }

    fn hold(&mut self, until: Timestamp) {
        let nanoseconds = nanoseconds(self.since.time, until);
        if nanoseconds == 0 {
            return;
        }
        let Some(level) = &self.measure.last else {
            return;
        };
        let (limits, full) = (level.limits, level.full);
        let measure = &mut self.measure;
        measure.nanoseconds += nanoseconds;
        if limits > 0 {
            measure.limited += nanoseconds;
            measure.full += u128::from(full) * u128::from(nanoseconds);
        }
        measure.tail.hold(&self.demand, nanoseconds);
        if measure.peak.as_ref().is_none_or(|peak| self.demand > peak.value) {
            measure.peak = Some(Peak { value: self.demand.clone(), at: self.since });
        }
    }

    /// The result at the end of the period.
    #[must_use]
    pub fn finish(mut self) -> Measure {
        self.hold(self.period.to);
        self.integrate(self.period.to, None);
        self.measure
    }
}

/// Adds an amount that held for some nanoseconds.
pub(super) fn integrate(integral: &mut Quantity, amount: &Quantity, nanoseconds: u64) {
    if !amount.is_zero() {
        integral.add_times(amount, nanoseconds);
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
