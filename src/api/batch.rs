//! Several reservations with one call.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use quota_core::{
    decide::{Request, Requester},
    event::Actor,
    state::Head,
};
use serde::Deserialize;

use super::{
    App, Caller, JsonText,
    problem::{FieldProblem, Problem, Reason, at_most},
    reservations::{
        Granted, Operation, ReserveRequest, SharedNames, decided, granted, limited, log_denied,
        measured, note, reserve,
    },
};
use crate::{
    auth::{Principal, Role, requester},
    fairness::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    metrics::{self, AuthRefusal},
    render::reservation::{LAGGING, whole, write_fields, write_head},
    writer::{DecisionContext, For},
};

/// Most reservations of one call.
const ITEMS_MAX: usize = 1000;

/// Most reservations of an atomic call: all are decided in one job, while other jobs wait.
const ATOMIC_ITEMS_MAX: usize = 100;

/// Reservations of a non-atomic call that are decided in one job.
const ITEMS_AT_ONCE: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(default)]
    atomic: bool,
    #[serde(borrow)]
    items: Vec<ReserveRequest<'a>>,
}

/// The requests of a batch, as far as they are valid.
type Items = Vec<Result<Request, Problem>>;

type Results = Vec<Result<Granted, Problem>>;

/// `POST /v1/reservations:batch`
pub(super) async fn create(
    State(app): State<App>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let permit = Permit::to_change(&actor.principal);
    let results = measured(Operation::ReserveBatch, async {
        app.may_grant()?;
        let (parsing, parsed_for) = (app.clone(), principal.clone());
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let read = move |_: &Turn| requests(&parsing, &parsed_for, &text);
        // Nothing is decided yet. A waiting call holds its body in memory, so the number of waiting calls is bounded.
        match make_sized(&actor.principal, amounts, read).await?? {
            Requests::Together(requests) => {
                together(&app, actor.clone(), &principal, requests).await
            }
            Requests::OneByOne(requests) => {
                one_by_one(&app, actor.clone(), principal.clone(), requests).await
            }
        }
    });
    match results.await {
        Ok((mut results, head)) => {
            for result in &results {
                match result {
                    Ok(granted) => decided(None, granted.replayed),
                    Err(problem) => {
                        decided(Some(problem), false);
                        limited(problem);
                    }
                }
            }
            let amounts = |results: &Results| results.iter().map(amounts_of).sum();
            let mut size: usize = amounts(&results);
            if size > AMOUNTS_AT_ONCE && permit.is_crowded() {
                omit_quotas(&mut results);
                size = amounts(&results);
            }
            permit.make(size, move |turn| respond(turn, &app, &results, head)).await
        }
        Err(problem) => {
            decided(Some(&problem), false);
            problem.into_response()
        }
    }
}

/// The reservations that a batch requests.
enum Requests {
    Together(Vec<Request>),
    OneByOne(Items),
}

fn requests(app: &App, principal: &Principal, text: &JsonText) -> Result<Requests, Problem> {
    let mut batch = text.read::<Batch<'_>>()?;
    let (most, kind) = match batch.atomic {
        true => (ATOMIC_ITEMS_MAX, "items that are granted together"),
        false => (ITEMS_MAX, "items"),
    };
    at_most("items", batch.items.len(), most, kind)?;
    let mut names = SharedNames::default();
    let requests = batch.items.iter_mut().map(|item| {
        names.share_of(item);
        request(app, principal, item)
    });
    if !batch.atomic {
        return Ok(Requests::OneByOne(requests.collect()));
    }
    let at = |(index, request): (usize, Result<Request, Problem>)| {
        request.map_err(|problem| problem.at(index))
    };
    let requests = requests.enumerate().map(at).collect::<Result<_, _>>()?;
    Ok(Requests::Together(requests))
}

fn request(
    app: &App,
    principal: &Principal,
    item: &ReserveRequest<'_>,
) -> Result<Request, Problem> {
    let Some(namespace) = &item.namespace else {
        return Err(FieldProblem::required("namespace", "it is not in the path").into());
    };
    if !principal.may(Role::Reserve, namespace) {
        metrics::auth_refused(AuthRefusal::Namespace);
        let needed = principal.lacks(&[Role::Reserve], Some(namespace));
        return Err(Problem::new(Reason::Forbidden, needed));
    }
    item.request(app, namespace, crate::now(), None)
}

