//! Turns a review into a request to the ledger.

use std::sync::Arc;

use quota_core::{
    decide::{Basis, Measure, Request, Review},
    size,
};
use quota_semantics::{
    Name, Timestamp,
    admission::{Charging, Operation, evaluated, name_in_messages},
    object::{
        Evaluator, GroupResource, Metadata, NoContext, Object, STEPS_MAX, is_ignored, short_name,
    },
    syntax::{self, MAX_SUBDOMAIN},
    uid::Uid,
};
use serde::{Deserialize, de::value::MapDeserializer};

use super::wire;
use crate::problem::Reason;

/// Largest footprint of an object, in bytes of its names: an entry holds the footprint.
const FOOTPRINT_BYTES_MAX: usize = 256 * 1024;

/// The decision that a review needs: whether the object may be stored.
pub(super) struct DecisionRequest {
    pub(super) review: Review,
    /// The object's name in messages.
    pub(super) name: String,
}

/// Why a review cannot be decided.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) detail: String,
}

impl Fault {
    pub(super) fn too_large(what: &str, most: usize) -> Self {
        Self { reason: Reason::TooLarge, detail: format!("{what} has more than {most} bytes") }
    }

    pub(super) fn no_room() -> Self {
        Self {
            reason: Reason::Overloaded,
            detail: "other requests leave no room for the review; try again".to_owned(),
        }
    }

    fn too_complex() -> Self {
        Self {
            reason: Reason::TooLarge,
            detail: format!(
                "the number of the pod's containers times the containers and the resources that they name is above {STEPS_MAX}"
            ),
        }
    }
}

/// Says what is wrong with a review.
impl<T: Into<String>> From<T> for Fault {
    fn from(detail: T) -> Self {
        Self { reason: Reason::Malformed, detail: detail.into() }
    }
}

/// Whether a review that cannot be read certainly does not concern quotas.
pub(super) fn is_none_of_ours(request: &wire::Request<'_>, charging: &Charging) -> bool {
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    let operation = request.operation.parse::<Operation>();
    let may_count = |operation| may_count(operation, request, &kind, charging);
    !request.namespace.is_empty() && operation.is_ok_and(|operation| !may_count(operation))
}

/// The decision that a review needs; none if the request is allowed without one; or what is wrong with the review.
pub(super) fn of(
    request: &wire::Request<'_>,
    charging: &Charging,
    now: Timestamp,
) -> Result<Option<Box<DecisionRequest>>, Fault> {
    let operation = request.operation.parse::<Operation>();
    let operation = operation.map_err(|error| error.to_string())?;
    let kind = GroupResource::new(&request.resource.group, &request.resource.resource);
    if !may_count(operation, request, &kind, charging) {
        return Ok(None);
    }
    let is_typed = charging.charges(&kind) || !matches!(Evaluator::of(&kind), Evaluator::Count(_));
    for object in request.object.iter().chain(&request.old_object) {
        as_served(object, request, is_typed)?;
    }
    if operation == Operation::Create && request.old_object.is_some() {
        return Err("the creation of an object has no old object".into());
    }
    if request.sub_resource == "scale" {
        return scale(request, kind);
    }
    let read = |object: &Option<wire::Object<'_>>| {
        let read = object.as_ref().map(|object| charging.read_parts(&kind, object.parts()));
        read.transpose().map_err(|error| error.to_string())
    };
    let object = read(&request.object)?.ok_or("the review's request has no object")?;
    let old = read(&request.old_object)?;
    if old.iter().chain([&object]).any(Object::is_too_complex) {
        return Err(Fault::too_complex());
    }
    if operation == Operation::Update {
        is_of(request, object.metadata())?;
        let old_uid = old.as_ref().map(|old| &old.metadata().uid);
        same("the uid of the old object", old_uid.map_or("", |uid| uid), &object.metadata().uid)?;
    }
    let old_traits = old.as_ref().map(Object::traits);
    let workload_changes = charging.charges(&kind) && operation == Operation::Update;
    let counts = workload_changes
        || evaluated(
            operation,
            &request.namespace,
            &kind,
            &request.sub_resource,
            &object.traits(),
            old_traits.as_ref(),
        );
    if !counts {
        return Ok(None);
    }

    // An object that is not stored yet is created by the update.
    let stored = old.filter(|old| !old.metadata().resource_version.is_empty());
    let basis = match (operation, &stored) {
        (Operation::Update, Some(old)) => updates(old.metadata()),
        (Operation::Update, None) if request.old_object.is_none() => Basis::Update { version: 0 },
        _ => Basis::Create,
    };
    let footprint = charging.footprint(&kind, &object, now, &NoContext);
    let before = stored.map(|old| charging.footprint(&kind, &old, now, &NoContext));
    let object = Arc::new(object);
    let subject = Request {
        footprint: Arc::new(footprint),
        before: before.map(Arc::new),
        object: Some(object.clone()),
        ..subject(request, kind, object.metadata(), basis)?
    };
    decision(request, object.metadata(), subject, Measure::Given)
}

/// Whether the request can matter to quotas, judged before the objects are read.
fn may_count(
    operation: Operation,
    request: &wire::Request<'_>,
    kind: &GroupResource,
    charging: &Charging,
) -> bool {
    if request.namespace.is_empty() || is_ignored(kind) {
        return false;
    }
    let charged = charging.charges(kind);
    let evaluator = Evaluator::of(kind);
    match (operation, &*request.sub_resource) {
        (Operation::Create, "") => true,
        (Operation::Update, "") => charged || !matches!(evaluator, Evaluator::Count(_)),
        (Operation::Update, "scale") => charged,
        (Operation::Update, "resize") => evaluator == Evaluator::Pods,
        (Operation::Update, "status") => evaluator == Evaluator::VolumeClaims,
        _ => false,
    }
}

