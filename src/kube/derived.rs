//! The read-only kinds, which are derived from the ledger.
//!
//! Events are the latest denials and the pending reservations, so that whoever has kubectl alone sees why a request was
//! denied and what is held. Events are where users of Kubernetes look for that, and every kubectl knows them. Then the
//! groups that count a namespace, and namespaces.

use std::sync::Arc;

use axum::{
    Json, extract,
    response::{IntoResponse, Response},
};
use quota_client::wire::Denial;
use quota_core::{
    event::{Actor, NamespaceRecord, Reservation, Sequence},
    state::State,
};
use quota_semantics::{Name, Timestamp, quota::manifest::LAST_APPLIED, syntax};
use serde_json::{Value, json};

use super::{
    Caller, Failure, Kube, NAMESPACE_KIND, Result, VERSION,
    object::{self, Attachment, Object, Shape},
    read::{LIST_WORK, amounts, large, read_permit},
    request::{FieldSelector, Params},
    resource::{CopiedView, Kind, Manifest},
};
use crate::{
    auth::{Principal, Reader, Role},
    denials::Query,
    fairness::{NAMES_AT_ONCE, Permit, Turn},
    label_selector::LabelSelector,
    now,
    render::{
        group::{Copied, MEMBERS_MAX, hide_names},
        labels_of,
    },
    routes::Target,
};

/// The kind's plural in paths.
pub(super) const EVENTS: &str = "events";
/// The kind.
pub(super) const EVENT: &str = "Event";

/// Most events of each sort in one list.
const MOST: usize = 500;

/// An event.
struct Event {
    name: String,
    namespace: Name,
    time: Timestamp,
    /// Whether something was denied.
    is_warning: bool,
    reason: String,
    message: String,
    /// The apiVersion, the kind or plural, the name and the uid of its object.
    object: [String; 4],
}

/// `GET /api/v1/namespaces/{namespace}/events`
pub(super) async fn list_events(
    extract::State(kube): extract::State<Kube>,
    Target([namespace]): Target<1>,
    caller: Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    events_of(kube, Some(namespace), Reader::default(), caller, shape, params).await
}

/// `GET /api/v1/events`: of the namespaces that the caller may read.
pub(super) async fn list_all_events(
    extract::State(kube): extract::State<Kube>,
    reader: Reader,
    caller: Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    events_of(kube, None, reader, caller, shape, params).await
}

/// The selectors and the permit of a list that cannot be watched.
fn begin(params: &Params, actor: &Actor) -> Result<(LabelSelector, FieldSelector, Permit)> {
    match params.watch {
        true => Err(Failure::method_not_allowed()),
        false => Ok((params.labels()?, params.fields()?, read_permit(actor)?)),
    }
}

async fn events_of(
    kube: Kube,
    namespace: Option<Name>,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (labels, fields, permit) = begin(&params, &actor)?;
    let mut events = kube.denied(namespace.clone(), reader.clone()).await;
    let (held, head) = kube.held(namespace, &reader).await?;
    params.check_version(head)?;
    events.extend(held);
    // An event has no labels.
    let none = std::collections::BTreeMap::new();
    events.retain(|event| fields.matches(&event.namespace, &event.name) && labels.matches(&none));
    events.sort_by_key(|event| std::cmp::Reverse(event.time));
    let metadata = json!({"resourceVersion": head.to_string()});
    let amounts = events.len();
    let make = move |turn: &Turn| {
        let attachment = shape.attachment(&params)?;
        let now = now();
        let items = events.iter().map(|event| {
            turn.pause();
            shape.item(event.to_json(), attachment, || event.cells(now))
        });
        Ok(shape.list((EVENT, VERSION), &metadata, event_columns, items.collect()))
    };
    large(&permit, amounts, make).await
}

impl Kube {
    /// The latest denials.
    async fn denied(&self, namespace: Option<Name>, reader: Reader) -> Vec<Event> {
        let query = Query { namespace, reader, before: None, limit: MOST };
        let Some(denials) = self.0.ledger.denials() else {
            return Vec::new();
        };
        let kept = denials.list(query).await;
        // A denial that was decided on entries that are not durable yet could still be lost with them.
        let durable = self.0.ledger.durable().sequence;
        let kept = kept.iter().filter(|denial| denial.sequence <= durable);
        let read = kept.filter_map(|denial| serde_json::from_str(denial.json.get()).ok());
        read.map(Event::of_denial).collect()
    }

