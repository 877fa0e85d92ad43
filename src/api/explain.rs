//! Lists the objects and reservations that make up a number.

use std::borrow::Cow;

use axum::{extract::State, response::Response};
use quota_client::wire::{Contribution, Explanation, GroupExplanation, Kind, Object};
use quota_core::{
    event::{Observed, Sequence},
    state::{
        self, GroupFigure, GroupPartKey, GroupPartsView, Head, Holder, ObjectKey, ObjectView, Part,
        PartKey, PartsView, State as LedgerState,
    },
};
use quota_semantics::{Name, Timestamp, quantity::Quantity, uid::Uid};
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    App, Caller, Params, Target, When,
    problem::{Problem, Reason},
    token,
};
use crate::{
    auth::Reader,
    fairness::{Permit, Turn},
    render::group::{Copied, MEMBERS_MAX},
};

#[derive(Debug, Deserialize)]
pub(super) struct ExplainQuery {
    /// The resource, as named in a quota.
    resource: String,
    /// Only the part that this quota, or this group of the namespace, counts.
    quota: Option<String>,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

fn contribution(part: &Part) -> Contribution {
    let entry = part.entry();
    let of = |kind, uid: &Uid, resource: &str, name: &str, expiration_time| Contribution {
        namespace: None,
        kind,
        uid: uid.clone(),
        resource: resource.into(),
        name: name.into(),
        amount: part.amount.clone(),
        sequence: entry,
        expiration_time,
    };
    match &part.holder {
        Holder::Object(object) => {
            of(Kind::Object, &object.uid, &object.resource, &object.name, None)
        }
        Holder::Commit(view) => {
            let reservation = &view.reservation;
            of(Kind::Commit, &reservation.uid, &reservation.resource, &reservation.name, None)
        }
        Holder::Reservation(view) => {
            let reservation = &view.reservation;
            let end = Some(reservation.expiration);
            of(Kind::Reservation, &reservation.uid, &reservation.resource, &reservation.name, end)
        }
    }
}

/// A number, and the objects and reservations behind it.
struct Number {
    hard: Option<Quantity>,
    used: Quantity,
    reserved: Quantity,
    parts: PartsView,
    head: Head,
}

/// `GET /v1/namespaces/{namespace}/explain?resource=NAME&quota=NAME`: the largest part first.
pub(super) async fn explain(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<ExplainQuery>,
) -> Result<Response, Problem> {
    let limit = super::limit(query.limit, app.page)?;
    let after: Option<PartKey> = super::after(query.after.as_deref())?;
    let when = When { at: query.at, sequence: query.sequence };
    let asked = (namespace.clone(), query.quota.clone(), query.resource.clone());
    let view = move |state: &state::State| {
        let (namespace, quota, resource) = &asked;
        let quota = quota.as_deref();
        let (hard, used, reserved) = figures(state, namespace, quota, resource)?;
        Some(Number {
            hard,
            used,
            reserved,
            parts: state.parts_view(namespace, quota, resource)?,
            head: state.head(),
        })
    };
    // All objects and reservations are read, but outside the lock of the state.
    let objects = |number: &Option<Number>| number.as_ref().map_or(0, |number| number.parts.len());
    let make = move |number: Option<Number>, lagging, turn: &Turn| {
        let Some(number) = number else {
            let detail = format!(
                "quota {:?} not found, or it does not limit this",
                query.quota.as_deref().unwrap_or("")
            );
            return Err(Problem::new(Reason::NotFound, detail));
        };
        let pause = || turn.pause();
        let mut parts = number.parts.first(after.as_ref(), limit + 1, pause);
        let next = super::cut(&mut parts, limit, |part| token(&part.key()))?;
        Ok(super::large(
            turn,
            &Explanation {
                namespace,
                quota: query.quota.as_deref().map(Name::from),
                resource: query.resource.into(),
                hard: number.hard,
                used: number.used,
                reserved: number.reserved,
                next,
                items: parts.iter().map(contribution).collect(),
                as_of: super::as_of(number.head),
                lagging,
            },
        ))
    };
    super::answer(&app, &actor.principal, &when, view, objects, make).await?
}

#[derive(Debug, Deserialize)]
pub(super) struct GroupQuery {
    /// The resource, as the group limits it.
    resource: String,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/groups/{name}/explain?resource=NAME`: the largest part first, of the namespaces that the caller may read.
pub(super) async fn explain_group(
    State(app): State<App>,
    Target([name]): Target<1>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<GroupQuery>,
) -> Result<Response, Problem> {
    let limit = super::limit(query.limit, app.page)?;
    let after: Option<GroupPartKey> = super::after(query.after.as_deref())?;
    let when = When { at: query.at, sequence: query.sequence };
    let asked = (name.clone(), query.resource.clone());
    let view = move |state: &state::State| {
        let (group, resource) = &asked;
        let copied = state.copied_group(group)?;
        let is_shown =
            reader.reads_all() || Copied::for_reader(state, copied.clone(), &reader).is_some();
        let figures = copied.view().figures.into_iter().filter(|_| is_shown);
        let figure = figures.into_iter().find(|it| *it.figure.resource == **resource)?;
        let reads = |namespace: &Name| reader.reads(namespace);
        let parts = state.group_parts_view(group, resource, reads, MEMBERS_MAX)?;
        Some((figure, parts, state.head()))
    };
    type Seen = Option<(GroupFigure, GroupPartsView, Head)>;
    // All objects and reservations are read, but outside the lock of the state.
    let objects = |seen: &Seen| seen.as_ref().map_or(0, |(_, parts, _)| parts.len());
    let make = move |seen: Seen, lagging, turn: &Turn| {
        let Some((limited, parts, head)) = seen else {
            let detail = format!("group {name} not found, or it does not limit this");
            return Err(Problem::new(Reason::NotFound, detail));
        };
        let mut found = parts.first(after.as_ref(), limit + 1, || turn.pause());
        let next =
            super::cut(&mut found, limit, |(namespace, part)| token(&(part.key(), namespace)))?;
        let items = found.iter().map(|(namespace, part)| Contribution {
            namespace: Some(namespace.clone()),
            ..contribution(part)
        });
        Ok(super::large(
            turn,
            &GroupExplanation {
                group: name,
                resource: query.resource.into(),
                hard: limited.figure.hard,
                used: limited.figure.used.unwrap_or_default(),
                reserved: limited.figure.reserved,
                guaranteed_to_others: limited.guaranteed_to_others,
                items: items.collect(),
                namespaces_omitted: parts.omitted,
                next,
                as_of: super::as_of(head),
                lagging,
            },
        ))
    };
    super::answer(&app, &actor.principal, &when, view, objects, make).await?
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
    let of_quota = state.quota(namespace, quota).map(|view| view.figures);
    let of_group = || Some(state.group_member(quota, namespace)?.figures);
    let mut figures = of_quota.or_else(of_group)?.into_iter();
    let figure = figures.find(|figure| *figure.resource == *resource)?;
    Some((Some(figure.hard), figure.used.unwrap_or_default(), figure.reserved))
}

// The objects behind the numbers.

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
        super::after(self.after.as_deref())
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

fn page_of_objects(
    turn: &Turn,
    app: &App,
    objects: &[ObjectView],
    next: Option<String>,
    as_of: Head,
) -> Response {
    let items = objects.iter().map(object_response);
    super::large(turn, &app.page_of(items.collect(), next, as_of))
}

/// `GET /v1/namespaces/{namespace}/objects`: by resource, name and uid.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<ObjectsQuery>,
) -> Result<Response, Problem> {
    let limit = super::limit(query.limit, app.page)?;
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
        super::cut(&mut objects, limit, |view| token(&(&view.resource, &view.name, &view.uid)))?;
    let amounts = amounts(&objects);
    let make = move |turn: &Turn| page_of_objects(turn, &app, &objects, next, head);
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
    let limit = super::limit(query.limit, app.page)?;
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
    let make = move |turn: &Turn| page_of_objects(turn, &app, &objects, next, head);
    Ok(permit.make(amounts, make).await)
}
