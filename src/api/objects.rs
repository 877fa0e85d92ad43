//! The objects behind the numbers.

use axum::{extract::State, response::Response};
use quota_ledger::{
    Timestamp,
    event::Sequence,
    resource::ResourceList,
    state::{ObjectKey, ObjectView},
    uid::Uid,
};
use serde::{Deserialize, Serialize};

use super::{
    App, answer,
    page::{self, Page, Params, Target, token},
    problem::Problem,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ObjectsQuery {
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
    /// Only objects of this kind, as in `pods` or `deployments.apps`.
    resource: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    uid: &'a Uid,
    resource: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    usage: &'a ResourceList,
    /// The entry that last changed what it counts for.
    sequence: Sequence,
    /// When it ceases to count without an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts_until: Option<Timestamp>,
}

impl<'a> From<&'a ObjectView> for Shown<'a> {
    fn from(view: &'a ObjectView) -> Self {
        Self {
            uid: &view.uid,
            resource: &view.resource,
            name: &view.name,
            resource_version: (view.version > 0).then(|| view.version.to_string()),
            usage: &view.footprint.resources,
            sequence: view.entry,
            counts_until: view.lapse,
        }
    }
}

/// `GET /v1/namespaces/{namespace}/objects`: by resource, name and uid.
pub(super) async fn list(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<ObjectsQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let after: Option<ObjectKey> = query
        .after
        .as_deref()
        .filter(|token| !token.is_empty())
        .map(page::read_token)
        .transpose()?;
    let wanted = query.resource.as_deref();
    let read = app.ledger.read(|state| {
        let keep = |resource: &str, _: &_| wanted.is_none_or(|wanted| wanted == resource);
        (
            state.objects(&namespace, after.as_ref(), limit + 1, keep),
            state.head(),
        )
    });
    let (mut views, head) = read.await?;
    let more = views.len() > limit;
    views.truncate(limit);
    let key = |view: &ObjectView| token(&(&view.resource, &view.name, &view.uid));
    let next = views.last().filter(|_| more).map(key).transpose()?;
    let items = views.iter().map(Shown::from).collect();
    Ok(answer::ok(&Page {
        items,
        next,
        as_of: head,
        lagging: app.lags(),
    }))
}
