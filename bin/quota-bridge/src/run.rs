//! `quota-bridge` from its command line to its exit code.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use async_nats::{Client as Nats, Event};
use axum::Router;
use quota_service::{
    exit::{Exit, Failure, OrExit as _},
    health::{self, Check, Readiness, Render},
    hosts,
    nats::addresses,
    program::{self, METRICS_UPKEEP, run_every},
    shutdown,
    telemetry::Telemetry,
};
use serde::Deserialize;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;

use crate::{
    config::Config,
    kubernetes::{Access, Client, JSON, SetupError},
    leader::Leader,
    lease::Candidate,
    metrics,
    publisher::{Ended, Status},
    status::StatusWriter,
    webhook::CertificateManager,
};

/// The delay before the API server is tried again at the start.
const RETRY: Duration = Duration::from_secs(1);

/// The time that the bridge has to release the Lease when it is stopped.
const GRACE: Duration = Duration::from_secs(3);

/// Runs `quota-bridge` with the arguments of the command line, and returns the exit code.
pub fn main() -> Exit {
    program::main(telemetry, run)
}

fn telemetry(config: &Config) -> Telemetry<'_> {
    Telemetry { log: &config.log, traces: None }
}

fn run(config: Config) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), Failure> {
    let config = Arc::new(config);
    let signals = shutdown::listen().context("cannot listen for signals")?;
    let stop = signals.stop.clone();
    let readiness = Readiness::default();
    let nats_check = readiness.register("nats", "not connected yet");
    let api_check = readiness.register("api", "not reached yet");
    let leader_check = readiness.register("watermarks", "not published yet");

    let client = Client::new(access(&config)).or_exit(Exit::Configuration)?;
    let status = status_writer(&config, &client).or_exit(Exit::Configuration)?;
    let (admin, admin_ends) = serve_admin(&config, readiness, stop.clone()).await?;
    let (nats, connected) = connect(&config, nats_check).await?;
    let mut nats_lasts = connected.clone();
    tracing::info!(
        admin,
        api = quota_service::config::redact(client.base()),
        cluster = config.cluster,
        nats = quota_service::config::redact_addresses(&config.nats.url),
        "ready"
    );
    if !config.namespaces.is_empty() {
        tracing::warn!(
            "only some namespaces are watched: quotad needs nats.watermark = \"poll\", since watermarks count only for \
             kinds that were listed in all namespaces"
        );
    }
    program::ready();
    let work = async {
        let (cluster_uid, version) = greet(&client).await;
        api_check.pass();
        let leader = Leader {
            config: config.clone(),
            client: client.clone(),
            nats,
            cluster_uid,
            version,
            check: leader_check,
            status: status.map(Arc::new),
        };
        // None outside of a pod if none is configured: then there is no Lease.
        let own = client.namespace().map(str::to_owned);
        let namespace = config.lease.namespace.clone().or(own);
        let certificates =
            namespace.as_ref().and_then(|namespace| certificates(&config, &client, namespace));
        campaign(leader, namespace, certificates, connected, &stop).await
    };
    let stopped = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    let nats_gone = async { while nats_lasts.changed().await.is_ok() {} };
    tokio::select! {
        ended = work => ended?,
        ended = admin_ends => return Err(ended.into()),
        () = stopped => {}
        // Its task panics over some messages with invalid headers.
        () = nats_gone => return Err(anyhow::anyhow!("the client for NATS has ended").into()),
    }
    tracing::info!("stopped");
    Ok(())
}

/// Publishes whenever this bridge holds the Lease in this namespace, or always if there is none, until the publisher ends
/// or the bridge is stopped.
async fn campaign(
    leader: Leader,
    namespace: Option<String>,
    certificates: Option<CertificateManager>,
    mut connected: watch::Receiver<bool>,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let Some(namespace) = namespace else {
        return tokio::select! {
            ended = leader.lead(Arc::default(), None) => Err(failure(ended)),
            () = stop.cancelled() => Ok(()),
        };
    };
    let lease = leader.config.lease.clone();
    let renew = lease.renew.get();
    let identity = format!("{}_{}", host_name(), uuid::Uuid::new_v4());
    let mut candidate = Candidate::new(leader.client.clone(), lease, namespace, identity);
    loop {
        let acquired = async {
            // Whoever cannot publish does not try to.
            let _ = connected.wait_for(|is| *is).await;
            leader.check.pass();
            candidate.acquire().await
        };
        let lease = tokio::select! {
            lease = acquired => lease,
            () = stop.cancelled() => return Ok(()),
        };
        leader.check.fail("has just taken the lease");
        let status = Arc::new(Status::default());
        let cannot = {
            let status = status.clone();
            move || status.failing_for().is_some_and(|time| time >= renew)
        };
        tokio::select! {
            ended = leader.lead(status, Some(lease)) => {
                candidate.release().await;
                return Err(failure(ended));
            }
            () = candidate.hold(cannot) => {}
            () = renew_certificates(certificates.as_ref()) => {}
            () = stop.cancelled() => {
                candidate.release().await;
                return Ok(());
            }
        }
        candidate.release().await;
        leader.check.fail("lost the lease");
    }
}

fn failure(ended: Ended) -> Failure {
    let exit = match ended {
        Ended::OtherCluster { .. } | Ended::Unfit(_) => Exit::Configuration,
        Ended::Deposed(_) | Ended::Idle => Exit::Failure,
    };
    Failure { exit, error: ended.into() }
}

fn access(config: &Config) -> Access {
    match (&config.api, &config.kubeconfig) {
        (Some(url), _) => Access::plain(url),
        (None, Some(path)) => {
            Access::Kubeconfig { path: path.clone(), context: config.context.clone() }
        }
        (None, None) => Access::Pod,
    }
}

