//! Given entries, a command results in these events or this refusal.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod adopted_groups;
mod batches;
mod commits;
mod groups;
mod memory;
mod quotas;
mod reservations;
mod sources;

use std::sync::Arc;

use quota_core::{
    decide::{
        self, Adopted, Basis, Policy, Precondition, QuotaChange, Refusal, Request, Requester,
        Sighting, Verdict,
    },
    event::{Actor, Event, Observed},
    state::{End, State},
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{
    Name, Span, Timestamp,
    admission::Denial,
    object::{Footprint, GroupResource},
    quota::spec::Spec,
    resource::ResourceList,
    uid::Uid,
};

const START: i64 = 1_770_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(START + seconds))
}

fn list(text: &str) -> ResourceList {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, amount)| (Name::from(name), amount.parse().unwrap())).collect()
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn by() -> Requester {
    Requester::holder("test")
}

fn team() -> Name {
    Name::from("team-a")
}

fn reserve_request(id: &str, amounts: &str) -> Request {
    Request {
        uid: uid(id),
        namespace: team(),
        resource: GroupResource::new("", "pods"),
        name: Box::default(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: Arc::new(Footprint { resources: list(amounts), ..Footprint::default() }),
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(30)),
    }
}

fn named(id: &str, name: &str, amounts: &str) -> Request {
    Request { name: name.into(), ..reserve_request(id, amounts) }
}

fn update(id: &str, version: u64, amounts: &str) -> Request {
    Request { basis: Basis::Update { version }, ..reserve_request(id, amounts) }
}

fn alive(id: &str, version: u64, amounts: &str) -> Sighting {
    let object = Observed {
        uid: uid(id),
        namespace: team(),
        resource: Name::from("pods"),
        name: id.into(),
        version,
        footprint: Footprint { resources: list(amounts), ..Footprint::default() },
        lapse: None,
        ends_reservation: false,
    };
    Sighting::Alive { object: Box::new(object), quota: None }
}

fn deleted(id: &str) -> Sighting {
    Sighting::Deleted { uid: uid(id), namespace: team(), quota: None }
}

#[derive(Default)]
struct Given {
    state: State,
    open: OpenBatch,
    seconds: i64,
    policy: Policy,
}

impl Given {
    fn hard(hard: &str) -> Self {
        let mut given = Self::default();
        given.quota(hard);
        given
    }

    fn quota(&mut self, hard: &str) {
        let change = quota(hard, None);
        let events = decide::set_quota(&self.state, self.now(), &change).unwrap();
        self.record(events);
    }

    fn now(&self) -> Timestamp {
        at(self.seconds)
    }

    fn record(&mut self, events: Vec<Event>) {
        let now = self.now();
        WriteTransaction::new(&mut self.state, &mut self.open, now)
            .record(&Actor::named("test"), events);
    }

    fn reserve_all(&self, requests: &[Request]) -> Result<Vec<decide::Decision>, (usize, Refusal)> {
        decide::reserve_all(&self.state, self.now(), &by(), requests, &self.policy)
    }

    fn reserve(&mut self, request: &Request) -> Result<decide::Decision, Refusal> {
        let reserved = decide::reserve(&self.state, self.now(), &by(), request, &self.policy)?;
        self.record(reserved.events.clone());
        Ok(reserved)
    }

    fn sees(&mut self, sighting: &Sighting) -> bool {
        match decide::observe(&self.state, sighting.clone()) {
            Verdict::Accepted(events) => {
                self.record(events);
                true
            }
            Verdict::Ignored(_) => false,
        }
    }

    fn passes(&mut self, seconds: i64, watermark: Timestamp) -> usize {
        self.seconds += seconds;
        let due = decide::due(&self.state, self.now(), watermark, self.policy.max_hold);
        let due: Vec<_> = due.collect();
        let count = due.len();
        self.record(due);
        count
    }

    fn counted(&self) -> (String, String) {
        let figures = self.state.quota("team-a", "compute").unwrap().figures;
        let used = figures
            .iter()
            .map(|f| f.used.clone().unwrap_or_default().to_string())
            .collect::<Vec<_>>();
        let reserved = figures.iter().map(|f| f.reserved.to_string()).collect::<Vec<_>>();
        (used.join(","), reserved.join(","))
    }

    fn end(&self, id: &str) -> Option<End> {
        self.state.reservation("team-a", &uid(id)).unwrap().end.map(|(end, _)| end)
    }
}

fn quota(hard: &str, precondition: Option<Precondition>) -> QuotaChange {
    QuotaChange {
        namespace: team(),
        name: Name::from("compute"),
        fresh_uid: uid("q"),
        spec: Spec { hard: list(hard), ..Spec::default() },
        metadata: Box::default(),
        precondition,
    }
}

fn denied(result: Result<decide::Decision, Refusal>) -> Box<decide::Denied> {
    match result {
        Err(Refusal::Denied(denied)) => denied,
        other => panic!("not denied: {other:?}"),
    }
}
