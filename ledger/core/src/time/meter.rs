//! One number over one period.

use std::{cmp::Ordering, collections::BTreeMap};

use super::{
    Level, Moment, Period,
    integral::Integral,
    level::{Amount, LimitStep, Step},
    nanoseconds,
};
use quota_semantics::quantity::Quantity;

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
    larger: Larger,
    /// The nanoseconds of all these values.
    kept: u64,
}

/// Most values that are searched one by one.
const FEW: usize = 16;

/// Values and their nanoseconds.
#[derive(Clone, Debug)]
enum Larger {
    /// The largest first.
    Few(Vec<(Quantity, u64)>),
    Many(BTreeMap<Quantity, u64>),
}

impl Larger {
    fn add(&mut self, value: &Quantity, nanoseconds: u64) {
        match self {
            Self::Few(few) => {
                let place = few.iter().position(|(other, _)| other <= value);
                let place = place.unwrap_or(few.len());
                if let Some((other, time)) = few.get_mut(place)
                    && other == value
                {
                    *time = time.saturating_add(nanoseconds);
                } else if few.len() < FEW {
                    if few.len() == few.capacity() {
                        few.reserve_exact(few.len().max(1));
                    }
                    few.insert(place, (value.clone(), nanoseconds));
                } else {
                    let mut many: BTreeMap<_, _> = few.drain(..).collect();
                    many.insert(value.clone(), nanoseconds);
                    *self = Self::Many(many);
                }
            }
            Self::Many(many) => {
                let time = many.entry(value.clone()).or_default();
                *time = time.saturating_add(nanoseconds);
            }
        }
    }

