//! The common `main` of programs, from the command line to the exit code.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

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

// Notifications to systemd (`Type=notify`), if it started the program. Otherwise nothing happens.

/// Notifies that the program is ready.
pub fn ready() {
    notify("READY=1\nSTATUS=ready");
}

/// Sets the status for `systemctl status`: one line.
pub fn status(text: &str) {
    notify(&format!("STATUS={text}"));
}

/// Notifies that the program is about to stop.
pub fn stopping() {
    notify("STOPPING=1\nSTATUS=stopping");
}

fn notify(message: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, message) {
        tracing::warn!(%error, message, "cannot notify systemd");
    }
}

/// Sends a notification. A name that begins with `@` is in the abstract namespace, any other is a path.
fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

// Work that is repeated for as long as a program runs.

/// How often recorded samples are moved into the histograms.
pub const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Runs this now, and then at each end of a period.
pub async fn run_every(period: Duration, run: impl Fn()) {
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_socket_is_written_to() {
        let name = format!("quota-ledger-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "READY=1").unwrap();
        let mut message = [0; 64];
        let length = systemd.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
        assert!(send(OsStr::new("/nonexistent/socket"), "READY=1").is_err());
    }
}
