//! The amounts of a number at one moment.

use super::integral::Integral;
use quota_semantics::quantity::{Format, Quantity};

/// The amounts that count in a limit, a namespace, or several of them, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond that.
    pub reserved: Quantity,
    /// The sum of the limits; zero without any.
    pub hard: Quantity,
    /// How many limits there are.
    pub limits: u64,
    /// How many of them are full: `used + reserved >= hard`.
    pub full: u64,
}

impl Level {
    /// No amounts and no limits.
    pub const ZERO: Self = Self {
        used: Quantity::ZERO,
        reserved: Quantity::ZERO,
        hard: Quantity::ZERO,
        limits: 0,
        full: 0,
    };

    /// Amounts and their limit, if there is one.
    #[must_use]
    pub fn new(used: Quantity, reserved: Quantity, hard: Option<Quantity>) -> Self {
        let mut level = Self { used, reserved, ..Self::default() };
        if let Some(hard) = hard {
            level.full = u64::from(level.demand() >= hard);
            level.limits = 1;
            level.hard = hard;
        }
        level
    }

    /// `used + reserved`.
    #[must_use]
    #[inline]
    pub fn demand(&self) -> Quantity {
        let mut demand = self.used.clone();
        demand.add_assign(&self.reserved);
        demand
    }

    /// Takes a step of one of its parts.
    #[inline]
    pub(super) fn take(&mut self, step: &Step<impl Amount>) {
        step.used.add_to(&mut self.used);
        step.reserved.add_to(&mut self.reserved);
    }

    pub(super) fn take_limit(&mut self, step: &LimitStep) {
        self.hard.add_assign(&step.hard);
        self.limits = self.limits.saturating_add_signed(step.limits);
        self.full = self.full.saturating_add_signed(step.full);
    }

    /// The sum of the limits, if there are any.
    #[must_use]
    pub fn limit(&self) -> Option<&Quantity> {
        (self.limits > 0).then_some(&self.hard)
    }
}

/// An amount by which another one changes.
pub(super) trait Amount: Clone {
    fn is_zero(&self) -> bool;
    fn add_to(&self, amount: &mut Quantity);
    fn integrate(&self, integral: &mut Integral, nanoseconds: u64);
}

impl Amount for Quantity {
    fn is_zero(&self) -> bool {
        Self::is_zero(self)
    }

    fn add_to(&self, amount: &mut Quantity) {
        amount.add_assign(self);
    }

    fn integrate(&self, integral: &mut Integral, nanoseconds: u64) {
        integral.add(self, nanoseconds);
    }
}

/// An amount in billionths, and the format in which it is written. Nearly all amounts fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nanos(i128, Format);

impl Amount for Nanos {
    #[inline]
    fn is_zero(&self) -> bool {
        self.0 == 0
    }

    #[inline]
    fn add_to(&self, amount: &mut Quantity) {
        if self.0 != 0 {
            amount.add_nanos(self.0, self.1);
        }
    }

    #[inline]
    fn integrate(&self, integral: &mut Integral, nanoseconds: u64) {
        integral.add_nanos(self.0, nanoseconds);
    }
}

/// The difference between the amounts of two levels of a part of a number.
#[derive(Clone, Debug)]
pub(super) struct Step<A> {
    pub(super) used: A,
    pub(super) reserved: A,
    /// Both together.
    pub(super) demand: A,
}

/// The difference between their limits.
#[derive(Clone, Debug)]
pub(super) struct LimitStep {
    pub(super) hard: Quantity,
    pub(super) limits: i64,
    pub(super) full: i64,
}

impl<A: Amount> Step<A> {
    /// Whether it changes anything.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !(self.used.is_zero() && self.reserved.is_zero())
    }
}

impl Step<Quantity> {
    /// From one level to another.
    pub(super) fn between(before: &Level, after: &Level) -> Self {
        let used = difference(&before.used, &after.used);
        Self::of(used, difference(&before.reserved, &after.reserved))
    }

    pub(super) fn of(used: Quantity, reserved: Quantity) -> Self {
        let mut demand = used.clone();
        demand.add_assign(&reserved);
        Self { used, reserved, demand }
    }
}

impl Step<Nanos> {
    /// From a level to other amounts; none, if they do not fit.
    #[inline]
    pub(super) fn to(before: &Level, used: &Quantity, reserved: &Quantity) -> Option<Self> {
        let by = |before: &Quantity, after: &Quantity| {
            let by = after.nanos()?.checked_sub(before.nanos()?)?;
            Some(Nanos(by, after.format()))
        };
        let (used, reserved) = (by(&before.used, used)?, by(&before.reserved, reserved)?);
        let format = if used.0 == 0 { reserved.1 } else { used.1 };
        Some(Self { used, reserved, demand: Nanos(used.0.checked_add(reserved.0)?, format) })
    }
}

impl LimitStep {
    /// From one level to another; none: they are the same.
    pub(super) fn between(before: &Level, after: &Level) -> Option<Self> {
        let is_same =
            (before.limits, before.full) == (after.limits, after.full) && before.hard == after.hard;
        (!is_same).then(|| Self {
            hard: difference(&before.hard, &after.hard),
            limits: after.limits.wrapping_sub(before.limits).cast_signed(),
            full: after.full.wrapping_sub(before.full).cast_signed(),
        })
    }
}

fn difference(before: &Quantity, after: &Quantity) -> Quantity {
    let mut more = after.clone();
    more.sub_assign(before);
    more
}
