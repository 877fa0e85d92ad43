//! The number inside a quantity: whole billionths, of any size.

use std::{borrow::Cow, cmp::Ordering};

use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

/// Whole billionths. Large only if they do not fit the small form, so each number has one form.
pub(super) enum Number<'a> {
    Small(i128),
    Large(Cow<'a, BigInt>),
}

impl<'a> Number<'a> {
    pub(super) const fn large(large: &'a BigInt) -> Self {
        Self::Large(Cow::Borrowed(large))
    }

    pub(super) fn fit(number: BigInt) -> Number<'static> {
        match number.to_i128() {
            Some(small) => Number::Small(small),
            None => Number::Large(Cow::Owned(number)),
        }
    }

    pub(super) fn to_big(&self) -> Cow<'_, BigInt> {
        match self {
            Self::Small(nanos) => Cow::Owned(BigInt::from(*nanos)),
            Self::Large(large) => Cow::Borrowed(large),
        }
    }

    pub(super) fn sign(&self) -> Ordering {
        match self {
            Self::Small(nanos) => nanos.cmp(&0),
            Self::Large(large) => match large.sign() {
                Sign::Minus => Ordering::Less,
                Sign::NoSign => Ordering::Equal,
                Sign::Plus => Ordering::Greater,
            },
        }
    }

    pub(super) fn compare(&self, other: &Number<'_>) -> Ordering {
        match (self, other) {
            (Self::Small(a), Number::Small(b)) => a.cmp(b),
            (a, b) => a.to_big().cmp(&b.to_big()),
        }
    }

    pub(super) fn plus(&self, other: &Number<'_>) -> Number<'static> {
        if let (Self::Small(a), Number::Small(b)) = (self, other)
            && let Some(sum) = a.checked_add(*b)
        {
            return Number::Small(sum);
        }
        Self::fit(self.to_big().as_ref() + other.to_big().as_ref())
    }

    pub(super) fn negated(&self) -> Number<'static> {
        match self {
            Self::Small(nanos) if *nanos != i128::MIN => Number::Small(-nanos),
            _ => Self::fit(-self.to_big().into_owned()),
        }
    }

    pub(super) fn times(&self, n: u64) -> Number<'static> {
        match self {
            Self::Small(nanos) if nanos.checked_mul(i128::from(n)).is_some() => {
                Number::Small(nanos * i128::from(n))
            }
            _ => Self::fit(self.to_big().as_ref() * n),
        }
    }

    /// Divided by `n`, rounded to the nearest, halves away from zero. Zero if `n` is.
    pub(super) fn divided(&self, n: u64) -> Number<'static> {
        if n == 0 {
            return Number::Small(0);
        }
        if let Self::Small(nanos) = self {
            let n = i128::from(n);
            let (quotient, rest) = (nanos / n, nanos % n);
            let away = i128::from(rest.abs() * 2 >= n) * rest.signum();
            return Number::Small(quotient + away);
        }
        let big = self.to_big();
        let half = BigInt::from(n / 2) * big.sign().to_i128_sign();
        Self::fit((big.as_ref() + half) / n)
    }

    /// Rounded away from zero to a multiple of `step`; none if it already is a multiple.
    pub(super) fn rounded(&self, step: i128) -> Option<Number<'static>> {
        if let Self::Small(nanos) = self {
            let rest = nanos % step;
            if rest == 0 {
                return None;
            }
            if let Some(rounded) = (nanos - rest).checked_add(step * rest.signum()) {
                return Some(Number::Small(rounded));
            }
        }
        let big = self.to_big();
        let rest = big.as_ref() % step;
        let away = match rest.sign() {
            Sign::NoSign => return None,
            Sign::Plus => step,
            Sign::Minus => -step,
        };
        Some(Self::fit(big.as_ref() - rest + away))
    }

    /// The number of `step`s, rounded away from zero; none if that does not fit.
    pub(super) fn exact_steps(&self, step: i128) -> Option<i64> {
        match self {
            Self::Small(nanos) => i64::try_from(nanos / step + (nanos % step).signum()).ok(),
            Self::Large(_) => None,
        }
    }

    /// As [`Self::exact_steps`], clamped to `i64`.
    pub(super) fn steps(&self, step: i128) -> i64 {
        let held = match self.sign() {
            Ordering::Less => i64::MIN,
            _ => i64::MAX,
        };
        self.exact_steps(step).unwrap_or(held)
    }

    /// As [`Self::exact_steps`], with all but the last 64 bits cut off.
    pub(super) fn wrapped_steps(&self, step: i128) -> i64 {
        let rounded = self.rounded(step);
        let steps = rounded.as_ref().unwrap_or(self).to_big().as_ref() / step;
        let low = (steps & BigInt::from(u64::MAX)).to_u64().unwrap_or_default();
        low.cast_signed()
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Self::Small(nanos) => *nanos as f64,
            Self::Large(large) => large.to_f64().unwrap_or(f64::INFINITY),
        }
    }
}

