//! The events.

use std::sync::Arc;

use quota_core::event::{
    Cause, Correction, Cursor, DeadLetter, Ending, Event, GroupRecord, NamespaceRecord, Observed,
    QuotaRecord, RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope, Requested,
    Reservation, Watermark, Watermarks,
};
use quota_semantics::{
    Name, Timestamp,
    group::{Enforcement, Extensions, Override, Spec as GroupSpec},
    object::{Footprint, PodTraits, Traits},
    quota::spec::{ScopeExpression, ScopeSelector, Spec},
    resource::ResourceList,
    uid::Uid,
};

pub(super) fn list(items: &[(&str, &str)]) -> ResourceList {
    items.iter().map(|(name, text)| (Name::from(*name), text.parse().unwrap())).collect()
}

pub(super) fn uuid() -> Uid {
    Uid::new("c7ab034e-bb56-40e8-8304-1b758b94cfdc").unwrap()
}

pub(super) fn text() -> Uid {
    Uid::new("vm-1").unwrap()
}

pub(super) fn pod() -> Footprint {
    Footprint {
        resources: list(&[("pods", "1"), ("requests.cpu", "250m"), ("requests.memory", "1Gi")]),
        traits: Traits::Pod(PodTraits {
            best_effort: false,
            terminating: true,
            priority_class: Name::from("high"),
            cross_namespace_affinity: false,
        }),
        ..Footprint::default()
    }
}

pub(super) fn time(seconds: i64) -> Timestamp {
    Timestamp::from_nanoseconds(1_770_000_000_000_000_000 + seconds * 1_000_000_000)
}

/// Events of quotas, objects, reservations and sources, with every optional part present and absent.
pub(super) fn events() -> Vec<Event> {
    let team = Name::from("team-a");
    let spec = Spec {
        hard: list(&[
            ("requests.cpu", "10"),
            ("pods", "5"),
            ("requests.storage", "1e3"),
            ("x.example.com/y", "123456789012345678901234567890"),
        ]),
        scopes: vec![Name::from("NotTerminating")],
        selector: Some(ScopeSelector {
            match_expressions: vec![ScopeExpression {
                scope_name: Name::from("PriorityClass"),
                operator: Name::from("In"),
                values: vec![Name::from("high"), Name::from("low")],
            }],
        }),
    };
    vec![
        Event::QuotaSet(Arc::new(QuotaRecord {
            namespace: team.clone(),
            name: Name::from("compute"),
            uid: uuid(),
            created: time(0),
            spec,
            metadata: r#"{"labels":{"a":"b"}}"#.into(),
        })),
        Event::QuotaDeleted { namespace: team.clone(), name: Name::from("compute") },
        Event::ObjectObserved(Box::new(Observed {
            uid: uuid(),
            namespace: team.clone(),
            resource: Name::from("pods"),
            name: "web-1".into(),
            version: 42,
            footprint: pod(),
            lapse: Some(time(60)),
            ends_reservation: true,
        })),
        Event::ObjectObserved(Box::new(Observed {
            uid: text(),
            namespace: team.clone(),
            resource: Name::from("persistentvolumeclaims"),
            name: "data".into(),
            version: u64::MAX,
            footprint: Footprint {
                resources: list(&[("requests.storage", "-1500m")]),
                traits: Traits::VolumeClaim { attributes_classes: vec![Name::from("gold")] },
                ..Footprint::default()
            },
            lapse: None,
            ends_reservation: false,
        })),
        Event::ObjectRefreshed {
            uid: text(),
            namespace: team.clone(),
            version: 43,
            ends_reservation: false,
        },
        Event::ObjectLapsed { uid: uuid(), namespace: team.clone(), footprint: Box::default() },
        Event::ObjectDeleted { uid: uuid(), namespace: team.clone() },
        Event::ReservationGranted(Arc::new(Reservation {
            uid: uuid(),
            namespace: team.clone(),
            resource: Name::from("pods"),
            name: "web-2".into(),
            api_version: Name::from("v1"),
            kind: Name::from("Pod"),
            footprint: pod().into(),
            created: time(1),
            expiration: time(31),
            after_version: 7,
            requested: Some(Box::new(Requested {
                footprint: Arc::default(),
                after_version: Some(7),
            })),
        })),
        Event::ReservationGrown {
            uid: uuid(),
            namespace: team.clone(),
            footprint: pod().into(),
            expiration: time(40),
        },
        Event::ReservationExtended { uid: uuid(), namespace: team.clone(), expiration: time(50) },
        Event::ReservationReleased { uid: text(), namespace: team.clone() },
        Event::ReservationExpired { uid: text(), namespace: team.clone() },
        Event::ReservationSuperseded { uid: text(), namespace: team.clone(), by: uuid() },
        Event::SourceAdvanced {
            source: Name::from("OBJECTS"),
            cursor: Cursor {
                incarnation: Name::from("2026-11-20T23:00:00Z"),
                position: 1_000_000,
                time: time(2),
                checksum: 0xdead_beef,
            },
        },
        Event::SourceReset {
            source: Name::from("OBJECTS"),
            incarnation: Name::from("2026-11-21T00:00:00Z"),
        },
        Event::SourceGapped { source: Name::from("OBJECTS"), first: 5, last: 9 },
        Event::MessageRejected(Box::new(DeadLetter {
            source: Name::from("OBJECTS"),
            position: 10,
            reason: "not JSON".into(),
            payload: "{".into(),
        })),
    ]
}

