//! The status of ClusterResourceQuotas, as quotad has it, kept in the cluster by the bridge that leads.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

use http::Method;
use quota_semantics::Name;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    kubernetes::{Client, Failure, JSON},
    metrics, webhook,
};

/// Where both servers have them.
const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";

/// Groups of one answer of quotad.
const PAGE: usize = 500;

/// How long a status is taken for written: then somebody else's changes are looked for.
const LOOK: Duration = Duration::from_secs(1800);

/// Keeps the status of groups equal to what quotad says of them.
pub(crate) struct StatusWriter {
    /// The API server.
    pub(crate) client: Client,
    /// quotad's HTTP API.
    pub(crate) quotad: Client,
    /// How often quotad is asked.
    pub(crate) every: Duration,
    /// Least time between two requests to the API server.
    pub(crate) pause: Duration,
}

/// What was written, or found not to be the cluster's; by name. Forgotten from time to time.
struct Known {
    since: Instant,
    hasher: RandomState,
    written: BTreeMap<Name, u64>,
    /// Groups of quotad alone.
    elsewhere: BTreeSet<(Name, Name)>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Vec<Group<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMetadata {
    #[serde(rename = "continue")]
    next: String,
}

/// A group as quotad shows it.
#[derive(Deserialize)]
struct Group<'a> {
    metadata: Identity,
    #[serde(borrow)]
    status: &'a RawValue,
}

#[derive(Deserialize)]
struct Identity {
    name: Name,
    #[serde(default)]
    uid: Name,
}

/// What came of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The cluster has this status.
    Written,
    /// The cluster has no such group, or another one by that name.
    Elsewhere,
    /// The cluster does not take it.
    Refused,
    /// Somebody else has written at the same time: what is there now has to be read.
    Conflict,
}

impl Known {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            hasher: RandomState::new(),
            written: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
        }
    }

    fn needs(&self, group: &Group<'_>) -> bool {
        let Identity { name, uid } = &group.metadata;
        self.written.get(name) != Some(&self.fingerprint(group))
            && !self.elsewhere.contains(&(name.clone(), uid.clone()))
    }

    fn fingerprint(&self, group: &Group<'_>) -> u64 {
        self.hasher
            .hash_one((&group.metadata.uid, group.status.get()))
    }

    fn note(&mut self, group: &Group<'_>, outcome: Outcome) {
        let Identity { name, uid } = &group.metadata;
        match outcome {
            Outcome::Written | Outcome::Refused => {
                self.written.insert(name.clone(), self.fingerprint(group));
            }
            Outcome::Elsewhere => {
                self.elsewhere.insert((name.clone(), uid.clone()));
            }
            Outcome::Conflict => {}
        }
    }
}

impl StatusWriter {
    /// Works until it is dropped.
    pub(crate) async fn run(&self) {
        let mut known = Known::new();
        loop {
            if known.since.elapsed() >= LOOK {
                known = Known::new();
            }
            if let Err((whose, failure)) = self.round(&mut known).await {
                tracing::warn!(%failure, whose, "cannot keep the status of groups");
                metrics::error(whose, &failure);
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// Looks at all groups once. The error says whose answer is missing.
    async fn round(&self, known: &mut Known) -> Result<(), (&'static str, Failure)> {
        let mut next = String::new();
        loop {
            let path = format!("{GROUPS}?limit={PAGE}&continue={next}");
            let body = self.quotad.get(&path, JSON).await;
            let body = body.map_err(|failure| ("quotad", failure))?;
            let list: List<'_> = serde_json::from_slice(&body)
                .map_err(|error| ("quotad", Failure::Unreadable(error.to_string())))?;
            for group in &list.items {
                if known.needs(group) {
                    let outcome = self.write(group).await;
                    let outcome = outcome.map_err(|failure| ("status", failure))?;
                    known.note(group, outcome);
                    tokio::time::sleep(self.pause).await;
                }
            }
            if list.metadata.next.is_empty() {
                return Ok(());
            }
            let token = percent_encoding::NON_ALPHANUMERIC;
            next = percent_encoding::utf8_percent_encode(&list.metadata.next, token).to_string();
        }
    }

    async fn write(&self, group: &Group<'_>) -> Result<Outcome, Failure> {
        let path = format!("{GROUPS}/{}", group.metadata.name);
        let mut object = match webhook::read(&self.client, &path).await {
            Ok(object) => object,
            // Also if nobody serves the kind any more.
            Err(failure) if failure.code() == Some(404) => return Ok(Outcome::Elsewhere),
            Err(failure) => return Err(failure),
        };
        // Another one by that name is one that quotad has not seen yet.
        if object["metadata"]["uid"] != group.metadata.uid.as_str() {
            return Ok(Outcome::Elsewhere);
        }
        let status: Value = serde_json::from_str(group.status.get())
            .map_err(|error| Failure::Unreadable(error.to_string()))?;
        if object["status"] == status {
            return Ok(Outcome::Written);
        }
        object["status"] = status;
        let body = object.to_string().into();
        let path = format!("{path}/status");
        match self.client.send(Method::PUT, &path, body).await {
            Ok(_) => {
                metrics::status_written();
                Ok(Outcome::Written)
            }
            Err(failure) if failure.code() == Some(409) => Ok(Outcome::Conflict),
            // Deleted meanwhile.
            Err(failure) if failure.code() == Some(404) => Ok(Outcome::Elsewhere),
            // That of others may be taken.
            Err(failure) if matches!(failure.code(), Some(400 | 413 | 422)) => {
                tracing::warn!(%failure, group = %group.metadata.name, "the status is not taken");
                metrics::error("status", &failure);
                Ok(Outcome::Refused)
            }
            Err(failure) => Err(failure),
        }
    }
}
