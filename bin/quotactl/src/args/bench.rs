//! The command line of `bench`.

use clap::Args;

use super::{amounts, at_least_one};
use quota_semantics::{Period, resource::ResourceList};

/// The settings of a measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Bench {
    /// Connections, each with one request at a time.
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// The duration of the measurement.
    #[arg(short, long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Period,
    /// The duration of the warm-up before the measurement.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) warmup: Period,
    /// Requests per second, regardless of response times [default: each connection sends the next request after a
    /// response].
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// The number of namespaces over which requests are spread.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) namespaces: u32,
    /// Reservations, or events, per request.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) batch: u16,
    /// The percentage of reservations to release; the others are superseded by the next one for the same name [default:
    /// 100, of batches 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100), conflicts_with_all = ["events"])]
    pub(crate) release: Option<u8>,
    /// The resources to reserve; each has a limit in each namespace.
    #[arg(long, value_name = "RESOURCE=QUANTITY,…", default_value = "pods=1,requests.cpu=100m,requests.memory=128Mi", value_parser = amounts)]
    pub(crate) resources: ResourceList,
    /// The lifetime of reservations that are not released [default: the daemon's].
    #[arg(long, value_name = "TIME", conflicts_with = "events")]
    pub(crate) ttl: Option<Period>,
    /// Push events of objects instead of reserving.
    #[arg(long)]
    pub(crate) events: bool,
    /// Sending threads [default: half of the processors].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: Option<usize>,
    /// Keep the quotas of the measurement.
    #[arg(long)]
    pub(crate) keep: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|rate: &f64| (0.01..=10_000_000.0).contains(rate))
        .ok_or_else(|| "not a number from 0.01 to 10,000,000".to_owned())
}
