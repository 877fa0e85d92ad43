//! Several reservations with one call.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use quota_ledger::{
    decide::{self, Request},
    event::Actor,
    state::Head,
};
use serde::{Deserialize, Serialize};

use super::{
    App, Caller, answer,
    body::JsonText,
    measure::{Operation, decided, measured},
    problem::{Cause, Problem, Reason},
    reservations::{Granted, Shown, grant},
    wish::Wish,
};
use crate::{
    auth::{Principal, Role},
    denials::Denials,
    metrics::{self, AuthRefusal},
    writer::{self, Sitting},
};

/// Most reservations of one call: they are decided in one go, and all others wait.
const ITEMS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(default)]
    atomic: bool,
    #[serde(borrow)]
    items: Vec<Wish<'a>>,
}

/// What came of one item.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome<'a> {
    Granted {
        status: u16,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        replayed: bool,
        #[serde(flatten)]
        reservation: Shown<'a>,
    },
    Refused(&'a Problem),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcomes<'a> {
    items: Vec<Outcome<'a>>,
    as_of: Head,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

type Results = Vec<Result<Granted, Problem>>;

/// `POST /v1/reservations:batch`
pub(super) async fn reserve(
    State(app): State<App>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let results = measured(Operation::ReserveBatch, async {
        app.may_grant()?;
        let batch = text.read::<Batch<'_>>()?;
        if batch.items.len() > ITEMS_MAX {
            let count = batch.items.len().to_string();
            let wrong = format!("at most {ITEMS_MAX} items");
            return Err(Problem::invalid(vec![Cause::invalid(
                "items", &count, &wrong,
            )]));
        }
        let requests = batch
            .items
            .iter()
            .map(|wish| request(&app, &principal, wish));
        if batch.atomic {
            let at = |(index, request): (usize, Result<Request, Problem>)| {
                request.map_err(|problem| problem.at(index))
            };
            let requests = requests
                .enumerate()
                .map(at)
                .collect::<Result<Vec<_>, _>>()?;
            together(&app, actor, requests).await
        } else {
            one_by_one(&app, actor, requests.collect()).await
        }
    });
    match results.await {
        Ok((results, head)) => shown(&app, &results, head),
        Err(problem) => {
            decided(Some(&problem), false);
            problem.into_response()
        }
    }
}

fn request(app: &App, principal: &Principal, wish: &Wish<'_>) -> Result<Request, Problem> {
    let Some(namespace) = &wish.namespace else {
        return Err(Problem::invalid(vec![Cause::required(
            "namespace",
            "it is not in the path",
        )]));
    };
    if !principal.may(Role::Reserve, namespace) {
        metrics::auth_refused(AuthRefusal::Namespace);
        let needed = principal.lacks(&[Role::Reserve], Some(namespace));
        return Err(Problem::new(Reason::Forbidden, needed));
    }
    wish.request(app, namespace, writer::now(), None)
}

async fn one_by_one(
    app: &App,
    actor: Arc<Actor>,
    requests: Vec<Result<Request, Problem>>,
) -> Result<(Results, Head), Problem> {
    let denials = app.ledger.denials().cloned();
    let decision = app.ledger.decide(move |sitting| {
        let decide_one =
            |request: Result<Request, Problem>| grant(sitting, &actor, &request?, denials.as_ref());
        let results = requests.into_iter().map(decide_one).collect();
        (results, sitting.desk.state().head())
    });
    Ok(decision.await?)
}

async fn together(
    app: &App,
    actor: Arc<Actor>,
    requests: Vec<Request>,
) -> Result<(Results, Head), Problem> {
    let denials = app.ledger.denials().cloned();
    let decision = app.ledger.decide(move |sitting| {
        let results = all_or_none(sitting, &actor, &requests, denials.as_ref());
        (results, sitting.desk.state().head())
    });
    let (results, head) = decision.await?;
    results
        .map(|results| (results, head))
        .map_err(|problem| problem.as_of(head))
}

fn all_or_none(
    sitting: &mut Sitting<'_>,
    actor: &Arc<Actor>,
    requests: &[Request],
    denials: Option<&Denials>,
) -> Result<Results, Problem> {
    let desk = &mut sitting.desk;
    let all = decide::reserve_all(desk.state(), desk.now(), requests, sitting.policy);
    let all = all.map_err(|(index, refusal)| {
        if let (Some(denials), Some(request)) = (denials, requests.get(index)) {
            denials.note(actor, request, &refusal, desk.state().head());
        }
        Problem::from(refusal).at(index)
    })?;
    let mut replayed = Vec::with_capacity(all.len());
    for reserved in all {
        replayed.push(reserved.replayed);
        desk.record(actor, reserved.events);
    }
    let granted = |(request, replayed): (&Request, bool)| {
        let view = desk.state().reservation(&request.uid);
        let view =
            view.ok_or_else(|| Problem::internal(&"a granted reservation is not remembered"))?;
        Ok(Granted { view, replayed })
    };
    Ok(requests.iter().zip(replayed).map(granted).collect())
}

fn shown(app: &App, results: &Results, head: Head) -> Response {
    let outcome = |result| match result {
        &Ok(Granted { ref view, replayed }) => {
            decided(None, replayed);
            let status = if replayed { 200 } else { 201 };
            Outcome::Granted {
                status,
                replayed,
                reservation: Shown::from(view),
            }
        }
        Err(problem) => {
            decided(Some(problem), false);
            Outcome::Refused(problem)
        }
    };
    let items = results.iter().map(outcome).collect();
    answer::ok(&Outcomes {
        items,
        as_of: head,
        lagging: app.lags(),
    })
}
