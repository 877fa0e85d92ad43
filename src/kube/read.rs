//! Reads quotas and groups: one object, or lists.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::header;
use quota_core::event::Actor;
use serde_json::{Value, json};

use super::{
    Caller, Kube,
    accept::Shape,
    object::Object,
    page::{self, Listing, Position, Scope},
    params::Params,
    resource::ObjectPath,
    status::{Failure, Result},
    table::{self, Attachment},
    watch,
};
use crate::{
    large::{Permit, Turn},
    writer::{Unavailable, now},
};

/// Most objects of one list; the rest is left for `continue`, regardless of `limit`.
const LIST_MAX: usize = 10_000;

pub(super) async fn get(
    State(kube): State<Kube>,
    path: ObjectPath,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (object, head) = kube.find(&path.key()).await?;
    params.check_version(head)?;
    let object = object.ok_or_else(|| Failure::not_found(path.kind, &path.name))?;
    one(&object, shape, &params)
}

/// The response for one object.
pub(super) fn one(object: &Object, shape: Shape, params: &Params) -> Result<Response> {
    let json = match shape {
        Shape::Whole => object.to_json()?,
        Shape::Metadata => table::partial(&object.to_json()?, "meta.k8s.io/v1"),
        Shape::Table(version) => {
            let attachment = Attachment::parse(&params.include_object)?;
            let row = table::row(object, attachment, version, now())?;
            let metadata = json!({"resourceVersion": object.manifest.metadata().resource_version});
            page::as_table(object.manifest.kind(), version, &metadata, vec![row])
        }
    };
    Ok(Json(json).into_response())
}

/// A list, or a watch if the query requests one.
pub(super) async fn list(
    State(kube): State<Kube>,
    path: ObjectPath,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let scope = Scope::new(&path, &params)?;
    if params.watch {
        let actor: &Actor = &actor;
        return watch::watch(kube, actor, scope, shape, params).await;
    }
    let limit = match params.limit.and_then(|limit| usize::try_from(limit).ok()) {
        None | Some(0) => LIST_MAX,
        Some(limit) => limit.min(LIST_MAX),
    };
    let after = Position::read(&params.after)?;
    let permit = Permit::to_read(&actor.principal).map_err(|_| Unavailable::Overloaded)?;
    let listing = Listing::new(path.kind, shape, &params)?;
    let check = |head| params.check_version(head);
    let scope = Arc::new(scope);
    let text = kube.page(&permit, &scope, after, limit, check, listing);
    Ok(Listing::response(text.await?))
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
        turn.to_json(&json, 0)
            .map_err(|error| Failure::internal(&error))
    };
    let text = permit.make(amounts, make).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}
