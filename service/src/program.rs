//! The common `main` of programs, from the command line to the exit code.

use std::io::Write as _;

use crate::{
    config::{self, Effective, Schema, Sources, Task},
    exit::{Exit, Failure, OrExit as _},
    telemetry::{self, Telemetry},
};

/// Reads the command line and the configuration, starts logging, runs the program, and returns its exit code.
/// `telemetry` selects the part of the configuration for logging and traces.
#[must_use]
pub fn main<S: Schema>(
    telemetry: impl FnOnce(&S) -> Telemetry<'_>,
    run: impl FnOnce(S) -> Result<(), Failure>,
) -> Exit {
    let invocation = match config::parse::<S>(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            let is_help = !error.use_stderr();
            let printed = error.print().is_ok();
            return if is_help && printed {
                Exit::Done
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
    let effective = match config::load::<S>(&sources) {
        Ok(effective) => effective,
        Err(problems) => {
            let _ = writeln!(std::io::stderr(), "{problems}");
            return Exit::Configuration;
        }
    };
    match invocation.task {
        Task::CheckConfig => {
            for (key, message) in effective.config.warnings() {
                let _ = writeln!(std::io::stderr(), "warning: {key}: {message}");
            }
            match write!(std::io::stdout(), "{}", effective.to_toml()) {
                Ok(()) => Exit::Done,
                Err(_) => Exit::Failure,
            }
        }
        Task::Run => match start(telemetry, run, effective) {
            Ok(()) => Exit::Done,
            Err(failure) => {
                tracing::error!(exit_code = failure.exit.code(), "stopped: {failure}");
                failure.exit
            }
        },
    }
}

fn start<S: Schema>(
    telemetry: impl FnOnce(&S) -> Telemetry<'_>,
    run: impl FnOnce(S) -> Result<(), Failure>,
    effective: Effective<S>,
) -> Result<(), Failure> {
    let telemetry = telemetry(&effective.config);
    let _sending = telemetry::install(telemetry, S::PROGRAM, S::VERSION).or_exit(Exit::Failure)?;
    let settings = effective.overridden().join("; ");
    tracing::info!(version = S::VERSION, settings, "starting");
    for (key, message) in effective.config.warnings() {
        tracing::warn!(key, "{message}");
    }
    run(effective.config)
}
