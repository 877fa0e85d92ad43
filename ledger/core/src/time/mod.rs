//! Time: what a number was over a period.
//!
//! A number is a step function of ledger time: at each time it has the value after the last entry that is not later.
//! So values between two entries of the same time, which lasted for no time, are none. A period is `[from, to)`: it
//! begins with the value at `from`, and ends right before `to`. Minimum, maximum, mean, percentiles and integral
//! follow from the entries alone, exactly: amounts are exact decimals, and integrals are amounts times nanoseconds.
//!
//! - [`Tracker`] follows the state and reports each change of a number, at a cost that grows with the numbers that an
//!   entry may change, not with those of the ledger.
//! - [`Meter`] folds the changes of one number over a period.
//! - [`Buckets`] folds them over equal parts of a period.
//! - [`report`] folds all numbers of a period to rows.

mod buckets;
mod integral;
mod level;
mod meter;
pub mod report;
#[cfg(test)]
mod tests;
mod tracker;

pub use buckets::{Bucket, Buckets, Summary, Values};
pub use level::Level;
use level::{Amount, LimitStep, Step};
use meter::{Gauge, Now};
pub use meter::{Measure, Meter, Peak, Percentile, Tail};
pub use tracker::{Changes, Key, Names, Subject, Tracker, Wanted};

use crate::event::Sequence;
use quota_semantics::{Timestamp, quantity::Quantity};

/// A part of ledger time: from a time on, up to and without another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment behind it.
    pub to: Timestamp,
}

impl Period {
    /// Its length in nanoseconds; 0 if it ends before it begins.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        nanoseconds(self.from, self.to)
    }
}

/// The entry with which a value began, and its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub time: Timestamp,
    /// The entry.
    pub sequence: Sequence,
}

/// Nanoseconds from one time to another; 0 if that is earlier.
#[inline]
fn nanoseconds(from: Timestamp, to: Timestamp) -> u64 {
    match to > from {
        true => to.nanoseconds().wrapping_sub(from.nanoseconds()).cast_unsigned(),
        false => 0,
    }
}

/// Nanoseconds of an hour.
const HOUR: u64 = 3_600_000_000_000;

/// An integral in unit-hours, rounded to a billionth.
#[must_use]
pub fn unit_hours(integral: &Quantity) -> Quantity {
    integral.divided(HOUR)
}
