//! The common `main` of programs, from the command line to the exit code.

use std::io::Write as _;

use crate::{
    config::{self, Schema, Sources, Task},
    exit::{Exit, Failure, OrExit as _},
    telemetry::{self, Telemetry},
};

/// Reads the command line and the configuration, starts logging, runs the program, and returns its exit code.
/// `telemetry` selects the part of the configuration for logging and traces.
pub fn main<S: Schema>(
    telemetry: impl FnOnce(&S) -> Telemetry<'_>,
    run: impl FnOnce(S) -> Result<(), Failure>,
) -> Exit {
    let invocation = match config::parse::<S>(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(error) => {
            let is_help = !error.use_stderr();
            let printed = error.print().is_ok();
            return if is_help && printed { Exit::Done } else { Exit::Usage };
        }
    };
    if let Task::Own(name) = invocation.task {
        let own = S::COMMANDS.iter().find(|command| command.name == name);
        return own.map_or(Exit::Usage, |command| (command.run)());
    }
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
        Task::Run | Task::Own(_) => {
            let settings = effective.overridden().join("; ");
            run_with(telemetry, effective.config, &settings, run)
        }
    }
}

/// Starts logging, runs the program with this configuration, and returns its exit code.
pub fn run_with<S: Schema>(
    telemetry: impl FnOnce(&S) -> Telemetry<'_>,
    config: S,
    settings: &str,
    run: impl FnOnce(S) -> Result<(), Failure>,
) -> Exit {
    match start(telemetry, config, settings, run) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            tracing::error!(exit_code = failure.exit.code(), "stopped: {failure}");
            failure.exit
        }
    }
}

fn start<S: Schema>(
    telemetry: impl FnOnce(&S) -> Telemetry<'_>,
    config: S,
    settings: &str,
    run: impl FnOnce(S) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let telemetry = telemetry(&config);
    let _sending = telemetry::install(telemetry, S::PROGRAM, S::VERSION).or_exit(Exit::Failure)?;
    tracing::info!(version = S::VERSION, settings, "starting");
    for (key, message) in config.warnings() {
        tracing::warn!(key, "{message}");
    }
    run(config)
}