pub(super) fn corrections() -> Vec<Event> {
    let team = Name::from("team-a");
    let scope = |namespace: Option<&Name>| RelistScope {
        resource: Name::from("pods"),
        namespace: namespace.cloned(),
        source: Name::from("stream/OBJECTS"),
    };
    let object = Observed {
        uid: uuid(),
        namespace: team.clone(),
        resource: Name::from("pods"),
        name: "web-1".into(),
        version: 44,
        footprint: pod(),
        lapse: None,
        ends_reservation: true,
    };
    let ending = |cause| Ending {
        uid: text(),
        namespace: team.clone(),
        resource: Name::from("pods"),
        name: "web-2".into(),
        footprint: pod(),
        cause,
    };
    let end = |outcome| {
        Event::RelistEnded(Box::new(RelistEnd {
            scope: scope(None),
            began: 100,
            outcome,
            listed: 7,
            ended: 1,
        }))
    };
    vec![
        Event::RelistBegan(Box::new(RelistBegin {
            scope: scope(None),
            id: Some(Name::from("r-17")),
            allow_empty: false,
        })),
        Event::RelistBegan(Box::new(RelistBegin {
            scope: scope(Some(&team)),
            id: None,
            allow_empty: true,
        })),
        Event::ObjectsListed { source: Name::from("stream/OBJECTS"), uids: vec![uuid(), text()] },
        Event::RelistClosed(Box::new(RelistClose { scope: scope(Some(&team)), version: 1_000 })),
        Event::ObjectCorrected(Box::new(Correction {
            object: object.clone(),
            was: Some(Footprint::default()),
        })),
        Event::ObjectCorrected(Box::new(Correction { object, was: None })),
        Event::ObjectEnded(Box::new(ending(Cause::Drift))),
        Event::ObjectEnded(Box::new(ending(Cause::Relist { began: 100 }))),
        end(RelistOutcome::Complete),
        end(RelistOutcome::Empty),
        end(RelistOutcome::Incomplete),
    ]
}

pub(super) fn published() -> Vec<Event> {
    let source = Name::from("nats:OBJECTS");
    let seen = Watermark {
        resource: Name::from("pods"),
        watermark: time(5),
        version: 4711,
        is_absent: false,
        failing: Name::from("403"),
    };
    let absent = Watermark {
        resource: Name::from("resourceclaims.resource.k8s.io"),
        watermark: time(6),
        version: 0,
        is_absent: true,
        failing: Name::default(),
    };
    vec![
        Event::WatermarksAdvanced(Box::new(Watermarks {
            source: source.clone(),
            cluster_uid: Name::from("4f6d3c1e-5a50-4a2b-8f4c-3d2b8f1c9a77"),
            instance: Name::from("bridge-0"),
            resources: vec![seen, absent],
        })),
        Event::ResourceListed { source: source.clone(), resource: Name::from("pods") },
        Event::VersionsReset(Box::new(RelistScope {
            resource: Name::from("pods"),
            namespace: Some(Name::from("team-a")),
            source: source.clone(),
        })),
        Event::ObjectReplaced(Box::new(Observed {
            uid: uuid(),
            namespace: Name::from("team-a"),
            resource: Name::from("pods"),
            name: "web-1".into(),
            version: 3,
            footprint: pod(),
            lapse: Some(time(60)),
            ends_reservation: false,
        })),
        Event::EventRejected {
            resource: Name::from("widgets.example.com"),
            letter: Box::new(DeadLetter {
                source,
                position: 11,
                reason: "no uid".into(),
                payload: "{}".into(),
            }),
        },
    ]
}

