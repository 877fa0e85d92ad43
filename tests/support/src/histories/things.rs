//! The objects of histories.

use std::sync::Arc;

use quota_core::{
    decide::{self, Basis, Request, Sighting, Verdict},
    event::{Event, NamespaceRecord, Observed},
    state::State,
};
use quota_semantics::{
    Name, Span, Timestamp,
    group::selector::Labels,
    object::{Footprint, GroupResource, PodTraits, Traits},
    quantity::Quantity,
    quota::spec::Spec,
    uid::Uid,
};

/// The label of objects by which groups select.
pub(crate) const OBJECT_LABEL: &str = "app";

/// The name of a namespace.
pub fn namespace(number: u8) -> Name {
    Name::from(format!("team-{number}"))
}

/// The uid of an object.
pub fn uid(number: u8) -> Uid {
    // Both forms of a uid are used.
    if number.is_multiple_of(2) {
        Uid::from_uuid([number; 16])
    } else {
        Uid::new(&format!("vm-{number}")).unwrap()
    }
}

/// A pod, or an object without traits, with so much CPU.
pub fn footprint(amount: u64, pod: bool, terminating: bool) -> Footprint {
    let units = Quantity::from_units(i64::try_from(amount).unwrap());
    let resources = [("pods", Quantity::from_units(1)), ("requests.cpu", units)];
    Footprint {
        payer: None,
        resources: resources
            .into_iter()
            .map(|(name, quantity)| (Name::from(name), quantity))
            .collect(),
        traits: match pod {
            false => Traits::Plain,
            true => Traits::Pod(PodTraits {
                best_effort: amount == 0,
                terminating,
                ..PodTraits::default()
            }),
        },
        labels: labels(amount),
    }
}

/// The labels of objects with an even amount.
fn labels(amount: u64) -> Labels {
    let label = |app: &str| Labels::from([(Name::from(OBJECT_LABEL), Name::from(app))]);
    match amount % 4 {
        0 => label("web"),
        2 => label("db"),
        _ => Labels::new(),
    }
}

/// A pod that names a charged workload as its owner.
pub(crate) fn replica(amount: u64, terminating: bool) -> Footprint {
    let pod = footprint(amount, true, terminating);
    match pod.traits {
        Traits::Pod(traits) => Footprint { traits: Traits::Replica(traits), ..pod },
        _ => pod,
    }
}

/// A pod, or a replica of a charged workload.
pub(crate) fn pod(amount: u64, is_replica: bool, terminating: bool) -> Footprint {
    match is_replica {
        true => replica(amount, terminating),
        false => footprint(amount, true, terminating),
    }
}

/// A charged workload that counts for itself and for its replicas.
pub(crate) fn workload(amount: u64, replicas: u64) -> Footprint {
    let units = Quantity::from_units(i64::try_from(amount).unwrap());
    let count = Name::from("count/deployments.apps");
    let itself = Footprint {
        payer: None,
        resources: [(count, Quantity::from_units(1))].into_iter().collect(),
        traits: Traits::Template {
            pod: PodTraits::default(),
            replica: [(Name::from("requests.cpu"), units)].into_iter().collect(),
        },
        labels: labels(amount),
    };
    itself.scaled(replicas).unwrap()
}

/// The spec of a quota of CPU; `scope` chooses its scopes.
pub fn spec(hard: u64, scope: u8) -> Spec {
    let hard = Quantity::from_units(i64::try_from(hard).unwrap());
    let scopes = match scope {
        0 | 1 => Vec::new(),
        2 => vec![Name::from("Terminating")],
        _ => vec![Name::from("NotBestEffort")],
    };
    Spec {
        hard: [(Name::from("requests.cpu"), hard)].into_iter().collect(),
        scopes,
        selector: None,
    }
}

/// A namespace with a label, as it is observed.
pub(crate) fn namespace_record(
    space: u8,
    number: u8,
    version: u64,
    label: u8,
) -> Arc<NamespaceRecord> {
    Arc::new(NamespaceRecord {
        name: namespace(space),
        uid: uid(number),
        version,
        labels: [("team".into(), Name::from(format!("t-{label}")))].into(),
        annotations: [("owner".into(), "somebody".into())].into(),
    })
}

/// An object as it is observed.
pub fn observed(
    number: u8,
    space: u8,
    resource: &str,
    name: String,
    version: u64,
    footprint: Footprint,
    lapse: Option<Timestamp>,
) -> Observed {
    Observed {
        uid: uid(number),
        namespace: namespace(space),
        resource: Name::from(resource),
        name: name.into(),
        version,
        footprint,
        lapse,
        ends_reservation: false,
    }
}

/// A request to reserve, as somebody without an API server makes it.
pub fn reserve_request(
    number: u8,
    space: u8,
    name: Option<u8>,
    footprint: Footprint,
    basis: Basis,
    ttl: i64,
) -> Request {
    Request {
        uid: uid(number),
        namespace: namespace(space),
        resource: GroupResource::new("", "pods"),
        name: name.map(|name| format!("name-{name}")).unwrap_or_default().into(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis,
        subresource: Name::default(),
        footprint: Arc::new(footprint),
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(ttl)),
    }
}

/// The events that follow from what is observed.
pub fn seen(state: &State, sighting: &Sighting) -> Vec<Event> {
    match decide::observe(state, sighting.clone()) {
        Verdict::Accepted(events) => events,
        Verdict::Ignored(_) => Vec::new(),
    }
}
