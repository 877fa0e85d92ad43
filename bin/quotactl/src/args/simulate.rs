//! The command lines of `simulate` and `suggest`.

use std::path::PathBuf;

use clap::Args;
use quota_semantics::{Period, Timestamp};

/// A moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This long before now.
    Ago(Period),
    /// This time.
    At(Timestamp),
}

impl Moment {
    /// The time.
    pub(crate) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Ago(period) => now.minus(period.span()),
            Self::At(time) => time,
        }
    }
}

/// A period of the past.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Since {
    /// The beginning of the period: a time (RFC 3339), or a length of time before now [default: 14d for simulations, 30d
    /// for suggestions].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// The same as `--since`.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "since")]
    pub(crate) from: Option<Moment>,
    /// The end of the period [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) to: Option<Moment>,
}

impl Since {
    /// The beginning and the end; without a beginning, so many days.
    pub(crate) fn period(&self, now: Timestamp, days: u32) -> (Timestamp, Timestamp) {
        let to = self.to.map_or(now, |to| to.time(now));
        let default = Moment::Ago(Period::from_secs(days * 86_400));
        let from = self.from.or(self.since).unwrap_or(default);
        (from.time(now), to)
    }
}

/// Limits to simulate.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Simulate {
    /// Quotas and groups that hold instead of those of the same names: a file of YAML or JSON documents, a directory of
    /// such files, or `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A quota or group to leave out: `quota/NAME` or `group/NAME`.
    #[arg(long, value_name = "KIND/NAME", value_parser = named)]
    pub(crate) delete: Vec<(bool, String)>,
    #[command(flatten)]
    pub(crate) period: Since,
    /// End with 10 if anything would have been refused.
    #[arg(long)]
    pub(crate) fail_on_refusal: bool,
}

/// Limits to suggest.
#[derive(Args, Debug)]
pub(crate) struct Suggest {
    #[command(flatten)]
    pub(crate) period: Since,
    /// The share of time in which a suggested limit suffices, in percent; 100: all of it.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percentile)]
    pub(crate) percentile: f64,
    /// What is added, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = headroom)]
    pub(crate) headroom: u32,
    /// Only namespaces whose labels match, as in `team=a,tier!=test`.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
}

fn percentile(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 100".to_owned())
}

fn headroom(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| *number <= 1000);
    number.ok_or_else(|| "not a percentage such as 20%".to_owned())
}

pub(super) fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(period) = text.parse() {
        return Ok(Moment::Ago(period));
    }
    let wrong = |_| "neither a time such as 2026-10-01T00:00:00Z nor a length of time such as 14d";
    text.parse()
        .map(Moment::At)
        .map_err(|error| wrong(error).to_owned())
}

/// Whether it is a group, and the name.
fn named(text: &str) -> Result<(bool, String), String> {
    match text.split_once('/') {
        Some(("quota" | "resourcequota", name)) if !name.is_empty() => Ok((false, name.to_owned())),
        Some(("group" | "clusterresourcequota", name)) if !name.is_empty() => {
            Ok((true, name.to_owned()))
        }
        _ => Err("neither quota/NAME nor group/NAME".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_or_so_long_ago() {
        assert_eq!(moment("14d"), Ok(Moment::Ago("14d".parse().unwrap())));
        let time = "2026-11-20T10:00:00Z";
        assert_eq!(moment(time), Ok(Moment::At(time.parse().unwrap())));
        assert!(moment("yesterday").is_err());
        let now: Timestamp = time.parse().unwrap();
        let day_before = Moment::Ago("1d".parse().unwrap()).time(now);
        assert_eq!(day_before.to_string(), "2026-11-19T10:00:00Z");
    }

    #[test]
    fn what_is_left_out_is_a_quota_or_a_group() {
        assert_eq!(named("quota/q"), Ok((false, "q".to_owned())));
        assert_eq!(named("group/g"), Ok((true, "g".to_owned())));
        for wrong in ["q", "quota/", "pod/x"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
