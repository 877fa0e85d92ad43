//! The command line of `bench`.

use clap::Args;

use super::{Amounts, amounts, at_least_one};
use quota_semantics::Period;

/// A measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct Bench {
    /// Connections, each with one request at a time.
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = at_least_one)]
    pub(crate) connections: usize,
    /// How long it is measured.
    #[arg(short, long, value_name = "TIME", default_value = "10s")]
    pub(crate) duration: Period,
    /// How long it runs before anything counts.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub(crate) warmup: Period,
    /// Requests per second, whatever the answers take [default: each connection asks again when it was answered].
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Namespaces that the requests are spread over: one is a hot one.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) namespaces: u32,
    /// Reservations, or events, of one request.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) batch: u16,
    /// How many of 100 reservations are released; the others give way to the next for the same name [default: 100, of
    /// batches 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(..=100), conflicts_with_all = ["events"])]
    pub(crate) release: Option<u8>,
    /// What is reserved; each of these has a limit in each namespace.
    #[arg(long, value_name = "RESOURCE=QUANTITY,…", default_value = "pods=1,requests.cpu=100m,requests.memory=128Mi", value_parser = amounts)]
    pub(crate) resources: Amounts,
    /// How long reservations are held if they are not released [default: as the daemon is configured].
    #[arg(long, value_name = "TIME", conflicts_with = "events")]
    pub(crate) ttl: Option<Period>,
    /// Push events of objects instead of reserving.
    #[arg(long)]
    pub(crate) events: bool,
    /// Threads that send [default: half of the processors].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) threads: Option<usize>,
    /// Leave the quotas that were made for the measurement.
    #[arg(long)]
    pub(crate) keep: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|rate: &f64| (0.01..=10_000_000.0).contains(rate))
        .ok_or_else(|| "not a number from 0.01 to 10,000,000".to_owned())
}
