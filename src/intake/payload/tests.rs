use std::collections::BTreeMap;

use quota_core::{
    decide::{Adopted, Relist},
    event::Observed,
};
use quota_semantics::{object::Traits, uid::Uid};

use super::*;

mod faults;
mod listed;
mod relists;
mod wide;

const NOW: Timestamp = Timestamp::from_nanoseconds(1_790_000_000_000_000_000);
const UID: &str = "e6ac1374-d5f5-43cf-87af-714fdd58dd3d";

fn reader() -> Arc<Reader> {
    let kinds = BTreeMap::from([("Fish.example.com".to_owned(), "fish".to_owned())]);
    Arc::new(Reader::new(&kinds, true))
}

fn read(payload: impl AsRef<[u8]>) -> Vec<Result<Incoming, Rejected>> {
    reader().read(Bytes::copy_from_slice(payload.as_ref()), NOW).collect()
}

/// The sighting of an event, if it has one.
fn sighting(incoming: Incoming) -> Option<Sighting> {
    match incoming.observation {
        Some(Observation::Sighting(sighting)) => Some(sighting),
        _ => None,
    }
}

fn one(payload: impl AsRef<[u8]>) -> Result<Option<Sighting>, (Rejection, String)> {
    let mut events = read(payload);
    assert_eq!(events.len(), 1);
    match events.remove(0) {
        Ok(incoming) => Ok(sighting(incoming)),
        Err(rejected) => Err((rejected.rejection, rejected.reason)),
    }
}

fn alive(payload: impl AsRef<[u8]>) -> (Observed, Option<Adopted>) {
    match one(payload) {
        Ok(Some(Sighting::Alive { object, quota })) => (*object, quota.map(|quota| *quota)),
        other => panic!("not alive: {other:?}"),
    }
}

fn rejected(payload: impl AsRef<[u8]>) -> (Rejection, String) {
    one(payload).expect_err("has to be rejected")
}

/// A watch event of a pod.
fn pod(change: &str, metadata: &str, rest: &str) -> String {
    format!(
        r#"{{"type":"{change}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{
            "name":"web-0","namespace":"team-a","uid":"{UID}","resourceVersion":"42"{metadata}}}{rest}}}}}"#
    )
}

const SPEC: &str = r#","spec":{"priorityClassName":"high",
    "containers":[{"name":"c","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"1"}}}]}"#;

fn plain(fields: &str) -> String {
    format!(
        r#"{{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"w1","uid":"u-1"{fields}}}"#
    )
}

#[test]
fn a_watch_event_tells_of_an_object() {
    let (pod, quota) = alive(pod("ADDED", "", SPEC));
    assert_eq!(pod.uid, Uid::new(UID).unwrap());
    assert_eq!((&*pod.namespace, &*pod.resource, &*pod.name), ("team-a", "pods", "web-0"));
    assert_eq!((pod.version, pod.lapse, pod.ends_reservation), (42, None, false));
    let counted = "count/pods=1,cpu=100m,limits.cpu=1,pods=1,requests.cpu=100m";
    assert_eq!(pod.footprint.resources.pretty(), counted);
    assert!(matches!(&pod.footprint.traits, Traits::Pod(pod) if pod.priority_class == "high"));
    assert!(quota.is_none());
}

#[test]
fn a_deletion_is_final_and_a_bookmark_is_nothing() {
    let deleted = one(pod("DELETED", "", SPEC));
    assert!(
        matches!(deleted, Ok(Some(Sighting::Deleted { namespace, quota: None, .. })) if namespace == "team-a")
    );
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1",
        "metadata":{"resourceVersion":"12746"},"spec":{"containers":null},"status":{}}}"#;
    assert!(matches!(one(bookmark), Ok(None)));
}

/// The kinds of a publisher's bookmark.
fn bookmarked(resources: &str) -> Vec<(String, bool)> {
    let line = format!(
        r#"{{"type":"BOOKMARK","clusterUid":"c","instance":"i","resources":{{{resources}}}}}"#
    );
    let mut events = read(line);
    let Some(Observation::Bookmark { bookmark, .. }) = events.remove(0).unwrap().observation else {
        panic!("no bookmark");
    };
    let kinds = bookmark.resources.into_iter();
    kinds.map(|kind| (kind.resource.to_string(), kind.is_absent)).collect()
}