/// Checks what an API server has checked of an object before it calls webhooks: it is an object of the request's kind,
/// and so are its parts. The types alone would take a list of their fields' values as well.
fn as_served(
    object: &wire::Object<'_>,
    request: &wire::Request<'_>,
    is_typed: bool,
) -> Result<(), String> {
    // The spec of a kind that the API server does not know by type may be anything.
    let spec = object.spec.filter(|_| is_typed);
    for (part, json) in [("metadata", object.metadata), ("spec", spec)] {
        if json.is_some_and(|json| !json.get().starts_with('{')) {
            return Err(format!("the object's {part} is not a JSON object"));
        }
    }
    same("the kind of the request", &request.kind.kind, &object.kind)?;
    same("the API version of the request", &request.kind.api_version(), &object.api_version)
}

/// Checks that an object is the one that the request names. (An object that is created may have got another name from a
/// mutating webhook.)
fn is_of(request: &wire::Request<'_>, metadata: &Metadata) -> Result<(), String> {
    same("the name of the request", &request.name, &metadata.name)
}

/// Checks that two values are the same, as far as both are given.
fn same(what: &str, one: &str, of_object: &str) -> Result<(), String> {
    match one.is_empty() || of_object.is_empty() || one == of_object {
        true => Ok(()),
        false => Err(format!("{what} is {one:?}, and that of the object is {of_object:?}")),
    }
}

/// A `Scale`: the new and the old number of replicas of a workload. It bears the workload's uid and version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Scale {
    metadata: Metadata,
    spec: Replicas,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Replicas {
    replicas: i64,
}

fn scale(
    request: &wire::Request<'_>,
    kind: GroupResource,
) -> Result<Option<Box<DecisionRequest>>, Fault> {
    let read = |object: &Option<wire::Object<'_>>| {
        let object = object.as_ref();
        let object = object.ok_or("the review's request lacks an object or the old object")?;
        Scale::deserialize(MapDeserializer::new(object.parts()))
            .map_err(|error: serde_json::Error| format!("cannot read the Scale: {error}"))
    };
    let (new, old) = (read(&request.object)?, read(&request.old_object)?);
    is_of(request, &new.metadata)?;
    if new.spec.replicas <= old.spec.replicas {
        return Ok(None);
    }
    let replicas = u64::try_from(new.spec.replicas).unwrap_or(0);
    let subject = subject(request, kind, &new.metadata, updates(&old.metadata))?;
    decision(request, &new.metadata, subject, Measure::Scaled { replicas })
}

/// The request to the ledger, without a footprint.
fn subject(
    request: &wire::Request<'_>,
    kind: GroupResource,
    metadata: &Metadata,
    basis: Basis,
) -> Result<Request, String> {
    let own_name = match request.name.is_empty() {
        true => &*metadata.name,
        false => &*request.name,
    };
    check(&kind, &request.namespace, own_name)?;
    let uid = match has_uid(metadata) {
        true => &*metadata.uid,
        false => &*request.uid,
    };
    Ok(Request {
        uid: Uid::new(uid).map_err(|error| format!("uid {uid:?}: {error}"))?,
        namespace: Name::from(&*request.namespace),
        resource: kind,
        name: own_name.into(),
        api_version: Name::from(&*request.kind.api_version()),
        kind: Name::from(&*request.kind.kind),
        basis,
        subresource: Name::from(&*request.sub_resource),
        footprint: Arc::default(),
        before: None,
        object: None,
        ttl: None,
    })
}

/// An object without a uid cannot be recognized when a source reports it: the decision uses the review's own uid, and no
/// reservation is made.
fn has_uid(metadata: &Metadata) -> bool {
    !metadata.uid.is_empty()
}

/// The decision on the object with this metadata.
fn decision(
    request: &wire::Request<'_>,
    metadata: &Metadata,
    subject: Request,
    measure: Measure,
) -> Result<Option<Box<DecisionRequest>>, Fault> {
    if size::of_names_in(&subject.footprint) > FOOTPRINT_BYTES_MAX {
        let names = "the list of what the object counts for";
        return Err(Fault::too_large(names, FOOTPRINT_BYTES_MAX));
    }
    Ok(Some(Box::new(DecisionRequest {
        review: Review {
            request: subject,
            measure,
            holds: has_uid(metadata) && request.dry_run != Some(true),
        },
        name: name_in_messages(&request.name, Some(metadata)).to_owned(),
    })))
}

/// Checks names before they reach entries and logs.
fn check(kind: &GroupResource, namespace: &str, name: &str) -> Result<(), String> {
    let complaint = |what: &str, text: &str, complaints: Vec<String>| match complaints.is_empty() {
        true => Ok(()),
        false => Err(format!("{what} {text:?}: {}", complaints.join("; "))),
    };
    let resource = kind.to_string();
    complaint("resource", &resource, syntax::subdomain(&resource))?;
    complaint("namespace", namespace, syntax::dns_label(namespace))?;
    if short_name(name).is_some() {
        return Err(format!(
            "name {name:?} must have at most {MAX_SUBDOMAIN} bytes and no control characters"
        ));
    }
    Ok(())
}

fn updates(old: &Metadata) -> Basis {
    // A version that is not a number counts as unset.
    let version = old.resource_version.parse().unwrap_or(0);
    Basis::Update { version }
}