    /// The first pending reservations, and the head of the state.
    async fn held(&self, namespace: Option<Name>, reader: &Reader) -> Result<(Vec<Event>, u64)> {
        let some_of = |state: &State, names: &[Name], room: usize| -> Vec<Event> {
            let pending = names.iter().flat_map(|name| state.some_pending(name, room));
            pending.take(room).map(Event::of_reservation).collect()
        };
        if let Some(namespace) = namespace {
            return self.read(|state| some_of(state, &[namespace], MOST)).await;
        }
        let (mut events, mut after, mut head) = (Vec::new(), Name::default(), None);
        loop {
            let room = MOST - events.len();
            let some = |state: &State| {
                let names: Vec<Name> =
                    state.namespaces(&after).take(NAMES_AT_ONCE).cloned().collect();
                let readable = names.iter().filter(|name| reader.reads(name)).cloned();
                let readable: Vec<Name> = readable.collect();
                (some_of(state, &readable, room), names)
            };
            let ((some, names), at) = self.read(some).await?;
            let head = *head.get_or_insert(at);
            events.extend(some);
            match names.last() {
                Some(last) if names.len() == NAMES_AT_ONCE && events.len() < MOST => {
                    after = last.clone();
                }
                _ => return Ok((events, head)),
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Event {
    fn of_denial(denial: Denial) -> Self {
        let object = denial.object;
        Self {
            name: format!("denial-{}", denial.id),
            namespace: denial.namespace,
            time: denial.time,
            is_warning: true,
            reason: denial.reason.into_owned(),
            message: denial.detail,
            object: [String::new(), object.resource, object.name.into(), object.uid.to_string()],
        }
    }

    fn of_reservation(reservation: &Reservation) -> Self {
        let kind = match &*reservation.kind {
            "" => &reservation.resource,
            _ => &reservation.kind,
        };
        Self {
            name: format!("reservation-{}", reservation.uid),
            namespace: reservation.namespace.clone(),
            time: reservation.created,
            is_warning: false,
            reason: "Reserved".to_owned(),
            message: format!(
                "{} held until {}",
                reservation.footprint.resources.pretty(),
                reservation.expiration
            ),
            object: [
                reservation.api_version.to_string(),
                kind.to_string(),
                reservation.name.to_string(),
                reservation.uid.to_string(),
            ],
        }
    }

    const fn kind(&self) -> &'static str {
        match self.is_warning {
            true => "Warning",
            false => "Normal",
        }
    }

    fn to_json(&self) -> Value {
        let [api_version, kind, name, uid] = &self.object;
        let mut object =
            json!({"kind": kind, "namespace": self.namespace, "name": name, "uid": uid});
        if !api_version.is_empty() {
            object["apiVersion"] = json!(api_version);
        }
        json!({
            "apiVersion": VERSION,
            "kind": EVENT,
            "metadata": {
                "name": self.name, "namespace": self.namespace, "creationTimestamp": self.time,
            },
            "involvedObject": object,
            "reason": self.reason,
            "message": self.message,
            "type": self.kind(),
            "firstTimestamp": self.time,
            "lastTimestamp": self.time,
            "count": 1,
            "source": {"component": "quotad"},
        })
    }

    /// The cells of `kubectl get events`.
    fn cells(&self, now: Timestamp) -> Value {
        let [_, kind, name, uid] = &self.object;
        let name = if name.is_empty() { uid } else { name };
        let object = format!("{}/{name}", kind.to_lowercase());
        let age = quota_client::table::span(now.since(self.time));
        json!([age, self.kind(), self.reason, object, self.message])
    }
}

fn event_columns() -> Value {
    json!([
        object::column("Last Seen", "", "The time since the denial or the grant."),
        object::column("Type", "", "Warning: a denial. Normal: a reservation."),
        object::column("Reason", "", "Why the request was denied."),
        object::column("Object", "", "The object of the request."),
        object::column("Message", "", "The message of the denial, or what is held and until when."),
    ])
}

// The groups that count a namespace, as OpenShift's AppliedClusterResourceQuotas, readable by every reader of the
// namespace. Only members that the caller may read are named and counted; selectors are shown without the names of other
// namespaces.

pub(super) const APPLIED_KIND: &str = "AppliedClusterResourceQuota";
pub(super) const APPLIED_PLURAL: &str = "appliedclusterresourcequotas";

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas`
pub(super) async fn list_applied(
    extract::State(kube): extract::State<Kube>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (labels, fields, permit) = begin(&params, &actor)?;
    let names = |state: &State| state.groups_of(&namespace);
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
        applied_item(object, namespace, shape, attachment)
    };
    let items = objects.iter().map(item).collect::<Result<_>>()?;
    Ok(shape.list((APPLIED_KIND, Kind::Group.api_version()), metadata, applied_columns, items))
}

fn applied_columns() -> Value {
    object::columns(Kind::Group)
}

/// `GET …/namespaces/{namespace}/appliedclusterresourcequotas/{name}`
pub(super) async fn get_applied(
    extract::State(kube): extract::State<Kube>,
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
        let item = applied_item(&object, &namespace, shape, shape.attachment(&params)?)?;
        let version = &object.manifest.metadata().resource_version;
        Ok(shape.one(item, version, applied_columns))
    };
    large(&permit, amounts, make).await
}

fn applied_item(
    object: &Object,
    namespace: &str,
    shape: Shape,
    attachment: Attachment,
) -> Result<Value> {
    let mut json = shape.json(object, attachment)?;
    json["kind"] = APPLIED_KIND.into();
    json["metadata"]["namespace"] = namespace.into();
    Ok(shape.item(json, attachment, || object::cells(object, now())))
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
        let counts = |state: &State| state.groups_of(&named).iter().any(|group| **group == *name);
        if !self.read(counts).await?.0 {
            return Ok(None);
        }
        let names = self.readable_members(permit, name, principal).await?;
        let copied = |state: &State| {
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
            let some = |state: &State| state.group_member_names(name, &last, NAMES_AT_ONCE);
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

// Namespaces: the names that appear in the ledger. They are read-only; a quota can be created in any namespace.

pub(super) async fn list_namespaces(
    extract::State(kube): extract::State<Kube>,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (labels, fields, permit) = begin(&params, &actor)?;
    let (weight, limit) = (params.selector_weight(), params.limit());
    let selected = Arc::new(move |(name, record): &Known| {
        reader.reads(name)
            && fields.matches("", name)
            && (labels.is_empty() || labels.matches(&labels_of(name, record.as_deref())))
    });
    let (mut found, mut version, mut after) = (Vec::new(), None, Name::from(&*params.after));
    while found.len() <= limit {
        // They are only copied while the state is locked.
        let some = |state: &State| -> Vec<Known> {
            let names = state.namespaces(&after).take(NAMES_AT_ONCE);
            names.map(|name| (name.clone(), state.namespace_record(name).cloned())).collect()
        };
        let (some, head) = kube.read(some).await?;
        let version = *version.get_or_insert(head);
        params.check_version(version)?;
        let last = some.get(NAMES_AT_ONCE - 1).map(|(name, _)| name.clone());
        let (amounts, selected) = (some.len() * weight, selected.clone());
        let select = move |turn: &Turn| -> Vec<_> {
            let some = some.into_iter().inspect(|_| turn.pause());
            some.filter(|known| selected(known)).collect()
        };
        found.extend(permit.make(amounts, select).await);
        let Some(last) = last else { break };
        after = last;
        tokio::task::yield_now().await;
    }
    let head = version.unwrap_or_default();
    let mut metadata = json!({"resourceVersion": head.to_string()});
    if found.len() > limit {
        found.truncate(limit);
        metadata["continue"] = json!(found.last().map(|(name, _)| name));
    }
    let amounts = found.len();
    let make = move |turn: &Turn| {
        let found = found.iter().inspect(|_| turn.pause());
        let attachment = shape.attachment(&params)?;
        let items = found.map(|known| namespace_item(known, head, shape, attachment));
        Ok(shape.list((NAMESPACE_KIND, VERSION), &metadata, namespace_columns, items.collect()))
    };
    large(&permit, amounts, make).await
}

pub(super) async fn get_namespace(
    extract::State(kube): extract::State<Kube>,
    Target([name]): Target<1>,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if !syntax::dns_label(&name).is_empty() {
        return Err(Failure::no_such_namespace(&name));
    }
    let record = |state: &State| state.namespace_record(&name).cloned();
    let (record, head) = kube.read(record).await?;
    let item =
        namespace_item(&(Name::from(&*name), record), head, shape, shape.attachment(&params)?);
    let json = shape.one(item, &head.to_string(), namespace_columns);
    Ok(Json(json).into_response())
}

/// A namespace's name, and what a source has reported of it.
type Known = (Name, Option<Arc<NamespaceRecord>>);

/// A namespace. The ledger has only its name and labels; other fields are left out.
fn namespace_item(
    (name, record): &Known,
    head: Sequence,
    shape: Shape,
    attachment: Attachment,
) -> Value {
    let object = json!({
        "apiVersion": VERSION,
        "kind": NAMESPACE_KIND,
        "metadata": {
            "name": name, "resourceVersion": head.to_string(), "creationTimestamp": null,
            "labels": labels_of(name, record.as_deref()),
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    shape.item(object, attachment, || json!([name, "Active", "<unknown>"]))
}

fn namespace_columns() -> Value {
    json!([
        object::column("Name", "name", "Name must be unique."),
        object::column("Status", "", "The status of the namespace"),
        object::column("Age", "", "Not known here."),
    ])
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
