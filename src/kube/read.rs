//! Reads quotas and groups: one object, or lists.

use std::sync::Arc;

use axum::{
    Json, extract,
    response::{IntoResponse, Response},
};
use http::header;
use quota_core::event::Actor;
use serde_json::Value;

use super::{
    Caller, Kube,
    accept::Shape,
    applied::hide_others,
    object::Object,
    page::Listing,
    params::Params,
    resource::Key,
    scope::{Position, Scope},
    status::{Failure, Result},
    table, watch,
};
use crate::{
    auth::Reader,
    clock::now,
    fairness::{Permit, Turn, make_sized},
    writer::Unavailable,
};

pub(super) async fn get(
    extract::State(kube): extract::State<Kube>,
    key: Key,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (copied, head) = kube.read(|state| key.readable(state, &reader)).await?;
    params.check_version(head)?;
    let copied = copied.ok_or_else(|| Failure::not_found(key.kind, &key.name))?;
    let amounts = copied.amounts();
    let make = move |turn: &Turn| {
        let is_whole = |attachment| shape.is_whole(attachment);
        let view = match shape.attachment(&params).is_ok_and(is_whole) {
            true => copied.view(turn),
            false => copied.numbers(),
        };
        let mut object = kube.object(view, head);
        hide_others(&mut object.manifest, &reader);
        one(&object, shape, &params)
    };
    let made = make_sized(&actor.principal, amounts, make).await;
    made.map_err(|_| Unavailable::Overloaded)?
}

/// The response for one object, made in the turn of the principal if it shows many amounts.
pub(super) async fn answer(
    permit: &Permit,
    object: Object,
    shape: Shape,
    params: &Params,
) -> Result<Response> {
    let (amounts, params) = (object.amounts(), params.clone());
    let make = move |_: &Turn| one(&object, shape, &params);
    permit.make(amounts, make).await
}

/// The response for one object.
fn one(object: &Object, shape: Shape, params: &Params) -> Result<Response> {
    let attachment = shape.attachment(params)?;
    let item =
        shape.item(shape.json(object, attachment)?, attachment, || table::cells(object, now()));
    let version = &object.manifest.metadata().resource_version;
    let json = shape.one(item, version, || table::columns(object.manifest.kind()));
    Ok(Json(json).into_response())
}

/// A list, or a watch if the query requests one.
pub(super) async fn list(
    extract::State(kube): extract::State<Kube>,
    path: Key,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let scope = Scope::new(&path, &params, reader)?;
    if params.watch {
        let actor: &Actor = &actor;
        return watch::watch(kube, actor, scope, shape, params).await;
    }
    let after = Position::read(&params.after)?;
    let permit = read_permit(&actor)?;
    let listing = Listing::new(path.kind, shape, &params)?;
    let scope = Arc::new(scope);
    let text = kube.page(&permit, &scope, after, &params, listing);
    Ok(Listing::response(text.await?))
}

/// The permission to read for this caller.
pub(super) fn read_permit(actor: &Actor) -> Result<Permit> {
    Ok(Permit::to_read(&actor.principal).map_err(|_| Unavailable::Overloaded)?)
}

/// How many amounts an answer with these objects shows.
pub(super) fn amounts(objects: &[Object]) -> usize {
    objects.iter().map(Object::amounts).sum()
}

/// An answer that is made in the turn of the principal if it shows many amounts.
pub(super) async fn large(
    permit: &Permit,
    amounts: usize,
    make: impl FnOnce(&Turn) -> Result<Value> + Send + 'static,
) -> Result<Response> {
    let make = move |turn: &Turn| {
        let json = make(turn)?;
        turn.to_json(&json, 0).map_err(|error| Failure::internal(&error))
    };
    let text = permit.make(amounts, make).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
