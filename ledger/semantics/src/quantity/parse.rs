//! Parses quantities with all of Kubernetes' leniency, and with its error messages.

use std::{cell::Cell, str::FromStr};

use num_bigint::BigInt;

use super::{
    Format, NANOS, Quantity,
    number::{self, Number},
    parts::{BINARY_CAP, BINARY_SUFFIXES, DECIMAL_SUFFIXES},
    print,
};

/// Most bytes of the text of a quantity. Kubernetes has no such limit, so a text with a million zeros before its digits
/// is as good as any, and the API server keeps all of them.
pub const TEXT_MAX_BYTES: usize = 64;

/// The power of ten of the largest number: larger ones count as `1e40`, since an object with such an amount exists, and
/// must neither go uncounted nor hide others. So the canonical text of each quantity, and of the sum of a billion of
/// them, has at most [`TEXT_MAX_BYTES`].
const LARGEST_POWER: i64 = 40;

/// The most decimal digits that are computed with, before and after the point, once the exponent is written out: digits
/// behind these round the number up. Kubernetes has no such limit, and `1e2000000000` can occupy it for minutes.
const MAX_DIGITS: usize = 512;

/// Numbers with more digits than this take Kubernetes' slow path, which drops the spelling.
const FAST_DIGITS: usize = 18;

/// Why a text is not a quantity, with Kubernetes' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It has invalid characters, or characters in the wrong places.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// Its suffix is not supported.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// It has no digits.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// It is longer than [`TEXT_MAX_BYTES`]. Not an error of Kubernetes.
    #[error("quantities must not be longer than {TEXT_MAX_BYTES} bytes")]
    TooLong,
}

/// Whose text of a quantity is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// That of anyone who sends it.
    Sender,
    /// That of an API server, which has stored it.
    Cluster,
    /// That of the ledger itself.
    Ledger,
}

thread_local! {
    static ORIGIN: Cell<Origin> = const { Cell::new(Origin::Sender) };
}

/// Runs `read`, in which texts of quantities may be longer than [`TEXT_MAX_BYTES`]: to read objects that an API server
/// has stored, which must not go uncounted. The text of such a quantity is not kept.
pub fn of_any_length<R>(read: impl FnOnce() -> R) -> R {
    reading(Origin::Cluster, read)
}

/// Runs `read`, in which quantities are read as the ledger has written them: sums may be longer than [`TEXT_MAX_BYTES`],
/// and larger than what anyone can send.
pub fn as_written<R>(read: impl FnOnce() -> R) -> R {
    reading(Origin::Ledger, read)
}

fn reading<R>(origin: Origin, read: impl FnOnce() -> R) -> R {
    struct Before(Origin);
    impl Drop for Before {
        fn drop(&mut self) {
            ORIGIN.set(self.0);
        }
    }
    let _before = Before(ORIGIN.replace(origin));
    read()
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match plain(text) {
            Some(quantity) => Ok(quantity),
            None if text.len() > TEXT_MAX_BYTES && ORIGIN.get() == Origin::Sender => {
                Err(ParseError::TooLong)
            }
            None => general(text),
        }
    }
}

/// Most digits of a plain number: with any of its suffixes it fits, and stays below Kubernetes' cap.
const PLAIN_DIGITS: usize = 9;

/// One unit in billionths. Those of the suffixes below fit a machine word.
const ONE: i64 = NANOS as i64;

/// Parses the most frequent form of quantities: whole numbers without leading zeros, with the usual suffixes. Their
/// spelling is either canonical, or ends in zeros and is dropped.
pub(super) fn plain(text: &str) -> Option<Quantity> {
    let text = text.as_bytes();
    let (mut digits, mut number) = (0, 0_i64);
    while let Some(digit @ b'0'..=b'9') = text.get(digits) {
        if digits == PLAIN_DIGITS {
            return None;
        }
        number = number * 10 + i64::from(digit - b'0');
        digits += 1;
    }
    let has_leading_zero = digits > 1 && text[0] == b'0';
    if digits == 0 || has_leading_zero {
        return None;
    }
    let (unit, format) = match &text[digits..] {
        b"" => (ONE, Format::DecimalSI),
        b"m" => (ONE / 1000, Format::DecimalSI),
        b"k" => (ONE * 1000, Format::DecimalSI),
        b"M" => (ONE * 1_000_000, Format::DecimalSI),
        b"G" => (ONE * ONE, Format::DecimalSI),
        b"Ki" => (ONE << 10, Format::BinarySI),
        b"Mi" => (ONE << 20, Format::BinarySI),
        b"Gi" => (ONE << 30, Format::BinarySI),
        _ => return None,
    };
    Some(Quantity { nanos: i128::from(number) * i128::from(unit), format, rare: None })
}

