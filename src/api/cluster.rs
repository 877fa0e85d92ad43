//! The cluster that this node is part of.

use axum::{Extension, extract::State, response::Response};
use http::StatusCode;
use quota_replication::LedgerId;
use serde::{Deserialize, Serialize};

use super::page::Params;
use super::{
    App, answer,
    body::JsonText,
    problem::{Problem, Reason},
    status::NoQuery,
};
use crate::cluster::{Cluster, Error, FromNode};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Transfer {
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Heal {
    ledger: String,
    #[serde(default)]
    lost: Vec<String>,
}

#[derive(Serialize)]
struct Initialised {
    ledger: LedgerId,
}

fn cluster(app: &App) -> Result<&Cluster, Problem> {
    app.cluster.as_ref().ok_or_else(|| {
        let detail = "this node is alone: cluster.servers is not set";
        Problem::new(Reason::NotFound, detail)
    })
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::NotLeader | Error::NotTaken(_) => Reason::NotLeader,
            Error::Busy => Reason::Overloaded,
            Error::UnknownNode(_) => Reason::Invalid,
            Error::Unfit(_)
            | Error::WasReplica
            | Error::StillRuns(_)
            | Error::Healing(_)
            | Error::Stream(_) => Reason::Conflict,
        };
        Self::new(reason, error.to_string())
    }
}

/// `GET /v1/cluster`: of all nodes; another node is told of this one alone.
pub(super) async fn status(
    State(app): State<App>,
    asker: Option<Extension<FromNode>>,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    Ok(answer::ok(&match asker {
        Some(_) => cluster.own_status(),
        None => cluster.status().await,
    }))
}

/// `POST /v1/cluster/init`
pub(super) async fn initialise(State(app): State<App>) -> Result<Response, Problem> {
    let ledger = cluster(&app)?.initialise().await?;
    Ok(answer::json(StatusCode::CREATED, &Initialised { ledger }))
}

/// `POST /v1/cluster/transfer`
pub(super) async fn transfer(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let Transfer { to } = text.read()?;
    cluster.transfer(&to).await?;
    Ok(answer::ok(&cluster.status().await))
}

/// `POST /v1/cluster/remove`
pub(super) async fn remove(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let Remove { node } = text.read()?;
    cluster.remove(&node).await?;
    Ok(answer::ok(&cluster.status().await))
}

/// `POST /v1/cluster/heal`
pub(super) async fn heal(State(app): State<App>, text: JsonText) -> Result<Response, Problem> {
    let cluster = cluster(&app)?;
    let Heal { ledger, lost } = text.read()?;
    let ledger = cluster.heal(&ledger, &lost).await?;
    Ok(answer::json(StatusCode::CREATED, &Initialised { ledger }))
}
