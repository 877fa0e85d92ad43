//! The canonical text of a quantity: no fraction, and the largest suffix that does not need one.

use std::fmt::{self, Write};

use num_bigint::BigInt;

use super::{
    Format, NANOS, Quantity,
    number::{self, Number},
    parts::{BINARY_CAP, BINARY_SUFFIXES, DECIMAL_SUFFIXES},
};

/// As Kubernetes prints it in its messages: if there is no suffix large enough, it prints none, and 1000E is printed as
/// 1. [`Quantity::exact`] is not ambiguous.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.spelling() {
            Some(spelling) => f.write_str(spelling),
            None => write(f, &self.number(), self.format(), Past::WithoutSuffix),
        }
    }
}

impl Quantity {
    /// A text that parses to this quantity, regardless of its size.
    pub fn exact(&self) -> impl fmt::Display + '_ {
        Exact(self)
    }

    /// The number as a plain decimal, without a suffix: `1.5`.
    pub fn decimal(&self) -> String {
        let nanos = self.number().to_big().into_owned();
        let sign = if self.is_negative() { "-" } else { "" };
        let digits = format!("{:0>10}", nanos.magnitude().to_string());
        let (whole, fraction) = digits.split_at(digits.len() - 9);
        match fraction.trim_end_matches('0') {
            "" => format!("{sign}{whole}"),
            fraction => format!("{sign}{whole}.{fraction}"),
        }
    }

    /// Writes the text of [`Quantity::exact`].
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_exact(&self, out: &mut impl Write) -> fmt::Result {
        match self.spelling() {
            Some(spelling) => out.write_str(spelling),
            None => write(out, &self.number(), self.format(), Past::LargestSuffix),
        }
    }
}

struct Exact<'a>(&'a Quantity);

impl fmt::Display for Exact<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_exact(f)
    }
}

/// How a number is printed for which there is no suffix large enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    WithoutSuffix,
    LargestSuffix,
}

/// Whether `text` is the canonical text of the quantity.
pub(super) fn is_canonical(text: &str, number: &Number<'_>, format: Format) -> bool {
    let mut rest = Expected(text);
    write(&mut rest, number, format, Past::WithoutSuffix).is_ok() && rest.0.is_empty()
}

/// A writer that fails at the first unexpected character, so that comparing needs no memory.
struct Expected<'a>(&'a str);

impl Write for Expected<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(piece).ok_or(fmt::Error)?;
        Ok(())
    }
}

fn write(out: &mut impl Write, value: &Number<'_>, format: Format, past: Past) -> fmt::Result {
    let decimal = match (format, past) {
        // An exponent can be of any size.
        (Format::DecimalExponent | Format::Unset, _) | (_, Past::WithoutSuffix) => usize::MAX,
        _ => DECIMAL_SUFFIXES.len() - 1,
    };
    match value {
        Number::Small(0) => out.write_str("0"),
        Number::Small(nanos)
            if format == Format::BinarySI
                && is_binary_whole(*nanos)
                && !(past == Past::LargestSuffix && is_capped(*nanos)) =>
        {
            let units = nanos / NANOS;
            let steps = units.trailing_zeros() as usize / 10;
            write_integer(out, units >> (steps * 10))?;
            write_binary_suffix(out, steps)
        }
        Number::Small(nanos) => {
            let (mut mantissa, thousands) = number::without_thousands(*nanos);
            let mut thousands = usize::from(thousands);
            while thousands > decimal {
                mantissa *= 1000;
                thousands -= 1;
            }
            write_integer(out, mantissa)?;
            write_decimal_suffix(out, thousands, format)
        }
        Number::Large(large)
            if format == Format::BinarySI
                && past == Past::WithoutSuffix
                && (large.as_ref() % NANOS) == BigInt::ZERO =>
        {
            let units = large.as_ref() / NANOS;
            let steps = units.trailing_zeros().unwrap_or(0) / 10;
            let steps = usize::try_from(steps).unwrap_or(usize::MAX);
            write!(out, "{}", units >> (steps * 10))?;
            write_binary_suffix(out, steps)
        }
        Number::Large(large) => {
            let digits = large.to_string();
            let zeros = digits.bytes().rev().take_while(|digit| *digit == b'0').count();
            let thousands = (zeros / 3).min(decimal);
            out.write_str(&digits[..digits.len() - thousands * 3])?;
            write_decimal_suffix(out, thousands, format)
        }
    }
}

/// Binary suffixes are only for whole numbers from 1024 on; other numbers are printed in the decimal family.
fn is_binary_whole(nanos: i128) -> bool {
    nanos % NANOS == 0 && !(-1023..=1023).contains(&(nanos / NANOS))
}

/// Whether parsing would cap the number if it had a binary suffix. A large number is always capped.
fn is_capped(nanos: i128) -> bool {
    nanos.unsigned_abs() > BINARY_CAP.unsigned_abs()
}

/// Nearly all numbers are small and do not need most of a formatter's features.
fn write_integer(out: &mut impl Write, number: i128) -> fmt::Result {
    let Ok(mut rest) = u64::try_from(number) else {
        return write!(out, "{number}");
    };
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.write_str(str::from_utf8(&digits[begin..]).map_err(|_| fmt::Error)?)
}

fn write_binary_suffix(out: &mut impl Write, steps: usize) -> fmt::Result {
    // Past the last suffix Kubernetes prints none, as for decimals.
    out.write_str(BINARY_SUFFIXES.get(steps).unwrap_or(&""))
}

fn write_decimal_suffix(out: &mut impl Write, thousands: usize, format: Format) -> fmt::Result {
    match (format, thousands) {
        (_, 3) => Ok(()),
        (Format::DecimalExponent | Format::Unset, _) => {
            write!(out, "e{}", thousands as i64 * 3 - 9)
        }
        // Kubernetes has no suffix past E and then prints none: 1000E is printed as 1.
        _ => out.write_str(DECIMAL_SUFFIXES.get(thousands).unwrap_or(&"")),
    }
}