/// Parses any text.
fn general(text: &str) -> Result<Quantity, ParseError> {
    let pieces = Pieces::split(text)?;
    let suffix = Suffix::read(pieces.suffix).ok_or(ParseError::Suffix)?;
    let fast = pieces.takes_fast_path(&suffix);
    if !fast && !pieces.has_digits {
        return Err(ParseError::Numeric);
    }
    let (number, format) = match suffix {
        Suffix::Decimal(power, format) => (pieces.number(0, power), format),
        Suffix::Binary(power) => cap_binary(pieces.number(power, 0)),
    };
    let number = if pieces.negative { number.negated() } else { number };
    let keeps_spelling = fast
        && text.len() <= TEXT_MAX_BYTES
        && pieces.is_remembered(&suffix)
        && !print::is_canonical(text, &number, format);
    Ok(Quantity::from_number(number, format, keeps_spelling.then(|| Box::from(text))))
}

/// Kubernetes caps numbers with a binary suffix at `i64::MAX` units, and prints those below one unit in the decimal
/// family.
fn cap_binary(number: Number<'static>) -> (Number<'static>, Format) {
    match number {
        Number::Small(nanos @ 1..NANOS) => (Number::Small(nanos), Format::DecimalSI),
        Number::Small(nanos) => (Number::Small(nanos.min(BINARY_CAP)), Format::BinarySI),
        Number::Large(_) => (Number::Small(BINARY_CAP), Format::BinarySI),
    }
}

/// The parts of a text: sign, digits before and after the point, suffix.
#[derive(Clone, Copy)]
struct Pieces<'a> {
    negative: bool,
    /// Without leading zeros, but `0` instead of an empty text.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    has_digits: bool,
}

impl<'a> Pieces<'a> {
    fn split(text: &'a str) -> Result<Self, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = take_digits(unsigned.trim_start_matches('0'));
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), take_digits);

        let signed = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = signed.strip_prefix(['+', '-']).unwrap_or(signed);
        if !take_digits(exponent).1.is_empty() {
            return Err(ParseError::Format);
        }
        let numeric = &unsigned[..unsigned.len() - suffix.len()];
        Ok(Self {
            negative: text.starts_with('-'),
            whole: if whole.is_empty() { "0" } else { whole },
            fraction,
            suffix,
            has_digits: numeric.bytes().any(|byte| byte.is_ascii_digit()),
        })
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// The digits that count, and whether they are to be rounded up because of those behind them.
    fn cut(&self) -> (Self, bool) {
        let most = MAX_DIGITS.saturating_sub(self.whole.len());
        let (fraction, rest) = self.fraction.split_at(most.min(self.fraction.len()));
        let rounds_up = rest.bytes().any(|digit| digit != b'0');
        (Self { fraction, ..*self }, rounds_up)
    }

    fn count(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// The power of ten of the last digit.
    fn last_place(&self, power: i64) -> i64 {
        power - self.fraction.len() as i64
    }

    /// The unsigned number in billionths, rounded up, with the suffix applied.
    fn number(&self, shift: u32, power: i64) -> Number<'static> {
        let (pieces, rounds_up) = self.cut();
        let is_too_large = pieces.whole.len() as i64 + power > MAX_DIGITS as i64;
        if pieces.whole.len() > MAX_DIGITS {
            return largest();
        }
        match pieces.mantissa(rounds_up) {
            Number::Small(0) => Number::Small(0),
            _ if is_too_large => largest(),
            mantissa => {
                at_most_largest(number::scaled(&mantissa, shift, pieces.last_place(power) + 9))
            }
        }
    }

    /// The digits as a whole number.
    fn mantissa(&self, rounds_up: bool) -> Number<'static> {
        let more = u8::from(rounds_up);
        let small = self.digits().try_fold(0_i128, |sum, digit| {
            sum.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
        });
        if let Some(small) = small.and_then(|small| small.checked_add(i128::from(more))) {
            return Number::Small(small);
        }
        let digits = self.digits().map(|digit| digit - b'0').collect::<Vec<u8>>();
        let large = BigInt::from_radix_be(num_bigint::Sign::Plus, &digits, 10);
        Number::fit(large.unwrap_or_default() + more)
    }

    /// Whether Kubernetes stores a text as an `int64` with a decimal scale.
    fn takes_fast_path(&self, suffix: &Suffix) -> bool {
        match *suffix {
            Suffix::Decimal(power, _) => {
                self.count() <= FAST_DIGITS && self.last_place(power) >= -9
            }
            Suffix::Binary(power) => {
                self.fraction.is_empty() && self.whole.len() as u32 + power * 3 / 10 < 15
            }
        }
    }

    /// Kubernetes' quick test for canonical texts, which is wrong for leading zeros, plus signs and some fractions.
    /// Texts that pass are never rewritten.
    fn is_remembered(&self, suffix: &Suffix) -> bool {
        match *suffix {
            Suffix::Decimal(power, _) => {
                let zeros = self.digits().rev().take(3).filter(|digit| *digit == b'0').count();
                self.last_place(power) % 3 == 0 && zeros < 3 && self.whole != "0"
            }
            Suffix::Binary(_) => self.whole.parse::<i64>().is_ok_and(|value| value % 8 != 0),
        }
    }
}

