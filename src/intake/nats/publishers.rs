//! Requests relists and watermarks from publishers.
//!
//! Requests go over core NATS, so they are not stored: a publisher that is not running now lists by itself when it
//! starts. A request without a subscriber is repeated later.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{Client, Request, RequestErrorKind};
use parking_lot::Mutex;
use quota_semantics::Name;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::{config, intake::RequestedRelist, metrics};

/// Most kinds that a request names; for more, all kinds are requested.
const KINDS_MAX: usize = 256;

/// Most clusters that receive requests; the stream's subjects name the clusters.
const CLUSTERS_MAX: usize = 64;

/// While requests repeat, the interval between them grows up to this many times `nats.relist_interval`.
const LONGEST_WAIT: u32 = 60;

/// Publishers do not reply, but the server reports at once if there is no subscriber.
const NO_SUBSCRIBER_WITHIN: Duration = Duration::from_secs(1);

/// The pending requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Publishers(Arc<Shared>);

struct Shared {
    pending: Mutex<Pending>,
    changed: Notify,
    /// The subject filter of the consumer.
    pattern: String,
    /// The prefix of the subject that publishers subscribe to.
    prefix: String,
    /// Whether the cluster's name is configured.
    is_named: bool,
}

/// The requests that are pending, by cluster: a cluster without a publisher holds up no other.
struct Pending {
    clusters: BTreeMap<Name, Cluster>,
    /// The kinds that the first cluster will have to list, while no cluster is recorded yet.
    for_first: Kinds,
    interval: Duration,
}

/// A cluster, and how often relists are requested of it.
struct Cluster {
    kinds: Kinds,
    /// The wait after the last request.
    wait: Duration,
    not_before: Option<Instant>,
}

impl Cluster {
    const fn new(kinds: Kinds) -> Self {
        Self { kinds, wait: Duration::ZERO, not_before: None }
    }

    fn due_in(&self, now: Instant) -> Duration {
        let not_before = self.not_before.unwrap_or(now);
        not_before.saturating_duration_since(now)
    }

    fn sent(&mut self, now: Instant, interval: Duration) {
        let longest = interval * LONGEST_WAIT;
        let was_quiet = self.not_before.is_none_or(|time| now >= time + longest);
        self.wait = match was_quiet {
            true => interval,
            false => (self.wait * 2).min(longest),
        };
        self.not_before = Some(now + self.wait);
    }
}

impl Pending {
    const fn new(interval: Duration) -> Self {
        Self { clusters: BTreeMap::new(), for_first: Kinds::None, interval }
    }

    /// Records a cluster. Returns whether it is new.
    fn meet(&mut self, cluster: &str) -> bool {
        let is_new = self.clusters.len() < CLUSTERS_MAX && !self.clusters.contains_key(cluster);
        if is_new {
            let kinds = std::mem::take(&mut self.for_first);
            self.clusters.insert(cluster.into(), Cluster::new(kinds));
        }
        is_new
    }

    fn want(&mut self, kinds: &Kinds) {
        for cluster in self.clusters.values_mut() {
            cluster.kinds.add(kinds.clone());
        }
        if self.clusters.is_empty() {
            self.for_first.add(kinds.clone());
        }
    }

    /// Takes the requests that may be sent now.
    fn take(&mut self, now: Instant) -> Vec<(Name, Kinds)> {
        let due = self
            .clusters
            .iter_mut()
            .filter(|(_, cluster)| cluster.kinds != Kinds::None && cluster.due_in(now).is_zero());
        due.map(|(name, cluster)| (name.clone(), std::mem::take(&mut cluster.kinds))).collect()
    }

    /// How long until one of the pending requests may be sent; none: there are none.
    fn due_in(&self, now: Instant) -> Option<Duration> {
        let pending = self.clusters.values().filter(|it| it.kinds != Kinds::None);
        pending.map(|cluster| cluster.due_in(now)).min()
    }

    /// Records that a request was sent. Without a subscriber it stays pending.
    fn sent(&mut self, cluster: &str, kinds: Kinds, is_heard: bool, now: Instant) {
        if let Some(cluster) = self.clusters.get_mut(cluster) {
            cluster.sent(now, self.interval);
            if !is_heard {
                cluster.kinds.add(kinds);
            }
        }
    }
}

/// Kinds to be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Kinds {
    #[default]
    None,
    Some(BTreeSet<Name>),
    All,
}

impl Kinds {
    fn add(&mut self, more: Self) {
        *self = match (std::mem::take(self), more) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::None, kinds) | (kinds, Self::None) => kinds,
            (Self::Some(mut some), Self::Some(more)) => {
                some.extend(more);
                match some.len() > KINDS_MAX {
                    true => Self::All,
                    false => Self::Some(some),
                }
            }
        };
    }

    /// The names in a request: an empty list means all kinds.
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Some(some) => some.iter().map(|name| &**name).collect(),
            Self::None | Self::All => Vec::new(),
        }
    }
}

