//! What the core is measured with: namespaces with quotas, objects in them, and requests for more.

use std::sync::Arc;

use quota_core::{
    decide::{Basis, Request},
    event::{Actor, Entry, Event, Observed, QuotaRecord},
    state::State,
};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Footprint, GroupResource},
    quota::spec::Spec,
    resource::ResourceList,
    uid::Uid,
};

const BEGIN: i64 = 1_770_000_000_000_000_000;

/// Amounts by their names; an amount that is none counts as zero.
pub fn list(items: &[(&str, &str)]) -> ResourceList {
    let pair = |(name, text): &(&str, &str)| (Name::from(*name), text.parse().unwrap_or_default());
    items.iter().map(pair).collect()
}

/// The uid of this number.
pub fn uid(number: u64) -> Uid {
    let hash = blake3::hash(&number.to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    Uid::from_uuid(bytes)
}

/// One of so many namespaces, called as `quota-load -n team` calls them.
pub fn namespace(number: u64, namespaces: u64) -> Name {
    Name::from(format!("team-{}", number % namespaces.max(1)))
}

/// One of fifty sizes, as workloads have them.
pub fn footprint(number: u64) -> Footprint {
    let cpu = format!("{}m", 100 + number % 50);
    Footprint {
        resources: list(&[
            ("count/pods", "1"),
            ("pods", "1"),
            ("cpu", &cpu),
            ("requests.cpu", &cpu),
            ("memory", "256Mi"),
            ("requests.memory", "256Mi"),
        ]),
        ..Footprint::default()
    }
}

/// Room for all that is measured.
pub fn compute() -> ResourceList {
    list(&[("pods", "10M"), ("requests.cpu", "10M"), ("requests.memory", "10Pi")])
}

/// A quota is set.
pub fn quota(namespace: Name, name: &str, uid: Uid, hard: ResourceList) -> Event {
    Event::QuotaSet(Arc::new(QuotaRecord {
        namespace,
        name: Name::from(name),
        uid,
        created: Timestamp::EPOCH,
        spec: Spec { hard, ..Spec::default() },
        metadata: Box::default(),
    }))
}

/// A pod is observed.
pub fn pod(uid: Uid, namespace: Name, name: String, version: u64, footprint: Footprint) -> Event {
    Event::ObjectObserved(Box::new(Observed {
        uid,
        namespace,
        resource: Name::from("pods"),
        name: name.into(),
        version,
        footprint,
        lapse: None,
        ends_reservation: false,
    }))
}

/// Entries of these events, as a stream brings them.
pub fn entries(events: impl Iterator<Item = Event>) -> impl Iterator<Item = Entry> {
    let actor = Actor::named("stream/OBJECTS");
    events.enumerate().map(move |(index, event)| Entry {
        sequence: index as u64 + 1,
        time: Timestamp::from_nanoseconds(BEGIN + index as i64 * 1000),
        actor: actor.clone(),
        event,
    })
}

/// The state after these entries.
pub fn fold(entries: &[Entry]) -> State {
    let mut state = State::default();
    for entry in entries {
        state.apply(entry);
    }
    state
}

/// A request for a pod of this number.
pub fn reserve_request(uid: Uid, namespace: Name, number: u64) -> Request {
    Request {
        uid,
        namespace,
        resource: GroupResource::new("", "pods"),
        name: format!("new-{number}").into(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: Arc::new(footprint(number)),
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(30)),
    }
}
