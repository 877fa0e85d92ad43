//! The amounts of a number at one moment.

use quota_semantics::quantity::Quantity;

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
    pub fn demand(&self) -> Quantity {
        let mut demand = self.used.clone();
        demand.add_assign(&self.reserved);
        demand
    }

    /// The sum of the limits, if there are any.
    #[must_use]
    pub fn limit(&self) -> Option<&Quantity> {
        (self.limits > 0).then_some(&self.hard)
    }
}

/// The difference between two levels of a part of a number.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) used: Quantity,
    pub(super) reserved: Quantity,
    pub(super) hard: Quantity,
    pub(super) limits: i64,
    pub(super) full: i64,
}

impl Step {
    /// From one level to another.
    #[must_use]
    pub fn between(before: &Level, after: &Level) -> Self {
        let amounts = |before: &Quantity, after: &Quantity| {
            let mut more = after.clone();
            more.sub_assign(before);
            more
        };
        Self {
            used: amounts(&before.used, &after.used),
            reserved: amounts(&before.reserved, &after.reserved),
            hard: amounts(&before.hard, &after.hard),
            limits: after.limits.wrapping_sub(before.limits).cast_signed(),
            full: after.full.wrapping_sub(before.full).cast_signed(),
        }
    }

    /// The same without limits.
    pub(super) fn of_amounts(used: Quantity, reserved: Quantity) -> Self {
        Self { used, reserved, hard: Quantity::ZERO, limits: 0, full: 0 }
    }
}