const BILLION: i64 = 1_000_000_000;

/// `mantissa * 2^shift * 10^exponent`, rounded away from zero to a whole number. Any positive fraction counts as one.
/// The caller bounds the exponent.
pub(super) fn scaled(mantissa: &Number<'_>, shift: u32, exponent: i64) -> Number<'static> {
    if let Number::Small(small) = mantissa
        && let Some(result) = scaled_small(*small, shift, exponent)
    {
        return Number::Small(result);
    }
    let shifted = mantissa.to_big().into_owned() << shift;
    let Ok(power) = u32::try_from(exponent.unsigned_abs()) else {
        return Number::Small(shifted.sign().to_i128_sign());
    };
    if exponent >= 0 {
        return Number::fit(shifted * BigInt::from(10).pow(power));
    }
    // A power of ten with more digits than the number leaves only the rounding.
    if u64::from(power) > shifted.bits() {
        return Number::Small(shifted.sign().to_i128_sign());
    }
    let divisor = BigInt::from(10).pow(power);
    let rest = &shifted % &divisor;
    Number::fit((shifted - &rest) / divisor + rest.sign().to_i128_sign())
}

fn scaled_small(mantissa: i128, shift: u32, exponent: i64) -> Option<i128> {
    let shifted = mantissa.checked_mul(1_i128.checked_shl(shift)?)?;
    let power = 10_i128.checked_pow(u32::try_from(exponent.unsigned_abs()).ok()?)?;
    if exponent >= 0 {
        shifted.checked_mul(power)
    } else {
        Some(shifted / power + (shifted % power).signum())
    }
}

trait SignNumber {
    fn to_i128_sign(self) -> i128;
}

impl SignNumber for Sign {
    fn to_i128_sign(self) -> i128 {
        match self {
            Self::Minus => -1,
            Self::NoSign => 0,
            Self::Plus => 1,
        }
    }
}

/// A number divided by 1000 as often as possible, and how often that is; 0 stays as it is.
pub(super) fn without_thousands(number: i128) -> (i128, u8) {
    let (mut wide, mut thousands) = (number, 0);
    // Dividing one machine word is far cheaper than dividing two, and nearly all numbers fit one.
    let word = loop {
        if let Ok(word) = i64::try_from(wide) {
            break word;
        }
        if wide % 1000 != 0 {
            return (wide, thousands);
        }
        wide /= 1000;
        thousands += 1;
    };
    let (word, more) = word_without_thousands(word);
    (word.into(), thousands + more)
}

/// The same for a machine word.
pub(super) fn word_without_thousands(mut word: i64) -> (i64, u8) {
    let mut thousands = 0;
    if word == 0 {
        return (word, thousands);
    }
    // Most are of whole units.
    if word % BILLION == 0 {
        word /= BILLION;
        thousands = 3;
    }
    while word % 1000 == 0 {
        word /= 1000;
        thousands += 1;
    }
    (word, thousands)
}
