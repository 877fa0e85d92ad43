//! Starts the parts of the daemon, and stops them in order.

mod ledger;
mod policy;
pub(crate) mod routes;

use std::{net::SocketAddr, num::NonZeroUsize, sync::Arc};

use anyhow::Context as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use quota_semantics::admission::Charging;
use quota_service::{
    health::{self, Health, Readiness},
    periodic::{METRICS_UPKEEP, run_every},
    systemd,
};

use crate::{
    admission::{Hook, audit},
    api::{self, App, NoSources, Parts},
    auth::Authenticator,
    checkpoint::{self, Destination},
    cluster::{self, Cluster},
    config::{Config, schema},
    disk_space::DiskSpaceGuard,
    exit::{Exit, Failure, OrExit as _},
    intake::{nats, payload},
    kube::{self, Kube},
    maintenance::{Maintenance, Quotas},
    metrics::{Listener, Metrics},
    reload::{Followed, follow},
    router::{Rules, router},
    routes::Route,
    server::{Bound, Hosts, Options, descriptors, tls::Tls},
    shutdown::{self, Signals},
    supervisor,
    writer::Ledger,
};
use ledger::{Opened, close, open};
use policy::{charging, rules};

/// Serves until a stop signal. `ready` is called with the address of the API once it serves.
pub(crate) async fn serve(
    config: Config,
    metrics: Metrics,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let config = Arc::new(within_descriptors(config));
    let signals = shutdown::listen().context("cannot listen for signals")?;
    // After a stop signal the daemon still serves for a while, so that callers notice first.
    let stop = CancellationToken::new();
    let readiness = Readiness::default();
    let recovering = readiness.register("ledger", "not recovered yet");
    let draining = readiness.register("draining", "starting");

    let closing = CancellationToken::new();
    let (admin_address, admin) = start_admin(&config, &metrics, &readiness, closing.clone())?;
    let (authenticator, tls) = secure(&config, &signals)?;
    tokio::select! {
        joined = cluster::before_opening(&config, &recovering) => joined?,
        () = signals.stop.cancelled() => return Ok(()),
    }
    let opened = open(&config, signals.stop.clone()).await?;
    metrics.set_quotas(Quotas(opened.ledger.clone()));
    recovering.pass();
    let maintenance =
        Maintenance::new(opened.ledger.clone(), opened.reader.clone(), config.clone());
    let maintained =
        supervisor::spawn("the maintenance", stop.clone(), maintenance.clone().run(stop.clone()));
    supervisor::spawn_until(
        "the watch on the journal",
        stop.clone(),
        maintenance.clone().watch_journal(),
    );
    supervisor::spawn(
        "the watch on the disk",
        stop.clone(),
        disk_space_guard(&config, &opened.ledger, &readiness)?.run(stop.clone()),
    );
    supervisor::spawn(
        "the wait for the stop",
        signals.stop.clone(),
        stop_waiting_for_space(signals.stop.clone(), opened.ledger.clone()),
    );
    let signer = sign(&config, &opened, &stop).await?;
    let charging = charging(&config)?;
    let (cluster, member) = join(&config, &opened, &readiness, &metrics).await?.unzip();
    record_rules(&config, &charging, &opened.ledger, cluster.is_some(), &stop).await?;
    let events = build_events(&config, charging.clone());
    let intake =
        start_intake(&config, &opened.ledger, events.clone(), &readiness, &metrics, &stop).await?;
    let api = bind("listen", config.listen)?;
    let api_address = api.address();
    let mut parts = Parts::new(
        &config,
        opened.ledger.clone(),
        opened.reader.clone(),
        intake.sources(),
        events,
        stop.clone(),
    );
    parts.cluster = cluster.clone();
    let app = App::new(parts);
    let hook = Hook::new(opened.ledger.clone(), intake.sources(), rules(&config, charging));
    let health = hook.clone();
    readiness.register_computed("quota-plugin", move || health.plugin_health());
    let is_shared = config.quotas.adopt && !config.quotas.plugin_is_off;
    if is_shared && config.admission.listen.is_some() {
        supervisor::spawn(
            "the search for shared quotas",
            stop.clone(),
            hook.clone().detect_shared_quotas(stop.clone()),
        );
    }
    let kube = Kube::start(opened.ledger.clone(), (&*config).into(), stop.clone());
    let routes = || routes::of_api(app.clone(), hook.clone(), kube.clone(), readiness.clone());
    let peers = match &cluster {
        Some(cluster) => Some(serve_nodes(&config, cluster, routes(), &signals, &stop)?),
        None => None,
    };
    let rules = Rules::default()
        .with_authenticator(authenticator.clone())
        .with_refusals(kube::refused)
        .in_cluster(cluster.clone());
    let options = options(&config).draining_on(signals.stop.clone());
    let served = supervisor::spawn(
        "the listener of the API",
        stop.clone(),
        api.serve(router(routes(), rules), options, tls, stop.clone()),
    );
    let rules = Rules::default().in_cluster(cluster.clone());
    let hook = (routes::of_webhook(hook), rules);
    let webhook = start_webhook(&config, hook, authenticator, &signals, stop.clone())?;
    draining.pass();
    let (admission, webhook) = webhook.unzip();
    let admission = admission.map(|address| address.to_string());
    tracing::info!(api = %api_address, admin = %admin_address, admission, "ready");
    systemd::ready();
    ready(api_address);

    signals.stop.cancelled().await;
    draining.fail("the daemon stops");
    if let Some(cluster) = &cluster {
        cluster.leave().await;
    }
    tokio::time::sleep(config.shutdown.drain.get()).await;
    stop.cancel();
    let tasks =
        Tasks { api: served, peers, webhook, intake, maintenance: maintained, signer, member };
    tasks.ended().await?;
    close(opened, &maintenance).await?;
    closing.cancel();
    admin.await.context("the admin listener failed")?;
    tracing::info!("stopped");
    Ok(())
}

