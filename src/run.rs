//! `quotad` from its command line to its exit code.

use std::{
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use quota_service::{program, telemetry::Telemetry};
use rustix::fs::Mode;

use crate::{
    config::Config,
    daemon,
    exit::{Exit, Failure, OrExit as _},
    metrics,
};

/// `quotad`: parses the command line, runs, and returns the exit code.
#[must_use]
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
