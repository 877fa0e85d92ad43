//! Ingests events over HTTP, and requests a relist from the publishers.

use std::{collections::BTreeSet, sync::Arc};

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use http::StatusCode;
use quota_client::wire::{EventsAnswer, RejectedEvent, RelistAnswer, RelistRequest};
use quota_core::{event::Actor, state::State as LedgerState};
use quota_semantics::{Name, syntax};

use super::{
    App, Caller, JsonText,
    problem::{FieldProblem, Problem, Reason},
    reservations::{Operation, measured},
};
use crate::{
    intake::{
        payload::Reader,
        record::{Chunk, Recorded, record},
    },
    log_limiter::LogLimiter,
    metrics::Source,
    now,
    server::body::whole_body,
    writer::{Ledger, Unavailable},
};

/// `POST /v1/events`: NDJSON, a JSON array, or one event.
pub(super) async fn accept(
    State(app): State<App>,
    Caller(actor): Caller,
    body: Body,
) -> Result<Response, Problem> {
    let (answer, as_of) = measured(Operation::Events, async {
        let text = whole_body(body).await?;
        let most = app.max_batch_entries;
        let answer = record_events(&app.ledger, &app.events, &actor, most, text).await?;
        let as_of = app.ledger.read(LedgerState::head).await;
        let as_of = as_of.map_err(|refused| refused.with_part_made(true))?;
        Ok((answer, as_of))
    })
    .await?;
    let rejected = answer.rejected.into_iter().map(|(line, reason)| RejectedEvent { line, reason });
    Ok(super::ok(&EventsAnswer {
        accepted: answer.recorded.accepted,
        ignored: answer.recorded.ignored,
        rejected: rejected.collect(),
        as_of: super::as_of(as_of),
        lagging: app.lags(),
    }))
}

/// Most kinds that one call can name.
const KINDS_MAX: usize = 256;

/// Requests that are logged per second.
static REQUESTS: LogLimiter = LogLimiter::new(1);

/// `POST /v1/relist`: requests that the publishers list these kinds again, or all kinds.
pub(super) async fn request_relist(
    State(app): State<App>,
    Caller(actor): Caller,
    text: JsonText,
) -> Result<Response, Problem> {
    let request: RelistRequest = match text.is_empty() {
        true => RelistRequest::default(),
        false => text.read()?,
    };
    let resources = kinds(&request)?;
    let Some(relist) = app.sources.request_relist(resources.clone()) else {
        let detail = "there is no stream, so no publisher of which a relist could be requested: nats.url is not set";
        return Err(Problem::new(Reason::NotFound, detail));
    };
    if relist.clusters.is_empty() {
        let detail = "no message of the stream has been seen that names a cluster of which a relist could be requested: \
                      set nats.cluster";
        return Err(Problem::new(Reason::NotReady, detail));
    }
    let principal = &*actor.principal;
    if let Some(held_back) = REQUESTS.pass() {
        tracing::info!(principal, ?resources, held_back, "relist requested");
    }
    Ok(super::json(
        StatusCode::ACCEPTED,
        &RelistAnswer {
            clusters: relist.clusters,
            resources: resources.into_iter().collect(),
            wait_seconds: relist.wait.as_millis().div_ceil(1000).try_into().unwrap_or(0),
        },
    ))
}

fn kinds(request: &RelistRequest) -> Result<BTreeSet<Name>, Problem> {
    let complaint = |(place, kind): (usize, &String)| {
        let complaints = syntax::subdomain(kind);
        let field = format!("resources[{place}]");
        (!complaints.is_empty()).then(|| FieldProblem::invalid(field, kind, &complaints.join("; ")))
    };
    let kinds = request.resources.iter().enumerate();
    let mut errors: Vec<_> = kinds.filter_map(complaint).collect();
    if request.resources.len() > KINDS_MAX {
        let (field, why) = ("resources", format!("at most {KINDS_MAX}; none means all"));
        errors = vec![FieldProblem::forbidden(field, &why)];
    }
    match errors.is_empty() {
        true => Ok(request.resources.iter().map(|kind| kind.as_str().into()).collect()),
        false => Err(Problem::invalid(errors)),
    }
}

// Events over HTTP: `POST /v1/events`.

/// The source of dead letters that arrived over HTTP; their positions are line numbers.
pub const SOURCE: &str = "http";

/// The outcome for a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Counts of recorded events.
    pub recorded: Recorded,
    /// The numbers of rejected lines, and the reasons.
    pub rejected: Vec<(u64, String)>,
}

/// Records the events of a body: NDJSON, a JSON array, or one event. Answers when all are durable.
///
/// A large body becomes several batches, so after an error a part of it may be recorded. A repeated request is safe.
///
/// # Errors
/// [`Unavailable`].
pub async fn record_events(
    ledger: &Ledger,
    reader: &Arc<Reader>,
    actor: &Arc<Actor>,
    max_batch_entries: usize,
    body: Bytes,
) -> Result<Answer, Unavailable> {
    let source = Name::from(SOURCE);
    let mut events = reader.read(body, now());
    let mut rejected_lines = Vec::new();
    let mut next_chunk = || {
        let mut chunk = Chunk::default();
        for event in events.by_ref() {
            match event {
                Ok(incoming) => chunk.add(incoming),
                Err(rejected) => {
                    let line = rejected.line;
                    rejected_lines.push((line, rejected.reason.clone()));
                    chunk.add_rejected(&source, line, rejected);
                }
            }
            if chunk.is_full(max_batch_entries) {
                break;
            }
        }
        chunk
    };
    let mut recorded = Recorded::default();
    let mut chunk = next_chunk();
    while !chunk.is_empty() {
        // The next chunk is read while the previous one is being recorded.
        let recording = record(ledger, actor, Source::Http, chunk);
        let (done, next) = futures::join!(recording, async { next_chunk() });
        let is_part_made = recorded != Recorded::default();
        recorded += done.map_err(|refused| refused.with_part_made(is_part_made))?;
        chunk = next;
    }
    Ok(Answer { recorded, rejected: rejected_lines })
}
