mod resources;
mod status;
mod unseen;
mod workloads;

use std::sync::Arc;

use super::*;
use crate::{
    decide::{QuotaChange, Sighting, Verdict, observe, set_quota},
    event::{Actor, Observed},
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{
    Span,
    object::{GroupResource, NoContext, Object, Traits},
    quota::spec::Spec,
    uid::Uid,
};

/// A ledger with one quota in `team`.
struct World {
    state: State,
    open: OpenBatch,
    policy: Policy,
}

const NOW: Timestamp = Timestamp::from_nanoseconds(1_000_000_000_000);

impl World {
    fn with_quota(hard: &[(&str, &str)]) -> Self {
        let mut world =
            Self { state: State::default(), open: OpenBatch::default(), policy: Policy::default() };
        let hard = hard.iter().map(|(name, amount)| (Name::from(*name), amount.parse().unwrap()));
        let change = QuotaChange {
            namespace: "team".into(),
            name: "q".into(),
            fresh_uid: uid("quota"),
            spec: Spec { hard: hard.collect(), ..Spec::default() },
            metadata: Box::default(),
            precondition: None,
        };
        let events = set_quota(&world.state, NOW, &change).unwrap();
        world.record(events);
        world
    }

    fn record(&mut self, events: Vec<Event>) {
        WriteTransaction::new(&mut self.state, &mut self.open, NOW)
            .record(&Actor::named("test"), events);
    }

    fn admit(&mut self, review: &Review) -> Result<Decision, String> {
        let admitted = admit(&self.state, NOW, &Requester::holder("test"), review, &self.policy);
        let admitted = admitted.map_err(|refusal| refusal.to_string())?;
        self.record(admitted.events.clone());
        Ok(admitted)
    }

    fn observe(&mut self, review: &Review, version: u64) {
        let observed = Observed { ends_reservation: true, ..observed(review, version) };
        self.record(vec![Event::ObjectObserved(Box::new(observed))]);
    }

    /// Observes the object as a source reports it.
    fn see(&mut self, review: &Review, version: u64) {
        let sighting = Sighting::Alive { object: Box::new(observed(review, version)), quota: None };
        if let Verdict::Accepted(events) = observe(&self.state, sighting) {
            self.record(events);
        }
    }

    fn delete(&mut self, id: &str) {
        self.record(vec![Event::ObjectDeleted { uid: uid(id), namespace: "team".into() }]);
    }

    fn counted(&self, resource: &str) -> String {
        let quota = self.state.quota("team", "q").unwrap();
        let figure = quota.figures.iter().find(|figure| figure.resource == resource).unwrap();
        format!("{}+{}", figure.used.clone().unwrap_or_default(), figure.reserved)
    }
}

fn observed(review: &Review, version: u64) -> Observed {
    let request = &review.request;
    Observed {
        uid: request.uid.clone(),
        namespace: request.namespace.clone(),
        resource: request.resource.to_string().into(),
        name: request.name.clone(),
        version,
        footprint: Footprint::clone(&request.footprint),
        lapse: None,
        ends_reservation: false,
    }
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn create(kind: &GroupResource, object: Object, id: &str) -> Review {
    Review {
        request: Request {
            uid: uid(id),
            namespace: "team".into(),
            resource: kind.clone(),
            name: id.into(),
            api_version: "v1".into(),
            kind: "Kind".into(),
            basis: Basis::Create,
            subresource: Name::default(),
            footprint: object.footprint(kind, NOW, &NoContext).into(),
            before: None,
            object: Some(Arc::new(object)),
            ttl: None,
        },
        measure: Measure::Given,
        holds: true,
    }
}

fn pod(id: &str, cpu: &str) -> Review {
    let kind = GroupResource::new("", "pods");
    let json = format!(
        r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
    );
    create(&kind, Object::from_json(&kind, json.as_bytes()).unwrap(), id)
}

fn deployment(id: &str, replicas: u64, container: &str) -> Review {
    let kind = GroupResource::new("apps", "deployments");
    let json = format!(
        r#"{{"spec":{{"replicas":{replicas},"template":{{"spec":{{"containers":[{container}]}}}}}}}}"#
    );
    create(&kind, Object::workload_from_json(&kind, json.as_bytes()).unwrap(), id)
}

const CORE: &str = r#"{"name":"c","resources":{"requests":{"cpu":"1"}}}"#;

/// The same review with a changed request.
fn of_another(review: Review, change: impl FnOnce(&mut Request)) -> Review {
    let mut request = Request::clone(&review.request);
    change(&mut request);
    Review { request, ..review }
}

fn update(review: Review, before: Option<Arc<Footprint>>, version: u64) -> Review {
    of_another(review, |request| {
        request.basis = Basis::Update { version };
        request.before = before;
    })
}

fn scale(id: &str, replicas: u64) -> Review {
    let review = of_another(update(deployment(id, 0, CORE), None, 1), |request| {
        request.footprint = Arc::default();
        request.object = None;
        request.subresource = "scale".into();
    });
    Review { measure: Measure::Scaled { replicas }, ..review }
}

#[test]
fn a_create_is_held_once_and_denied_when_it_does_not_fit() {
    let mut world = World::with_quota(&[("requests.cpu", "3")]);
    let first = world.admit(&pod("a", "2")).unwrap();
    assert_eq!(first.charged[0].name, "q");
    assert_eq!(world.counted("requests.cpu"), "0+2");
    let again = world.admit(&pod("a", "2")).unwrap();
    assert_eq!(again.replayed, Some(2));
    assert_eq!(world.counted("requests.cpu"), "0+2");
    let denied = world.admit(&pod("b", "2")).unwrap_err();
    assert!(denied.starts_with("exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=2, limited: requests.cpu=3"), "{denied}");

    let mut dry = pod("c", "1");
    dry.holds = false;
    assert_eq!(world.admit(&dry).unwrap().charged[0].resources[0].requested.to_string(), "1");
    assert_eq!(world.counted("requests.cpu"), "0+2");
}

#[test]
fn what_follows_another_object_under_its_name_holds_what_it_has_beyond_it_and_then_all() {
    let mut world = World::with_quota(&[("requests.cpu", "3"), ("pods", "1")]);
    world.observe(&pod("a", "2"), 1);
    let named = |id: &str, cpu: &str| of_another(pod(id, cpu), |request| request.name = "a".into());
    assert!(world.admit(&named("b", "4")).is_err(), "it has 2 beyond it");
    let mut dry = named("b", "2");
    dry.holds = false;
    assert!(world.admit(&dry).unwrap().events.is_empty());
    world.admit(&named("b", "2")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "2+0");
    assert!(world.admit(&named("b", "2")).unwrap().replayed.is_some());
    world.admit(&named("b", "3")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "2+1", "other webhooks changed it");
    assert!(world.admit(&pod("c", "0")).is_err(), "pods are counted once");

    let ended = Event::ObjectDeleted { uid: uid("a"), namespace: "team".into() };
    world.record(vec![ended]);
    assert_eq!(world.counted("requests.cpu"), "0+3");
    assert_eq!(world.counted("pods"), "0+1");
    world.observe(&named("b", "3"), 2);
    assert_eq!(world.counted("requests.cpu"), "3+0");
}

#[test]
fn of_several_that_want_one_name_the_largest_is_held_since_any_may_have_been_stored() {
    let mut world = World::with_quota(&[("requests.cpu", "3")]);
    let named = |id: &str, cpu: &str| of_another(pod(id, cpu), |request| request.name = "a".into());
    world.admit(&named("a", "2")).unwrap();
    world.admit(&named("b", "1")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+2");
    world.admit(&named("c", "3")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+3");
    let best_effort = of_another(named("d", "0"), |request| {
        Arc::make_mut(&mut request.footprint).traits = Traits::Plain;
    });
    world.admit(&best_effort).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+3", "other quotas may count it");
}

#[test]
fn what_no_quota_limits_leaves_no_entry() {
    let mut world = World::with_quota(&[("requests.cpu", "1")]);
    world.observe(&pod("a", "1"), 1);
    let elsewhere = of_another(pod("c", "9"), |request| request.namespace = "free".into());
    assert!(world.admit(&elsewhere).unwrap().events.is_empty());
    assert!(
        world.admit(&deployment("d", 9, CORE)).is_err(),
        "another kind of the same name is not"
    );
}

#[test]
fn an_update_holds_its_growth_over_what_is_observed_and_repeats_cost_nothing() {
    let mut world = World::with_quota(&[("requests.cpu", "4")]);
    world.observe(&pod("a", "2"), 5);
    let bigger = update(pod("a", "3"), None, 5);
    assert_eq!(world.admit(&bigger).unwrap().events.len(), 1);
    assert_eq!(world.counted("requests.cpu"), "2+1");
    assert!(world.admit(&bigger).unwrap().events.is_empty());
    assert!(world.admit(&update(pod("a", "5"), None, 5)).is_err());
    assert!(world.admit(&update(pod("a", "1"), None, 5)).unwrap().events.is_empty());
    world.observe(&pod("a", "3"), 6);
    world.observe(&pod("a", "1"), 7);
    assert_eq!(world.counted("requests.cpu"), "1+0");
    assert_eq!(
        world.admit(&update(pod("a", "3"), None, 7)).unwrap().events.len(),
        1,
        "decided anew"
    );
}

#[test]
fn of_an_object_that_was_not_observed_only_growth_is_of_interest() {
    let mut world = World::with_quota(&[("requests.cpu", "4"), ("pods", "0")]);
    let before = pod("a", "3").request.footprint.clone();
    let same = update(pod("a", "3"), Some(before.clone()), 5);
    assert!(world.admit(&same).unwrap().events.is_empty());
    world.admit(&update(pod("a", "4"), Some(before.clone()), 5)).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+4", "nothing of it was counted before");
    assert_eq!(world.counted("pods"), "0+0", "a resource that does not grow is not held");
    assert!(world.admit(&update(pod("b", "1"), None, 5)).unwrap_err().contains("prior version"));
}

#[test]
fn an_object_that_comes_again_and_counts_for_something_else_is_the_same_object() {
    let mut world = World::with_quota(&[("requests.cpu", "3")]);
    world.admit(&pod("a", "2")).unwrap();
    assert!(world.admit(&pod("a", "1")).unwrap().events.is_empty());
    assert_eq!(world.counted("requests.cpu"), "0+2");
    world.admit(&pod("a", "3")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+3");
    assert!(world.admit(&pod("a", "4")).is_err());
    world.observe(&pod("a", "3"), 1);
    assert!(world.admit(&pod("a", "2")).unwrap().events.is_empty(), "it is seen already");
    assert_eq!(world.counted("requests.cpu"), "3+0");
}