/// A quota may limit the number of any name, and the publisher may say of it that nobody serves it.
#[test]
fn kinds_of_a_bookmark_that_cannot_be_read_do_not_spoil_the_others() {
    let known = r#""pods":{"watermark":"2026-11-20T10:00:00Z","resourceVersion":"7"}"#;
    let good = [("pods".to_owned(), false)];
    for odd in [
        r#""Deployments.apps":{"absent":true}"#,
        r#""a_b":{"absent":true}"#,
        r#""services":{}"#,
        r#""services":7"#,
        r#""services":{"watermark":"soon"}"#,
        r#""services":{"watermark":"2026-11-20T10:00:00Z","resourceVersion":"x"}"#,
    ] {
        assert_eq!(bookmarked(&format!("{odd},{known}")), good, "{odd}");
    }
    // Of too many kinds those count that exist.
    let many = (0..2000).map(|number| format!(r#""a{number}.x":{{"absent":true}},"#));
    let many: String = many.collect();
    let kinds = bookmarked(&format!("{many}{known}"));
    assert_eq!(kinds.len(), 1024);
    assert!(kinds.contains(&good[0]));
}

#[test]
fn where_the_type_of_an_object_stands_changes_nothing() {
    let metadata = format!(
        r#""metadata":{{"name":"web-0","namespace":"team-a","uid":"{UID}","resourceVersion":"42"}}"#
    );
    let spec = &SPEC[1..];
    let usual = alive(pod("ADDED", "", SPEC)).0;
    for object in [
        format!(r#"{{"apiVersion":"v1",{metadata},"kind":"Pod",{spec}}}"#),
        format!(r#"{{{metadata},{spec},"kind":"Pod","apiVersion":"v1"}}"#),
        format!(r#"{{{spec},"kind":"Pod",{metadata},"apiVersion":"v1"}}"#),
    ] {
        assert_eq!(alive(format!(r#"{{"object":{object},"type":"MODIFIED"}}"#)).0, usual);
    }
    assert!(
        rejected(r#"{"type":"ADDED","object":{"kind":"Pod"}}"#).1.contains("apiVersion and kind")
    );
}

#[test]
fn a_pod_past_its_end_counts_as_an_object_only() {
    let deleting = |at: &str| {
        let metadata = format!(r#","deletionTimestamp":"{at}","deletionGracePeriodSeconds":30"#);
        alive(pod("MODIFIED", &metadata, SPEC)).0
    };
    let over = deleting("2020-01-01T00:00:00Z");
    assert_eq!((over.lapse, &*over.footprint.resources.pretty()), (None, "count/pods=1"));
    let to_come = deleting("2100-01-01T00:00:00Z");
    assert_eq!(to_come.lapse, Some("2100-01-01T00:00:30Z".parse().unwrap()));
    assert_eq!(to_come.footprint.resources.len(), 5);
}

#[test]
fn kinds_are_counted_by_their_plural() {
    let of = |api_version: &str, kind: &str| {
        let event = pod("ADDED", "", "").replace(
            r#""kind":"Pod","apiVersion":"v1""#,
            &format!(r#""kind":"{kind}","apiVersion":"{api_version}""#),
        );
        alive(event).0.footprint.resources.pretty()
    };
    assert_eq!(
        of("networking.k8s.io/v1", "NetworkPolicy"),
        "count/networkpolicies.networking.k8s.io=1"
    );
    assert_eq!(of("example.com/v1", "Widget"), "count/widgets.example.com=1");
    assert_eq!(of("example.com/v1", "Fish"), "count/fish.example.com=1");
    assert_eq!(of("v1", "ConfigMap"), "configmaps=1,count/configmaps=1");
}

#[test]
fn objects_of_the_cluster_and_events_of_kubernetes_are_passed_over() {
    let node = r#"{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"u"}}}"#;
    assert!(matches!(one(node), Ok(None)));
    let event = pod("ADDED", "", "").replace("Pod", "Event");
    assert!(matches!(one(event), Ok(None)));
}

#[test]
fn a_resource_quota_is_adopted() {
    let quota = pod(
        "ADDED",
        r#","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a":"b"},"managedFields":[{}]"#,
        r#","spec":{"hard":{"pods":"3"},"scopes":["BestEffort"]},"status":{"used":{"pods":"1"}}"#,
    )
    .replace(r#""kind":"Pod""#, r#""kind":"ResourceQuota""#);
    let (object, adopted) = alive(&quota);
    assert_eq!(object.footprint.resources.pretty(), "count/resourcequotas=1,resourcequotas=1");
    let adopted = adopted.unwrap();
    assert_eq!(adopted.spec.hard.pretty(), "pods=3");
    assert_eq!(adopted.spec.scopes, ["BestEffort"]);
    assert_eq!(adopted.created, "2026-01-02T03:04:05Z".parse().unwrap());
    assert_eq!(&*adopted.metadata, r#"{"labels":{"a":"b"}}"#);

    let deleted = quota.replace("ADDED", "DELETED");
    assert!(
        matches!(one(deleted), Ok(Some(Sighting::Deleted { quota: Some(name), .. })) if name == "web-0")
    );

    let not_adopting = Arc::new(Reader::new(&BTreeMap::new(), false));
    let read = not_adopting.read(quota.into(), NOW).next().unwrap().unwrap();
    assert!(matches!(
        read.observation,
        Some(Observation::Sighting(Sighting::Alive { quota: None, .. }))
    ));
}

#[test]
fn wrong_extensions_of_a_resource_quota_are_not_adopted() {
    let stored = |annotations: &str| {
        let metadata = format!(r#","annotations":{{"a":"b",{annotations}}}"#);
        let quota = pod("ADDED", &metadata, r#","spec":{"hard":{"pods":"3"}}"#)
            .replace(r#""kind":"Pod""#, r#""kind":"ResourceQuota""#);
        alive(&quota).1.unwrap().metadata
    };
    let until = "2027-01-01T00:00:00Z";
    let raised = |name: &str| {
        let limits = format!(r#"{{\"hard\":{{\"{name}\":\"0\"}},\"until\":\"{until}\"}}"#);
        format!(r#""quota-ledger.io/override":"{limits}""#)
    };
    let right = raised("pods");
    let kept = format!(r#"{{"annotations":{{"a":"b",{right}}}}}"#);
    assert_eq!(*stored(&right), *kept);
    for wrong in [
        raised("requests.cpu"),
        r#""quota-ledger.io/soft":"{\"pods\":\"4\"}""#.to_owned(),
        r#""quota-ledger.io/enforcement":"perhaps""#.to_owned(),
        r#""quota-ledger.io/parent":"p""#.to_owned(),
    ] {
        let left = stored(&wrong);
        assert_eq!(*left, *r#"{"annotations":{"a":"b"}}"#, "{wrong}");
    }
    let both = format!(r#"{right},"quota-ledger.io/soft":"many""#);
    assert_eq!(*stored(&both), *kept);
}

#[test]
fn a_cluster_resource_quota_is_adopted() {
    let group = r#"{"type":"ADDED","object":{"metadata":{"name":"red","uid":"g-1","resourceVersion":"40","generation":2,
        "creationTimestamp":"2026-01-02T03:04:05Z","managedFields":[{}],"adoptedVersion":7,
        "annotations":{"quota-ledger.io/soft":"{\"pods\":\"2\"}","quota-ledger.io/each":"maybe"}},
        "spec":{"selector":{"labels":{"matchLabels":{"team":"red"}},"annotations":null},"quota":{"hard":{"pods":"3"}}},
        "status":{"total":{}},"kind":"ClusterResourceQuota","apiVersion":"quota.openshift.io/v1"}}"#;
    let Ok(Some(Sighting::Group { record, .. })) = one(group) else {
        panic!("no group");
    };
    assert_eq!((&*record.name, record.uid.to_string()), ("red", "g-1".to_owned()));
    assert_eq!(record.created, "2026-01-02T03:04:05Z".parse().unwrap());
    assert_eq!(record.adopted_version(), Some(40));
    assert_eq!(record.spec.quota.hard.pretty(), "pods=3");
    assert_eq!(record.spec.extensions.soft.pretty(), "pods=2");
    assert!(!record.spec.extensions.each && !record.spec.selector.is_empty());
    assert_eq!(
        &*record.metadata,
        r#"{"adoptedVersion":40,"annotations":{"quota-ledger.io/soft":"{\"pods\":\"2\"}","quota-ledger.io/each":"maybe"},"generation":2}"#
    );

    let deleted = one(group.replace("ADDED", "DELETED"));
    assert!(matches!(deleted, Ok(Some(Sighting::GroupEnded { name, .. })) if *name == *"red"));
    let other = group.replace("quota.openshift.io/v1", "example.com/v1");
    assert!(matches!(one(other), Ok(None)));
    let not_adopting = Arc::new(Reader::new(&BTreeMap::new(), false));
    let mut read = not_adopting.read(group.to_owned().into(), NOW);
    let read = read.next().unwrap().unwrap();
    assert!(read.observation.is_none());
    for (good, bad) in [
        (r#""name":"red""#, r#""name":"Red""#),
        (r#""uid":"g-1""#, r#""uid":"""#),
        (r#""resourceVersion":"40""#, r#""resourceVersion":"x""#),
        (r#"{"pods":"3"}"#, r#"{"pods":"many"}"#),
        (r#"{"team":"red"}"#, r#"["team"]"#),
    ] {
        assert!(one(group.replace(good, bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_list_of_groups_can_be_empty_only_where_they_are_adopted() {
    let begin = r#"{"type":"RELIST_BEGIN","resource":"clusterresourcequotas.quota.openshift.io","allowEmpty":true}"#;
    for adopt in [true, false] {
        let reader = Arc::new(Reader::new(&BTreeMap::new(), adopt));
        let read = reader.read(begin.into(), NOW).next().unwrap().unwrap();
        let Some(Observation::Relist { relist: Relist::Begin { allow_empty, .. }, .. }) =
            read.observation
        else {
            panic!("no relist");
        };
        assert_eq!(allow_empty, adopt);
    }
}

#[test]
fn a_plain_event_is_measured_by_its_sender() {
    let (widget, _) =
        alive(plain(r#","resourceVersion":"7","usage":{"requests.example.com/units":"3"}"#));
    assert_eq!(
        (&*widget.resource, &*widget.name, widget.version),
        ("widgets.example.com", "w1", 7)
    );
    let counted = "count/widgets.example.com=1,requests.example.com/units=3";
    assert_eq!(widget.footprint.resources.pretty(), counted);
    assert_eq!(alive(plain(r#","resourceVersion":7"#)).0.version, 7);
    assert_eq!(alive(plain("")).0.version, 0);
    let more = alive(plain(r#","usage":{"count/widgets.example.com":"2"}"#)).0;
    assert_eq!(more.footprint.resources.pretty(), "count/widgets.example.com=3");
    let last = alive(plain(r#","usage":{"x":"1","cpu":"1","x":"2"}"#)).0;
    let counted = "count/widgets.example.com=1,cpu=1,x=2";
    assert_eq!(last.footprint.resources.pretty(), counted);
    let deleted = one(r#"{"type":"DELETED","namespace":"team-a","uid":"u-1"}"#);
    assert!(matches!(deleted, Ok(Some(Sighting::Deleted { .. }))));
}

/// The definition of a kind may have any plural.
#[test]
fn a_watch_event_can_name_the_kind_of_its_object() {
    let named = |resource: &str, api_version: &str, kind: &str| {
        format!(
            r#"{{"type":"ADDED","resource":{resource},"object":{{"apiVersion":"{api_version}","kind":"{kind}",
                "metadata":{{"name":"w","namespace":"team-a","uid":"u-1","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        )
    };
    let widget = |resource: &str| named(resource, "example.com/v1", "Widget");
    let seen = alive(widget(r#""widget-types.example.com""#)).0;
    assert_eq!(seen.resource, "widget-types.example.com");
    let counted = "count/widget-types.example.com=1";
    assert_eq!(seen.footprint.resources.pretty(), counted);
    assert_eq!(alive(widget("null")).0.resource, "widgets.example.com");
    let pods = alive(pod("ADDED", "", SPEC)).0;
    let same = pod("ADDED", "", SPEC).replacen('{', r#"{"resource":"pods","#, 1);
    assert_eq!(alive(same).0, pods);
    // So can the bookmark that ends a list.
    let end = widget(r#""widget-types.example.com""#).replace("ADDED", "BOOKMARK");
    let end = read(end).remove(0).unwrap().observation;
    let Some(Observation::Relist { relist: Relist::Finish(end), .. }) = end else {
        panic!("no end");
    };
    assert_eq!(end.resource, "widget-types.example.com");

    for (resource, what) in [
        (r#""widgets.example.org""#, "another group"),
        (r#""pods""#, "another group"),
        (r#""Widgets.example.com""#, "a lowercase"),
        ("7", "resource: invalid type"),
    ] {
        let (rejection, reason) = rejected(widget(resource));
        assert_eq!(rejection, Rejection::InvalidField);
        assert!(reason.contains(what), "{reason}");
    }
    // The relist that such an event spoils is that of the named kind.
    let spoiled = widget(r#""widget-types.example.com""#).replace("u-1", "");
    let spoiled = read(spoiled).remove(0).unwrap_err();
    assert_eq!(spoiled.resource.unwrap(), "widget-types.example.com");
}

#[test]
fn cloud_events_wrap_the_other_shapes() {
    let object =
        |event: &str| event[event.find("object\":").unwrap() + 8..event.len() - 1].to_owned();
    let bare = object(&pod("ADDED", "", SPEC));
    let usual = alive(pod("ADDED", "", SPEC)).0;
    let knative = |verb: &str| {
        format!(
            r#"{{"specversion":"1.0","id":"1","source":"https://10.96.0.1:443","kind":"Pod","name":"web-0","namespace":"x/y",
                "type":"dev.knative.apiserver.resource.{verb}","datacontenttype":"application/json","data":{bare}}}"#
        )
    };
    assert_eq!(alive(knative("add")).0, usual);
    assert_eq!(alive(knative("update")).0, usual);
    assert!(matches!(one(knative("delete")), Ok(Some(Sighting::Deleted { .. }))));
    for data in [pod("ADDED", "", SPEC), plain("")] {
        let event = format!(
            r#"{{"data":{data},"type":"com.example.changed","specversion":"1.0","uid":5}}"#
        );
        assert_eq!(alive(event).0, alive(data).0);
    }
    let batch = read(format!("[{},{}]", knative("add"), knative("delete")));
    assert!(batch.len() == 2 && batch.iter().all(Result::is_ok));

    let binary = |event_type: &str, data: &str| {
        let data = Bytes::copy_from_slice(data.as_bytes());
        let mut events = reader().read_cloud_event(event_type, data, NOW);
        sighting(events.next().unwrap().unwrap()).unwrap()
    };
    let added = binary("dev.knative.apiserver.resource.add", &bare);
    assert!(matches!(added, Sighting::Alive { object, .. } if *object == usual));
    let deleted = binary("dev.knative.apiserver.resource.delete", &bare);
    assert!(matches!(deleted, Sighting::Deleted { .. }));
    assert!(matches!(binary("com.example.changed", &plain("")), Sighting::Alive { .. }));

    for (event, what) in [
        (r#"{"specversion":"1.0","type":"a"}"#.to_owned(), "no data"),
        (r#"{"specversion":"1.0","data":{}}"#.to_owned(), "no type"),
        (r#"{"specversion":"1.0","type":"a","data_base64":"e30="}"#.to_owned(), "base64"),
        (
            format!(r#"{{"specversion":"1.0","type":"a","data":{}}}"#, knative("add")),
            "within a CloudEvent",
        ),
    ] {
        assert!(rejected(event).1.contains(what), "{what}");
    }
}

#[test]
fn the_examples_of_the_documentation_are_understood() {
    let page = include_str!("../../../docs/events.md");
    let examples: Vec<_> = page.split("```json\n").skip(1).collect();
    assert_eq!(examples.len(), 8);
    for example in examples {
        let events = read(example.split("```").next().unwrap());
        assert!(!events.is_empty());
        for event in events {
            assert!(event.unwrap().observation.is_some());
        }
    }
}
