//! Starts the parts of the daemon, and stops them in order.

#[cfg(test)]
mod routes_tests;

use std::{collections::BTreeSet, net::SocketAddr, num::NonZeroUsize, path::Path, sync::Arc};

use anyhow::Context as _;
use axum::extract::Request;
use quota_core::{
    decide::{Bounds, GroupBounds, Policy},
    event::Actor,
};
use quota_semantics::{
    Name,
    admission::{Charging, Coverage},
    object::GroupResource,
    quota::{LimitedResource, limited},
};
use quota_service::{
    health::{self, Health, Readiness, Render},
    program::{self, METRICS_UPKEEP, run_every},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::{
    admission::{self, Hook, Rules as ReviewRules, audit},
    api::{self, App, NoSources, Parts},
    auth::{
        Access::{self, Authenticated, Public},
        Authenticator,
    },
    checkpoint::{self, Destination},
    cluster::{self, Cluster},
    config::{ALL_KINDS, Config, schema},
    disk_space::DiskSpaceGuard,
    exit::{Exit, Failure, OrExit as _},
    fatal,
    intake::{
        nats, payload,
        record::{set_charging, set_object_labels},
    },
    kube::{self, Kube},
    maintenance::{Maintenance, Quotas},
    metrics::{Listener, Metrics},
    recovery::{Opened, close, open},
    reload::{Followed, follow},
    routes::{Route, Rules, get, router, with_state},
    server::{self, Bound, Hosts, Options, tls::Tls},
    shutdown::{self, Signals},
    ui,
    writer::Ledger,
};

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
        fatal::spawn("the maintenance", stop.clone(), maintenance.clone().run(stop.clone()));
    fatal::spawn_until(
        "the watch on the journal",
        stop.clone(),
        maintenance.clone().watch_journal(),
    );
    fatal::spawn(
        "the watch on the disk",
        stop.clone(),
        disk_space_guard(&config, &opened.ledger, &readiness)?.run(stop.clone()),
    );
    fatal::spawn(
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
        fatal::spawn(
            "the search for shared quotas",
            stop.clone(),
            hook.clone().detect_shared_quotas(stop.clone()),
        );
    }
    let kube = Kube::start(opened.ledger.clone(), (&*config).into(), stop.clone());
    let routes = || of_api(app.clone(), hook.clone(), kube.clone(), readiness.clone());
    let peers = match &cluster {
        Some(cluster) => Some(serve_nodes(&config, cluster, routes(), &signals, &stop)?),
        None => None,
    };
    let rules = Rules::default()
        .with_authenticator(authenticator.clone())
        .with_refusals(kube::refused)
        .in_cluster(cluster.clone());
    let options = options(&config).draining_on(signals.stop.clone());
    let served = fatal::spawn(
        "the listener of the API",
        stop.clone(),
        api.serve(router(routes(), rules), options, tls, stop.clone()),
    );
    let rules = Rules::default().in_cluster(cluster.clone());
    let hook = (of_webhook(hook), rules);
    let webhook = start_webhook(&config, hook, authenticator, &signals, stop.clone())?;
    draining.pass();
    let (admission, webhook) = webhook.unzip();
    let admission = admission.map(|address| address.to_string());
    tracing::info!(api = %api_address, admin = %admin_address, admission, "ready");
    program::ready();
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
        return record(config, charging, ledger).await;
    }
    let recorded = record_while_leading(config.clone(), charging.clone(), ledger.clone());
    fatal::spawn_until("the recording of rules", stop.clone(), recorded);
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
    Ok(fatal::spawn(
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
        router(of_admin(render(metrics), readiness.clone()), Rules::default()),
        options,
        None,
        closing.clone(),
    );
    let metrics = metrics.clone();
    let upkeep = run_every(METRICS_UPKEEP, move || metrics.run_upkeep());
    fatal::spawn_until("the upkeep of metrics", closing.clone(), upkeep);
    let served = fatal::spawn("the admin listener", closing, served);
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
    let fit = server::connections(listeners, connections.get());
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
    fatal::spawn("the reload of files", signals.stop.clone(), following);
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
    let served = fatal::spawn("the listener of the webhook", stop, served);
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
    Ok(Some(fatal::spawn("the signing of checkpoints", stop, signing)))
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

// The rules of decisions, from the configuration.

pub(crate) fn policy(config: &Config) -> Result<Policy, Failure> {
    let reservations = &config.reservations;
    Ok(Policy {
        default_ttl: reservations.default_ttl.span(),
        max_ttl: reservations.max_ttl.span(),
        max_hold: reservations.max_hold.span(),
        max_pending: reservations.max_pending.get(),
        max_pending_per_namespace: reservations.max_pending_per_namespace.get(),
        max_pending_per_principal: reservations.max_pending_per_principal.get(),
        bounds: bounds(config),
        search_max: Policy::default().search_max,
        shown_max: Policy::default().shown_max,
        limited: limited(config.admission.limited_resources_file.as_deref())?,
        unlimited: reservations.unlimited,
        adopts_quotas: config.quotas.adopt,
        groups: GroupBounds {
            max: config.groups.max.get(),
            max_depth: config.groups.max_depth.get(),
            per_namespace: config.groups.max_per_namespace.get(),
        },
    })
}

fn bounds(config: &Config) -> Bounds {
    let limits = &config.limits;
    let bytes = limits.reservation_name_bytes.as_usize();
    Bounds {
        reservation_resources: limits.reservation_resources.get(),
        reservation_name_bytes: bytes,
        resources_per_namespace: limits.resources_per_namespace.get(),
        committed_per_namespace: limits.committed_per_namespace.get(),
        committed_per_principal: limits.committed_per_principal.get(),
        limits_per_quota: limits.limits_per_quota.get(),
        quotas_per_namespace: limits.quotas_per_namespace.get(),
        ended_bytes: limits.ended_reservations_bytes.bytes(),
        max_lifetime: config.reservations.max_lifetime.span(),
    }
}

/// Kubernetes' own configuration file, JSON or YAML.
fn limited(path: Option<&Path>) -> Result<Vec<LimitedResource>, Failure> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let read = || -> anyhow::Result<_> {
        let text = std::fs::read(path)?;
        let value = quota_semantics::yaml::object(&text)?;
        Ok(limited::load(&value.to_string())?)
    };
    read()
        .with_context(|| format!("admission.limited_resources_file = {}", path.display()))
        .or_exit(Exit::Configuration)
}

