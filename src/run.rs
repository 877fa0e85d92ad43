//! Puts the daemon together, and takes it down in order.

use std::{io::Write as _, time::Duration};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{self, Readiness},
    config::{self, Config, Effective, Sources, Task},
    exit::{Exit, Failure, OrExit as _},
    metrics::{self, Listener, Metrics},
    server::{Bound, Options},
    shutdown, telemetry,
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
    runtime.block_on(serve(config, metrics))
}

async fn serve(config: Config, metrics: Metrics) -> Result<(), Failure> {
    let signals = shutdown::listen().context("cannot listen for signals")?;
    let readiness = Readiness::default();
    let draining = readiness.register("draining", "starting");

    // Probes and scrapes are answered during recovery and during the drain.
    let closing = CancellationToken::new();
    let admin = bind("admin.listen", config.admin.listen)?;
    let admin_address = admin.address();
    let admin = tokio::spawn(admin.serve(
        admin::router(metrics.clone(), readiness.clone()),
        Options::new(Listener::Admin, &config),
        None,
        closing.clone(),
    ));
    tokio::spawn(upkeep(metrics));

    draining.pass();
    tracing::info!(admin = %admin_address, "ready");

    signals.stop.cancelled().await;
    draining.fail("the daemon stops");

    closing.cancel();
    admin.await.context("the admin listener failed")?;
    tracing::info!("stopped");
    Ok(())
}

fn bind(key: &str, address: std::net::SocketAddr) -> Result<Bound, Failure> {
    Ok(Bound::bind(address).with_context(|| format!("cannot listen on {key} = {address}"))?)
}

/// How often recorded samples are taken into the histograms.
const UPKEEP: Duration = Duration::from_secs(5);

async fn upkeep(metrics: Metrics) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
