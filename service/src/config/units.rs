//! Values of the configuration with a unit: numbers of bytes. Periods of time are `quota_semantics::Period`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::text::Text;

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
    /// A size in bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in MiB.
    #[must_use]
    pub const fn from_mib(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The number of bytes as `usize`, clamped to its maximum.
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
