//! Times of the past: one grammar for all commands.

use std::str::FromStr;

use quota_semantics::Timestamp;

use super::past;
use crate::age;

/// A time: in RFC 3339, or as a duration before now, such as `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment = text.parse::<past::Moment>()?;
        Ok(Self(moment.resolve(age::now())))
    }
}

/// The first entry of a range: its sequence, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The entry with this sequence.
    Sequence(u64),
    /// The first entry that is not before this time.
    Time(Timestamp),
}

impl FromStr for Beginning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(sequence) => Ok(Self::Sequence(sequence)),
            Err(_) => match text.parse() {
                Ok(Moment(time)) => Ok(Self::Time(time)),
                Err(wrong) => Err(format!("not a sequence, and {wrong}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_out_or_a_duration_before_now() {
        let time: Timestamp = "2026-11-29T10:00:00Z".parse().unwrap();
        assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Moment(time)));
        let Moment(ago) = "90m".parse().unwrap();
        let minutes = age::now().since(ago).nanoseconds() / 60_000_000_000;
        assert!((90..=91).contains(&minutes), "{minutes}");
        for wrong in ["", "yesterday", "-1h", "12"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
        assert_eq!("12".parse(), Ok(Beginning::Sequence(12)));
        assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Beginning::Time(time)));
    }
}
