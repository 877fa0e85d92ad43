//! The status of the ledger and its sources, of the cluster and of a namespace. And backups.

use std::{
    io::{self, BufWriter, Write},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use quota_client::wire::{
    AsOf, Caller, ClusterMember, HealRequest, KindWatermark, Namespace, RemoveRequest,
    ReplicatedLedger, Source, Status, TransferRequest,
};
use quota_core::{
    decide,
    event::{Cursor, Sequence},
    state,
};
use quota_journal::{BackedUp, FileReader};
use quota_replication::protocol::LedgerId;
use quota_semantics::{Name, Timestamp};
use tokio::sync::{Semaphore, mpsc};

use super::{
    App, JsonText, Target,
    entries::{Order, Walk, walk},
    problem::{Problem, Reason},
};
use crate::{
    auth::{Principal, Role},
    cluster::{BYTES, Cluster, Error, FromNode, STREAM_POSITION},
    enforcement::Reason as NotEnforced,
    intake::nats::stream_of,
    log_limiter::LogLimiter,
    metrics, now,
    render::labels_of,
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
    Ok(super::ok(&Status {
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
        as_of: super::as_of(as_of),
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
            let reason = required
                .and_then(|required| NotEnforced::new(Some(&view), required.max_age, now()));
            KindWatermark {
                // A kind that nobody limits any more, and that is not watched, is no news.
                not_reported: reason
                    .filter(|reason| *reason != NotEnforced::Absent)
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

// The cluster that this node is part of.

fn cluster(app: &App) -> Result<&Cluster, Problem> {
    app.cluster.as_ref().ok_or_else(|| {
        let detail = "this node is alone: cluster.servers is not set";
        Problem::new(Reason::NotFound, detail)
    })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::NotLeader => Reason::NotLeader,
            // The handover may still happen: no node may repeat the request by itself.
            Error::NotTaken(_) => Reason::OutcomeUnknown,
            Error::Servers(_) => Reason::Timeout,
            Error::Busy => Reason::Overloaded,
            Error::UnknownNode(_) => Reason::Invalid,
            Error::CannotLead(..) | Error::Refused(_) => Reason::Conflict,
        };
        Self::new(reason, error.to_string())
    }
}

/// `GET /v1/cluster`: of all nodes; a request from another node is answered with this node alone.
pub(super) async fn cluster_status(
    State(app): State<App>,
    asker: Option<Extension<FromNode>>,
) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    Ok(super::ok(&match asker {
        Some(_) => cluster.own_status(),
        None => cluster.status().await,
    }))
}

fn begun(ledger: LedgerId) -> Response {
    let ledger = ledger.to_string();
    super::json(StatusCode::CREATED, &ReplicatedLedger { ledger })
}

/// `POST /v1/cluster/init`
pub(super) async fn initialise(State(app): State<App>) -> Result<Response, Problem> {
    let ledger = cluster(&app)?.initialise().await?;
    Ok(begun(ledger))
}

/// `POST /v1/cluster/transfer`
pub(super) async fn transfer(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let TransferRequest { to } = text.read()?;
    cluster.transfer(&to).await?;
    Ok(super::ok(&cluster.status().await))
}

/// `POST /v1/cluster/remove`
pub(super) async fn remove(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let RemoveRequest { node } = text.read()?;
    cluster.remove(&node).await?;
    Ok(super::ok(&cluster.status().await))
}

/// `POST /v1/cluster/heal`
pub(super) async fn heal(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let HealRequest { ledger, lost } = text.read()?;
    let ledger = cluster.heal(&ledger, &lost).await?;
    Ok(begun(ledger))
}

// A backup as one stream of bytes; `quota_journal` describes its content.

/// Longest time that a backup may take: nothing is compacted while a backup runs.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// Bytes per piece of the stream.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that wait to be sent.
const PIECES: usize = 4;

/// Makes backups, one at a time. Cheap to clone.
#[derive(Clone)]
pub struct Backups {
    reader: FileReader,
    turn: Arc<Semaphore>,
}

impl Backups {
    /// Backups of this ledger.
    pub(super) fn new(reader: FileReader) -> Self {
        Self { reader, turn: Arc::new(Semaphore::new(1)) }
    }
}

/// `GET /v1/backup`: all entries that are durable now, while grants go on. A stream that is cut off is not a valid
/// backup.
///
/// A node that joins the cluster with this backup also reads from it the replica's position in the log.
pub(super) async fn backup(
    State(app): State<App>,
    asker: Option<Extension<FromNode>>,
) -> Result<Response, Problem> {
    let cluster = app.cluster.as_ref().filter(|_| asker.is_some());
    let position = cluster.and_then(Cluster::position_text);
    let Backups { reader, turn } = app.backups.clone();
    let stats = cluster.and_then(|_| reader.stats().ok());
    let Ok(turn) = turn.try_acquire_owned() else {
        let detail = "another backup is being made";
        return Err(Problem::new(Reason::Overloaded, detail));
    };
    let (sender, mut receiver) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut output = BufWriter::with_capacity(PIECE_BYTES, Pieces(sender));
        log(quota_journal::write_backup(&reader, &mut output));
        drop(turn);
    });
    let stop = app.stop.clone();
    let ended = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    };
    let pieces = stream::poll_fn(move |cx| receiver.poll_recv(cx))
        .map(Ok::<Bytes, io::Error>)
        .take_until(Box::pin(ended));
    let content_type = [(header::CONTENT_TYPE, "application/octet-stream")];
    let mut response = (content_type, Body::from_stream(pieces)).into_response();
    if let Some(position) = position.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(STREAM_POSITION, position);
    }
    if let Some(stats) = stats {
        let bytes = stats.epochs_bytes.saturating_add(stats.snapshot_bytes);
        response.headers_mut().insert(BYTES, bytes.into());
    }
    Ok(response)
}

/// Backups that are logged per second.
static LINES: LogLimiter = LogLimiter::new(1);

fn log(made: Result<BackedUp, quota_journal::Error>) {
    match made {
        Ok(made) => {
            metrics::backup_done(made.last.sequence);
            if let Some(held_back) = LINES.pass() {
                tracing::info!(sequence = made.last.sequence, held_back, "backup made");
            }
        }
        Err(error) => {
            metrics::backup_failed();
            if let Some(held_back) = LINES.pass() {
                tracing::error!(%error, held_back, "no backup");
            }
        }
    }
}

/// Sends the bytes that are written to it; fails when the receiver is gone.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .blocking_send(Bytes::copy_from_slice(bytes))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// One namespace: what the ledger knows of it besides numbers.

/// `GET /v1/namespaces/{namespace}`: of any name, since every namespace may have quotas.
pub(super) async fn get(
    State(app): State<App>,
    Target([namespace]): Target<1>,
) -> Result<Response, Problem> {
    let view = |state: &state::State| {
        let labels = labels_of(&namespace, state.namespace_record(&namespace).map(|it| &**it));
        (labels, state.groups_of(&namespace), state.head())
    };
    let (labels, groups, head) = app.ledger.read(view).await?;
    Ok(super::ok(&Namespace {
        namespace,
        labels,
        groups,
        as_of: super::as_of(head),
        lagging: app.lags(),
    }))
}
