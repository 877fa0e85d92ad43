//! Kubernetes quantities, exact.
//!
//! A quantity is a whole number of billionths (that is the precision Kubernetes parses to) together
//! with the suffix family it is printed in. Kubernetes keeps either an `int64` with a decimal scale or
//! a big decimal; here the number is an `i128` of billionths, and a big integer only beyond that, so
//! that equal numbers are equal values and addition is plain addition.

mod exact;
#[cfg(test)]
pub(crate) mod laws;
mod number;
mod parse;
mod parts;
mod print;

pub use exact::exact_numbers;
pub use parse::{ParseError, TEXT_MAX_BYTES, as_written, of_any_length};

use std::{cmp::Ordering, fmt, hash, sync::Arc};

use num_bigint::{BigInt, Sign};
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use self::number::Number;
use crate::embedded::EMBEDDED;

/// Billionths in one whole unit.
const NANOS: i128 = 1_000_000_000;

/// The suffix family in which a quantity is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `m`, none, `k`, `M`, ...: powers of ten.
    #[default]
    DecimalSI,
    /// `Ki`, `Mi`, `Gi`, ...: powers of 1024.
    BinarySI,
    /// `e3`, `e6`, ...: powers of ten as exponents.
    DecimalExponent,
    /// No family: the result of JSON's `null` (always zero).
    Unset,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DecimalSI => "DecimalSI",
            Self::BinarySI => "BinarySI",
            Self::DecimalExponent => "DecimalExponent",
            Self::Unset => "",
        })
    }
}

/// The precision of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Whole units.
    Unit,
    /// Thousandths of a unit.
    Milli,
}

impl Scale {
    /// Billionths in one step of this scale.
    const fn nanos(self) -> i128 {
        match self {
            Self::Unit => NANOS,
            Self::Milli => NANOS / 1000,
        }
    }
}

/// A Kubernetes quantity, exact: an amount of a resource as Kubernetes reads, computes and prints it.
///
/// Equality, order and hash are those of the number: `1Ki`, `1024` and `+1024` are equal. The suffix family is kept for
/// printing, and so is an unusual spelling (`010`, `1.500`), as in Kubernetes, until the quantity is used in a computation
/// or made [canonical](Self::canonical). The ledger holds canonical quantities only.
#[derive(Clone, Default, JsonSchema)]
#[schemars(with = "String")]
pub struct Quantity {
    /// The number in billionths; has no meaning if `rare` holds a large number.
    nanos: i128,
    format: Format,
    rare: Option<Arc<Rare>>,
}

/// The fields that few quantities have, kept out of line so that all others stay small.
#[derive(Default)]
struct Rare {
    /// The text that it was parsed from, if Kubernetes keeps it and it is not canonical.
    spelling: Option<Box<str>>,
    /// The number in billionths, if it does not fit `i128`.
    large: Option<BigInt>,
}

impl Quantity {
    /// Zero, in the decimal family.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSI, rare: None };

    /// A number of whole units, in the decimal family.
    pub fn from_units(units: i64) -> Self {
        Self::new(units, Format::DecimalSI)
    }