/// The manager of the webhook's certificate, if one is configured.
fn certificates(config: &Config, client: &Client, namespace: &str) -> Option<CertificateManager> {
    let settings = &config.certificates;
    Some(CertificateManager {
        client: client.clone(),
        namespace: namespace.to_owned(),
        secret: settings.secret.clone()?,
        webhook: settings.webhook.clone()?,
        names: settings.names.clone(),
        every: settings.every.get(),
    })
}

/// The writer of the status of groups, if one is configured.
fn status_writer(config: &Config, client: &Client) -> Result<Option<StatusWriter>, SetupError> {
    let status = &config.status;
    let Some(url) = &status.quotad else {
        return Ok(None);
    };
    let access = Access::Url {
        url: url.clone(),
        token_file: status.token_file.clone(),
        ca: status.tls_ca.clone(),
    };
    Ok(Some(StatusWriter {
        client: client.clone(),
        quotad: Client::new(access)?,
        every: status.every.get(),
        compare_every: status.compare_every.get(),
        pause: Duration::from_secs(1) / status.max_per_second.get(),
    }))
}

async fn renew_certificates(certificates: Option<&CertificateManager>) {
    match certificates {
        Some(certificates) => certificates.run().await,
        None => std::future::pending().await,
    }
}

fn host_name() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string(Path::new("/proc/sys/kernel/hostname")).ok())
        .map_or_else(|| "bridge".to_owned(), |name| name.trim().to_owned())
}

/// The uid and version of the cluster; retries until the API server answers.
async fn greet(client: &Client) -> (String, (u32, u32)) {
    #[derive(Deserialize)]
    struct Namespace {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        uid: String,
    }
    #[derive(Deserialize)]
    struct Version {
        major: String,
        minor: String,
    }
    let number = |text: &str| -> u32 {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        digits.parse().unwrap_or(0)
    };
    let ask = async || -> anyhow::Result<_> {
        let namespace = client.get("/api/v1/namespaces/kube-system", JSON).await;
        let namespace = namespace.context("cannot read the namespace kube-system")?;
        let namespace: Namespace = serde_json::from_slice(&namespace)?;
        let version = client.get("/version", JSON).await?;
        let version: Version = serde_json::from_slice(&version)?;
        let version = (number(&version.major), number(&version.minor));
        Ok((namespace.metadata.uid, version))
    };
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(error) => tracing::warn!("the API server: {error:#}"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Starts the connection to NATS, which is retried until it succeeds, now and after each loss.
async fn connect(config: &Config, check: Check) -> Result<(Nats, watch::Receiver<bool>), Failure> {
    let (connected, is_connected) = watch::channel(false);
    let report = move |is: bool, why: &str| {
        metrics::nats_connected(is);
        match is {
            true => check.pass(),
            false => check.fail(why),
        }
        connected.send_replace(is);
    };
    let options = config.nats.connection.options("quota-bridge").await;
    let options = options.or_exit(Exit::Configuration)?;
    let options = options.event_callback(move |event| {
        match event {
            Event::Connected => {
                tracing::info!("NATS is connected");
                report(true, "");
            }
            Event::Disconnected => {
                tracing::warn!("NATS is disconnected");
                report(false, "not connected");
            }
            event => tracing::info!("NATS: {event}"),
        }
        std::future::ready(())
    });
    let addresses = addresses(&config.nats.url).or_exit(Exit::Configuration)?;
    let client = options.connect(addresses).await.or_exit(Exit::Failure)?;
    Ok((client, is_connected))
}

/// Health and metrics, in gzip for callers that accept it.
fn admin_router(metrics: Render, readiness: Readiness) -> Router {
    health::router(metrics, readiness).layer(CompressionLayer::new())
}

/// Serves health and metrics. Returns the address, and what waits for the listener or the metrics' upkeep to end against
/// expectation.
async fn serve_admin(
    config: &Config,
    readiness: Readiness,
    stop: CancellationToken,
) -> Result<(String, impl Future<Output = anyhow::Error>), Failure> {
    let metrics = metrics::install().or_exit(Exit::Failure)?;
    let address = config.admin.listen;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("admin.listen: cannot listen on {address}"))?;
    let bound = listener.local_addr().context("admin.listen")?;
    let handle = metrics.clone();
    let mut router = admin_router(Arc::new(move || handle.render()), readiness);
    if bound.ip().is_loopback() {
        router = hosts::loopback_only(router);
    }
    let mut tasks = JoinSet::new();
    let served =
        axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    tasks.spawn(async { served.await.context("the admin listener failed") });
    tasks.spawn(async move {
        run_every(METRICS_UPKEEP, move || metrics.run_upkeep()).await;
        Ok(())
    });
    let ends = async move {
        let ended = tasks.join_next().await;
        if stop.is_cancelled() {
            std::future::pending::<()>().await;
        }
        match ended {
            Some(Ok(Err(error))) => error,
            Some(Err(panic)) => anyhow::Error::new(panic).context("a task of the admin listener"),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("the admin listener has ended"),
        }
    };
    Ok((bound.to_string(), ends))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use tower_service::Service as _;

    use super::*;

    #[tokio::test]
    async fn metrics_come_in_the_encoding_that_is_asked_for() {
        let metrics: Render = Arc::new(|| "# TYPE a_total counter\na_total 1\n".repeat(100));
        let mut router = admin_router(metrics, Readiness::default());
        let mut ask = async |encoding: &str| {
            let request = Request::get("/metrics").header("accept-encoding", encoding);
            router.call(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        let zipped = ask("gzip").await;
        assert_eq!(zipped.headers()["content-encoding"], "gzip");
        let plain = ask("identity").await;
        assert!(!plain.headers().contains_key("content-encoding"));
    }
}
