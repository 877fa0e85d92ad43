//! Times of the past: as RFC 3339, or as a duration before now.

use std::str::FromStr;

use clap::Args;
use quota_semantics::{Period, Timestamp};

use crate::{
    age,
    failure::{Failure, Outcome},
};

/// A time: in RFC 3339, or as a duration before now, such as `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This time.
    At(Timestamp),
    /// This long before now.
    Ago(Period),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(period) = text.parse::<Period>() {
            return Ok(Self::Ago(period));
        }
        let wrong = |_| "neither an RFC 3339 time nor a duration before now, as in 30d".to_owned();
        text.parse().map(Self::At).map_err(wrong)
    }
}

impl Moment {
    /// The time, given the present. Both ends of a period need the same one.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(period) => now.minus(period.span()),
        }
    }

    /// The time, as of now.
    pub(crate) fn time(self) -> Timestamp {
        self.resolve(age::now())
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
                Ok(moment) => Ok(Self::Time(Moment::time(moment))),
                Err(wrong) => Err(format!("not a sequence, and {wrong}")),
            },
        }
    }
}

/// A period of the past.
#[derive(Args, Clone, Debug)]
pub(crate) struct PastPeriod {
    /// From this time on, or for so long until now.
    #[arg(long, visible_alias = "last", value_name = "TIME|DURATION", conflicts_with_all = ["month", "from", "to"])]
    pub(crate) since: Option<Moment>,
    /// This month, in UTC.
    #[arg(long, value_name = "YYYY-MM", value_parser = month, conflicts_with_all = ["from", "to"])]
    pub(crate) month: Option<(Timestamp, Timestamp)>,
    /// The first moment of the period.
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) from: Option<Moment>,
    /// The first moment behind the period [default: now].
    #[arg(long, value_name = "TIME|DURATION", requires = "from")]
    pub(crate) to: Option<Moment>,
}

impl PastPeriod {
    /// The first moment, and the first one behind the period: at most the present.
    pub(crate) fn resolve(
        &self,
        now: Timestamp,
        default: Option<Period>,
    ) -> Outcome<(Timestamp, Timestamp)> {
        let (from, to) = match (self.month, self.since.or(self.from), default) {
            (Some((from, to)), _, _) => (from, to.min(now)),
            (None, Some(from), _) => {
                let to = self.to.map_or(now, |to| to.resolve(now).min(now));
                (from.resolve(now), to)
            }
            (None, None, Some(length)) => (now.minus(length.span()), now),
            (None, None, None) => {
                return Err(Failure::usage("the period: --last, --month, or --from"));
            }
        };
        match from < to {
            true => Ok((from, to)),
            false => Err(Failure::usage(format!(
                "the period begins at {from}, which is not before its end at {to}"
            ))),
        }
    }
}

/// The beginning of a month and of the next one.
fn month(text: &str) -> Result<(Timestamp, Timestamp), String> {
    let wrong = || "not a month such as 2026-10".to_owned();
    let (year, month) = text.split_once('-').ok_or_else(wrong)?;
    let is_number =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(year, 4) || !is_number(month, 2) {
        return Err(wrong());
    }
    let (year, month): (u32, u32) =
        (year.parse().map_err(|_| wrong())?, month.parse().map_err(|_| wrong())?);
    let begin = |year: u32, month: u32| {
        let text = format!("{year:04}-{month:02}-01T00:00:00Z");
        text.parse::<Timestamp>().map_err(|_| wrong())
    };
    let next = match month {
        12 => begin(year + 1, 1)?,
        _ => begin(year, month + 1)?,
    };
    Ok((begin(year, month)?, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_is_written_out_or_a_duration_before_now() {
        let time: Timestamp = "2026-11-29T10:00:00Z".parse().unwrap();
        assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Moment::At(time)));
        let ago = "90m".parse::<Moment>().unwrap().time();
        let minutes = age::now().since(ago).nanoseconds() / 60_000_000_000;
        assert!((90..=91).contains(&minutes), "{minutes}");
        for wrong in ["", "yesterday", "-1h", "12"] {
            assert!(wrong.parse::<Moment>().is_err(), "{wrong}");
        }
        assert_eq!("12".parse(), Ok(Beginning::Sequence(12)));
        assert_eq!("2026-11-29T10:00:00Z".parse(), Ok(Beginning::Time(time)));
    }

    #[test]
    fn a_month_is_a_period() {
        assert_eq!(
            month("2026-12"),
            Ok((time("2026-12-01T00:00:00Z"), time("2027-01-01T00:00:00Z")))
        );
        for wrong in ["2026-13", "2026-00", "26-1", "2026", "2026-1", "2300-01", "+026-01"] {
            assert!(month(wrong).is_err(), "{wrong}");
        }
    }
}