async fn one_by_one(
    app: &App,
    actor: Arc<Actor>,
    principal: Principal,
    requests: Items,
) -> Result<(Results, Head), Problem> {
    let denials = app.ledger.denials().cloned();
    // Keeps a reference, so that the memory is freed by the thread that allocated it.
    let requests = Arc::new(requests);
    let count = requests.len();
    let decide_some = |first: usize| {
        let (actor, denials) = (actor.clone(), denials.clone());
        let principal = principal.clone();
        move |context: &mut DecisionContext<'_>, requests: &Items| {
            let policy = context.policy.shared_by(count);
            let decide_one = |request: &Result<Request, Problem>| {
                let request = request.as_ref().map_err(Problem::clone)?;
                let by = requester(&actor, &principal, &request.namespace);
                let transaction = &mut context.transaction;
                Ok(reserve(transaction, &policy, &actor, &by, request, denials.as_ref()))
            };
            let some = requests.iter().skip(first).take(ITEMS_AT_ONCE);
            let decided: Vec<Result<_, Problem>> = some.map(decide_one).collect();
            (decided, context.transaction.state().head())
        }
    };
    // At least one part: an answer without items also needs the position of the ledger.
    let parts = (0..count.max(1)).step_by(ITEMS_AT_ONCE).map(decide_some).collect();
    let decided = app.ledger.decide_each(&actor.principal, requests.clone(), parts);
    let parts = decided.await?;
    let head = parts.last().map(|(_, head)| *head).unwrap_or_default();
    let decided = parts.into_iter().flat_map(|(decided, _)| decided);
    let results: Results = decided.map(|decided| decided.and_then(granted)).collect();
    for (request, result) in requests.iter().zip(&results) {
        if let (Ok(request), Err(problem)) = (request, result) {
            log_denied(request, problem, head.sequence);
        }
    }
    Ok((results, head))
}

async fn together(
    app: &App,
    actor: Arc<Actor>,
    principal: &Principal,
    requests: Vec<Request>,
) -> Result<(Results, Head), Problem> {
    let is_admin = |request: &Request| principal.may(Role::Admin, &request.namespace);
    let by = Requester {
        principal: actor.principal.clone(),
        is_admin: requests.iter().all(is_admin),
        is_anybody: principal.is_anonymous(),
    };
    let denials = app.ledger.denials().cloned();
    let requests = Arc::new(requests);
    let principal = actor.principal.clone();
    let decide = move |context: &mut DecisionContext<'_>, requests: &Vec<Request>| {
        let transaction = &mut context.transaction;
        let decided = transaction.reserve_all(&actor, &by, requests, context.policy);
        let head = transaction.state().head();
        match &decided {
            Ok(decisions) => decisions.iter().for_each(|decision| note(&decision.notices)),
            Err((index, refusal)) => {
                if let (Some(denials), Some(request)) = (&denials, requests.get(*index)) {
                    denials.note(&actor, request, refusal, head);
                }
            }
        }
        (decided, head)
    };
    let ledger = &app.ledger;
    let decision = ledger.decide_about(For::Principal(&principal), requests.clone(), decide);
    let (decided, head) = decision.await?;
    match decided {
        Ok(decisions) => {
            let results = decisions.into_iter().map(|decision| granted(Ok(decision)));
            Ok((results.collect(), head))
        }
        Err((index, refusal)) => {
            let problem = Problem::from(refusal);
            if let Some(request) = requests.get(index) {
                log_denied(request, &problem, head.sequence);
            }
            Err(problem.at(index).as_of(head))
        }
    }
}

/// How many amounts an outcome holds; a grant counts as few.
fn amounts_of(result: &Result<Granted, Problem>) -> usize {
    result.as_ref().err().map_or(1, Problem::amounts)
}

/// Makes an answer that may not wait for a turn a small one.
fn omit_quotas(results: &mut Results) {
    let denied = results.iter_mut().filter_map(|result| result.as_mut().err());
    denied.for_each(Problem::omit_quotas);
}

fn respond(turn: &Turn, app: &App, results: &Results, head: Head) -> Response {
    let text = written(results, head, app.lags(), || turn.pause());
    super::written(StatusCode::OK, text)
}

