//! The Quota Ledger daemon.

pub mod admission;
pub mod api;
pub mod auth;
mod checkpoint;
pub mod cluster;
pub mod config;
mod daemon;
mod demo;
mod denials;
mod disk_space;
pub mod enforcement;
pub mod fairness;
mod fatal;
pub mod history;
pub mod intake;
pub mod kube;
mod label_selector;
mod log_limiter;
mod maintenance;
pub mod metrics;
mod precondition;
pub mod problem;
pub mod recovery;
pub mod reload;
mod render;
pub mod routes;
pub mod server;
mod ui;
pub mod writer;

use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use quota_semantics::Timestamp;
pub use quota_service::{exit, shutdown};
use quota_service::{
    exit::{Exit, Failure, OrExit as _},
    program,
    telemetry::Telemetry,
};
use rustix::fs::Mode;

use config::schema::Config;

// `quotad` from its command line to its exit code.

/// `quotad`: parses the command line, runs, and returns the exit code.
pub fn main() -> Exit {
    program::main(telemetry, |config| run(config, |_| {}))
}

pub(crate) fn telemetry(config: &Config) -> Telemetry<'_> {
    Telemetry { log: &config.log, traces: Some(&config.traces) }
}

/// Serves until a stop signal. `ready` is called with the address of the API once it serves.
pub(crate) fn run(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), Failure> {
    keep_private(&config.data_dir);
    let metrics = metrics::install(config.limits.metrics_series.get()).or_exit(Exit::Failure)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(daemon::serve(config, metrics, ready))
}

/// Makes files readable by this user alone: the ledger holds names of users and objects. Closes a data directory that
/// others can read.
fn keep_private(data_dir: &Path) {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let Ok(metadata) = fs::metadata(data_dir) else {
        // The directory will be created.
        return;
    };
    let mode = metadata.permissions().mode();
    if mode & 0o077 == 0 {
        return;
    }
    match fs::set_permissions(data_dir, Permissions::from_mode(0o700)) {
        Ok(()) => {
            tracing::info!(directory = %data_dir.display(), "the data directory was open to others");
        }
        Err(error) => {
            tracing::warn!(directory = %data_dir.display(), %error, "the data directory is open to others");
        }
    }
}

/// Wall-clock time in whole microseconds, as the API shows it: a query `at` a time from a response then finds that
/// state.
pub fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |span| span.as_nanos());
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX)).whole_microseconds()
}