pub(super) fn committed() -> Vec<Event> {
    vec![
        Event::ReservationCommitted {
            uid: uuid(),
            namespace: Name::from("team-a"),
            resources: list(&[("pods", "1"), ("requests.cpu", "250m")]),
        },
        Event::ReservationReturned { uid: text(), namespace: Name::from("team-a") },
    ]
}

pub(super) fn namespaces() -> Vec<Event> {
    vec![
        Event::NamespaceObserved(Arc::new(NamespaceRecord {
            name: "team-a".into(),
            uid: uuid(),
            version: 12,
            labels: [
                ("kubernetes.io/metadata.name".into(), "team-a".into()),
                ("team".into(), "a".into()),
            ]
            .into(),
            annotations: [("owner".into(), "somebody".into())].into(),
        })),
        Event::NamespaceDeleted { name: "team-a".into(), uid: uuid(), relist: None },
        Event::NamespaceDeleted { name: "team-b".into(), uid: text(), relist: Some(17) },
    ]
}

pub(super) fn groups() -> Vec<Event> {
    let selector = serde_json::json!({
        "labels": {
            "matchLabels": {"team": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
        },
        "annotations": {"owner": "somebody"},
    });
    let full = GroupSpec {
        selector: serde_json::from_value(selector).unwrap(),
        quota: Spec {
            hard: list(&[("pods", "10"), ("requests.memory", "1Gi")]),
            ..Spec::default()
        },
        extensions: Extensions {
            parent: Some("company".into()),
            guaranteed: list(&[("pods", "3")]),
            objects: serde_json::from_str(r#"{"matchLabels":{"app":"web"}}"#).ok(),
            each: true,
            soft: list(&[("pods", "8")]),
            enforcement: Enforcement::Audit,
            r#override: Some(Override { hard: list(&[("pods", "20")]), until: time(60) }),
        },
    };
    let set = |name: &str, spec, metadata: &str| {
        Event::GroupSet(Arc::new(GroupRecord {
            name: name.into(),
            uid: uuid(),
            created: time(0),
            spec,
            metadata: metadata.into(),
        }))
    };
    vec![
        set("team", full, r#"{"labels":{"a":"b"}}"#),
        set("company", GroupSpec::default(), ""),
        Event::GroupDeleted { name: "team".into() },
        Event::OverrideEnded { namespace: None, quota: "team".into() },
        Event::OverrideEnded { namespace: Some("team-a".into()), quota: "compute".into() },
    ]
}

pub(super) fn awaited() -> Vec<Event> {
    vec![
        Event::NameAwaited { uid: uuid(), namespace: Name::from("team-a"), bearer: text() },
        Event::VersionAwaited { uid: uuid(), namespace: Name::from("team-a"), after_version: 4711 },
        Event::EndedBounded { bytes: 256 << 20 },
        Event::LeaderChanged { term: 7, node: "node-1".into(), instance: 0x0102_0304_0506_0708 },
    ]
}

/// Charged workloads with one of their replicas, and labels of objects.
pub(super) fn charged() -> Vec<Event> {
    let replica = Observed {
        uid: Uid::from_uuid([7; 16]),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: "web-5d4f8-abcde".into(),
        version: 12,
        footprint: Footprint {
            resources: list(&[("count/pods", "1"), ("pods", "1"), ("requests.cpu", "2")]),
            traits: Traits::Replica(PodTraits {
                priority_class: "high".into(),
                ..PodTraits::default()
            }),
            ..Footprint::default()
        },
        lapse: None,
        ends_reservation: true,
    };
    let labelled = Footprint {
        labels: [("app".into(), "web".into()), ("tier".into(), "".into())].into(),
        traits: Traits::Template { pod: PodTraits::default(), replica: list(&[("pods", "1")]) },
        ..pod()
    };
    vec![
        Event::WorkloadsCharged { kinds: vec!["deployments.apps".into(), "jobs.batch".into()] },
        Event::WorkloadsCharged { kinds: Vec::new() },
        Event::ObjectObserved(Box::new(replica)),
        Event::ObjectLabelsChanged { keys: vec!["app".into(), "tier".into()] },
        Event::ObjectLapsed { uid: text(), namespace: "team-a".into(), footprint: labelled.into() },
    ]
}