/// The kinds for which the API server calls the webhook: limits of other kinds are not enforced. Without a webhook no
/// limit relies on it, so all kinds count as covered.
pub(crate) fn coverage(config: &Config) -> Coverage {
    let rules = &config.admission;
    if rules.listen.is_none() || rules.count.iter().any(|kind| kind == ALL_KINDS) {
        return Coverage::everything();
    }
    let kinds = rules.count.iter().chain(&rules.charge);
    Coverage::of(kinds.filter_map(|kind| kind.parse::<GroupResource>().ok()))
}

fn charging(config: &Config) -> Result<Charging, Failure> {
    let kinds = config.admission.charge.iter().map(String::as_str);
    let charging = Charging::new(kinds).or_exit(Exit::Configuration)?;
    let labels = config.groups.object_labels.iter().map(String::as_str);
    Ok(charging.with_object_labels(labels))
}

/// Records which workloads are charged and which labels of objects are kept: usage depends on both.
async fn record(config: &Config, charging: &Charging, ledger: &Ledger) -> Result<(), Failure> {
    let stream = config.nats.url.is_some();
    let source = stream.then(|| Name::from(nats::principal(&config.nats)));
    let kinds = charging.kinds().map(|kind| Name::from(kind.to_string()));
    let kinds: BTreeSet<Name> = kinds.collect();
    let actor = Actor::named("quotad");
    let recorded = set_charging(ledger, &actor, &kinds, source.as_ref()).await;
    if recorded.context("cannot record which workloads are charged")? {
        tracing::info!(?kinds, "admission.charge was changed");
    }
    let labels = charging.object_labels();
    let recorded = set_object_labels(ledger, &actor, labels, source.as_ref()).await;
    let recorded = recorded.context("cannot record which labels of objects count")?;
    if recorded.or_exit(Exit::Configuration)? {
        tracing::info!(?labels, "groups.object_labels was changed");
    }
    Ok(())
}

/// Records the same in a cluster, each time this node begins to lead, since only the leader writes records.
async fn record_while_leading(config: Arc<Config>, charging: Charging, ledger: Ledger) {
    loop {
        ledger.wait_until_decides(true).await;
        if let Err(failure) = record(&config, &charging, &ledger).await {
            tracing::warn!(error = %failure, "rules are not recorded; the next leader will record them");
        }
        ledger.wait_until_decides(false).await;
    }
}

fn rules(config: &Config, charging: Charging) -> ReviewRules {
    ReviewRules {
        charging,
        warn_ratio: config.admission.warn_ratio,
        allow_when_behind: config.admission.allow_when_behind,
        request_timeout: config.limits.request_timeout.get(),
    }
}

// The whole route table, by listener.

/// The routes of `listen`.
pub(crate) fn of_api(app: App, hook: Hook, kube: Kube, readiness: Readiness) -> Vec<Route> {
    let mut routes = with_state(api::routes(), &app);
    routes.extend(by_router(&health::probes(readiness), Authenticated, &health::PROBES));
    routes.extend(of_webhook(hook));
    routes.extend(with_state(kube::routes(), &kube));
    routes.extend(ui::routes());
    routes
}

/// The routes of `admission.listen`.
pub(crate) fn of_webhook(hook: Hook) -> Vec<Route> {
    with_state(admission::routes(), &hook)
}

/// The routes of `admin.listen`.
pub(crate) fn of_admin(metrics: Render, readiness: Readiness) -> Vec<Route> {
    let router = health::router(metrics, readiness);
    let mut routes = by_router(&router, Public, &health::PROBES);
    routes.extend(by_router(&router, Public, &[METRICS]));
    routes
}

const METRICS: (&str, &str) =
    ("/metrics", "[metrics](metrics.md), in the format that the scraper prefers");

/// Routes that an axum router answers.
fn by_router(
    router: &axum::Router,
    access: Access,
    paths: &[(&'static str, &'static str)],
) -> Vec<Route> {
    let router = router.clone();
    let answer = move |mut request: Request| {
        let router = router.clone();
        // This router finds the variable parts of the path itself: it would add them to those found before.
        request.extensions_mut().clear();
        async move { router.oneshot(request).await }
    };
    let route = |(path, about): &(&'static str, &'static str)| {
        get(path, access, answer.clone()).about(about)
    };
    paths.iter().map(route).collect()
}

/// The specs of the routes of `listen`, without the state that handlers need.
#[cfg(test)]
pub(crate) fn specs() -> Vec<crate::routes::Spec> {
    fn of<S: 'static>(routes: &[Route<S>]) -> impl Iterator<Item = crate::routes::Spec> {
        routes.iter().map(|route| route.spec().clone())
    }
    let mut specs: Vec<_> = of(&api::routes()).collect();
    specs.extend(of(&admission::routes()));
    specs.extend(of(&kube::routes()));
    specs.extend(of(&ui::routes()));
    specs.extend(of(&by_router(&axum::Router::new(), Authenticated, &health::PROBES)));
    specs
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
