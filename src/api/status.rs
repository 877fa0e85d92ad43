//! How the ledger and its sources stand.

use axum::{extract::State, response::Response};
use quota_core::{
    event::{Cursor, Sequence},
    state::{self, Head},
};
use quota_replication::NodeName;
use quota_semantics::{Name, Timestamp};
use serde::Serialize;

use super::{App, answer, history::walk, page::Params, problem::Problem};
use crate::{
    auth::{Principal, Role},
    cluster::Cluster,
};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: &'static str,
    caller: Caller,
    /// The first entry that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<Head>,
    /// Whether all sources have been caught up with since the start. Before, nothing is granted.
    caught_up: bool,
    /// Whether the disk is low: then nothing is granted either.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disk_low: bool,
    sources: Vec<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Member>,
    as_of: Head,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

/// What this node is in its cluster.
#[derive(Serialize)]
struct Member {
    node: NodeName,
    role: &'static str,
    term: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<NodeName>,
}

impl Member {
    fn of(cluster: &Cluster) -> Self {
        let view = cluster.view();
        Self {
            node: cluster.node().clone(),
            role: view.role_name(),
            term: view.epoch,
            leader: view.leader,
        }
    }
}

/// Who asks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Caller {
    principal: Name,
    roles: Vec<Role>,
    /// Whether it may read what is not of one namespace.
    reads_all_namespaces: bool,
}

/// What has been consumed of a source.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    name: Name,
    /// The last position that is consumed; absent for one that has none of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    /// When the source received what stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    /// How far its publisher says that it has shown each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    watermarks: Vec<Shown>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    resource: Name,
    /// Absent: not known, or it does not count before the kind has been listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    watermark: Option<Timestamp>,
}

/// `GET /v1/status`
pub(super) async fn status(
    State(app): State<App>,
    caller: Principal,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, Problem> {
    let read = app.ledger.read(|state| (sources(state), state.head()));
    let (sources, as_of) = read.await?;
    let first: Sequence = app.reader.first_sequence();
    let oldest = walk(&app, first, 1, |entry| {
        Some(Head {
            sequence: entry.sequence,
            time: entry.time,
        })
    });
    Ok(answer::ok(&Status {
        version: env!("CARGO_PKG_VERSION"),
        caller: Caller {
            principal: caller.name().clone(),
            roles: Role::ALL
                .into_iter()
                .filter(|role| caller.has(*role))
                .collect(),
            reads_all_namespaces: caller.may_everywhere(Role::Read),
        },
        oldest: oldest.await?.found.pop(),
        caught_up: app.sources.are_caught_up(),
        disk_low: app.ledger.is_disk_low(),
        sources,
        cluster: app.cluster.as_ref().map(Member::of),
        as_of,
        lagging: app.lags(),
    }))
}

/// Those that have positions, and those that have said how far they are: mostly the same.
fn sources(state: &state::State) -> Vec<Source> {
    let of = |(name, cursor): (&Name, &Cursor)| Source {
        name: name.clone(),
        position: Some(cursor.position),
        time: Some(cursor.time),
        watermarks: Vec::new(),
    };
    let mut sources: Vec<Source> = state.sources().iter().map(of).collect();
    for name in state.progress_sources() {
        let watermarks = state.watermarks(&name).map(|view| Shown {
            resource: view.told.resource,
            watermark: Some(view.told.watermark).filter(|_| view.counts),
        });
        let watermarks = watermarks.collect();
        match sources.iter_mut().find(|source| source.name == name) {
            Some(source) => source.watermarks = watermarks,
            None => sources.push(Source {
                name,
                watermarks,
                ..Source::default()
            }),
        }
    }
    sources
}
