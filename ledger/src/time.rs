//! Points in time and lengths of time. The core never reads a clock: both are handed in.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: nanoseconds since 1970-01-01T00:00:00Z. Printed and parsed as RFC 3339, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);
    /// The latest time that can be told, in the year 2262.
    pub const MAX: Self = Self(i64::MAX);

    /// The time `nanoseconds` after the epoch.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// This time plus a span, held at [`Timestamp::MAX`].
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This time minus a span, held at the earliest time that can be told.
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The span from `earlier` to this time; negative if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This time without its fraction of a second, as Kubernetes stores times.
    #[must_use]
    pub const fn whole_seconds(self) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(1_000_000_000)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_nanosecond(i128::from(self.0)) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{}ns", self.0),
        }
    }
}

/// A text that is not an RFC 3339 time between the years 1678 and 2262.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 time: {0:?}")]
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
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A length of time in nanoseconds; may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(i64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of so many nanoseconds.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// A span of so many seconds, held at the longest span that can be told (292 years).
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Its length in nanoseconds.
    #[must_use]
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

    #[test]
    fn times_are_held_at_their_ends() {
        assert_eq!(Timestamp::MAX.plus(Span::from_seconds(1)), Timestamp::MAX);
        assert_eq!(Span::from_seconds(i64::MAX).nanoseconds(), i64::MAX);
    }
}
