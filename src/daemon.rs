//! Puts the daemon together, and takes it down in order.

use std::{net::SocketAddr, num::NonZeroUsize, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::Router;
use quota_ledger::{
    admission::Charging,
    decide::Policy,
    journal::{self, FileJournal, FileReader},
    quota::{LimitedResource, limited},
    replay,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    admin::{self, Readiness},
    admission::{self, Hook, Rules},
    api::{self, App, NoSources, Parts},
    auth::{self, Authenticator},
    checkpoint::{self, Publisher, StartError},
    config::Config,
    denials,
    exit::{Exit, Failure, OrExit as _},
    intake::{nats, payload},
    kube::{self, Kube},
    metrics::{self, Listener, Metrics},
    recovery::recover,
    server::{Bound, Options, Routes, descriptors, tls::Tls},
    shutdown::{self, Signals},
    space::Lookout,
    upkeep::{Quotas, Upkeep},
    writer::{self, Ledger, Threads, Watermark},
};

/// Serves until a signal says otherwise.
pub(crate) async fn serve(config: Config, metrics: Metrics) -> Result<(), Failure> {
    let config = Arc::new(within_descriptors(config));
    let signals = shutdown::listen().context("cannot listen for signals")?;
    let stop = signals.stop.clone();
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
    tokio::spawn(run_metrics(metrics.clone()));

    let (authenticator, tls) = secure(&config, &signals)?;
    let opened = open(&config).await?;
    metrics.set_quotas(Quotas(opened.ledger.clone()));
    recovering.pass();
    let upkeep = Upkeep::new(opened.ledger.clone(), opened.reader.clone(), config.clone());
    let kept = tokio::spawn(upkeep.clone().run(stop.clone()));
    let room = readiness.register("disk", "not looked at yet");
    let lookout = Lookout::new(
        config.data_dir.clone(),
        config.disk.min_free,
        opened.ledger.clone(),
        room,
    );
    tokio::spawn(lookout.run(stop.clone()));
    let signed = sign(&config, &opened, &stop).await?;
    let charging = charging(&config)?;
    let events = payload::Reader::new(&config.kinds, config.quotas.adopt);
    let events = Arc::new(events.with_charging(charging.clone()));
    let intake = take_in(&config, &opened.ledger, events.clone(), &readiness, &stop).await?;
    let api = bind("listen", config.listen)?;
    let api_address = api.address();
    let app = App::new(Parts::new(
        &config,
        opened.ledger.clone(),
        opened.reader.clone(),
        intake.sources(),
        policy(&config)?,
        events,
        stop.clone(),
    ));
    let hook = Hook::new(opened.ledger.clone(), rules(&config, charging)?);
    let kube = Kube::start(opened.ledger.clone(), (&*config).into(), stop.clone());
    let express = api::Express::new(app.clone(), authenticator.clone());
    let router = auth::guarded(routes(app, hook.clone(), kube), authenticator);
    let routes = Routes::from(router).with_express(Arc::new(express));
    let options = Options::new(Listener::Api, &config)
        .with_route_body_bytes("/v1/events", config.limits.events_body_bytes.bytes())
        .with_route_body_bytes("/v1/drift", config.limits.events_body_bytes.bytes())
        .with_route_body_bytes("/v1/corrections", config.limits.events_body_bytes.bytes())
        .with_route_body_bytes(admission::ROUTE, admission::BODY_BYTES_MAX as u64)
        .never_repeating(admission::ROUTE);
    let served = tokio::spawn(api.serve(routes, options, tls, stop.clone()));
    let reviewed = review(&config, hook, &signals)?;
    draining.pass();
    let admission = reviewed.as_ref().map(|(address, _)| address.to_string());
    tracing::info!(api = %api_address, admin = %admin_address, admission, "ready");

    stop.cancelled().await;
    draining.fail("the daemon stops");
    served.await.context("the API's listener failed")?;
    if let Some((_, reviewed)) = reviewed {
        reviewed.await.context("the webhook's listener failed")?;
    }
    intake.ended().await?;
    kept.await.context("the upkeep failed")?;
    if let Some(signed) = signed {
        signed.await.context("signing checkpoints failed")?;
    }
    close(opened, &upkeep).await?;
    closing.cancel();
    admin.await.context("the admin listener failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// The configuration, with as many connections as there are file descriptors for.
fn within_descriptors(mut config: Config) -> Config {
    let listeners = 2 + usize::from(config.admission.listen.is_some());
    let connections = &mut config.limits.connections;
    let fit = descriptors::connections(listeners, connections.get());
    *connections = NonZeroUsize::new(fit).unwrap_or(*connections);
    config
}

/// All that the API's listener offers. What callers need for each path stands in [`auth::access`].
pub(crate) fn routes(app: App, hook: Hook, kube: Kube) -> Router {
    api::router(app)
        .merge(admission::router(hook))
        .merge(kube::router(kube))
}

/// Who may call the API, and how it is kept from others. Files are followed.
fn secure(config: &Config, signals: &Signals) -> Result<(Authenticator, Option<Tls>), Failure> {
    let (authenticator, tokens) = Authenticator::load(&config.auth).or_exit(Exit::Configuration)?;
    if let Some(tokens) = tokens {
        tokio::spawn(tokens.run(signals.reload.clone(), signals.stop.clone()));
    }
    if !config.tls.api {
        if config.auth.tokens_file.is_some() && !config.listen.ip().is_loopback() {
            tracing::warn!("tokens cross the network in the clear, since tls.api is off");
        }
        return Ok((authenticator, None));
    }
    let (tls, certificates) = Tls::load_for_api(&config.tls).or_exit(Exit::Configuration)?;
    tokio::spawn(certificates.run(signals.reload.clone(), signals.stop.clone()));
    Ok((authenticator, Some(tls)))
}

/// Serves the webhook by TLS, if it has an address. Its certificates are followed.
fn review(
    config: &Config,
    hook: Hook,
    signals: &Signals,
) -> Result<Option<(SocketAddr, JoinHandle<()>)>, Failure> {
    let Some(address) = config.admission.listen else {
        return Ok(None);
    };
    let (tls, follower) = Tls::load(&config.tls).or_exit(Exit::Configuration)?;
    tokio::spawn(follower.run(signals.reload.clone(), signals.stop.clone()));
    let bound = bind("admission.listen", address)?;
    let address = bound.address();
    let options = Options::new(Listener::Admission, config)
        .with_route_body_bytes(admission::ROUTE, admission::BODY_BYTES_MAX as u64);
    let served = bound.serve(
        admission::router(hook),
        options,
        Some(tls),
        signals.stop.clone(),
    );
    Ok(Some((address, tokio::spawn(served))))
}

fn charging(config: &Config) -> Result<Charging, Failure> {
    let kinds = config.admission.charge.iter().map(String::as_str);
    Charging::new(kinds).or_exit(Exit::Configuration)
}

fn rules(config: &Config, charging: Charging) -> Result<Rules, Failure> {
    Ok(Rules {
        policy: policy(config)?,
        charging,
        warn_ratio: config.admission.warn_ratio,
        allow_when_behind: config.admission.allow_when_behind,
        request_timeout: config.limits.request_timeout.get(),
    })
}

/// Signs checkpoints, if there is a key.
async fn sign(
    config: &Config,
    opened: &Opened,
    stop: &CancellationToken,
) -> Result<Option<JoinHandle<()>>, Failure> {
    let rules = &config.checkpoint;
    let (Some(key_file), Some(file)) = (&rules.key_file, &rules.file) else {
        return Ok(None);
    };
    let settings = checkpoint::Settings {
        key_file: key_file.clone(),
        file: file.clone(),
        every_entries: rules.every_entries.get(),
        every: rules.every.get(),
    };
    let reader = opened.reader.clone();
    let signer = tokio::task::spawn_blocking(move || checkpoint::Signer::open(settings, &reader));
    let signer = signer.await.context("reading checkpoints failed")?;
    let signer = signer.map_err(|error| Failure {
        exit: match &error {
            StartError::Contradiction { .. } => Exit::Damaged,
            StartError::Journal(error) => exit_of_journal(error),
            _ => Exit::Configuration,
        },
        error: error.into(),
    })?;
    let publisher = match &rules.nats_subject {
        Some(subject) => {
            let client = nats::plain(&config.nats, "quotad checkpoints").await;
            let client = client.or_exit(Exit::Configuration)?;
            Some(Publisher::new(client, subject.clone()))
        }
        None => None,
    };
    let signing = signer.run(opened.ledger.clone(), publisher, stop.clone());
    Ok(Some(tokio::spawn(signing)))
}

/// What is consumed besides HTTP.
struct Intake(Option<(nats::Status, JoinHandle<()>)>);

impl Intake {
    fn sources(&self) -> Arc<dyn api::Sources> {
        match &self.0 {
            Some((status, _)) => Arc::new(status.clone()),
            None => Arc::new(NoSources),
        }
    }

    async fn ended(self) -> Result<(), Failure> {
        let Some((_, task)) = self.0 else {
            return Ok(());
        };
        Ok(task.await.context("the intake failed")?)
    }
}

async fn take_in(
    config: &Config,
    ledger: &Ledger,
    events: Arc<payload::Reader>,
    readiness: &Readiness,
    stop: &CancellationToken,
) -> Result<Intake, Failure> {
    if config.nats.url.is_none() {
        return Ok(Intake(None));
    }
    let caught_up = readiness.register("stream", "not caught up with the stream yet");
    let entries = config.journal.max_batch_entries.get();
    let running = nats::start(&config.nats, entries, events, ledger.clone(), stop.clone())
        .await
        .context("cannot consume the stream")
        .or_exit(Exit::Configuration)?;
    let status = running.status.clone();
    tokio::spawn(async move {
        status.caught_up_once().await;
        caught_up.pass();
    });
    Ok(Intake(Some((running.status, running.task))))
}

/// A ledger that is open, and its writer.
struct Opened {
    ledger: Ledger,
    reader: FileReader,
    threads: Threads<FileJournal>,
    denials_thread: std::thread::JoinHandle<()>,
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
    let bounds = denials::Bounds {
        records: config.denials.max_records.get(),
        age: config.denials.max_age.get(),
    };
    let file = config.data_dir.join("denials.ndjson");
    let kept = denials::start(&file, bounds);
    let (denials, denials_thread) = kept.map_err(|source| {
        let error = journal::Error::io(file, "keep denials in", source);
        Failure {
            exit: exit_of_journal(&error),
            error: error.into(),
        }
    })?;
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
        ledger: ledger.keeping_denials(denials),
        reader,
        threads,
        denials_thread,
    })
}

/// The last snapshot makes the next start quick; without it nothing is lost.
async fn close(opened: Opened, upkeep: &Upkeep) -> Result<(), Failure> {
    if upkeep.has_news()
        && !opened.ledger.is_disk_low()
        && let Err(error) = upkeep.snapshot().await
    {
        tracing::warn!(%error, "no snapshot at the end");
    }
    let closed = tokio::task::spawn_blocking(move || {
        opened.ledger.close();
        let journal = opened.threads.join()?;
        if let Some(denials) = opened.ledger.denials() {
            denials.close();
        }
        if opened.denials_thread.join().is_err() {
            tracing::error!("the thread that keeps denials panicked");
        }
        journal.close()
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
        replay::Error::Journal(error) => exit_of_journal(error),
    }
}

fn exit_of_journal(error: &journal::Error) -> Exit {
    match error {
        journal::Error::Damaged(_) => Exit::Damaged,
        error if error.is_failed_write() => Exit::Poisoned,
        _ => Exit::Failure,
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

fn bind(key: &str, address: SocketAddr) -> Result<Bound, Failure> {
    Ok(Bound::bind(address).with_context(|| format!("cannot listen on {key} = {address}"))?)
}

/// How often recorded samples are taken into the histograms.
const UPKEEP: Duration = Duration::from_secs(5);

async fn run_metrics(metrics: Metrics) {
    let mut ticks = tokio::time::interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