impl Publishers {
    pub(super) fn new(settings: &config::Nats) -> Self {
        let mut pending = Pending::new(settings.relist_interval.get());
        let named = settings.cluster.as_deref();
        Self(Arc::new(Shared {
            is_named: named.is_some_and(|cluster| pending.meet(cluster)),
            pending: Mutex::new(pending),
            changed: Notify::new(),
            pattern: settings.subject.clone(),
            prefix: settings.control_prefix.clone(),
        }))
    }

    /// Whether no cluster is known yet.
    pub(super) fn has_no_publishers(&self) -> bool {
        self.0.pending.lock().clusters.is_empty()
    }

    /// Requests current watermarks from the publishers of all recorded clusters: nothing is granted before watermarks
    /// arrive. A publisher that misses the request sends watermarks by itself a little later.
    pub(super) async fn request_watermarks(&self, client: &Client) {
        let clusters: Vec<_> = self.0.pending.lock().clusters.keys().cloned().collect();
        for cluster in clusters {
            let subject = format!("{}.{cluster}.watermarks", self.0.prefix);
            if let Err(error) = client.publish(subject, "{}".into()).await {
                tracing::debug!(%error, "cannot request watermarks");
            }
        }
    }

    /// Records the cluster that a message's subject names.
    pub(super) fn meet(&self, subject: &str) {
        if self.0.is_named {
            return;
        }
        let Some(cluster) = cluster_of(&self.0.pattern, subject) else {
            return;
        };
        if self.0.pending.lock().meet(cluster) {
            self.0.changed.notify_one();
        }
    }

    /// Requests all kinds, since events of any kind may have been lost.
    pub(super) fn want_all(&self) {
        self.want(&Kinds::All);
    }

    /// Requests these kinds.
    pub(super) fn want_kinds(&self, kinds: BTreeSet<Name>) {
        if !kinds.is_empty() {
            self.want(&Kinds::Some(kinds));
        }
    }

    /// Whether a request would be sent to a cluster at once.
    pub(super) fn may_request(&self) -> bool {
        let (now, pending) = (Instant::now(), self.0.pending.lock());
        let mut clusters = pending.clusters.values();
        clusters.any(|cluster| cluster.due_in(now).is_zero())
    }

    fn want(&self, kinds: &Kinds) {
        self.0.pending.lock().want(kinds);
        self.0.changed.notify_one();
    }

    /// Handles a user's request to list these kinds, or all if there are none.
    pub(super) fn request_relist(&self, kinds: BTreeSet<Name>) -> RequestedRelist {
        let (clusters, wait) = {
            let (now, pending) = (Instant::now(), self.0.pending.lock());
            let clusters = pending.clusters.values();
            let waits = clusters.map(|cluster| cluster.due_in(now));
            let wait = waits.max().unwrap_or_default();
            (pending.clusters.keys().cloned().collect(), wait)
        };
        let requested = RequestedRelist { clusters, wait };
        if !requested.clusters.is_empty() {
            match kinds.is_empty() {
                true => self.want_all(),
                false => self.want_kinds(kinds),
            }
        }
        requested
    }

    /// Sends requests, for as long as the client lasts.
    pub(super) async fn run(self, client: Client, mut connected: watch::Receiver<bool>) {
        loop {
            let requests = self.next().await;
            // Without a connection, a request without a reply looks like one that was received.
            if connected.wait_for(|connected| *connected).await.is_err() {
                return;
            }
            for (cluster, kinds) in requests {
                let is_heard = self.publish(&client, &cluster, &kinds).await;
                let mut pending = self.0.pending.lock();
                pending.sent(&cluster, kinds, is_heard, Instant::now());
            }
        }
    }

    /// Waits until requests are pending that may be sent.
    async fn next(&self) -> Vec<(Name, Kinds)> {
        loop {
            let changed = self.0.changed.notified();
            let wait = {
                let (now, mut pending) = (Instant::now(), self.0.pending.lock());
                let due = pending.take(now);
                if !due.is_empty() {
                    return due;
                }
                pending.due_in(now)
            };
            let waited = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            // A new request may be due sooner than those that were pending.
            tokio::select! {
                () = waited => {}
                () = changed => {}
            }
        }
    }

