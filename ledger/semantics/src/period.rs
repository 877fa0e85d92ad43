//! Periods of time in configuration files.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SignedDuration, SpanRelativeTo, fmt::friendly};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Span;

/// A length of time, written as in `"30s"`, `"10m"`, `"1h30m"` or `"90d"` (a day is 24 hours).
/// Never negative, at most 100 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", rename = "Duration")]
pub struct Period(Duration);

/// Longer than any run of the daemon, and far from the limits of every clock.
const LONGEST_PERIOD: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Period {
    /// A period in seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(Duration::from_secs(seconds as u64))
    }

    /// A period in milliseconds.
    pub const fn from_millis(milliseconds: u32) -> Self {
        Self(Duration::from_millis(milliseconds as u64))
    }

    /// As a duration of the standard library.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// As a span of the ledger.
    pub fn span(self) -> Span {
        Span::from_nanoseconds(i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Whether the period is zero.
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
        assert_eq!("1500ms".parse::<Period>().unwrap().span().nanoseconds(), 1_500_000_000);
    }

    #[test]
    fn what_is_no_period_is_refused() {
        for text in
            ["", "30", "-5s", "5s ago", "ten minutes", "1 fortnight", "1mo", "101y", "9999999h"]
        {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }
}