/// Lets the daemon stop although its disk is low.
async fn stop_waiting_for_space(stop: CancellationToken, ledger: Ledger) {
    stop.cancelled().await;
    ledger.stop_waiting_for_space();
}

/// The tasks that use the ledger. They end after `stop` was cancelled.
struct Tasks {
    api: JoinHandle<()>,
    peers: Option<JoinHandle<()>>,
    webhook: Option<JoinHandle<()>>,
    intake: Intake,
    maintenance: JoinHandle<()>,
    signer: Option<JoinHandle<()>>,
    member: Option<cluster::Running>,
}

impl Tasks {
    /// Waits for their ends: first of what changes the ledger, then of what follows it.
    async fn ended(self) -> Result<(), Failure> {
        self.api.await.context("the API's listener failed")?;
        if let Some(peers) = self.peers {
            peers.await.context("the listener for other nodes failed")?;
        }
        if let Some(webhook) = self.webhook {
            webhook.await.context("the webhook's listener failed")?;
        }
        let changing = async {
            self.intake.ended().await?;
            self.maintenance.await.context("the maintenance failed")?;
            Ok::<_, Failure>(())
        };
        match self.member {
            Some(member) => member.end_after(changing).await?,
            None => changing.await?,
        }
        if let Some(signer) = self.signer {
            signer.await.context("signing checkpoints failed")?;
        }
        Ok(())
    }
}

/// The reader of events, with the configured kinds and rules.
fn build_events(config: &Config, charging: Charging) -> Arc<payload::Reader> {
    let events = payload::Reader::new(&config.kinds, config.quotas.adopt)
        .with_group_depth(config.groups.max_depth.get())
        .with_charging(charging);
    Arc::new(events)
}

/// Records the rules in the ledger: at once, or in a cluster whenever this node leads.
async fn record_rules(
    config: &Arc<Config>,
    charging: &Charging,
    ledger: &Ledger,
    in_cluster: bool,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    if !in_cluster {
        return policy::record(config, charging, ledger).await;
    }
    let recorded = policy::record_while_leading(config.clone(), charging.clone(), ledger.clone());
    supervisor::spawn_until("the recording of rules", stop.clone(), recorded);
    Ok(())
}

/// Joins the cluster, if one is configured.
async fn join(
    config: &Config,
    opened: &Opened,
    readiness: &Readiness,
    metrics: &Metrics,
) -> Result<Option<(Cluster, cluster::Running)>, Failure> {
    let Some(replica) = opened.replica.clone() else {
        return Ok(None);
    };
    let (ledger, reader) = (opened.ledger.clone(), opened.reader.clone());
    let cluster = Cluster::new(config, ledger, replica, reader).await?;
    let member = cluster.start().await?;
    let health = cluster.clone();
    readiness.register_computed("cluster", move || health.health());
    let storage = cluster.clone();
    readiness.register_computed("cluster-storage", move || storage.storage_health());
    let scraped = cluster.clone();
    metrics.before_scrape(move || scraped.set_metrics());
    Ok(Some((cluster, member)))
}