    /// Sends the request to one cluster's publisher. Answers whether there was a subscriber.
    async fn publish(&self, client: &Client, cluster: &str, kinds: &Kinds) -> bool {
        #[derive(Serialize)]
        struct Body<'a> {
            resources: Vec<&'a str>,
        }
        let subject = format!("{}.{cluster}.relist", self.0.prefix);
        let resources = kinds.names();
        let body = serde_json::to_vec(&Body { resources }).unwrap_or_default();
        let request = Request::new().payload(body.into()).timeout(Some(NO_SUBSCRIBER_WITHIN));
        let is_heard = match client.send_request(subject.clone(), request).await {
            Ok(_) => true,
            Err(error) => error.kind() == RequestErrorKind::TimedOut,
        };
        let resources = match kinds {
            Kinds::Some(_) => kinds.names().join(","),
            _ => "all".to_owned(),
        };
        match is_heard {
            true => tracing::info!(subject, resources, "requested a relist"),
            false => {
                tracing::warn!(
                    subject,
                    resources,
                    "no publisher is subscribed that could relist; the request will be repeated"
                );
            }
        }
        metrics::relist_requested(match is_heard {
            true => metrics::RelistRequest::Received,
            false => metrics::RelistRequest::NoSubscriber,
        });
        is_heard
    }
}

/// The cluster in a subject: the first token that the filter leaves open, or the last token if the filter has no
/// wildcard.
fn cluster_of<'a>(pattern: &str, subject: &'a str) -> Option<&'a str> {
    let open = pattern.split('.').position(|word| word == "*" || word == ">");
    match open {
        Some(place) => subject.split('.').nth(place),
        None => subject.rsplit('.').next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(kinds: &[&str]) -> Kinds {
        Kinds::Some(kinds.iter().map(|kind| Name::from(*kind)).collect())
    }

    #[test]
    fn what_is_wanted_adds_up_to_all() {
        let mut kinds = Kinds::None;
        kinds.add(some(&["pods"]));
        kinds.add(some(&["services", "pods"]));
        assert_eq!(kinds.names(), ["pods", "services"]);
        let mut many = kinds.clone();
        let more: Vec<_> = (0..KINDS_MAX).map(|number| format!("k{number}")).collect();
        many.add(some(&more.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(many, Kinds::All);
        kinds.add(Kinds::All);
        kinds.add(some(&["pods"]));
        assert!(kinds == Kinds::All && kinds.names().is_empty());
    }

    #[test]
    fn whoever_is_asked_again_and_again_is_asked_more_and_more_rarely() {
        let interval = Duration::from_secs(10);
        let mut cluster = Cluster::new(Kinds::None);
        let mut now = Instant::now();
        assert_eq!(cluster.due_in(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..9 {
            cluster.sent(now, interval);
            let wait = cluster.due_in(now);
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        cluster.sent(now + interval * LONGEST_WAIT, interval);
        assert_eq!(cluster.wait, interval, "it was quiet for a while");
    }

    #[test]
    fn a_cluster_without_a_publisher_holds_up_no_other() {
        let interval = Duration::from_secs(10);
        let mut pending = Pending::new(interval);
        let requests = |pending: &mut Pending, now| -> Vec<_> {
            let due = pending.take(now).into_iter();
            due.map(|(name, kinds)| (name.to_string(), kinds)).collect()
        };
        let mut now = Instant::now();
        pending.want(&some(&["pods"]));
        assert!(requests(&mut pending, now).is_empty());
        assert!(pending.meet("prod") && !pending.meet("prod"));
        assert!(pending.meet("retired"));
        assert_eq!(
            requests(&mut pending, now),
            [("prod".to_owned(), some(&["pods"]))],
            "the first cluster receives the earlier requests"
        );
        pending.sent("prod", some(&["pods"]), true, now);
        now += interval;

        pending.want(&Kinds::All);
        assert_eq!(requests(&mut pending, now).len(), 2);
        pending.sent("prod", Kinds::All, true, now);
        pending.sent("retired", Kinds::All, false, now);
        for round in 0..5 {
            now += interval * LONGEST_WAIT;
            assert_eq!(pending.due_in(now), Some(Duration::ZERO));
            let again = [("retired".to_owned(), Kinds::All)];
            assert_eq!(requests(&mut pending, now), again, "round {round}");
            pending.sent("retired", Kinds::All, false, now);
        }
        // What is wanted of the other is requested at once.
        pending.want(&some(&["services"]));
        let due = [("prod".to_owned(), some(&["services"]))];
        assert_eq!(requests(&mut pending, now), due);
    }

    #[test]
    fn the_subject_names_the_cluster() {
        for (pattern, subject, cluster) in [
            ("quota.objects.>", "quota.objects.prod", "prod"),
            ("quota.objects.>", "quota.objects.prod.team-a.pods", "prod"),
            ("*.objects.>", "prod.objects.x", "prod"),
            ("quota.objects.prod", "quota.objects.prod", "prod"),
        ] {
            assert_eq!(cluster_of(pattern, subject), Some(cluster), "{pattern}");
        }
        assert_eq!(cluster_of("a.b.c.>", "a.b"), None);
    }
}