    /// A number of whole units, in the given family.
    pub fn new(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANOS, format, rare: None }
    }

    fn from_number(number: Number<'_>, format: Format, spelling: Option<Box<str>>) -> Self {
        let (nanos, large) = match number {
            Number::Small(nanos) => (nanos, None),
            Number::Large(large) => (0, Some(large.into_owned())),
        };
        let rare =
            (spelling.is_some() || large.is_some()).then(|| Arc::new(Rare { spelling, large }));
        Self { nanos, format, rare }
    }

    fn number(&self) -> Number<'_> {
        match self.rare.as_deref() {
            Some(Rare { large: Some(large), .. }) => Number::large(large),
            _ => Number::Small(self.nanos),
        }
    }

    /// The number in billionths, if it is not large.
    #[inline]
    pub(crate) fn small(&self) -> Option<i128> {
        match &self.rare {
            None => Some(self.nanos),
            Some(rare) => rare.large.is_none().then_some(self.nanos),
        }
    }

    /// The suffix family it is printed in.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// The result of an operation if neither the operands nor the result are large, which is true of nearly all.
    #[inline]
    fn plainly(&self, other: &Self, op: impl Fn(i128, i128) -> Option<i128>) -> Option<i128> {
        match (&self.rare, &other.rare) {
            (None, None) => op(self.nanos, other.nanos),
            _ => None,
        }
    }

    #[inline]
    fn become_plain(&mut self, nanos: i128, other: &Self) {
        if self.nanos == 0 {
            self.format = other.format;
        }
        self.nanos = nanos;
    }

    /// Whether the number has this sign, given whether a plain one has it.
    #[inline]
    fn has_sign(&self, sign: Ordering, plain: bool) -> bool {
        match &self.rare {
            None => plain,
            Some(_) => self.number().sign() == sign,
        }
    }

    /// Adds `other`. A zero takes over the family of `other`; otherwise the family stays. A kept spelling is dropped.
    #[inline]
    pub fn add_assign(&mut self, other: &Self) {
        match self.plainly(other, i128::checked_add) {
            Some(sum) => self.become_plain(sum, other),
            None => self.add_large(other),
        }
    }

    #[cold]
    fn add_large(&mut self, other: &Self) {
        let format = if self.is_zero() { other.format } else { self.format };
        *self = Self::from_number(self.number().plus(&other.number()), format, None);
    }

    /// Adds `n` times `other`, with the family rules of [`Quantity::add_assign`]. Large sums are added to in place.
    #[inline]
    pub fn add_times(&mut self, other: &Self, n: u64) {
        let times = match &other.rare {
            None => other.nanos.checked_mul(i128::from(n)),
            Some(_) => None,
        };
        let Some(nanos) = times else {
            return self.add_large(&other.times(n));
        };
        let product = Self { nanos, format: other.format, rare: None };
        if let Some(sum) = self.plainly(&product, i128::checked_add) {
            return self.become_plain(sum, other);
        }
        self.add_to_large(product);
    }

    /// Adds a plain number.
    #[cold]
    fn add_to_large(&mut self, other: Self) {
        let nanos = other.nanos;
        if let Some(rare) = &mut self.rare
            && let Some(Rare { spelling: None, large: Some(large) }) = Arc::get_mut(rare)
            && nanos != 0
            && (nanos > 0) == (large.sign() == Sign::Plus)
        {
            *large += nanos;
            return;
        }
        self.add_large(&other);
    }

    /// Subtracts `other`, with the family rules of [`Quantity::add_assign`]. The result may be
    /// negative.
    #[inline]
    pub fn sub_assign(&mut self, other: &Self) {
        match self.plainly(other, i128::checked_sub) {
            Some(rest) => self.become_plain(rest, other),
            None => self.add_large(&other.negated()),
        }
    }

    /// The number with the opposite sign, in the same family.
    #[inline]
    pub fn negated(&self) -> Self {
        match self.nanos.checked_neg() {
            Some(nanos) if self.rare.is_none() => Self { nanos, format: self.format, rare: None },
            _ => Self::from_number(self.number().negated(), self.format, None),
        }
    }

    /// The same number in another family.
    #[must_use]
    #[inline]
    pub fn in_format(self, format: Format) -> Self {
        match self.rare {
            None => Self { format, ..self },
            Some(_) => Self::from_number(self.number(), format, None),
        }
    }

    /// The same quantity without an unusual spelling.
    #[must_use]
    pub fn canonical(self) -> Self {
        let format = self.format;
        self.in_format(format)
    }

    /// The bytes of memory that the number takes beside the quantity itself: none, unless it is large.
    #[inline]
    pub fn extra_bytes(&self) -> usize {
        let large = self.rare.as_ref().and_then(|rare| rare.large.as_ref());
        large.map_or(0, |large| size_of::<Rare>() + large.bits() as usize / 8)
    }

    /// Whether it is zero.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.has_sign(Ordering::Equal, self.nanos == 0)
    }

    /// Whether it is a whole number.
    pub fn is_whole(&self) -> bool {
        self.number().rounded(Scale::Unit.nanos()).is_none()
    }

    /// Whether it is less than zero.
    #[inline]
    pub fn is_negative(&self) -> bool {
        self.has_sign(Ordering::Less, self.nanos < 0)
    }

    /// Whether it is more than zero.
    #[inline]
    pub fn is_positive(&self) -> bool {
        self.has_sign(Ordering::Greater, self.nanos > 0)
    }

    /// `self - other`, or zero in the decimal family if that is not positive, as Kubernetes computes the delta of an
    /// update.
    #[inline]
    pub fn subtract_non_negative(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.sub_assign(other);
        if rest.is_positive() { rest } else { Self::ZERO }
    }

    /// `n` times this quantity, in the same family.
    pub fn times(&self, n: u64) -> Self {
        Self::from_number(self.number().times(n), self.format, None)
    }

    /// One `n`th of this quantity, rounded to the nearest billionth, halves away from zero, in the same family; zero if
    /// `n` is.
    pub fn divided(&self, n: u64) -> Self {
        Self::from_number(self.number().divided(n), self.format, None)
    }

    /// Rounds away from zero to a scale. False if that changed the number, which also drops a kept spelling.
    pub fn round_up(&mut self, scale: Scale) -> bool {
        match self.number().rounded(scale.nanos()) {
            None => true,
            Some(rounded) => {
                *self = Self::from_number(rounded, self.format, None);
                false
            }
        }
    }

    /// Whole units, rounded away from zero, clamped to `i64`.
    pub fn value(&self) -> i64 {
        self.number().steps(Scale::Unit.nanos())
    }

    /// Thousandths of a unit, rounded away from zero, clamped to `i64`.
    pub fn milli_value(&self) -> i64 {
        self.number().steps(Scale::Milli.nanos())
    }

    /// The nearest floating-point number, for metrics only.
    pub fn to_f64(&self) -> f64 {
        self.number().to_f64() / 1e9
    }
}