    /// Takes the least one.
    fn pop(&mut self) -> Option<(Quantity, u64)> {
        match self {
            Self::Few(few) => few.pop(),
            Self::Many(many) => {
                let popped = many.pop_first();
                if many.is_empty() {
                    *self = Self::Few(Vec::new());
                }
                popped
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    /// All of them, the largest first.
    fn iter(&self) -> impl Iterator<Item = (&Quantity, u64)> {
        let (few, many) = match self {
            Self::Few(few) => (Some(few), None),
            Self::Many(many) => (None, Some(many)),
        };
        let few = few.into_iter().flatten().map(|(value, time)| (value, *time));
        let many = many.into_iter().flat_map(|many| many.iter().rev());
        few.chain(many.map(|(value, time)| (value, *time)))
    }
}

impl Tail {
    /// For percentiles from `lowest` on, of at most this many nanoseconds.
    #[must_use]
    pub fn new(lowest: Percentile, most: u64) -> Self {
        let above = u128::from(most) * (WHOLE - u128::from(lowest.0)) / WHOLE;
        let above = u64::try_from(above).unwrap_or(u64::MAX);
        Self { lowest, above, least: None, larger: Larger::Few(Vec::new()), kept: 0 }
    }

    /// The number had a value for some nanoseconds.
    #[inline]
    pub fn hold(&mut self, value: &Quantity, nanoseconds: u64) {
        let order = self.least.as_ref().map(|(least, _)| value.cmp(least));
        match (order, &mut self.least) {
            (Some(Ordering::Equal), Some((_, time))) => *time = time.saturating_add(nanoseconds),
            (Some(Ordering::Greater), _) => self.larger.add(value, nanoseconds),
            // The time above it is too long already for it to be the percentile.
            (Some(Ordering::Less), _) if self.kept > self.above => return,
            _ => {
                if let Some((least, time)) = self.least.replace((value.clone(), nanoseconds)) {
                    self.larger.add(&least, time);
                }
            }
        }
        self.kept = self.kept.saturating_add(nanoseconds);
        while let Some((_, time)) = &self.least
            && let above = self.kept - time
            && above > self.above
        {
            self.least = self.larger.pop();
            self.kept = above;
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
        let least = self.least.iter().map(|(value, time)| (value, *time));
        for (value, time) in self.larger.iter().chain(least) {
            if found.is_some() && share.is_exceeded(above, nanoseconds) {
                break;
            }
            found = Some(value);
            above = above.saturating_add(time);
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
    level: Option<Level>,
    gauge: Gauge,
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

/// What a meter has measured. A change from some moment on changes an integral by its amount times what remains of the
/// period: so it need not be known since when the number has each of its amounts.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    /// `used + reserved`, and the moment from which it is that.
    demand: Quantity,
    since: Moment,
    used: Integral,
    reserved: Integral,
    hard: Integral,
    nanoseconds: u64,
    limited: u64,
    full: u128,
    peak: Option<Peak>,
    tail: Tail,
}

/// A moment of a period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    at: Moment,
    /// The nanoseconds from then to the end.
    remaining: u64,
}

impl Now {
    /// A moment as it counts in a period: what was before holds at its beginning. None: it is behind the period.
    pub(super) fn in_period(period: Period, at: Moment) -> Option<Self> {
        let is_behind = at.time >= period.to && at.time > period.from;
        let time = at.time.max(period.from);
        (!is_behind)
            .then(|| Self { at: Moment { time, ..at }, remaining: nanoseconds(time, period.to) })
    }
}

impl Meter {
    /// A meter for a period, for percentiles from `lowest` on.
    #[must_use]
    pub fn new(period: Period, lowest: Percentile) -> Self {
        Self { period, level: None, gauge: Gauge::new(period, lowest) }
    }

    /// From this moment on the number has this level; none: there is no such number. What was before the period holds
    /// at its beginning; what is behind it is ignored.
    pub fn set(&mut self, at: Moment, level: Option<Level>) {
        let Some(now) = Now::in_period(self.period, at) else { return };
        match (&mut self.level, level) {
            (Some(before), Some(after)) => {
                self.gauge.set(before, now, &after);
                *before = after;
            }
            (None, Some(after)) => {
                self.gauge.begin(now, &after);
                self.level = Some(after);
            }
            (before, None) => {
                if let Some(before) = before.take() {
                    self.gauge.end(now, before);
                }
            }
        }
    }

    /// The result at the end of the period.
    #[must_use]
    pub fn finish(self) -> Measure {
        self.gauge.finish(self.period, self.level)
    }
}

impl Gauge {
    pub(super) fn new(period: Period, lowest: Percentile) -> Self {
        Self {
            demand: Quantity::ZERO,
            since: Moment { time: period.from, sequence: 0 },
            used: Integral::default(),
            reserved: Integral::default(),
            hard: Integral::default(),
            nanoseconds: 0,
            limited: 0,
            full: 0,
            peak: None,
            tail: Tail::new(lowest, period.nanoseconds()),
        }
    }

    /// The same of a number that is zero at the beginning.
    pub(super) fn of_nothing(period: Period, lowest: Percentile) -> Self {
        Self { nanoseconds: period.nanoseconds(), ..Self::new(period, lowest) }
    }

    /// There is such a number from now on.
    fn begin(&mut self, now: Now, level: &Level) {
        self.nanoseconds += now.remaining;
        self.since = now.at;
        self.set(&mut Level::default(), now, level);
    }

    /// There is no such number from now on.
    fn end(&mut self, now: Now, mut level: Level) {
        self.pass(now.at);
        self.nanoseconds -= now.remaining;
        self.set(&mut level, now, &Level::ZERO);
    }

    /// From now on the number has another level.
    fn set(&mut self, level: &mut Level, now: Now, after: &Level) {
        let step = Step::between(level, after);
        if let Some(step) = LimitStep::between(level, after) {
            self.shift_limit(level, now, &step);
        }
        self.shift(level, now, &step);
    }

    /// From now on a part of the number has other amounts. `level` is what all of it has.
    #[inline]
    pub(super) fn shift(&mut self, level: &mut Level, now: Now, step: &Step<impl Amount>) {
        self.shift_demand(now, &step.demand);
        if !step.used.is_zero() {
            step.used.integrate(&mut self.used, now.remaining);
        }
        if !step.reserved.is_zero() {
            step.reserved.integrate(&mut self.reserved, now.remaining);
        }
        level.take(step);
    }

    /// The same without the amounts themselves, which are [added](Self::add) later.
    #[inline]
    pub(super) fn shift_demand(&mut self, now: Now, by: &impl Amount) {
        if !by.is_zero() {
            self.pass(now.at);
            by.add_to(&mut self.demand);
        } else if now.at.time == self.since.time {
            // What lasts for no time never began.
            self.since = now.at;
        }
    }

    /// Adds the amounts that a part of the number has had.
    pub(super) fn add(&mut self, part: &Self) {
        self.used.add_all(&part.used);
        self.reserved.add_all(&part.reserved);
    }

    /// From now on a part of the number has another limit.
    pub(super) fn shift_limit(&mut self, level: &mut Level, now: Now, step: &LimitStep) {
        if now.at.time == self.since.time {
            self.since = now.at;
        }
        let was_limited = level.limits > 0;
        level.take_limit(step);
        match (was_limited, level.limits > 0) {
            (false, true) => self.limited += now.remaining,
            (true, false) => self.limited -= now.remaining,
            _ => {}
        }
        self.hard.add(&step.hard, now.remaining);
        let full = i128::from(step.full) * i128::from(now.remaining);
        self.full = self.full.wrapping_add_signed(full);
    }

    /// The number was the same up to a moment, from which it is another one.
    #[inline]
    fn pass(&mut self, at: Moment) {
        let passed = nanoseconds(self.since.time, at.time);
        if passed > 0 {
            self.tail.hold(&self.demand, passed);
            if self.peak.as_ref().is_none_or(|peak| self.demand > peak.value) {
                self.peak = Some(Peak { value: self.demand.clone(), at: self.since });
            }
        }
        self.since = at;
    }

    /// The result at the end of the period. `level`: that since the last change.
    pub(super) fn finish(mut self, period: Period, level: Option<Level>) -> Measure {
        if level.is_some() {
            self.pass(Moment { time: period.to, sequence: 0 });
        }
        Measure {
            nanoseconds: self.nanoseconds,
            used: self.used.finish(),
            reserved: self.reserved.finish(),
            hard: self.hard.finish(),
            limited: self.limited,
            full: self.full,
            peak: self.peak,
            tail: self.tail,
            last: level,
        }
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
