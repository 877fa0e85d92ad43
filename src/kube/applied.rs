//! The groups that count a namespace, as OpenShift's AppliedClusterResourceQuotas, readable by every reader of the
//! namespace. Only members that the caller may read are named.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use quota_core::{event::Sequence, state};
use quota_semantics::Name;
use serde_json::{Value, json};

use super::{
    Caller, Kube,
    accept::Shape,
    kind::Kind,
    object::Object,
    page::as_table,
    params::Params,
    read::{amounts, large},
    resource::View,
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    api::groups::{MEMBERS_MAX, Seen},
    auth::{Principal, Role},
    large::{AMOUNTS_AT_ONCE, Permit, Turn},
    routes::Target,
    writer::{Unavailable, now},
};

pub(super) const KIND: &str = "AppliedClusterResourceQuota";
/// Members whose names are read while the state is locked once.
const NAMES_AT_ONCE: usize = 2 * AMOUNTS_AT_ONCE;
/// Amounts of members that are copied while the state is locked once.
const MEMBER_AMOUNTS: usize = 10_000;

pub(super) const PLURAL: &str = "appliedclusterresourcequotas";

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas`
pub(super) async fn list(
    State(kube): State<Kube>,
    Target(namespace): Target<String>,
    principal: Principal,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    let (labels, fields) = (params.labels()?, params.fields()?);
    let permit = Permit::to_read(&actor.principal).map_err(|_| Unavailable::Overloaded)?;
    let names = |state: &state::State| state.groups_of(&namespace).cloned().collect::<Vec<_>>();
    let (mut names, head) = kube.read(names).await?;
    params.check_version(head)?;
    names.sort_unstable();
    names.retain(|name| fields.matches(&namespace, name));
    let mut objects = Vec::new();
    for name in names {
        let object = kube.applied(&permit, &namespace, &name, &principal).await?;
        objects.extend(object.filter(|object| labels.matches(object.labels())));
    }
    let amounts = amounts(&objects);
    let make = move |turn: &Turn| to_list(turn, &objects, &namespace, head, shape, &params);
    large(&permit, amounts, make).await
}

fn to_list(
    turn: &Turn,
    objects: &[Object],
    namespace: &str,
    head: Sequence,
    shape: Shape,
    params: &Params,
) -> Result<Value> {
    let metadata = json!({"resourceVersion": head.to_string()});
    let list = |kind: &str, api_version: &str, items: Vec<Value>| json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items});
    let item = |object| {
        turn.pause();
        to_json(object, namespace)
    };
    Ok(match shape {
        Shape::Whole => {
            let items = objects.iter().map(item).collect::<Result<_>>()?;
            list(&format!("{KIND}List"), Kind::Group.api_version(), items)
        }
        Shape::Metadata => {
            let partial = |object| Ok(table::partial(&item(object)?, META));
            let items = objects.iter().map(partial).collect::<Result<_>>()?;
            list("PartialObjectMetadataList", META, items)
        }
        Shape::Table(version) => {
            let row = |object| {
                turn.pause();
                row(object, namespace, version, params)
            };
            let rows = objects.iter().map(row).collect::<Result<_>>()?;
            as_table(Kind::Group, version, &metadata, rows)
        }
    })
}

/// The API group of responses with metadata only.
const META: &str = "meta.k8s.io/v1";

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas/{name}`
pub(super) async fn get(
    State(kube): State<Kube>,
    Target((namespace, name)): Target<(String, String)>,
    principal: Principal,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let permit = Permit::to_read(&actor.principal).map_err(|_| Unavailable::Overloaded)?;
    let object = kube.applied(&permit, &namespace, &name, &principal).await?;
    let object = object.ok_or_else(|| Failure::not_found(Kind::Group, &name))?;
    let json = match shape {
        Shape::Whole => to_json(&object, &namespace)?,
        Shape::Metadata => table::partial(&to_json(&object, &namespace)?, META),
        Shape::Table(version) => {
            let metadata = json!({"resourceVersion": object.version().to_string()});
            let row = row(&object, &namespace, version, &params)?;
            as_table(Kind::Group, version, &metadata, vec![row])
        }
    };
    Ok(Json(json).into_response())
}

fn row(object: &Object, namespace: &str, version: &str, params: &Params) -> Result<Value> {
    let attachment = Attachment::parse(&params.include_object)?;
    let cells = table::cells(object, now());
    let json = to_json(object, namespace)?;
    Ok(table::with_object(cells, &json, attachment, version))
}

fn to_json(object: &Object, namespace: &str) -> Result<Value> {
    let mut json = object.to_json()?;
    json["kind"] = KIND.into();
    json["metadata"]["namespace"] = namespace.into();
    // The full count would reveal the number of members that the caller may not read.
    if let Some(status) = json["status"].as_object_mut() {
        status.remove("namespacesOmitted");
    }
    Ok(json)
}

impl Kube {
    /// A group that counts a namespace, with the members that the caller may read; none if the group does not count the
    /// namespace.
    async fn applied(
        &self,
        permit: &Permit,
        namespace: &str,
        name: &str,
        principal: &Principal,
    ) -> Result<Option<Object>> {
        let seen = |state: &state::State| {
            let counts = state.groups_of(namespace).any(|group| **group == *name);
            let view = state.group(name).filter(|_| counts)?;
            Some(Seen {
                view,
                members: Vec::new(),
                // The contender would name a namespace that the caller may not read.
                contender: None,
            })
        };
        let (seen, head) = self.read(seen).await?;
        let Some(mut seen) = seen else {
            return Ok(None);
        };
        let names = self.readable_members(permit, name, principal).await?;
        let mut rest = &names[..];
        while !rest.is_empty() {
            let some = |state: &state::State| state.members_view(name, rest, MEMBER_AMOUNTS);
            let ((view, count), _) = self.read(some).await?;
            let amounts = count * (1 + seen.view.figures.len());
            let make = move |turn: &Turn| -> Vec<_> {
                let views = view.views();
                views.inspect(|_| turn.pause()).collect()
            };
            seen.members.extend(permit.make(amounts, make).await);
            rest = &rest[count..];
            tokio::task::yield_now().await;
        }
        Ok(Some(self.object(View::Group(seen), head)))
    }

    /// The names of the first members of a group that the caller may read. Which ones these are is determined before
    /// anything is computed for them: a group may have very many other members.
    async fn readable_members(
        &self,
        permit: &Permit,
        name: &str,
        principal: &Principal,
    ) -> Result<Vec<Name>> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            let some = |state: &state::State| state.group_member_names(name, after, NAMES_AT_ONCE);
            let some = self.read(some).await?.0.unwrap_or_default();
            let last = some.last().filter(|_| some.len() == NAMES_AT_ONCE);
            let last = last.map(|(place, _)| *place);
            let principal = principal.clone();
            let amounts = some.len();
            let readable = move |turn: &Turn| -> Vec<_> {
                let some = some.into_iter().map(|(_, name)| name);
                let some = some.inspect(|_| turn.pause());
                some.filter(|name| principal.may(Role::Read, name))
                    .collect()
            };
            names.extend(permit.make(amounts, readable).await);
            if names.len() > MEMBERS_MAX {
                names.select_nth_unstable(MEMBERS_MAX);
                names.truncate(MEMBERS_MAX);
            }
            let Some(last) = last else { break };
            after = Some(last);
            tokio::task::yield_now().await;
        }
        names.sort_unstable();
        Ok(names)
    }
}
