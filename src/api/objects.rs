//! The objects behind the numbers.

use std::borrow::Cow;

use axum::{extract::State, response::Response};
use quota_client::wire::Object;
use quota_core::{
    event::Observed,
    state::{Head, ObjectKey, ObjectView, State as LedgerState},
};
use quota_semantics::Name;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    App, Caller, answer,
    page::{self, Params, Target, token},
    problem::Problem,
};
use crate::{
    auth::Reader,
    fairness::{Permit, Turn},
};

/// Table places that are scanned while the state is locked once.
const PLACES: u32 = 16_384;

/// How often the state is locked for one page of the objects of all namespaces.
const HOLDS: usize = 64;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ObjectsQuery {
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
    /// Only objects of this kind, as in `pods` or `deployments.apps`.
    resource: Option<String>,
}

impl ObjectsQuery {
    fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, Problem> {
        page::after(self.after.as_deref())
    }
}

/// An object of the ledger.
pub(super) fn object_response(view: &ObjectView) -> Object<'_> {
    Object {
        uid: Cow::Borrowed(&view.uid),
        namespace: Cow::Borrowed(&view.namespace),
        resource: Cow::Borrowed(&view.resource),
        name: Cow::Borrowed(&view.name),
        resource_version: version(view.version),
        usage: Cow::Borrowed(&view.footprint.resources),
        sequence: Some(view.entry),
        counts_until: view.lapse,
    }
}

/// A listed object.
pub(super) fn listed(object: &Observed) -> Object<'_> {
    Object {
        uid: Cow::Borrowed(&object.uid),
        namespace: Cow::Borrowed(&object.namespace),
        resource: Cow::Borrowed(&object.resource),
        name: Cow::Borrowed(&object.name),
        resource_version: version(object.version),
        usage: Cow::Borrowed(&object.footprint.resources),
        sequence: None,
        counts_until: object.lapse,
    }
}

fn version(version: u64) -> Option<String> {
    (version > 0).then(|| version.to_string())
}

/// The number of amounts of these objects, plus one for each object.
fn amounts(objects: &[ObjectView]) -> usize {
    let of = |view: &ObjectView| 1 + view.footprint.resources.len();
    objects.iter().map(of).sum()
}

fn page(
    turn: &Turn,
    app: &App,
    objects: &[ObjectView],
    next: Option<String>,
    as_of: Head,
) -> Response {
    let items = objects.iter().map(object_response);
    answer::large(turn, &app.page_of(items.collect(), next, as_of))
}

/// `GET /v1/namespaces/{namespace}/objects`: by resource, name and uid.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<ObjectsQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let after: Option<ObjectKey> = query.after()?;
    let permit = Permit::to_read(&actor.principal)?;
    let read = app.ledger.read(|state| (state.objects_view(&namespace), state.head()));
    let (view, head) = read.await?;
    // All objects are scanned, but outside the lock of the state.
    let count = view.len();
    let look = move |turn: &Turn| {
        let wanted = query.resource.as_deref();
        let keep = |resource: &str, _: &_| wanted.is_none_or(|wanted| wanted == resource);
        view.page(after.as_ref(), limit + 1, keep, || turn.pause())
    };
    let mut objects = permit.make(count, look).await;
    let next =
        page::cut(&mut objects, limit, |view| token(&(&view.resource, &view.name, &view.uid)))?;
    let amounts = amounts(&objects);
    let make = move |turn: &Turn| page(turn, &app, &objects, next, head);
    Ok(permit.make(amounts, make).await)
}

/// `GET /v1/objects`: of all namespaces that the caller may read, in unspecified order. An object that exists throughout the paging is listed
/// exactly once. A page may be shorter than requested, or even empty, although more pages follow.
pub(super) async fn list_all(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<ObjectsQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let limit = page::limit(query.limit, app.page)?;
    let from: Option<u32> = query.after()?;
    let wanted = query.resource.as_deref();
    let keep = |resource: &str, namespace: &Name| {
        wanted.is_none_or(|wanted| wanted == resource) && reader.reads(namespace)
    };
    let mut next = Some(from.unwrap_or(0));
    let mut objects = Vec::new();
    let before = app.ledger.before_peeks();
    for _ in 0..HOLDS {
        let Some(from) = next.filter(|_| objects.len() < limit) else {
            break;
        };
        let room = limit - objects.len();
        let (found, then) = app.ledger.peek(|state| state.objects_from(from, PLACES, room, keep));
        objects.extend(found);
        next = then;
    }
    let next = next.map(|next| token(&next)).transpose()?;
    // The scanned objects are durable once the ledger is durable up to this head.
    let head = app.ledger.read_after(before, LedgerState::head).await?;
    let amounts = amounts(&objects);
    let make = move |turn: &Turn| page(turn, &app, &objects, next, head);
    Ok(permit.make(amounts, make).await)
}
