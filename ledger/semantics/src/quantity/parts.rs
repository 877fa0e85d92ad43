//! A quantity as plain data, for storage and codecs.

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use super::{
    Format, Quantity,
    number::{self, Number},
};

/// The parts of a quantity: the number, the suffix family, and a spelling if it has to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The number.
    pub mantissa: Mantissa,
    /// The suffix family.
    pub format: Format,
    /// The text that it was parsed from, if that is not canonical.
    pub spelling: Option<String>,
}

/// The number of a quantity, in the smaller of two forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mantissa {
    /// `digits * 10^power`: nearly all numbers.
    Scaled {
        /// The digits, without trailing groups of three zeros.
        digits: i64,
        /// The power of ten, from -9 on.
        power: i8,
    },
    /// Billionths, as the bytes of a two's complement integer, least significant first.
    Nanos(Vec<u8>),
}

impl Quantity {
    /// Returns the parts. [`Quantity::from_parts`] restores exactly the same quantity.
    #[must_use]
    pub fn to_parts(&self) -> Parts {
        let mantissa = match self.number() {
            Number::Small(nanos) => scaled(nanos),
            Number::Large(_) => None,
        };
        let mantissa = mantissa.map(|(digits, power)| Mantissa::Scaled { digits, power });
        Parts {
            mantissa: mantissa
                .unwrap_or_else(|| Mantissa::Nanos(self.number().to_big().to_signed_bytes_le())),
            format: self.format(),
            spelling: self.spelling().map(str::to_owned),
        }
    }

    /// The digits and the power of ten of [`Mantissa::Scaled`], if there are no other parts except the family.
    #[must_use]
    pub fn decimal(&self) -> Option<(i64, i8)> {
        match self.rare {
            None => scaled(self.nanos),
            Some(_) => None,
        }
    }

    /// The quantity of [`Self::decimal`], if it needs no rounding and no large number.
    #[must_use]
    pub fn from_decimal(digits: i64, power: i8, format: Format) -> Option<Self> {
        let exponent = u32::try_from(i32::from(power) + 9).ok()?;
        let power = 10_i64.checked_pow(exponent)?;
        Some(Self {
            nanos: i128::from(digits).checked_mul(power.into())?,
            format,
            rare: None,
        })
    }

    /// Makes a quantity from parts. Any parts are valid: a fraction below a billionth is rounded away from zero, and a
    /// spelling that does not parse to the number is dropped.
    #[must_use]
    pub fn from_parts(parts: Parts) -> Self {
        let number = match parts.mantissa {
            Mantissa::Scaled { digits, power } => {
                number::scaled(&Number::Small(digits.into()), 0, i64::from(power) + 9)
            }
            Mantissa::Nanos(bytes) => Number::fit(BigInt::from_signed_bytes_le(&bytes)),
        };
        let plain = Self::from_number(number, parts.format, None);
        match parts.spelling.map(|spelling| spelling.parse::<Self>()) {
            Some(Ok(spelled)) if spelled == plain && spelled.format() == plain.format() => spelled,
            _ => plain,
        }
    }
}

fn scaled(nanos: i128) -> Option<(i64, i8)> {
    let (digits, thousands) = match i64::try_from(nanos) {
        Ok(word) => number::word_without_thousands(word),
        Err(_) => {
            let (digits, thousands) = number::without_thousands(nanos);
            (digits.to_i64()?, thousands)
        }
    };
    match digits {
        0 => Some((0, 0)),
        _ => Some((digits, i8::try_from(3 * thousands).ok()? - 9)),
    }
}
