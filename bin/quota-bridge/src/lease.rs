//! The Lease, which selects the bridge that tries to publish, by the rules of Kubernetes' own clients.

use std::{
    fmt,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use http::Method;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};

use crate::{
    config,
    kubernetes::{Client, Failure, JSON},
};

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

/// How far the history of a Lease had come: it only grows, unless the API server's history is lost.
///
/// If etcd is restored from a backup, versions go back, but under load they may have passed the lost ones before the
/// bridge looks. The Lease shows it all the same: a write to it is missing that the API server has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// How often the Lease changed its holder.
    transitions: u64,
    /// When it was renewed last, by the clock of that holder.
    renewed: String,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transitions, self.renewed)
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (transitions, renewed) = text.split_once(' ').ok_or(())?;
        Ok(Self { transitions: transitions.parse().map_err(drop)?, renewed: renewed.to_owned() })
    }
}

impl From<&Spec> for Mark {
    fn from(spec: &Spec) -> Self {
        Self {
            transitions: spec.lease_transitions.unwrap_or(0),
            renewed: spec.renew_time.clone().unwrap_or_default(),
        }
    }
}

/// The Lease of a leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    /// The mark of the Lease before the leader took it; none: there was no Lease.
    pub(crate) found: Option<Mark>,
    /// The mark of the last renewal. The leader's candidate keeps it up to date.
    pub(crate) current: Arc<Mutex<Option<Mark>>>,
    renewals: Arc<Renewals>,
}

/// The renewals of a Lease.
#[derive(Debug, Default)]
struct Renewals {
    /// Asks for one before it is due.
    wanted: Notify,
    /// When the last one began that succeeded.
    begun: watch::Sender<Option<Instant>>,
}

impl Held {
    /// Waits for a renewal that begins after this call: what was read before it is of a history that was not lost.
    pub(crate) async fn confirm(&self) {
        let now = Instant::now();
        let mut begun = self.renewals.begun.subscribe();
        self.renewals.wanted.notify_one();
        // The sender lives as long as this does.
        let _ = begun.wait_for(|begun| begun.is_some_and(|begun| begun >= now)).await;
    }
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
    held: Held,
}

/// The outcome of an attempt to take or renew the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    /// The candidate holds the Lease; its mark before.
    Holds(Option<Mark>),
    /// Another holder has the Lease.
    Other,
    /// The candidate's last renewal is missing.
    Lost,
}

impl Candidate {
    /// A candidate for the Lease in this namespace, with an identity that must differ from those of others.
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
            held: Held::default(),
        }
    }

    fn path(&self) -> String {
        let (namespace, name) = (&self.namespace, &self.config.name);
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }

    /// Waits until this candidate holds the Lease.
    pub(crate) async fn acquire(&mut self) -> Held {
        self.held = Held::default();
        loop {
            match self.attempt().await {
                Ok(Attempt::Holds(found)) => {
                    tracing::info!(identity = self.identity, "holds the lease");
                    self.held.found = found;
                    return self.held.clone();
                }
                Ok(Attempt::Other | Attempt::Lost) => {}
                Err(failure) => tracing::warn!(%failure, "cannot take the lease"),
            }
            tokio::time::sleep(self.config.retry.get()).await;
        }
    }

    /// Renews the Lease until it is lost, or `should_release` returns true.
    pub(crate) async fn hold(&mut self, should_release: impl Fn() -> bool) {
        let mut renewed = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.config.retry.get()) => {}
                () = self.held.renewals.wanted.notified() => {}
            }
            if should_release() {
                return;
            }
            let left = self.config.renew.get().saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(Attempt::Holds(_))) => renewed = Instant::now(),
                Ok(Ok(Attempt::Lost)) => {
                    tracing::warn!(
                        "the last renewal of the lease is missing: the API server was restored"
                    );
                    return;
                }
                Ok(Ok(Attempt::Other)) => {
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
            // The next leader has to see that a renewal is missing.
            if lease.spec.holder_identity.as_deref() != Some(&self.identity)
                || self.misses_renewal(Some(&Mark::from(&lease.spec)))
            {
                return Ok(());
            }
            let spec = Spec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                renew_time: Some(micro_time()),
                ..lease.spec
            };
            self.write(Method::PUT, lease.metadata, spec).await.map(|_| ())
        };
        match tokio::time::timeout(self.config.retry.get(), release).await {
            Ok(Ok(())) => tracing::info!("released the lease"),
            Ok(Err(failure)) => tracing::warn!(%failure, "cannot release the lease"),
            Err(_) => tracing::warn!("cannot release the lease: no answer in time"),
        }
    }

    /// Whether the candidate has renewed the Lease later than this mark says.
    fn misses_renewal(&self, found: Option<&Mark>) -> bool {
        self.held.current.lock().as_ref() > found
    }

    /// Takes or renews the Lease.
    async fn attempt(&mut self) -> Result<Attempt, Failure> {
        let begun = Instant::now();
        let lease = self.read().await?;
        let found = lease.as_ref().map(|lease| Mark::from(&lease.spec));
        if self.misses_renewal(found.as_ref()) {
            return Ok(Attempt::Lost);
        }
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
            (Decision::Wait, _) => return Ok(Attempt::Other),
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
                let taken = Spec { lease_transitions: Some(transitions), rest: spec.rest, ..ours };
                self.write(Method::PUT, metadata, taken).await
            }
        };
        // After a conflict the Lease may still be ours, since others may write its metadata: the next attempt shows it.
        let written = written?;
        self.observer.observe(Some(&written), self.begun.elapsed());
        *self.held.current.lock() = Some(Mark::from(&written));
        self.held.renewals.begun.send_replace(Some(begun));
        Ok(Attempt::Holds(found))
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

