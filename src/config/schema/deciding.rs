//! The rules of grants, and the denials that are kept.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};

use quota_core::decide::Unlimited;
use serde::{Deserialize, Serialize};

use quota_service::config::{Period, Size, blank};

/// `reservations.*`: how long and how many may stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservations {
    /// Time to live when none is requested.
    pub default_ttl: Period,
    /// Longest time to live that can be requested.
    pub max_ttl: Period,
    /// Longest that a reservation is held, however often it is extended.
    pub max_lifetime: Period,
    /// Longest that an expired reservation is held while the sources lag.
    pub max_hold: Period,
    /// Pending reservations in all; long ones count as several.
    pub max_pending: NonZeroUsize,
    /// Pending reservations of one namespace.
    pub max_pending_per_namespace: NonZeroUsize,
    /// Pending reservations that one principal has requested.
    pub max_pending_per_principal: NonZeroUsize,
    /// What to do with a request for a resource that nothing limits.
    pub unlimited: Unlimited,
}

/// `groups.*`: how many groups, and how deep in each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// Groups in all.
    pub max: NonZeroUsize,
    /// Groups from the root of a tree to a leaf.
    pub max_depth: NonZeroUsize,
    /// Groups that count objects of one namespace.
    pub max_per_namespace: NonZeroUsize,
    /// The labels of objects that are recorded, so that groups may choose objects by them.
    pub object_labels: Vec<String>,
}

/// `denials.*`: the denials that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denials {
    /// Denials that are kept at most.
    pub max_records: NonZeroUsize,
    /// Bytes of them at most.
    pub max_bytes: Size,
    /// How long a denial is kept at most.
    pub max_age: Period,
}

/// In `admission.count`: whatever quotas limit.
pub const ALL_KINDS: &str = "*";

/// `admission.*`: the admission webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Address of its TLS listener; none: reviews come by the HTTP API only.
    #[serde(with = "blank")]
    pub listen: Option<SocketAddr>,
    /// Share of a limit (0 to 1) from which an admitted request is answered with a warning.
    pub warn_ratio: f64,
    /// Admit while the sources lag so far that usage is uncertain.
    pub allow_when_behind: bool,
    /// File with limited resources, as Kubernetes' `AdmissionConfiguration` holds them.
    #[serde(with = "blank")]
    pub limited_resources_file: Option<PathBuf>,
    /// Workloads that are charged for their pods, as `deployments.apps`.
    pub charge: Vec<String>,
    /// Kinds that the webhook's rules list besides those that count for more than their number; `*`: all that quotas
    /// limit.
    pub count: Vec<String>,
}