/// Serves the other nodes of the cluster.
fn serve_nodes(
    config: &Config,
    cluster: &Cluster,
    routes: Vec<Route>,
    signals: &Signals,
    stop: &CancellationToken,
) -> Result<JoinHandle<()>, Failure> {
    let settings = &config.cluster;
    let address = settings.listen.context("cluster.listen is not set")?;
    let tls = match settings.tls_cert {
        None => None,
        Some(_) => {
            let files = schema::Tls {
                cert: settings.tls_cert.clone(),
                key: settings.tls_key.clone(),
                ..schema::Tls::default()
            };
            let (tls, follower) = Tls::load_for_api(&files).or_exit(Exit::Configuration)?;
            follow_files(follower, signals);
            Some(tls)
        }
    };
    let bound = bind("cluster.listen", address)?;
    let router = router(routes, Rules::default().for_nodes_of(cluster.clone()));
    let options = Options::new(Listener::Peers, config);
    Ok(supervisor::spawn(
        "the listener for other nodes",
        stop.clone(),
        bound.serve(router, options, tls, stop.clone()),
    ))
}

/// Serves probes and scrapes: from the start, so during recovery as well, to the end of the drain.
fn start_admin(
    config: &Config,
    metrics: &Metrics,
    readiness: &Readiness,
    closing: CancellationToken,
) -> Result<(SocketAddr, JoinHandle<()>), Failure> {
    let bound = bind("admin.listen", config.admin.listen)?;
    let address = bound.address();
    let options = Options::new(Listener::Admin, config);
    let options = match config.admin.listen.ip().is_loopback() {
        true => options.with_hosts(Hosts::new(&config.http.allowed_hosts)),
        // Probes and scrapers come by many names. No page reaches more by a name of its own than by the address.
        false => options,
    };
    let served = bound.serve(
        router(routes::of_admin(render(metrics), readiness.clone()), Rules::default()),
        options,
        None,
        closing.clone(),
    );
    let metrics = metrics.clone();
    let upkeep = run_every(METRICS_UPKEEP, move || metrics.run_upkeep());
    supervisor::spawn_until("the upkeep of metrics", closing.clone(), upkeep);
    let served = supervisor::spawn("the admin listener", closing, served);
    Ok((address, served))
}

/// Renders the metrics for the listener.
fn render(metrics: &Metrics) -> health::Render {
    let metrics = metrics.clone();
    Arc::new(move || metrics.render())
}

fn disk_space_guard(
    config: &Config,
    ledger: &Ledger,
    readiness: &Readiness,
) -> Result<DiskSpaceGuard, Failure> {
    let health = readiness.register("disk", "not checked yet");
    let directory = config.data_dir.clone();
    let guard = DiskSpaceGuard::new(directory, config.disk.min_free, ledger.clone(), health);
    guard.context("cannot find the ledger").or_exit(Exit::Damaged)
}

/// The options of the API's listener.
fn options(config: &Config) -> Options {
    Options::new(Listener::Api, config).with_hosts(Hosts::new(&config.http.allowed_hosts))
}

/// The configuration, with the number of connections lowered to the available file descriptors.
fn within_descriptors(mut config: Config) -> Config {
    let listeners = listeners(&config);
    let connections = &mut config.limits.connections;
    let fit = descriptors::connections(listeners, connections.get());
    *connections = NonZeroUsize::new(fit).unwrap_or(*connections);
    config
}

/// How many listeners accept connections: that of the API, of probes, of the webhook, and of the cluster's other nodes.
fn listeners(config: &Config) -> usize {
    let webhook = config.admission.listen.is_some();
    2 + usize::from(webhook) + usize::from(config.cluster.is_on())
}

fn follow_files(files: impl Followed + 'static, signals: &Signals) {
    let following = follow(files, signals.reload.clone(), signals.stop.clone());
    supervisor::spawn("the reload of files", signals.stop.clone(), following);
}

/// The authenticator and the TLS of the API. Both follow changes of their files.
fn secure(config: &Config, signals: &Signals) -> Result<(Authenticator, Option<Tls>), Failure> {
    let (authenticator, tokens) = Authenticator::load(&config.auth).or_exit(Exit::Configuration)?;
    if let Some(tokens) = tokens {
        follow_files(tokens, signals);
    }
    if !config.tls.api {
        if config.auth.tokens_file.is_some() && !config.listen.ip().is_loopback() {
            tracing::warn!("tokens cross the network in the clear, since tls.api is off");
        }
        return Ok((authenticator, None));
    }
    let (tls, certificates) = Tls::load_for_api(&config.tls).or_exit(Exit::Configuration)?;
    follow_files(certificates, signals);
    Ok((authenticator, Some(tls)))
}

