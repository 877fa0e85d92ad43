//! The parts of a quantity, for storage and codecs: its number and the suffix family.
//!
//! Any parts make a quantity. Those of a canonical quantity make exactly the same one again.

use std::sync::Arc;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{
    Format, NANOS, Quantity, Rare,
    number::{self, Number},
};

impl Quantity {
    /// The number as digits without trailing groups of three zeros, and a power of ten from -9 on. None for the few
    /// numbers with more digits.
    #[inline]
    pub fn scaled(&self) -> Option<(i64, i8)> {
        let (digits, thousands) = match (&self.rare, i64::try_from(self.nanos)) {
            (None, Ok(word)) => number::word_without_thousands(word),
            _ => self.long_without_thousands()?,
        };
        match digits {
            0 => Some((0, 0)),
            _ => Some((digits, (3 * thousands).cast_signed() - 9)),
        }
    }

    #[cold]
    #[inline(never)]
    fn long_without_thousands(&self) -> Option<(i64, u8)> {
        let Number::Small(nanos) = self.number() else {
            return None;
        };
        let (digits, thousands) = number::without_thousands(nanos);
        Some((digits.to_i64()?, thousands))
    }

    /// The number `digits * 10^power`. A fraction below a billionth is rounded away from zero.
    #[inline]
    pub fn from_scaled(digits: i64, power: i8, format: Format) -> Self {
        let exponent = i32::from(power) + 9;
        // Nearly all numbers need no rounding and no large number.
        let near = usize::try_from(exponent).ok().and_then(|exponent| POWERS.get(exponent));
        let (nanos, rare) = match near {
            Some(power) => (i128::from(digits) * i128::from(*power), None),
            None => Self::far_scaled(digits, exponent),
        };
        Self { nanos, format, rare }
    }

    #[cold]
    #[inline(never)]
    fn far_scaled(digits: i64, exponent: i32) -> (i128, Option<Arc<Rare>>) {
        let number = number::scaled(&Number::Small(digits.into()), 0, exponent.into());
        let Self { nanos, rare, .. } = Self::from_number(number, Format::Unset, None);
        (nanos, rare)
    }

    /// The number in billionths, as the bytes of a two's complement integer, least significant first.
    pub fn nanos_bytes(&self) -> Vec<u8> {
        self.number().to_big().to_signed_bytes_le()
    }

    /// The number in billionths; none if it does not fit.
    #[inline]
    pub fn nanos(&self) -> Option<i128> {
        match &self.rare {
            None => Some(self.nanos),
            Some(_) => match self.number() {
                Number::Small(nanos) => Some(nanos),
                Number::Large(_) => None,
            },
        }
    }

    /// Adds a number in billionths, with the family rules of [`Quantity::add_assign`].
    #[inline]
    pub fn add_nanos(&mut self, nanos: i128, format: Format) {
        self.add_assign(&Self { nanos, format, rare: None });
    }

    /// The number of [`Self::nanos_bytes`].
    pub fn from_nanos_bytes(bytes: &[u8], format: Format) -> Self {
        let number = Number::fit(BigInt::from_signed_bytes_le(bytes));
        Self::from_number(number, format, None)
    }

    /// The text that it was parsed from, if Kubernetes keeps that and it is not canonical.
    pub fn spelling(&self) -> Option<&str> {
        self.rare.as_ref()?.spelling.as_deref()
    }
}

/// The powers of ten that fit a machine word.
const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

/// The decimal suffixes from 10^-9 on, each a thousand times the one before.
pub(super) const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The binary suffixes from 1 on, each 1024 times the one before.
pub(super) const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The largest number that can be written with a binary suffix, in billionths.
pub(super) const BINARY_CAP: i128 = i64::MAX as i128 * NANOS;
