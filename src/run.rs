//! Puts the daemon together, and takes it down in order.

use std::{io::Write as _, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use quota_ledger::{
    decide::Policy,
    journal::{self, FileJournal, FileReader},
    quota::{LimitedResource, limited},
    replay,
};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{self, Readiness},
    config::{self, Config, Effective, Sources, Task},
    exit::{Exit, Failure, OrExit as _},
    intake::{nats, payload::Reader},
    metrics::{self, Listener, Metrics},
    recovery::recover,
    server::{Bound, Options},
    shutdown, telemetry,
    upkeep::{Quotas, Upkeep},
    writer::{self, Ledger, Threads, Watermark},
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
    let config = Arc::new(config);
    let signals = shutdown::listen().context("cannot listen for signals")?;
    let readiness = Readiness::default();
    let recovering = readiness.register("ledger", "not recovered yet");
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
    tokio::spawn(upkeep(metrics.clone()));

    let opened = open(&config).await?;
    metrics.set_quotas(Quotas(opened.ledger.clone()));
    recovering.pass();
    let upkeep = Upkeep::new(opened.ledger.clone(), opened.reader.clone(), config.clone());
    let kept = tokio::spawn(upkeep.clone().run(signals.stop.clone()));
    let consuming = consume(&config, &opened.ledger, &readiness, &signals.stop).await?;

    draining.pass();
    tracing::info!(admin = %admin_address, "ready");

    signals.stop.cancelled().await;
    draining.fail("the daemon stops");
    kept.await.context("the upkeep failed")?;
    if let Some(consuming) = consuming {
        consuming.task.await.context("the intake failed")?;
    }
    close(opened, &upkeep).await?;
    closing.cancel();
    admin.await.context("the admin listener failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// A ledger that is open, and its writer.
struct Opened {
    ledger: Ledger,
    reader: FileReader,
    threads: Threads<FileJournal>,
}

async fn open(config: &Arc<Config>) -> Result<Opened, Failure> {
    let recovering = config.clone();
    let recovered = tokio::task::spawn_blocking(move || recover(&recovering));
    let recovered = recovered.await.context("recovery failed")?;
    let recovered = recovered.map_err(|error| {
        let exit = exit_of(&error);
        Failure {
            exit,
            error: anyhow::Error::new(error).context("cannot open the ledger"),
        }
    })?;
    let watermark = Arc::new(match config.nats.url {
        None => Watermark::without_sources(),
        Some(_) => Watermark::unknown(),
    });
    let options = writer::Options {
        policy: policy(config)?,
        queue: config.limits.queue.get(),
        max_batch_entries: config.journal.max_batch_entries.get(),
    };
    let reader = recovered.reader;
    let (ledger, threads) = writer::start(
        recovered.state,
        recovered.journal,
        recovered.durable,
        watermark,
        options,
        |error| poisoned(error),
    )
    .context("cannot start the writer")?;
    Ok(Opened {
        ledger,
        reader,
        threads,
    })
}

/// Begins to consume the stream, if there is one. The daemon is not ready before it has been caught up with.
async fn consume(
    config: &Config,
    ledger: &Ledger,
    readiness: &Readiness,
    stop: &CancellationToken,
) -> Result<Option<nats::Running>, Failure> {
    if config.nats.url.is_none() {
        return Ok(None);
    }
    let behind = readiness.register("stream", "not caught up with yet");
    let running = nats::start(
        &config.nats,
        config.journal.max_batch_entries.get(),
        Arc::new(Reader::new(&config.kinds, config.quotas.adopt)),
        ledger.clone(),
        stop.clone(),
    );
    let running = running.await.or_exit(Exit::Configuration)?;
    let status = running.status.clone();
    tokio::spawn(async move {
        status.caught_up_once().await;
        behind.pass();
    });
    Ok(Some(running))
}

/// The last snapshot makes the next start quick; without it nothing is lost.
async fn close(opened: Opened, upkeep: &Upkeep) -> Result<(), Failure> {
    if upkeep.has_news()
        && let Err(error) = upkeep.snapshot().await
    {
        tracing::warn!(%error, "no snapshot at the end");
    }
    let closed = tokio::task::spawn_blocking(move || {
        opened.ledger.close();
        opened.threads.join()?.close()
    });
    let durable = closed.await.context("closing the ledger failed")?;
    let durable = durable
        .context("cannot close the ledger")
        .or_exit(Exit::Poisoned)?;
    tracing::info!(sequence = durable.sequence, hash = %durable.hash, "ledger closed");
    Ok(())
}

/// What was acknowledged may not be on disk: nothing is answered any more, and nothing tried again.
pub(crate) fn poisoned(error: &dyn std::fmt::Display) {
    metrics::poisoned();
    tracing::error!(%error, exit_code = Exit::Poisoned.code(), "a write or sync failed");
    std::process::exit(Exit::Poisoned.code().into());
}

fn exit_of(error: &replay::Error) -> Exit {
    match error {
        replay::Error::Entries { .. } | replay::Error::Snapshot { .. } => Exit::Damaged,
        replay::Error::Journal(journal::Error::Damaged(_)) => Exit::Damaged,
        replay::Error::Journal(journal::Error::Poisoned { .. }) => Exit::Poisoned,
        replay::Error::Journal(_) => Exit::Failure,
    }
}

fn policy(config: &Config) -> Result<Policy, Failure> {
    let reservations = &config.reservations;
    Ok(Policy {
        default_ttl: reservations.default_ttl.span(),
        max_ttl: reservations.max_ttl.span(),
        max_hold: reservations.max_hold.span(),
        max_pending: reservations.max_pending.get(),
        max_pending_per_namespace: reservations.max_pending_per_namespace.get(),
        limited: limited(config.admission.limited_resources_file.as_deref())?,
    })
}

/// Kubernetes' own file, JSON or YAML.
fn limited(path: Option<&Path>) -> Result<Vec<LimitedResource>, Failure> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let read = || -> anyhow::Result<_> {
        let text = std::fs::read_to_string(path)?;
        let value: serde_json::Value = serde_saphyr::from_str(&text)?;
        Ok(limited::load(&value.to_string())?)
    };
    read()
        .with_context(|| format!("admission.limited_resources_file = {}", path.display()))
        .or_exit(Exit::Configuration)
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
