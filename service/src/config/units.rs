//! Values of the configuration that carry a unit: lengths of time and numbers of bytes.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SignedDuration, SpanRelativeTo, fmt::friendly};
use quota_semantics::Span;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::text::Text;

/// A length of time, written as in `"30s"`, `"10m"`, `"1h30m"` or `"90d"` (a day is 24 hours).
/// Never negative, at most 100 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

/// Longer than any run of the daemon, and far from the ends of every clock.
const LONGEST_PERIOD: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Period {
    /// So many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u32) -> Self {
        Self(Duration::from_secs(seconds as u64))
    }

    /// As the standard library and tokio's timers take it.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// As the ledger takes it.
    #[must_use]
    pub fn span(self) -> Span {
        Span::from_nanoseconds(i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether it is no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

/// A text that is not a [`Period`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a length of time from 0s to 100 years such as \"30s\", \"10m\", \"1h30m\": {0:?}")]
pub struct ParsePeriodError(String);

impl FromStr for Period {
    type Err = ParsePeriodError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        friendly::SpanParser::new()
            .parse_span(text)
            .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
            .ok()
            .and_then(|duration| Duration::try_from(duration).ok())
            .filter(|duration| *duration <= LONGEST_PERIOD)
            .map(Self)
            .ok_or_else(|| ParsePeriodError(text.to_owned()))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PRINTER: friendly::SpanPrinter =
            friendly::SpanPrinter::new().spacing(friendly::Spacing::None);
        let duration = SignedDuration::try_from(self.0).map_err(|_| fmt::Error)?;
        f.write_str(&PRINTER.duration_to_string(&duration))
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// A number of bytes, written as in `"64MiB"`, `"10MB"` or `1024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

/// Largest first, so that a size is printed in the largest unit that divides it.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

impl Size {
    /// So many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many times 1024 * 1024 bytes.
    #[must_use]
    pub const fn from_mib(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// In bytes, as lengths in memory are told; held at the longest one.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// A text that is not a [`Size`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number of bytes such as \"64MiB\", \"10MB\", 1024: {0:?}")]
pub struct ParseSizeError(String);

impl FromStr for Size {
    type Err = ParseSizeError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = text[digits.len()..].trim_start();
        let factor = match unit {
            "" => Some(1),
            _ => UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, factor)| *factor),
        };
        factor
            .zip(digits.parse::<u64>().ok())
            .and_then(|(factor, number)| number.checked_mul(factor))
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .map(Self)
            .ok_or_else(|| ParseSizeError(text.to_owned()))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS
            .into_iter()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor))
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_reads_what_it_prints() {
        for (text, printed, seconds) in [
            ("30s", "30s", 30),
            ("10m", "10m", 600),
            ("1h30m", "1h30m", 5400),
            ("1h 30m", "1h30m", 5400),
            ("90d", "2160h", 90 * 86_400),
            ("0s", "0s", 0),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.get(), Duration::from_secs(seconds), "{text}");
            assert_eq!(period.to_string(), printed);
            assert_eq!(printed.parse(), Ok(period));
        }
        assert_eq!(
            "1500ms".parse::<Period>().unwrap().span().nanoseconds(),
            1_500_000_000
        );
    }

    #[test]
    fn what_is_no_period_is_refused() {
        for text in [
            "",
            "30",
            "-5s",
            "5s ago",
            "ten minutes",
            "1 fortnight",
            "1mo",
            "101y",
            "9999999h",
        ] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_reads_what_it_prints() {
        for (text, printed, bytes) in [
            ("64MiB", "64MiB", 64 << 20),
            ("64 MiB", "64MiB", 64 << 20),
            ("1024", "1KiB", 1024),
            ("1500kB", "1500kB", 1_500_000),
            ("3000000000B", "3GB", 3_000_000_000),
            ("0", "0B", 0),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.bytes(), bytes, "{text}");
            assert_eq!(size.to_string(), printed);
            assert_eq!(printed.parse(), Ok(size));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1.5MiB",
            "1 mib",
            "16777216TiB",
            "99999999999999999999",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
