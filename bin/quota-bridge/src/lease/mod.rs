//! The Lease, which selects the bridge that tries to publish, by the rules of Kubernetes' own clients.

mod rules;

use std::time::Instant;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    config,
    kubernetes::{Client, Failure, JSON},
};
use rules::{Decision, Observer, decide};

/// The spec of a Lease. Fields that the bridge does not use are preserved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_duration_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acquire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renew_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_transitions: Option<u64>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Map<String, Value>,
    spec: Spec,
}

/// A candidate for the Lease.
pub(crate) struct Candidate {
    client: Client,
    config: config::Lease,
    /// The namespace of the Lease: the configured one, or that of the pod.
    namespace: String,
    identity: String,
    observer: Observer,
    begun: Instant,
}

impl Candidate {
    /// A candidate for the Lease in this namespace, with an identity that must differ from those of others.
    #[must_use]
    pub(crate) fn new(
        client: Client,
        config: config::Lease,
        namespace: String,
        identity: String,
    ) -> Self {
        Self {
            client,
            config,
            namespace,
            identity,
            observer: Observer::default(),
            begun: Instant::now(),
        }
    }

    fn path(&self) -> String {
        let (namespace, name) = (&self.namespace, &self.config.name);
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }

    /// Waits until this candidate holds the Lease.
    pub(crate) async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(true) => {
                    tracing::info!(identity = self.identity, "holds the lease");
                    return;
                }
                Ok(false) => {}
                Err(failure) => tracing::warn!(%failure, "cannot take the lease"),
            }
            tokio::time::sleep(self.config.retry.get()).await;
        }
    }

    /// Renews the Lease until it is lost, or `should_release` returns true.
    pub(crate) async fn hold(&mut self, should_release: impl Fn() -> bool) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.config.retry.get()).await;
            if should_release() {
                return;
            }
            let left = self.config.renew.get().saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Ok(false)) => {
                    tracing::warn!("lease held by another instance");
                    return;
                }
                Ok(Err(failure)) => tracing::warn!(%failure, "cannot renew the lease"),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.config.renew.get() {
                tracing::warn!("the lease could not be renewed in time");
                return;
            }
        }
    }

    /// Releases the Lease, so that others can take it at once.
    pub(crate) async fn release(&mut self) {
        let release = async {
            let lease = self.read().await?.unwrap_or_default();
            if lease.spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            let spec = Spec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: Some(micro_time()),
                ..lease.spec
            };
            self.write(Method::PUT, lease.metadata, spec)
                .await
                .map(|_| ())
        };
        match tokio::time::timeout(self.config.retry.get(), release).await {
            Ok(Ok(())) => tracing::info!("released the lease"),
            Ok(Err(failure)) => tracing::warn!(%failure, "cannot release the lease"),
            Err(_) => tracing::warn!("cannot release the lease: no answer in time"),
        }
    }

    /// Takes or renews the Lease. Returns false if another holder has it.
    async fn attempt(&mut self) -> Result<bool, Failure> {
        let lease = self.read().await?;
        let now = self.begun.elapsed();
        let spec = lease.as_ref().map(|lease| &lease.spec);
        let since = self.observer.observe(spec, now);
        let decision = decide(spec, &self.identity, since, now, self.config.duration.get());
        let time = micro_time();
        let ours = Spec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.config.duration.get().as_secs()),
            acquire_time: Some(time.clone()),
            renew_time: Some(time),
            lease_transitions: Some(0),
            rest: Map::new(),
        };
        let written = match (decision, lease) {
            (Decision::Wait, _) => return Ok(false),
            (_, None) => {
                let metadata = json!({"name": self.config.name, "namespace": self.namespace});
                let metadata = metadata.as_object().cloned().unwrap_or_default();
                self.write(Method::POST, metadata, ours).await
            }
            (Decision::Renew, Some(Object { metadata, spec })) => {
                let renewed = Spec {
                    renew_time: ours.renew_time,
                    lease_duration_seconds: ours.lease_duration_seconds,
                    ..spec
                };
                self.write(Method::PUT, metadata, renewed).await
            }
            (Decision::Take, Some(Object { metadata, spec })) => {
                let transitions = spec.lease_transitions.unwrap_or(0) + 1;
                let taken = Spec {
                    lease_transitions: Some(transitions),
                    rest: spec.rest,
                    ..ours
                };
                self.write(Method::PUT, metadata, taken).await
            }
        };
        // After a conflict the Lease may still be ours, since others may write its metadata: the next attempt shows it.
        self.observer.observe(Some(&written?), self.begun.elapsed());
        Ok(true)
    }

    async fn read(&self) -> Result<Option<Object>, Failure> {
        match self.client.get(&self.path(), JSON).await {
            Ok(body) => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| Failure::Unreadable(format!("a lease: {error}"))),
            Err(failure) if failure.code() == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    async fn write(
        &self,
        method: Method,
        metadata: Map<String, Value>,
        spec: Spec,
    ) -> Result<Spec, Failure> {
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec,
        });
        let path = self.path();
        let path = match method {
            Method::POST => path.rsplit_once('/').map_or("", |(parent, _)| parent),
            _ => &path,
        };
        let body = object.to_string().into();
        let answer = self.client.send(method, path, body).await?;
        serde_json::from_slice::<Object>(&answer)
            .map(|lease| lease.spec)
            .map_err(|error| Failure::Unreadable(format!("a lease: {error}")))
    }
}

/// The present time in the format of a Lease (`MicroTime`).
fn micro_time() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use fake_api::{
        server,
        world::{Fault, Request, World},
    };
    use quota_service::config::Period;

    use super::*;
    use crate::kubernetes::Access;

    const LEASES: &str = "leases.coordination.k8s.io";

    /// A client that annotates the Lease between the candidate's read and write does not become its holder.
    #[tokio::test]
    async fn a_conflict_is_no_other_holder() {
        let world = World::new();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(server::serve(listener, world.clone()));
        let config = config::Lease {
            name: "l".to_owned(),
            namespace: None,
            duration: Period::from_secs(600),
            renew: Period::from_secs(300),
            retry: Period::from_millis(1),
        };
        let client = Client::new(Access::plain(&url)).unwrap();
        let mut candidate = Candidate::new(client, config, "n".to_owned(), "me".to_owned());
        candidate.acquire().await;
        world.plan(LEASES, Request::Update, Fault::Status(409, 0), 2);
        let before = world.requests(LEASES, "Update");
        let renewals = || world.requests(LEASES, "Update") - before;
        candidate.hold(|| renewals() > 2).await;
        assert_eq!(renewals(), 3, "two conflicts, and a renewal");
        // Another holder ends it at once.
        let mut lease = world.get(LEASES, "n", "l").unwrap();
        lease["spec"]["holderIdentity"] = json!("you");
        world.put(LEASES, "n", lease).unwrap();
        candidate.hold(|| false).await;
        assert_eq!(renewals(), 3);
    }
}
