//! What makes a number.

use axum::{extract::State, response::Response};
use quota_core::{
    event::Sequence,
    state::{self, Head, Holder, Part, PartKey},
};
use quota_semantics::{Timestamp, quantity::Quantity, uid::Uid};
use serde::{Deserialize, Serialize};

use super::{
    App, answer,
    page::{self, Page, Params, Target, token},
    past::{self, When},
    problem::{Problem, Reason},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    /// The resource, as a quota names it.
    resource: String,
    /// Only what this quota counts.
    quota: Option<String>,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained<'a> {
    namespace: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<&'a str>,
    resource: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hard: Option<&'a Quantity>,
    used: &'a Quantity,
    reserved: &'a Quantity,
    #[serde(flatten)]
    page: Page<PartView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartView<'a> {
    kind: &'static str,
    uid: &'a Uid,
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    amount: &'a Quantity,
    /// The entry that caused it.
    sequence: Sequence,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration_time: Option<Timestamp>,
}

impl<'a> From<&'a Part> for PartView<'a> {
    fn from(part: &'a Part) -> Self {
        let (amount, sequence) = (&part.amount, part.entry());
        match &part.holder {
            Holder::Object(object) => Self {
                kind: "object",
                uid: &object.uid,
                resource: &object.resource,
                name: &object.name,
                amount,
                sequence,
                expiration_time: None,
            },
            Holder::Commit(view) => Self {
                kind: "commit",
                uid: &view.reservation.uid,
                resource: &view.reservation.resource,
                name: &view.reservation.name,
                amount,
                sequence,
                expiration_time: None,
            },
            Holder::Reservation(view) => Self {
                kind: "reservation",
                uid: &view.reservation.uid,
                resource: &view.reservation.resource,
                name: &view.reservation.name,
                amount,
                sequence,
                expiration_time: Some(view.reservation.expiration),
            },
        }
    }
}

/// The number, and a page of what makes it.
struct Number {
    hard: Option<Quantity>,
    used: Quantity,
    reserved: Quantity,
    parts: Vec<Part>,
    head: Head,
}

/// `GET /v1/namespaces/{namespace}/explain?resource=NAME&quota=NAME`: the largest part first.
pub(super) async fn explain(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<ExplainQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let after: Option<PartKey> = query
        .after
        .as_deref()
        .filter(|token| !token.is_empty())
        .map(page::read_token)
        .transpose()?;
    let when = When {
        at: query.at,
        sequence: query.sequence,
    };
    let quota = query.quota.as_deref();
    let question = |state: &state::State| {
        let (hard, used, reserved) = figures(state, &namespace, quota, &query.resource)?;
        let resource = &query.resource;
        Some(Number {
            hard,
            used,
            reserved,
            parts: state.parts(&namespace, quota, resource, after.as_ref(), limit + 1)?,
            head: state.head(),
        })
    };
    let (number, lagging) = past::ask(&app, &when, question).await?;
    let Some(mut number) = number else {
        let detail = format!(
            "quota {:?} not found, or it does not limit this",
            quota.unwrap_or("")
        );
        return Err(Problem::new(Reason::NotFound, detail));
    };
    let more = number.parts.len() > limit;
    number.parts.truncate(limit);
    let last = number.parts.last().filter(|_| more);
    Ok(answer::ok(&Explained {
        namespace: &namespace,
        quota,
        resource: &query.resource,
        hard: number.hard.as_ref(),
        used: &number.used,
        reserved: &number.reserved,
        page: Page {
            items: number.parts.iter().map(PartView::from).collect(),
            next: last.map(|part| token(&part.key())).transpose()?,
            as_of: number.head,
            lagging,
        },
    }))
}

/// Hard, used and reserved.
fn figures(
    state: &state::State,
    namespace: &str,
    quota: Option<&str>,
    resource: &str,
) -> Option<(Option<Quantity>, Quantity, Quantity)> {
    let Some(quota) = quota else {
        let totals = state.totals(namespace);
        let of = |list: &quota_semantics::resource::ResourceList| {
            list.get(resource).cloned().unwrap_or_default()
        };
        return Some((None, of(&totals.used), of(&totals.reserved)));
    };
    let view = state.quota(namespace, quota)?;
    let mut figures = view.figures.into_iter();
    let figure = figures.find(|figure| *figure.resource == *resource)?;
    Some((
        Some(figure.hard),
        figure.used.unwrap_or_default(),
        figure.reserved,
    ))
}
