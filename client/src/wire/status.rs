//! How the ledger and its sources are.

use quota_semantics::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// How the daemon is: `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The caller.
    pub caller: Caller,
    /// The first entry that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<AsOf>,
    /// Whether all sources have been caught up with since the start. Before, nothing is granted.
    pub caught_up: bool,
    /// Whether the disk is low: then nothing is granted either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disk_low: bool,
    /// Where events come from.
    pub sources: Vec<Source>,
    /// What the node is in its cluster; none: it is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterMember>,
    /// How far the ledger is.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// What a node is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Its name.
    pub node: String,
    /// `leader`, `follower`, `candidate` or `starting`.
    pub role: String,
    /// The leader's term, as far as it has read.
    pub term: u64,
    /// The leader, as far as it has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// The caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    /// As entries name it.
    pub principal: Name,
    /// What it may do.
    pub roles: Vec<String>,
    /// Whether it may read what is not of one namespace.
    pub reads_all_namespaces: bool,
}

/// What has been consumed of a source of events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Its name.
    pub name: Name,
    /// The last position that is consumed; none for a source that has no positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When the source received what is at that position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// How far its publisher has shown each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watermarks: Vec<KindWatermark>,
}

/// How far a publisher has shown a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KindWatermark {
    /// The kind, as in `deployments.apps`.
    pub resource: Name,
    /// Until when; none: there is no watermark, or it does not count before the kind has been listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Timestamp>,
}