impl PartialEq for Quantity {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.rare, &other.rare) {
            (None, None) => self.nanos == other.nanos,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.rare, &other.rare) {
            (None, None) => self.nanos.cmp(&other.nanos),
            _ => self.number().compare(&other.number()),
        }
    }
}

impl hash::Hash for Quantity {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        match self.number() {
            Number::Small(nanos) => nanos.hash(state),
            Number::Large(large) => large.hash(state),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

#[cfg(test)]
mod tests;

impl Quantity {
    /// Parses a JSON token as Kubernetes does: the text of a number or of a string, without white space around it and
    /// with its escapes left as they are; `null` is zero without a family. The result is canonical.
    ///
    /// # Errors
    /// If the text is not a quantity, or the token is neither a number, a string nor null.
    pub fn from_json_token(token: &str) -> Result<Self, ParseError> {
        Self::spelled(token).map(Self::canonical)
    }

    /// As [`Self::from_json_token`], with an unusual spelling kept.
    fn spelled(token: &str) -> Result<Self, ParseError> {
        if token == "null" {
            return Ok(Self::new(0, Format::Unset));
        }
        let inner = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let text = inner.unwrap_or(token);
        parse::plain(text).map_or_else(|| text.trim().parse(), Ok)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.exact())
    }
}

/// Only for JSON text and `serde_json::Value`: the token itself is needed, because `1.50` and `1e3`
/// mean more than their floating-point numbers. So not inside `#[serde(flatten)]` or untagged enums.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(EMBEDDED, Token)
    }
}

/// Reads a token as serde_json hands it to `RawValue`, which would be a copy of it.
struct Token;

impl<'de> Visitor<'de> for Token {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut token: A) -> Result<Quantity, A::Error> {
        token.next_key::<IgnoredAny>()?;
        token.next_value_seed(self)
    }

    fn visit_str<E: de::Error>(self, token: &str) -> Result<Quantity, E> {
        Quantity::spelled(token).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Token {
    type Value = Quantity;

    fn deserialize<D: Deserializer<'de>>(self, token: D) -> Result<Quantity, D::Error> {
        token.deserialize_str(self)
    }
}