/// The outcomes as JSON, in the order of the items.
fn written(results: &Results, head: Head, lagging: bool, pause: impl Fn()) -> Vec<u8> {
    let mut out = Vec::with_capacity((results.len() + 1) * super::ANSWER_BYTES);
    out.extend_from_slice(b"{\"items\":[");
    for (index, result) in results.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match result {
            Ok(Granted { status, replayed, warnings }) => {
                out.extend_from_slice(match replayed {
                    true => b"{\"status\":200,\"replayed\":true,",
                    false => b"{\"status\":201,",
                });
                write_fields(&whole(status, warnings), &mut out);
                out.push(b'}');
            }
            Err(problem) => {
                out.extend_from_slice(problem.to_text().as_bytes());
                pause();
            }
        }
    }
    out.push(b']');
    write_head(&mut out, &head);
    if lagging {
        out.extend_from_slice(LAGGING.as_bytes());
    }
    out.push(b'}');
    out
}

#[cfg(test)]
mod tests {
    use quota_core::{
        decide,
        event::Reservation,
        state::{End, ReservationStatus},
    };
    use quota_semantics::{Timestamp, uid::Uid};
    use serde_json::{Value, json};

    use super::*;

    fn granted(name: &str, end: Option<(End, Timestamp)>, replayed: bool) -> Granted {
        let reservation = Reservation {
            uid: Uid::new("u-1").unwrap(),
            namespace: "team-a".into(),
            resource: "pods".into(),
            name: name.into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: Arc::default(),
            created: Timestamp::EPOCH,
            expiration: Timestamp::EPOCH,
            after_version: 0,
            requested: None,
        };
        let reservation = Arc::new(reservation);
        Granted {
            status: ReservationStatus { reservation, end, holding: None },
            replayed,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn outcomes_stand_in_the_order_of_the_items() {
        let problem = Problem::new(Reason::Forbidden, "not \"yours\"".to_owned()).at(1);
        let results = vec![
            Ok(granted("a \"b\"", None, false)),
            Err(problem.clone()),
            Ok(granted("c", Some((End::Released, Timestamp::EPOCH)), true)),
        ];
        let head = Head { sequence: 7, time: Timestamp::EPOCH };
        let epoch = "1970-01-01T00:00:00Z";
        let item = |name: &str| {
            json!({
                "status": 201,
                "namespace": "team-a",
                "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u-1"},
                "reserved": {},
                "state": "pending",
                "createdTime": epoch,
                "expirationTime": epoch,
            })
        };
        let mut replayed = item("c");
        replayed["status"] = 200.into();
        replayed["replayed"] = true.into();
        replayed["state"] = "released".into();
        replayed["endedTime"] = epoch.into();
        let items = [item("a \"b\""), serde_json::to_value(&problem).unwrap(), replayed];
        let mut expected = json!({"items": items, "asOf": {"sequence": 7, "time": epoch}});
        for lagging in [false, true] {
            if lagging {
                expected["lagging"] = true.into();
            }
            let text = written(&results, head, lagging, || ());
            assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), expected);
        }
    }

    #[test]
    fn a_denial_can_be_shown_without_the_numbers_of_quotas() {
        let quota = quota_client::wire::CheckedQuota {
            name: "compute".into(),
            kind: quota_semantics::admission::LimitKind::ResourceQuota,
            resources: Vec::new(),
        };
        let refusal = decide::Refusal::Denied(Box::new(decide::Denied {
            denial: quota_semantics::admission::Denial::NoPreviousVersion,
            detail: String::new(),
            reserved: None,
            quotas: vec![quota; 3],
            quotas_omitted: 2,
            retry_after: None,
            fits_when_empty: true,
        }));
        let mut results = vec![Ok(granted("a", None, false)), Err(Problem::from(refusal))];
        omit_quotas(&mut results);
        let text = written(&results, Head::default(), false, || ());
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["items"][1]["quotas"], json!([]));
        assert_eq!(value["items"][1]["quotasOmitted"], 5);
    }

    #[test]
    fn no_items_have_no_outcomes() {
        let text = written(&Vec::new(), Head::default(), false, || ());
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["items"], json!([]));
    }
}