/// The action that a candidate may take on a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Another holder has the Lease.
    Wait,
    /// The candidate holds the Lease, and may renew it.
    Renew,
    /// The Lease is free, or has expired.
    Take,
}

/// Records the time of the last change of a Lease.
#[derive(Debug, Default)]
struct Observer(Option<(Spec, Duration)>);

impl Observer {
    /// Records the present spec. Returns the time of its last observed change.
    fn observe(&mut self, spec: Option<&Spec>, now: Duration) -> Duration {
        let Some(spec) = spec else {
            self.0 = None;
            return now;
        };
        match &self.0 {
            Some((seen, since)) if seen == spec => *since,
            _ => {
                self.0 = Some((spec.clone(), now));
                now
            }
        }
    }
}

/// The action that the candidate `me` may take on a Lease that is unchanged since `since`. Pure.
///
/// Clocks of different machines are never compared: a Lease has ended when its record has not changed for its duration,
/// by the local clock.
fn decide(
    spec: Option<&Spec>,
    me: &str,
    since: Duration,
    now: Duration,
    duration: Duration,
) -> Decision {
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    match holder.unwrap_or_default() {
        "" => Decision::Take,
        holder if holder == me => Decision::Renew,
        _ if since + duration > now => Decision::Wait,
        _ => Decision::Take,
    }
}

#[cfg(test)]
mod tests {
    use quota_service::config::Period;
    use quota_testkit::fake_api::{
        server,
        world::{Fault, Request, World},
    };

    use super::*;

    use crate::kubernetes::Access;

    const LEASES: &str = "leases.coordination.k8s.io";

    /// A candidate for the Lease `n/l` of an API server with this world.
    async fn candidate(world: &World) -> Candidate {
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
        Candidate::new(client, config, "n".to_owned(), "me".to_owned())
    }

    /// A client that annotates the Lease between the candidate's read and write does not become its holder.
    #[tokio::test]
    async fn a_conflict_is_no_other_holder() {
        let world = World::new();
        let mut candidate = candidate(&world).await;
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

    /// Versions may have passed those of the lost history since.
    #[tokio::test]
    async fn a_leader_whose_renewal_is_missing_gives_up_and_the_next_one_sees_it() {
        let world = World::new();
        let mut candidate = candidate(&world).await;
        let first = candidate.acquire().await;
        assert_eq!(first.found, None);
        let renewals = || world.requests(LEASES, "Update");
        candidate.hold(|| renewals() > 1).await;
        let backup = world.backup();
        let before = renewals();
        candidate.hold(|| renewals() > before + 1).await;
        let lost = first.current.lock().clone();
        world.restore(backup);
        for number in 0..99 {
            world.create("pods", "n", &format!("p{number}"), json!({}));
        }
        candidate.hold(|| false).await;
        let before = renewals();
        candidate.release().await;
        assert_eq!(renewals(), before, "it would hide what is missing");
        let second = candidate.acquire().await;
        assert!(second.found.is_some() && second.found < lost);
        let mark = lost.unwrap();
        assert_eq!(mark.to_string().parse(), Ok(mark));
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(by: &str, renewed: &str) -> Spec {
        Spec {
            holder_identity: Some(by.to_owned()),
            renew_time: Some(renewed.to_owned()),
            ..Spec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_once_its_holder_did_not_renew_it() {
        let mut observer = Observer::default();
        let mut at_time = |spec: &Spec, now: u64| {
            let since = observer.observe(Some(spec), at(now));
            decide(Some(spec), "me", since, at(now), at(15))
        };
        let first = held("you", "a");
        assert_eq!(at_time(&first, 100), Decision::Wait);
        assert_eq!(at_time(&first, 114), Decision::Wait);
        let renewed = held("you", "b");
        assert_eq!(at_time(&renewed, 115), Decision::Wait, "renewed meanwhile");
        assert_eq!(at_time(&renewed, 130), Decision::Take);
        assert_eq!(at_time(&held("me", "c"), 131), Decision::Renew);
        assert_eq!(at_time(&held("", "d"), 132), Decision::Take, "released");
        assert_eq!(decide(None, "me", at(0), at(0), at(15)), Decision::Take);
    }
}
