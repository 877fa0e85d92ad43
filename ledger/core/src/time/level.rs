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
