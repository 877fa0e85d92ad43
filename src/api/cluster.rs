//! The cluster that this node is part of.

use axum::{Extension, extract::State, response::Response};
use http::StatusCode;
use quota_client::wire::{HealRequest, RemoveRequest, ReplicatedLedger, TransferRequest};
use quota_replication::protocol::LedgerId;

use super::{
    App, answer,
    body::JsonText,
    problem::{Problem, Reason},
};
use crate::cluster::{Cluster, Error, FromNode};

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
pub(super) async fn status(
    State(app): State<App>,
    asker: Option<Extension<FromNode>>,
) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    Ok(answer::ok(&match asker {
        Some(_) => cluster.own_status(),
        None => cluster.status().await,
    }))
}

fn begun(ledger: LedgerId) -> Response {
    let ledger = ledger.to_string();
    answer::json(StatusCode::CREATED, &ReplicatedLedger { ledger })
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
    Ok(answer::ok(&cluster.status().await))
}

/// `POST /v1/cluster/remove`
pub(super) async fn remove(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let RemoveRequest { node } = text.read()?;
    cluster.remove(&node).await?;
    Ok(answer::ok(&cluster.status().await))
}

/// `POST /v1/cluster/heal`
pub(super) async fn heal(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let HealRequest { ledger, lost } = text.read()?;
    let ledger = cluster.heal(&ledger, &lost).await?;
    Ok(begun(ledger))
}