/// Serves the webhook over TLS, if it has an address. Follows changes of the certificate files.
fn start_webhook(
    config: &Config,
    (routes, rules): (Vec<Route>, Rules),
    authenticator: Authenticator,
    signals: &Signals,
    stop: CancellationToken,
) -> Result<Option<(SocketAddr, JoinHandle<()>)>, Failure> {
    let Some(address) = config.admission.listen else {
        return Ok(None);
    };
    let (tls, follower) = Tls::load(&config.tls).or_exit(Exit::Configuration)?;
    follow_files(follower, signals);
    let bound = bind("admission.listen", address)?;
    let address = bound.address();
    let options = Options::new(Listener::Admission, config).draining_on(signals.stop.clone());
    let rules = match config.tls.client_ca {
        // Each caller has shown a certificate.
        Some(_) => rules,
        // Audit events release capacity, so they are taken from nobody who is not known.
        None => rules.with_authenticator_at(audit::ROUTE, authenticator.or_nobody()),
    };
    let served = bound.serve(router(routes, rules), options, Some(tls), stop.clone());
    let served = supervisor::spawn("the listener of the webhook", stop, served);
    Ok(Some((address, served)))
}

/// Signs checkpoints, if a key is configured.
async fn sign(
    config: &Config,
    opened: &Opened,
    stop: &CancellationToken,
) -> Result<Option<JoinHandle<()>>, Failure> {
    let rules = config.checkpoint.clone();
    let is_replica = opened.replica.is_some();
    let reader = opened.reader.clone();
    let opening = move || checkpoint::Signer::open(&rules, is_replica, reader);
    let signer = tokio::task::spawn_blocking(opening).await;
    let Some(signer) = signer.context("reading checkpoints failed")?? else {
        return Ok(None);
    };
    let places = places(config).await?;
    let stop = stop.clone();
    let signing = {
        let stop = stop.clone();
        async move {
            // It may give up, with an error in the log.
            signer.run(places, stop.clone()).await;
            stop.cancelled().await;
        }
    };
    Ok(Some(supervisor::spawn("the signing of checkpoints", stop, signing)))
}

/// The destinations of checkpoints.
async fn places(config: &Config) -> Result<Vec<Destination>, Failure> {
    let rules = &config.checkpoint;
    let mut places = Vec::new();
    if let Some(subject) = &rules.nats_subject {
        let client = nats::plain(&config.nats, "quotad checkpoints").await;
        let client = client.or_exit(Exit::Configuration)?;
        places.push(Destination::nats(client, subject.clone()));
    }
    places.extend(rules.copy_dir.clone().map(Destination::Directory));
    Ok(places)
}

/// The event sources besides HTTP.
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

async fn start_intake(
    config: &Config,
    ledger: &Ledger,
    events: Arc<payload::Reader>,
    readiness: &Readiness,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> Result<Intake, Failure> {
    if config.nats.url.is_none() {
        return Ok(Intake(None));
    }
    let running = nats::start(config, events, ledger.clone(), stop.clone())
        .await
        .context("cannot consume the stream")
        .or_exit(Exit::Configuration)?;
    let status = &running.status;
    let stream = status.clone();
    readiness.register_computed("stream", move || stream.stream_health());
    if status.watermark_health().is_some() {
        let watermarks = status.clone();
        let health = move || watermarks.watermark_health().unwrap_or(Health::Passed);
        readiness.register_computed("watermarks", health);
    }
    let scraped = status.clone();
    metrics.before_scrape(move || scraped.set_metrics());
    Ok(Intake(Some((running.status, running.task))))
}

fn bind(key: &str, address: SocketAddr) -> Result<Bound, Failure> {
    Ok(Bound::bind(address).with_context(|| format!("cannot listen on {key} = {address}"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_has_its_share_of_the_descriptors() {
        let mut config = Config::default();
        assert_eq!(listeners(&config), 2);
        config.admission.listen = Some(([127, 0, 0, 1], 0).into());
        assert_eq!(listeners(&config), 3);
        config.cluster.servers = Some("nats://localhost".to_owned());
        assert_eq!(listeners(&config), 4);
    }
}
