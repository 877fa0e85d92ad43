//! `quotad` from its command line to its exit code.

use std::io::Write as _;

use anyhow::Context as _;

use crate::{
    config::{self, Effective, Sources, Task},
    daemon,
    exit::{Exit, Failure, OrExit as _},
    metrics, telemetry,
};

/// `quotad`: reads the command line, does what it asks for, says how it ended.
#[must_use]
pub fn main() -> Exit {
    let invocation = match config::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            let asked_for = !error.use_stderr();
            let printed = error.print().is_ok();
            return if asked_for && printed {
                Exit::Clean
            } else {
                Exit::Usage
            };
        }
    };
    let sources = Sources {
        file: invocation.file,
        environment: std::env::vars_os().collect(),
        flags: invocation.overrides,
    };
    let effective = match config::load(&sources) {
        Ok(effective) => effective,
        Err(problems) => {
            let _ = writeln!(std::io::stderr(), "{problems}");
            return Exit::Configuration;
        }
    };
    match invocation.task {
        Task::CheckConfig => match write!(std::io::stdout(), "{}", effective.to_toml()) {
            Ok(()) => Exit::Clean,
            Err(_) => Exit::Failure,
        },
        Task::Run => match run(effective) {
            Ok(()) => Exit::Clean,
            Err(failure) => {
                tracing::error!(exit_code = failure.exit.code(), "stopped: {failure}");
                failure.exit
            }
        },
    }
}

fn run(effective: Effective) -> Result<(), Failure> {
    telemetry::install(&effective.config.log).or_exit(Exit::Failure)?;
    let settings = effective.overridden().join("; ");
    tracing::info!(version = env!("CARGO_PKG_VERSION"), settings, "starting");
    let config = effective.config;
    let metrics = metrics::install(config.limits.metrics_series.get()).or_exit(Exit::Failure)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(daemon::serve(config, metrics))
}
