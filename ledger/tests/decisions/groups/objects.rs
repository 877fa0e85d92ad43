//! Groups that choose objects by their own labels.

use quota_core::{
    decide::{self, Decision, Measure, Review, admit, set_object_labels},
    event::{RelistBegin, RelistScope, Watermark, Watermarks},
};

use super::*;

/// A request for an object with a label.
fn labelled(id: &str, app: &str, amounts: &str) -> Request {
    let mut request = reserve_request(id, amounts);
    Arc::make_mut(&mut request.footprint).labels = [("app".into(), app.into())].into();
    request
}

fn choosing(name: &str, hard: &str, objects: &str) -> GroupChange {
    let mut change = group(name, by_names(&["team-a", "team-b"]), hard);
    change.spec.extensions.objects = serde_json::from_str(objects).unwrap();
    change
}

impl Given {
    /// Two groups, each of the objects with its name as label.
    fn web_and_db(hard: &str) -> Self {
        let mut given = Self::default();
        given.records_labels(&["app"]).unwrap();
        for app in ["web", "db"] {
            let labels = format!(r#"{{"matchLabels":{{"app":"{app}"}}}}"#);
            given.group(&choosing(app, hard, &labels));
        }
        given
    }

    fn records_labels(&mut self, keys: &[&str]) -> Result<(), Refusal> {
        let keys = keys.iter().map(|&key| Name::from(key)).collect();
        let events = set_object_labels(&self.state, &keys, Some(&"stream".into()))?;
        self.record(events);
        Ok(())
    }

    /// An API server is about to create an object of this name.
    fn admits(&mut self, name: &str, mut request: Request) -> Result<Decision, Refusal> {
        request.name = name.into();
        let review = Review { request, measure: Measure::Given, holds: true };
        let admitted = admit(&self.state, self.now(), &by(), &review, &self.policy)?;
        self.record(admitted.events.clone());
        Ok(admitted)
    }

    /// The object of a request is observed.
    fn sees_labelled(&mut self, name: &str, request: &Request) {
        let object = Observed {
            uid: request.uid.clone(),
            namespace: request.namespace.clone(),
            resource: "pods".into(),
            name: name.into(),
            version: 1,
            footprint: Footprint::clone(&request.footprint),
            lapse: None,
            ends_reservation: false,
        };
        let object = Box::new(object);
        assert!(self.sees(&Sighting::Alive { object, quota: None }));
    }
}

#[test]
fn groups_choose_objects_by_their_own_labels() {
    let mut given = Given::default();
    given.records_labels(&["app"]).unwrap();
    given.group(&choosing("web", "pods=3", r#"{"matchLabels":{"app":"web"}}"#));
    given.reserve(&labelled("other", "db", "pods=9")).unwrap();
    given.takes("team-a", "none", "pods=9");
    given.reserve(&labelled("a", "web", "pods=2")).unwrap();
    let mut elsewhere = labelled("b", "web", "pods=1");
    elsewhere.namespace = "team-b".into();
    given.reserve(&elsewhere).unwrap();
    given.counts(&[("web", "0+3+0")]);
    let denied = given.reserve(&labelled("c", "web", "pods=1")).unwrap_err();
    assert!(denied.to_string().contains("exceeded quota: web"), "{denied}");

    // Objects without the label can be limited as well.
    let unlabelled = r#"{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#;
    given.group(&choosing("rest", "pods=9", unlabelled));
    given.counts(&[("rest", "0+9+0")]);
    assert!(given.reserve(&reserve_request("more", "pods=1")).is_err());
}

#[test]
fn a_relabelled_object_moves_to_other_groups_though_they_are_full() {
    let mut given = Given::default();
    given.records_labels(&["app"]).unwrap();
    given.group(&choosing("web", "pods=1", r#"{"matchLabels":{"app":"web"}}"#));
    given.group(&choosing("db", "pods=1", r#"{"matchLabels":{"app":"db"}}"#));
    let seen = |version: u64, app: &str| match alive("a", version, "pods=4") {
        Sighting::Alive { mut object, quota } => {
            object.footprint.labels = [("app".into(), app.into())].into();
            Sighting::Alive { object, quota }
        }
        other => other,
    };
    assert!(given.sees(&seen(1, "web")));
    given.counts(&[("web", "4+0+0"), ("db", "0+0+0")]);
    assert!(given.sees(&seen(2, "db")));
    given.counts(&[("web", "0+0+0"), ("db", "4+0+0")]);
}

#[test]
fn labels_of_objects_are_recorded_before_groups_choose_by_them() {
    let mut given = Given::default();
    let web = choosing("web", "pods=1", r#"{"matchLabels":{"app":"web"}}"#);
    let refused = given.refuses(&web, &GroupBounds::default());
    assert!(refused.contains("groups.object_labels: []"), "{refused}");
    assert!(given.sees(&alive("a", 1, "pods=4")));
    given.records_labels(&["app"]).unwrap();
    given.group(&web);
    // Objects that were recorded before have to be listed again.
    assert_eq!(given.state.version_resets().len(), 1);
    // A label that a group selects by cannot be removed.
    let refused = given.records_labels(&["tier"]).unwrap_err().to_string();
    assert!(refused.contains("group web chooses objects by app"), "{refused}");
    given.records_labels(&["app", "tier"]).unwrap();
    given.record(delete_group(&given.state, &"web".into(), None).unwrap());
    given.records_labels(&[]).unwrap();
    assert!(given.state.object_labels().is_empty());
}

/// Objects may come by HTTP, or be of a kind that the cluster has no more: no list of theirs will ever come.
#[test]
fn only_kinds_that_the_source_lists_are_awaited_after_a_new_label() {
    let mut given = Given::default();
    for kind in ["pods", "services", "widgets.example.com", "gadgets.example.com"] {
        let mut sighting = alive(kind, 1, "pods=1");
        if let Sighting::Alive { object, .. } = &mut sighting {
            object.resource = kind.into();
        }
        assert!(given.sees(&sighting));
    }
    let reported = |kind: &str, is_absent| Watermark {
        resource: kind.into(),
        watermark: at(1),
        version: 1,
        is_absent,
        failing: Name::default(),
    };
    let watermarks = Watermarks {
        source: "stream".into(),
        resources: vec![
            reported("pods", false),
            reported("gadgets.example.com", true),
            reported("deployments.apps", false),
        ],
        ..Watermarks::default()
    };
    let listed = Event::ResourceListed { source: "stream".into(), resource: "services".into() };
    given.record(vec![Event::WatermarksAdvanced(Box::new(watermarks)), listed]);
    given.records_labels(&["app"]).unwrap();
    let resets = given.state.version_resets().iter();
    let kinds: Vec<&str> = resets.map(|scope| &*scope.resource).collect();
    let all = ["gadgets.example.com", "pods", "services", "widgets.example.com"];
    assert_eq!(kinds, all);
    let source = Name::from("stream");
    let awaited = |state: &State| -> Vec<Name> {
        let awaited = state.awaited_resets(&source);
        awaited.map(|scope| scope.resource.clone()).collect()
    };
    assert_eq!(awaited(&given.state), ["pods", "services"]);
    assert_eq!(given.state.awaited_resets(&"other".into()).count(), 0);

    // If one of the others is listed nevertheless, in a namespace only, the list replaces its objects.
    let begin = RelistBegin {
        scope: RelistScope {
            resource: "widgets.example.com".into(),
            namespace: Some(team()),
            source: source.clone(),
        },
        id: None,
        allow_empty: false,
    };
    let events = decide::begin_relist(&given.state, begin, false);
    given.record(events);
    let mut listed = alive("widgets.example.com", 1, "pods=2");
    if let Sighting::Alive { object, .. } = &mut listed {
        object.resource = "widgets.example.com".into();
    }
    let events = decide::replace(&given.state, &source, listed).unwrap();
    assert!(matches!(&events[..], [Event::ObjectReplaced(_)]));

    // Workloads that are charged from now on are awaited, although nothing is known of them yet.
    let charged = [Name::from("jobs.batch")].into();
    let events = decide::set_charging(&given.state, &charged, Some(&source));
    given.record(events);
    assert_eq!(awaited(&given.state), ["jobs.batch", "pods", "services"]);
}

/// Any object of a name may be the one that is stored. What is held for one in one group does not hold for another one
/// in another group.
#[test]
fn objects_of_one_name_in_different_groups_are_all_held() {
    let mut given = Given::web_and_db("pods=1");
    let stored = labelled("a", "web", "pods=1");
    given.admits("p", stored.clone()).unwrap();
    given.admits("p", labelled("b", "db", "pods=1")).unwrap();
    given.counts(&[("web", "0+1+0"), ("db", "0+1+0")]);
    assert!(given.admits("q", labelled("c", "web", "pods=1")).is_err());
    // One with the same labels takes the place of the first.
    given.admits("p", labelled("d", "web", "pods=1")).unwrap();
    given.counts(&[("web", "0+1+0"), ("db", "0+1+0")]);

    // Another object of that name is observed, in neither group: later ones may have been stored behind it.
    let other = labelled("e", "none", "pods=1");
    given.admits("p", labelled("f", "db", "pods=1")).unwrap();
    given.sees_labelled("p", &other);
    given.counts(&[("web", "0+1+0"), ("db", "0+1+0")]);
    assert!(given.admits("q", labelled("c", "web", "pods=1")).is_err());
}

/// An object is to be changed from this version.
fn changed(before: &Request, after: &Request, version: u64) -> Request {
    let mut changed = after.clone();
    changed.basis = Basis::Update { version };
    changed.before = Some(before.footprint.clone());
    changed
}

/// The object of `request` is to be changed from its version 1.
fn relabelled(request: &Request, app: &str) -> Request {
    let mut after = request.clone();
    Arc::make_mut(&mut after.footprint).labels = [("app".into(), app.into())].into();
    changed(request, &after, 1)
}

/// The change may be refused after its review. So it does not take what is held for the creation to another group.
#[test]
fn what_is_held_in_one_group_is_not_moved_to_another_before_it_is_observed() {
    let mut given = Given::web_and_db("pods=1");
    let stored = labelled("a", "web", "pods=1");
    given.admits("p", stored.clone()).unwrap();
    let refused = given.admits("p", relabelled(&stored, "db")).unwrap_err();
    assert!(matches!(&refused, Refusal::Moved { limit, .. } if **limit == *"web"), "{refused}");
    assert!(refused.to_string().contains("try again"), "{refused}");
    given.counts(&[("web", "0+1+0"), ("db", "0+0+0")]);

    // Its creation is observed: now it counts for the one group, and is held for the other.
    given.sees_labelled("p", &stored);
    given.admits("p", relabelled(&stored, "db")).unwrap();
    given.counts(&[("web", "1+0+0"), ("db", "0+1+0")]);
}

/// An object that no group counted was not held. If it moves to a group, it needs room there although it does not grow.
#[test]
fn what_moves_to_a_group_before_it_is_observed_is_held_there() {
    let mut given = Given::default();
    given.records_labels(&["app"]).unwrap();
    let web = r#"{"matchLabels":{"app":"web"}}"#;
    given.group(&choosing("web", "pods=1", web));
    let [one, two] = ["a", "b"].map(|id| labelled(id, "none", "pods=1"));
    for (name, stored) in [("p", &one), ("q", &two)] {
        let admitted = given.admits(name, stored.clone()).unwrap();
        assert!(admitted.events.is_empty());
    }
    given.admits("p", relabelled(&one, "web")).unwrap();
    given.counts(&[("web", "0+1+0")]);
    assert!(given.admits("q", relabelled(&two, "web")).is_err());
}

/// Nothing more than what is observed is held, but a version with less is on its way.
#[test]
fn what_is_held_behind_a_smaller_version_is_not_moved_either() {
    let mut given = Given::web_and_db("pods=4");
    let [large, small] = ["pods=4", "pods=1"].map(|amounts| labelled("a", "web", amounts));
    given.sees_labelled("p", &large);
    given.admits("p", changed(&large, &small, 1)).unwrap();
    let grown = given.admits("p", changed(&small, &large, 2)).unwrap();
    assert_eq!(grown.events.len(), 1);
    given.counts(&[("web", "4+0+0")]);
    let moved = changed(&large, &relabelled(&large, "db"), 3);
    assert!(matches!(given.admits("p", moved), Err(Refusal::Moved { .. })));
}

/// Some objects were listed without the label already.
#[test]
fn a_list_that_is_under_way_when_labels_are_added_is_not_the_list_with_them() {
    let mut given = Given::default();
    assert!(given.sees(&alive("a", 1, "pods=4")));
    let scope = RelistScope { resource: "pods".into(), namespace: None, source: "stream".into() };
    let begin = RelistBegin { scope: scope.clone(), id: None, allow_empty: true };
    given.record(decide::begin_relist(&given.state, begin, false));
    given.records_labels(&["app"]).unwrap();
    assert!(given.state.relist(&scope).is_none());
    assert!(given.state.version_resets().contains(&scope));
}
