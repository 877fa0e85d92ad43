//! The status of ClusterResourceQuotas, which the leading bridge copies from quotad into the cluster.

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

/// The path of ClusterResourceQuotas, at the API server and at quotad.
const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";

/// The number of groups that one request to quotad asks for.
const PAGE: usize = 500;

/// Copies the status of groups from quotad into the cluster.
pub(crate) struct StatusWriter {
    /// The API server.
    pub(crate) client: Client,
    /// A client of quotad's HTTP API.
    pub(crate) quotad: Client,
    /// The interval at which the groups are read from quotad.
    pub(crate) every: Duration,
    /// The interval at which every status is compared with that in the cluster, changed or not.
    pub(crate) compare_every: Duration,
    /// The delay after each group whose status is compared or written.
    pub(crate) pause: Duration,
}

/// The groups that need no request: unchanged statuses, and groups that are not in the cluster. Others may change a
/// status in the cluster, so this cache expires.
struct Compared {
    /// The begin of the comparison, as the time since the start of the task.
    since: Duration,
    hasher: RandomState,
    /// Fingerprints of the statuses that were written, equal or rejected, by name.
    written: BTreeMap<Name, u64>,
    /// Groups that exist only in quotad, by name and uid.
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

/// A group, as returned by quotad.
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

/// The outcome for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The cluster has the status.
    Written,
    /// The cluster has no such group, or another one with its name.
    Elsewhere,
    /// The cluster rejects the status.
    Refused,
    /// The object was changed concurrently: read it again.
    Conflict,
}

impl Compared {
    fn new(now: Duration) -> Self {
        Self {
            since: now,
            hasher: RandomState::new(),
            written: BTreeMap::new(),
            elsewhere: BTreeSet::new(),
        }
    }

    /// Resets the comparison once it is older than `every`.
    fn expire(&mut self, now: Duration, every: Duration) {
        if now.saturating_sub(self.since) >= every {
            *self = Self::new(now);
        }
    }

    fn needs(&self, group: &Group<'_>) -> bool {
        let Identity { name, uid } = &group.metadata;
        self.written.get(name) != Some(&self.fingerprint(group))
            && !self.elsewhere.contains(&(name.clone(), uid.clone()))
    }

    fn fingerprint(&self, group: &Group<'_>) -> u64 {
        self.hasher.hash_one((&group.metadata.uid, group.status.get()))
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
    /// Runs until the future is dropped.
    pub(crate) async fn run(&self) {
        let begun = Instant::now();
        let mut compared = Compared::new(Duration::ZERO);
        loop {
            compared.expire(begun.elapsed(), self.compare_every);
            if let Err((whose, failure)) = self.round(&mut compared).await {
                tracing::warn!(%failure, whose, "cannot keep the status of groups");
                metrics::error(whose, &failure);
            }
            tokio::time::sleep(self.every).await;
        }
    }

    /// Checks all groups once. The error names the server that failed.
    async fn round(&self, compared: &mut Compared) -> Result<(), (&'static str, Failure)> {
        let mut next = String::new();
        loop {
            let path = format!("{GROUPS}?limit={PAGE}&continue={next}");
            let body = self.quotad.get(&path, JSON).await;
            let body = body.map_err(|failure| ("quotad", failure))?;
            let list: List<'_> = serde_json::from_slice(&body)
                .map_err(|error| ("quotad", Failure::Unreadable(error.to_string())))?;
            for group in &list.items {
                if compared.needs(group) {
                    let outcome = match self.write(group).await {
                        Ok(outcome) => outcome,
                        Err(failure) if ends_round(&failure) => return Err(("status", failure)),
                        // Those of others may be taken.
                        Err(failure) => {
                            tracing::warn!(%failure, group = %group.metadata.name, "the status is not taken");
                            metrics::error("status", &failure);
                            Outcome::Refused
                        }
                    };
                    compared.note(group, outcome);
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
        // Another object of this name: quotad has not seen it yet.
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
            Err(failure) => Err(failure),
        }
    }
}

/// Whether a failure with one group would recur with all others: the server is unreachable or overloaded, or does not
/// accept the bridge's credentials.
fn ends_round(failure: &Failure) -> bool {
    match failure {
        Failure::Status { code, .. } => matches!(code, 401 | 429 | 500..),
        Failure::Unreachable(_) | Failure::Silent => true,
        Failure::Unreadable(_) | Failure::TooLong(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn group(uid: &str, status: &'static str) -> Group<'static> {
        Group {
            metadata: Identity { name: "red".into(), uid: uid.into() },
            status: serde_json::from_str(status).unwrap(),
        }
    }

    #[test]
    fn what_is_wrong_with_one_group_holds_up_no_other() {
        let status = |code| Failure::Status {
            code,
            reason: String::new(),
            message: String::new(),
            retry_after: None,
        };
        for code in [400, 403, 404, 409, 413, 422] {
            assert!(!ends_round(&status(code)), "{code}");
        }
        for code in [401, 429, 500, 503] {
            assert!(ends_round(&status(code)), "{code}");
        }
        assert!(ends_round(&Failure::Unreachable(String::new())));
        assert!(!ends_round(&Failure::Unreadable(String::new())));
    }

    #[test]
    fn a_status_is_compared_when_it_has_changed_and_when_the_time_is_over() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut compared = Compared::new(minutes(5));
        let two = group("a", r#"{"used":"2"}"#);
        assert!(compared.needs(&two));
        compared.note(&two, Outcome::Conflict);
        assert!(compared.needs(&two), "it was not written");
        for outcome in [Outcome::Written, Outcome::Refused, Outcome::Elsewhere] {
            compared.note(&two, outcome);
            assert!(!compared.needs(&two), "{outcome:?}");
            compared.expire(minutes(64), HOUR);
            assert!(!compared.needs(&two), "{outcome:?}: the hour is not over");
            compared = Compared::new(minutes(5));
        }
        compared.note(&two, Outcome::Written);
        assert!(compared.needs(&group("a", r#"{"used":"3"}"#)), "it changed");
        assert!(compared.needs(&group("b", r#"{"used":"2"}"#)), "another group");
        compared.expire(minutes(65), HOUR);
        assert!(compared.needs(&two), "the hour is over");
        compared.note(&two, Outcome::Written);
        compared.expire(minutes(124), HOUR);
        assert!(!compared.needs(&two), "the next hour began with the comparison");
        compared.note(&group("c", "{}"), Outcome::Elsewhere);
        compared.expire(minutes(125), HOUR);
        assert!(compared.needs(&group("c", "{}")), "it may be there now");
    }
}
