//! Points in time and spans of time. The core never reads a clock: the caller passes the time.

use std::{cell::Cell, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time, as RFC 3339 in UTC.
///
/// Stored as nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String", rename = "Time", extend("format" = "date-time"))]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The latest time that can be represented, in the year 2262.
    pub const MAX: Self = Self(i64::MAX);

    /// The time `nanoseconds` after the beginning of 1970.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the beginning of 1970, in UTC.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// This time plus a span, clamped at [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This time minus a span, clamped at the earliest time that can be represented.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The span from `earlier` to this time; negative if it is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This time truncated to microseconds: many libraries do not parse more digits of a second's fraction.
    #[must_use]
    pub const fn whole_microseconds(self) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(1000)))
    }

    /// The text of this time. Faster than [`Display`](fmt::Display).
    pub fn text(self) -> TimestampText {
        print(self)
    }

    /// This time truncated to seconds, as Kubernetes stores times.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(1_000_000_000)))
    }
}

thread_local! {
    /// Whether times are serialized with microseconds only.
    static IN_MICROSECONDS: Cell<bool> = const { Cell::new(false) };
}

/// Calls `serialize` with all times truncated to microseconds, as the HTTP API shows them. Elsewhere (in an exported
/// ledger, say) they are exact.
pub fn in_microseconds<R>(serialize: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_MICROSECONDS.set(self.0);
        }
    }
    let _restore = Restore(IN_MICROSECONDS.replace(true));
    serialize()
}

/// The text of a time, in a fixed buffer.
#[derive(Clone, Copy, Debug)]
pub struct TimestampText {
    text: [u8; 30],
    length: usize,
}

/// Every time that can be represented has a year of four digits.
fn print(time: Timestamp) -> TimestampText {
    let second = time.0.div_euclid(1_000_000_000);
    let fraction = time.0.rem_euclid(1_000_000_000).unsigned_abs();
    let (year, month, day) = civil(second.div_euclid(86_400));
    let second = second.rem_euclid(86_400).unsigned_abs();
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    digits(&mut text[0..4], year);
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], second / 3600);
    digits(&mut text[14..16], second / 60 % 60);
    digits(&mut text[17..19], second % 60);
    digits(&mut text[20..29], fraction);
    let mut length = text.len();
    if fraction == 0 {
        length = 20;
    } else {
        // In its shortest form.
        while text[length - 2] == b'0' {
            length -= 1;
        }
    }
    text[length - 1] = b'Z';
    TimestampText { text, length }
}

/// Year, month and day of a day since 1970-01-01, in the Gregorian calendar: Howard Hinnant's `civil_from_days`.
fn civil(day: i64) -> (u64, u64, u64) {
    // Days are counted from 0000-03-01, which is before all times that can be represented.
    let day = day.saturating_add(719_468).unsigned_abs();
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, date)
}

/// Writes a number with leading zeros, two digits at a time.
fn digits(text: &mut [u8], mut number: u64) {
    let mut pairs = text.rchunks_exact_mut(2);
    for pair in pairs.by_ref() {
        let rest = (number % 100) as u8;
        number /= 100;
        pair.copy_from_slice(&[b'0' + rest / 10, b'0' + rest % 10]);
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + (number % 10) as u8;
    }
}

impl TimestampText {
    /// The time in RFC 3339, in UTC.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits and signs are ASCII")
    }

    /// The bytes of this text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(print(*self).as_str())
    }
}

/// A text that is not an RFC 3339 time between the years 1678 and 2262.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time of the years 1678 to 2262: {0:?}")]
pub struct ParseTimestampError(String);

impl FromStr for Timestamp {
    type Err = ParseTimestampError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .ok()
            .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
            .map(Self)
            .ok_or_else(|| ParseTimestampError(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = match IN_MICROSECONDS.get() {
            true => self.whole_microseconds(),
            false => *self,
        };
        serializer.serialize_str(print(time).as_str())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A span of time in nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// The empty span.
    pub const ZERO: Self = Self(0);

    /// A span of nanoseconds.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// A span of seconds, clamped to the longest span that can be represented (292 years).
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Its length in nanoseconds.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_prints_and_parses_as_rfc_3339() {
        let time: Timestamp = "2026-11-20T23:27:44.671321+00:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-20T23:27:44.671321Z");
        assert_eq!(time.whole_seconds().to_string(), "2026-11-20T23:27:44Z");
        assert_eq!(time.to_string().parse(), Ok(time));
        assert!("yesterday".parse::<Timestamp>().is_err());
        assert!("9999-01-01T00:00:00Z".parse::<Timestamp>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn times_print_as_everybody_prints_them(nanoseconds: i64, digits in 0_u32..19) {
            let cut = 10_i64.pow(digits);
            for time in [nanoseconds, nanoseconds / cut * cut, i64::MIN, i64::MAX] {
                let theirs = jiff::Timestamp::from_nanosecond(i128::from(time)).unwrap();
                assert_eq!(Timestamp(time).to_string(), theirs.to_string());
            }
        }
    }

    #[test]
    fn the_api_shows_microseconds() {
        let time: Timestamp = "1969-11-20T23:27:44.671321987Z".parse().unwrap();
        let text = || serde_json::to_string(&time).unwrap();
        assert_eq!(text(), "\"1969-11-20T23:27:44.671321987Z\"");
        assert_eq!(in_microseconds(text), "\"1969-11-20T23:27:44.671321Z\"");
        assert_eq!(text(), "\"1969-11-20T23:27:44.671321987Z\"");
        assert_eq!(time.to_string(), "1969-11-20T23:27:44.671321987Z");
    }

    #[test]
    fn times_are_held_at_their_ends() {
        assert_eq!(Timestamp::MAX.plus(Span::from_seconds(1)), Timestamp::MAX);
        assert_eq!(Span::from_seconds(i64::MAX).nanoseconds(), i64::MAX);
    }
}
