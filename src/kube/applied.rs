//! The groups that count a namespace, as OpenShift's AppliedClusterResourceQuotas, readable by every reader of the
//! namespace. Only members that the caller may read are named and counted; selectors are shown without the names of other
//! namespaces.

use axum::{extract::State, response::Response};
use quota_core::state;
use quota_semantics::{Name, quota::manifest::LAST_APPLIED};
use serde_json::{Value, json};

use super::{
    Caller, Kube,
    accept::Shape,
    kind::Kind,
    object::Object,
    page::LIST_WORK,
    params::Params,
    read::{amounts, large, read_permit},
    resource::{CopiedView, Manifest},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    auth::{Principal, Reader, Role},
    clock::now,
    fairness::{NAMES_AT_ONCE, Permit, Turn},
    render::group::{Copied, MEMBERS_MAX, hide_names},
    routes::Target,
};

pub(super) const KIND: &str = "AppliedClusterResourceQuota";
pub(super) const PLURAL: &str = "appliedclusterresourcequotas";

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas`
pub(super) async fn list(
    State(kube): State<Kube>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    let (labels, fields) = (params.labels()?, params.fields()?);
    let permit = read_permit(&actor)?;
    let names = |state: &state::State| state.groups_of(&namespace);
    let (mut names, head) = kube.read(names).await?;
    params.check_version(head)?;
    names.sort_unstable();
    names.retain(|name| **name > *params.after && fields.matches(&namespace, name));
    let mut objects = Vec::new();
    let mut metadata = json!({"resourceVersion": head.to_string()});
    let (mut work, mut last) = (0, None);
    for name in names {
        let object = kube.applied(&permit, &namespace, &name, &principal).await?;
        work += object.as_ref().map_or(0, Object::amounts);
        if let Some(last) = last.filter(|_| work > LIST_WORK) {
            metadata["continue"] = json!(last);
            break;
        }
        objects.extend(object.filter(|object| labels.matches(object.labels())));
        last = Some(name);
    }
    let amounts = amounts(&objects);
    let make = move |turn: &Turn| to_list(turn, &objects, &namespace, &metadata, shape, &params);
    large(&permit, amounts, make).await
}

fn to_list(
    turn: &Turn,
    objects: &[Object],
    namespace: &str,
    metadata: &Value,
    shape: Shape,
    params: &Params,
) -> Result<Value> {
    let attachment = shape.attachment(params)?;
    let item = |object| {
        turn.pause();
        item(object, namespace, shape, attachment)
    };
    let items = objects.iter().map(item).collect::<Result<_>>()?;
    Ok(shape.list((KIND, Kind::Group.api_version()), metadata, columns, items))
}

fn columns() -> Value {
    table::columns(Kind::Group)
}

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas/{name}`
pub(super) async fn get(
    State(kube): State<Kube>,
    Target([namespace, name]): Target<2>,
    principal: Principal,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let permit = read_permit(&actor)?;
    let object = kube.applied(&permit, &namespace, &name, &principal).await?;
    let object = object.ok_or_else(|| Failure::not_found(Kind::Group, &name))?;
    let amounts = object.amounts();
    let make = move |_: &Turn| {
        let item = item(&object, &namespace, shape, shape.attachment(&params)?)?;
        let version = &object.manifest.metadata().resource_version;
        Ok(shape.one(item, version, columns))
    };
    large(&permit, amounts, make).await
}

fn item(object: &Object, namespace: &str, shape: Shape, attachment: Attachment) -> Result<Value> {
    let mut json = shape.json(object, attachment)?;
    json["kind"] = KIND.into();
    json["metadata"]["namespace"] = namespace.into();
    Ok(shape.item(json, attachment, || table::cells(object, now())))
}

/// Removes from a group what names namespaces that the caller may not read: values in the selector, and kubectl's copy of
/// the manifest.
pub(super) fn hide_others(manifest: &mut Manifest, reader: &Reader) {
    if let Manifest::Group(group) = manifest
        && !reader.reads_all()
    {
        group.metadata.annotations.remove(LAST_APPLIED);
        hide_names(&mut group.spec.selector, |name| reader.reads(name));
    }
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
        let named = Name::from(namespace);
        let counts =
            |state: &state::State| state.groups_of(&named).iter().any(|group| **group == *name);
        if !self.read(counts).await?.0 {
            return Ok(None);
        }
        let names = self.readable_members(permit, name, principal).await?;
        let copied = |state: &state::State| {
            let group = state.copied_group(name).filter(|_| counts(state))?;
            Copied::of_members(state, group, &names)
        };
        let (copied, head) = self.read(copied).await?;
        let Some(copied) = copied else {
            return Ok(None);
        };
        let copied = CopiedView::Group(copied);
        let (kube, amounts, principal) = (self.clone(), copied.amounts(), principal.clone());
        let make = move |turn: &Turn| {
            let mut object = kube.object(copied.view(turn), head);
            hide_others(&mut object.manifest, &Reader::of(&principal));
            object
        };
        Ok(Some(permit.make(amounts, make).await))
    }

    /// The names of the first members of a group that the caller may read. Which ones these are is determined before
    /// anything is computed for them: a group may have very many other members.
    async fn readable_members(
        &self,
        permit: &Permit,
        name: &str,
        principal: &Principal,
    ) -> Result<Vec<Name>> {
        let (mut names, mut after) = (Vec::new(), Some(Name::default()));
        while let Some(last) = after.filter(|_| names.len() < MEMBERS_MAX) {
            let some = |state: &state::State| state.group_member_names(name, &last, NAMES_AT_ONCE);
            let some = self.read(some).await?.0.unwrap_or_default();
            after = some.get(NAMES_AT_ONCE - 1).cloned();
            let principal = principal.clone();
            let amounts = some.len();
            let readable = move |turn: &Turn| -> Vec<_> {
                let some = some.into_iter().inspect(|_| turn.pause());
                some.filter(|name| principal.may(Role::Read, name)).collect()
            };
            names.extend(permit.make(amounts, readable).await);
            tokio::task::yield_now().await;
        }
        names.truncate(MEMBERS_MAX);
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces_that_the_caller_may_not_read_are_hidden() {
        let text = br#"{"metadata":{"name":"g","annotations":{"a":"b",
            "kubectl.kubernetes.io/last-applied-configuration":"secret"}},
            "spec":{"selector":{"labels":{
                "matchLabels":{"kubernetes.io/metadata.name":"secret","team":"red"},
                "matchExpressions":[
                    {"key":"kubernetes.io/metadata.name","operator":"In","values":["mine","secret"]},
                    {"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["secret"]},
                    {"key":"tier","operator":"In","values":["other"]}]}},
                "quota":{"hard":{"pods":"3"}}}}"#;
        let mut manifest = Manifest::from_json(Kind::Group, text).unwrap();
        let mine = ["mine".parse().unwrap()];
        let tenant = Principal::new("tenant", &[Role::Read], &mine);
        hide_others(&mut manifest, &Reader::of(&tenant));
        let shown = manifest.to_json().unwrap();
        assert!(!shown.to_string().contains("secret"), "{shown}");
        let labels = &shown["spec"]["selector"]["labels"];
        assert_eq!(labels["matchLabels"], json!({"team": "red"}));
        assert_eq!(labels["matchExpressions"][0]["values"], json!(["mine"]));
        assert_eq!(labels["matchExpressions"][2]["values"], json!(["other"]));
        assert_eq!(shown["metadata"]["annotations"], json!({"a": "b"}));
    }
}
