//! The status of the ledger and its sources.

use axum::{extract::State, response::Response};
use quota_client::wire::{AsOf, Caller, ClusterMember, KindWatermark, Source, Status};
use quota_core::{
    decide,
    event::{Cursor, Sequence},
    state,
};
use quota_semantics::{Name, Timestamp};

use super::{
    App, answer,
    history::{Order, Walk, walk},
    problem::Problem,
};
use crate::{
    auth::{Principal, Role},
    clock::now,
    cluster::Cluster,
    enforcement::Reason,
    intake::nats::stream_of,
    log_limiter::LogLimiter,
    writer::Required,
};

/// Failures to read the oldest entry that are logged per second.
static UNREAD: LogLimiter = LogLimiter::new(1);

fn member(cluster: &Cluster) -> ClusterMember {
    let view = cluster.view();
    ClusterMember {
        node: cluster.node().to_string(),
        role: view.role_name().to_owned(),
        term: view.term,
        leader: view.leader.map(|leader| leader.to_string()),
    }
}

/// `GET /v1/status`
pub(super) async fn status(State(app): State<App>, caller: Principal) -> Result<Response, Problem> {
    let no_grants = app.cluster.as_ref().and_then(Cluster::no_grants);
    let required = app.ledger.watermark().required();
    let view = |state: &state::State| (sources(state, required), state.head());
    let (sources, as_of) = match no_grants {
        // A leader that is cut off would wait in vain until it is certain that no other node leads.
        Some(_) => app.ledger.peek(view),
        None => app.ledger.read(view).await?,
    };
    let first: Sequence = app.reader.first_sequence();
    let oldest = walk(&app, caller.name(), (first, Order::Asc), 1, |entry| {
        Some(AsOf { sequence: entry.sequence, time: entry.time })
    });
    Ok(answer::ok(&Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        caller: Caller {
            principal: caller.name().clone(),
            roles: Role::ALL
                .into_iter()
                .filter(|role| caller.has(*role))
                .map(|role| role.as_str().to_owned())
                .collect(),
            namespaces: caller.namespaces().iter().map(ToString::to_string).collect(),
            reads_all_namespaces: caller.may_everywhere(Role::Read),
        },
        oldest: oldest_of(oldest.await.map(|(walk, _)| walk)),
        caught_up: app.sources.are_caught_up(),
        disk_low: app.ledger.is_disk_low(),
        no_grants,
        sources,
        cluster: app.cluster.as_ref().map(member),
        as_of: answer::as_of(as_of),
        lagging: app.lags(),
    }))
}

/// The oldest entry. The status is shown although the entry cannot be read, or was just removed.
fn oldest_of(read: Result<Walk<AsOf>, Problem>) -> Option<AsOf> {
    match read {
        Ok(mut walk) => walk.found.pop(),
        Err(problem) => {
            if let Some(held_back) = UNREAD.pass() {
                let detail = problem.detail();
                tracing::warn!(detail, held_back, "the oldest entry cannot be read");
            }
            None
        }
    }
}

/// The sources that have positions, and those that have sent bookmarks. A stream is one, with the name of the stream.
fn sources(state: &state::State, required: Option<&Required>) -> Vec<Source> {
    let of = |(name, cursor): (&Name, &Cursor)| Source {
        name: name.clone(),
        position: Some(cursor.position),
        // At the epoch no message has arrived yet.
        time: Some(cursor.time).filter(|time| *time > Timestamp::EPOCH),
        watermarks: Vec::new(),
    };
    let cursors = state.sources().iter().filter(|(name, _)| !decide::is_former(name));
    let mut sources: Vec<Source> = cursors.map(of).collect();
    for name in state.progress_sources() {
        let required = required.filter(|required| required.source == name);
        let watermarks = state.watermarks(&name).map(|view| {
            let reason =
                required.and_then(|required| Reason::new(Some(&view), required.max_age, now()));
            KindWatermark {
                // A kind that nobody limits any more, and that is not watched, is no news.
                not_reported: reason
                    .filter(|reason| *reason != Reason::Absent)
                    .map(|reason| reason.to_string()),
                resource: view.reported.resource,
                watermark: Some(view.reported.watermark).filter(|_| view.counts),
            }
        });
        let watermarks = watermarks.collect();
        let stream = stream_of(&name).unwrap_or(&name);
        match sources.iter_mut().find(|source| *source.name == *stream) {
            Some(source) => source.watermarks = watermarks,
            None => sources.push(Source { name, watermarks, ..Source::default() }),
        }
    }
    sources
}
