//! Clients: each sends one request after the other, to any node, until it is answered.

use std::sync::Arc;

use quota_core::decide::{Basis, QuotaChange, Request};
use quota_semantics::{
    Name, Span,
    object::{Footprint, GroupResource},
    quantity::Quantity,
    quota::spec::Spec,
    uid::Uid,
};

#[derive(Clone, Debug)]
pub(crate) enum Op {
    SetQuota,
    /// A reservation of this number.
    Reserve(u64),
    Release(u64),
    /// A read of the state.
    Read,
}

/// The answer to a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Granted,
    Denied,
    Done,
    /// Ended, or any other refusal.
    Refused,
    /// The request has to be sent to another node.
    NotLeader,
}

/// A request in flight, or in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) client: usize,
    /// The number of the client's request.
    pub(crate) number: u64,
    pub(crate) op: Op,
}

/// An answer, and the last entry of the state that it depends on.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) job: Job,
    pub(crate) said: Said,
    pub(crate) basis: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) op: Option<Op>,
    pub(crate) number: u64,
    /// How often it has sent a request, to any node.
    pub(crate) attempts: u64,
    /// The acknowledged sequence of all clients when it first sent the request.
    pub(crate) acknowledged_before: u64,
    /// Reservations that it holds.
    pub(crate) granted: Vec<u64>,
    /// Whether it sends no new requests.
    pub(crate) is_done: bool,
}

pub(crate) const HARD: u64 = 8;

pub(crate) fn namespace() -> Name {
    "team".into()
}

pub(crate) fn uid(number: u64) -> Uid {
    Uid::new(&format!("u-{number}")).unwrap()
}

/// The amount of a reservation.
pub(crate) const fn amount(number: u64) -> u64 {
    1 + number % 3
}

fn list(amount: u64) -> quota_semantics::resource::ResourceList {
    let amount = Quantity::from_units(i64::try_from(amount).unwrap());
    [(Name::from("requests.cpu"), amount)].into_iter().collect()
}

pub(crate) fn quota() -> QuotaChange {
    QuotaChange {
        namespace: namespace(),
        name: "compute".into(),
        spec: Spec { hard: list(HARD), scopes: Vec::new(), selector: None },
        metadata: Box::default(),
        precondition: None,
        fresh_uid: uid(0),
    }
}

pub(crate) fn request(number: u64) -> Request {
    Request {
        uid: uid(number),
        namespace: namespace(),
        resource: GroupResource::new("", "pods"),
        name: Box::default(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: Arc::new(Footprint { resources: list(amount(number)), ..Footprint::default() }),
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(i64::try_from(2 + number % 9).unwrap())),
    }
}
