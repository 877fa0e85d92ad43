//! `quotad` from its command line to its exit code.

use anyhow::Context as _;
use quota_service::program;

use crate::{
    config::Config,
    daemon,
    exit::{Exit, Failure, OrExit as _},
    metrics,
};

/// `quotad`: reads the command line, does what it asks for, says how it ended.
#[must_use]
pub fn main() -> Exit {
    program::main(|config: &Config| &config.log, run)
}

fn run(config: Config) -> Result<(), Failure> {
    let metrics = metrics::install(config.limits.metrics_series.get()).or_exit(Exit::Failure)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(daemon::serve(config, metrics))
}
