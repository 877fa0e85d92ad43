//! The command lines of `simulate` and `suggest`.

use std::path::PathBuf;

use clap::Args;

use super::PastPeriod;

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
    /// The period [default: the last 14 days].
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// End with 10 if anything would have been refused.
    #[arg(long)]
    pub(crate) fail_on_refusal: bool,
}

/// Limits to suggest.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Suggest {
    /// The period [default: the last 30 days].
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// The share of time in which a suggested limit suffices, in percent; 100: all of it.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percentile)]
    pub(crate) percentile: f64,
    /// What is added, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = headroom)]
    pub(crate) headroom: u32,
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
    fn what_is_left_out_is_a_quota_or_a_group() {
        assert_eq!(named("quota/q"), Ok((false, "q".to_owned())));
        assert_eq!(named("group/g"), Ok((true, "g".to_owned())));
        for wrong in ["q", "quota/", "pod/x"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