/// The largest number, in billionths.
fn largest() -> Number<'static> {
    number::scaled(&Number::Small(1), 0, LARGEST_POWER + 9)
}

fn at_most_largest(number: Number<'static>) -> Number<'static> {
    match number {
        Number::Large(_)
            if number.compare(&largest()).is_gt() && ORIGIN.get() != Origin::Ledger =>
        {
            largest()
        }
        _ => number,
    }
}

fn take_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

/// The factor that the suffix stands for.
enum Suffix {
    /// A power of ten.
    Decimal(i64, Format),
    /// A power of two.
    Binary(u32),
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        if let Some(place) = DECIMAL_SUFFIXES.iter().position(|suffix| *suffix == text) {
            return Some(Self::Decimal(place as i64 * 3 - 9, Format::DecimalSI));
        }
        if let Some(place) = BINARY_SUFFIXES.iter().skip(1).position(|suffix| *suffix == text) {
            return Some(Self::Binary(place as u32 * 10 + 10));
        }
        let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
        // Kubernetes cuts the exponent to 32 bits.
        Some(Self::Decimal(i64::from(exponent as i32), Format::DecimalExponent))
    }
}

impl Quantity {
    /// Kubernetes' test for whole numbers in validation, `MilliValue() % 1000 == 0`, including its behaviour for
    /// numbers whose thousandths do not fit an `int64`: some of them overflow to zero and pass, the others wrap around
    /// and pass by chance.
    pub(crate) fn passes_integer_check(&self) -> bool {
        if let Some(thousandths) = self.number().exact_steps(super::Scale::Milli.nanos()) {
            return thousandths % 1000 == 0;
        }
        let overflows_to_zero = Pieces::split(&self.to_string()).is_ok_and(|pieces| {
            Suffix::read(pieces.suffix).is_some_and(|suffix| match suffix {
                // Powers of ten for which Kubernetes multiplies once, and wraps, are left out.
                Suffix::Decimal(power, _) => {
                    pieces.takes_fast_path(&suffix)
                        && !matches!(pieces.last_place(power), i64::MIN..=0 | 3 | 6)
                }
                Suffix::Binary(_) => false,
            })
        });
        overflows_to_zero || self.number().wrapped_steps(super::Scale::Milli.nanos()) % 1000 == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::{super::laws::parts, *};

    proptest! {
        #[test]
        fn what_is_plain_is_read_as_any_other(
            digits in "[0-9]{1,11}",
            zeros in 0..8_usize,
            suffix in select(vec!["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "T", "Ti", "e3", "x"]),
        ) {
            let text = format!("{digits}{}{suffix}", "0".repeat(zeros));
            if let Some(plain) = plain(&text) {
                let general = general(&text).unwrap();
                prop_assert_eq!(parts(&plain), parts(&general));
            }
        }
    }

    #[test]
    fn usual_quantities_are_plain() {
        for text in ["0", "1", "250m", "1024Ki", "999999999Gi", "1000", "8G"] {
            let (plain, general) = (plain(text).unwrap(), general(text).unwrap());
            assert_eq!(parts(&plain), parts(&general), "{text}");
        }
        for text in ["", "00", "01", "1.5", "-1", "+1", "1000000000", "1n", "1Ti", "m"] {
            assert!(plain(text).is_none(), "{text}");
        }
    }
}
