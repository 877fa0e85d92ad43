//! What becomes of each kind of review.

use quota_core::decide::Sighting;
use quota_semantics::uid::Uid;
use quotad::writer::Watermark;
use serde_json::{Value, json};

use super::harness::{SPACIOUS, World, pod, recorded, rules};

#[tokio::test]
async fn every_recorded_review_is_answered_under_its_uid() {
    let world = World::new();
    world.set_quota("q", &[("pods", "100")]).await;
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/admissionreview");
    let mut reviews = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let review: Value =
            serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let answer = world.send(&review).await;
        assert!(answer.allowed(), "{answer:?}");
        for key in ["apiVersion", "kind"] {
            assert_eq!(answer.body[key], review[key]);
        }
        assert_eq!(answer.body["response"]["uid"], review["request"]["uid"]);
        reviews += 1;
    }
    assert_eq!(reviews, 20);
}

#[tokio::test]
async fn what_does_not_count_is_allowed_without_an_entry() {
    let world = World::new();
    world
        .set_quota("q", &[("pods", "0"), ("count/deployments.apps", "1"), ("services", "0")])
        .await;
    let before = world.sequence();
    for name in [
        "pod-delete",
        "pod-delete-dryrun",
        "pod-delete-second-call",
        "pod-deletecollection",
        "pod-eviction",
        "pod-binding",
        "pod-status-succeeded",
        "pod-update",
        "deployment-scale",
    ] {
        let answer = world.send(&recorded(name)).await;
        assert!(answer.allowed(), "{name}");
        assert_eq!(answer.annotation("sequence"), None, "{name} is not asked about");
    }
    let mut elsewhere = recorded("pod-create");
    elsewhere["request"]["namespace"] = json!("team-b");
    assert!(world.send(&elsewhere).await.allowed(), "no quota there");
    let mut of_the_cluster = recorded("deployment-create");
    of_the_cluster["request"]["namespace"].take();
    of_the_cluster["request"].as_object_mut().unwrap().remove("namespace");
    assert!(world.send(&of_the_cluster).await.allowed());
    assert_eq!(world.sequence(), before);
}

#[tokio::test]
async fn a_create_is_held_under_the_objects_uid_until_it_is_seen() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1"), ("requests.cpu", "2")]).await;
    let review = recorded("pod-create");
    let answer = world.send(&review).await;
    assert!(answer.allowed());
    assert_eq!(answer.annotation("quotas"), Some("q"));
    assert_eq!(answer.annotation("sequence"), Some("2"));
    assert_eq!(world.counted("q", "requests.cpu"), "0+500m");
    let uid = review["request"]["object"]["metadata"]["uid"].as_str().unwrap();
    let held =
        world.ledger.peek(|state| state.reservation("team-a", &Uid::new(uid).unwrap())).unwrap();
    assert_eq!(&*held.reservation.name, "web-0");

    // The API server calls again, under another uid of its own.
    let mut again = review.clone();
    again["request"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    let answer = world.send(&again).await;
    assert!(answer.allowed());
    assert_eq!(answer.annotation("sequence"), Some("2"), "the entry of the grant");
    assert_eq!(world.sequence(), 2);

    let denied = world.send(&recorded("pod-create-already-exists")).await;
    assert_eq!(
        denied.message(),
        "pods \"web-3\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    let status = &denied.body["response"]["status"];
    assert_eq!(status["code"], 403);
    assert_eq!(status["reason"], "Forbidden");
    assert_eq!(status["details"], json!({"name": "web-3", "kind": "pods"}));
    assert_eq!(denied.annotation("quotas"), Some("q"));
    assert_eq!(denied.annotation("reason"), Some("ExceedsHard"));
    let warnings = denied.warnings();
    assert!(warnings[0].contains("reserved yet: pods=1 by 1 pending reservation"), "{warnings:?}");

    world.observe(&review, "object").await;
    assert_eq!(world.counted("q", "pods"), "1+0");
    let sighting =
        Sighting::Deleted { uid: Uid::new(uid).unwrap(), namespace: "team-a".into(), quota: None };
    world.see(sighting).await;
    assert!(world.send(&recorded("pod-create-already-exists")).await.allowed());
}

#[tokio::test]
async fn a_name_that_is_alive_is_asked_no_room_for_twice_and_a_new_try_takes_the_place_of_the_old()
{
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    assert!(world.send(&pod("a")).await.allowed());
    // The same name by another object: the first did not make it.
    let mut retry = pod("a");
    retry["request"]["object"]["metadata"]["uid"] = json!("another");
    assert!(world.send(&retry).await.allowed());
    assert_eq!(world.counted("q", "pods"), "0+1");
    world.observe(&retry, "object").await;
    let mut exists = pod("a");
    exists["request"]["object"]["metadata"]["uid"] = json!("third");
    assert!(world.send(&exists).await.allowed());
    assert_eq!(world.counted("q", "pods"), "1+0");
    assert!(!world.send(&pod("b")).await.allowed());
}

#[tokio::test]
async fn generated_names_are_known() {
    let world = World::new();
    world.set_quota("q", &[("pods", "0")]).await;
    let answer = world.send(&recorded("pod-create-generatename")).await;
    assert!(answer.message().starts_with("pods \"gen-9v8b8\" is forbidden: "));
}

#[tokio::test]
async fn a_dry_run_decides_and_writes_nothing() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    let before = world.sequence();
    assert!(world.send(&recorded("pod-create-dryrun")).await.allowed());
    assert!(world.send(&recorded("pod-create-dryrun")).await.allowed());
    assert_eq!(world.sequence(), before);
    world.send(&pod("a")).await;
    assert!(!world.send(&recorded("pod-create-dryrun")).await.allowed());
}

#[tokio::test]
async fn an_object_without_a_uid_is_checked_and_not_held() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1")]).await;
    let mut review = pod("a");
    review["request"]["object"]["metadata"].as_object_mut().unwrap().remove("uid");
    assert!(world.send(&review).await.allowed());
    assert_eq!(world.counted("q", "pods"), "0+0");
    world.send(&pod("b")).await;
    assert!(!world.send(&review).await.allowed());
}

#[tokio::test]
async fn an_update_holds_what_grows() {
    let world = World::new();
    world
        .set_quota(
            "q",
            &[
                ("requests.cpu", "200m"),
                ("requests.storage", "30Gi"),
                ("services.loadbalancers", "1"),
            ],
        )
        .await;

    let mut resize = recorded("pod-resize");
    for object in ["object", "oldObject"] {
        // It asks for more than the others together, whatever they are resized to.
        resize["request"][object]["spec"]["initContainers"].take();
    }
    world.observe(&resize, "oldObject").await;
    assert_eq!(world.counted("q", "requests.cpu"), "150m+0");
    assert!(world.send(&resize).await.allowed());
    assert_eq!(world.counted("q", "requests.cpu"), "150m+50m");
    let sequence = world.sequence();
    assert!(world.send(&resize).await.allowed());
    assert_eq!(world.sequence(), sequence, "it is held already");
    world.observe(&resize, "object").await;
    assert_eq!(world.counted("q", "requests.cpu"), "200m+0");

    world.send(&recorded("pvc-create")).await;
    assert_eq!(world.counted("q", "requests.storage"), "0+10Gi");
    world.observe(&recorded("pvc-create"), "object").await;
    assert!(world.send(&recorded("pvc-expand")).await.allowed());
    assert_eq!(world.counted("q", "requests.storage"), "10Gi+10Gi");

    world.send(&recorded("service-create")).await;
    world.observe(&recorded("service-create"), "object").await;
    let sequence = world.sequence();
    assert!(world.send(&recorded("service-update")).await.allowed(), "it shrinks");
    assert_eq!(world.sequence(), sequence);
}

#[tokio::test]
async fn an_expansion_that_does_not_fit_is_denied_but_its_status_is_not() {
    let world = World::new();
    world.set_quota("q", &[("requests.storage", "15Gi")]).await;
    let mut review = recorded("pvc-expand");
    world.observe(&review, "oldObject").await;
    assert_eq!(
        world.send(&review).await.message(),
        "persistentvolumeclaims \"data\" is forbidden: exceeded quota: q, \
         requested: requests.storage=10Gi, used: requests.storage=10Gi, limited: requests.storage=15Gi"
    );
    review["request"]["subResource"] = json!("status");
    assert!(world.send(&review).await.allowed());
    assert_eq!(world.counted("q", "requests.storage"), "10Gi+10Gi", "but it counts");
}

/// A claim that a pod still uses is only marked as deleted, and can grow meanwhile.
#[tokio::test]
async fn what_is_being_deleted_does_not_grow_beyond_a_limit() {
    let world = World::new();
    world.set_quota("q", &[("requests.storage", "15Gi")]).await;
    let mut review = recorded("pvc-expand");
    for object in ["object", "oldObject"] {
        let metadata = &mut review["request"][object]["metadata"];
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        metadata["deletionGracePeriodSeconds"] = json!(0);
        metadata["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
    }
    world.observe(&review, "oldObject").await;
    assert_eq!(world.counted("q", "requests.storage"), "10Gi+0");
    assert_eq!(world.send(&review).await.code(), 403);
    world.set_quota("q", &[("requests.storage", "20Gi")]).await;
    assert!(world.send(&review).await.allowed());
    assert_eq!(world.counted("q", "requests.storage"), "10Gi+10Gi");
    review["request"]["oldObject"] = review["request"]["object"].clone();
    review["request"]["object"]["metadata"]["finalizers"] = json!([]);
    let sequence = world.sequence();
    assert!(world.send(&review).await.allowed());
    assert_eq!(world.sequence(), sequence);
}

#[tokio::test]
async fn kubernetes_other_ways_to_say_no() {
    let world = World::new();
    world.set_quota("q", &[("limits.cpu", "9"), ("limits.memory", "9Gi")]).await;
    assert_eq!(
        world.send(&recorded("pod-create")).await.message(),
        "pods \"web-0\" is forbidden: failed quota: q: must specify limits.cpu for: init,side; \
         limits.memory for: init,side"
    );
    let broken = json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions":
        [{"scopeName": "PriorityClass", "operator": "In"}]}});
    world.set_spec("broken", broken).await;
    let answer = world.send(&recorded("pod-create")).await;
    assert!(answer.message().starts_with("error matching scopes of quota broken, err: "));
    assert_eq!(answer.code(), 500);
    assert_eq!(answer.body["response"]["status"].get("reason"), None);
}

#[tokio::test]
async fn what_comes_close_to_a_limit_is_warned_about() {
    let world = World::new();
    world
        .set_quota(
            "q",
            &[
                ("pods", "10"),
                ("requests.cpu", "1"),
                ("requests.memory", "1Gi"),
                ("requests.ephemeral-storage", "10Gi"),
                ("requests.example.com/gpu", "10"),
            ],
        )
        .await;
    assert_eq!(world.send(&pod("a")).await.warnings(), [""; 0]);
    assert_eq!(
        world.send(&pod("b")).await.warnings(),
        ["quota q: requests.cpu is at 100% of its limit (1 of 1)"]
    );
}

#[tokio::test]
async fn what_nothing_limits_is_warned_about_where_something_else_of_the_object_is() {
    let world = World::new();
    world.set_quota("q", &[("pods", "10")]).await;
    assert_eq!(
        world.send(&pod("a")).await.warnings(),
        ["no quota of namespace \"team-a\" limits requests.cpu, requests.ephemeral-storage, \
             requests.example.com/gpu, requests.memory"]
    );
}

#[tokio::test]
async fn while_the_ledger_is_behind_only_what_does_not_count_is_allowed() {
    let world = World::with(rules(), Watermark::unknown(), SPACIOUS);
    world.set_quota("q", &[("pods", "1")]).await;
    let answer = world.send(&pod("a")).await;
    assert_eq!(answer.status, 503);
    assert!(!answer.retry_after);
    assert_eq!(answer.body["reason"], "NotReady");
    assert!(world.send(&recorded("pod-delete")).await.allowed());
    // What is too large to be decided is denied: an error would let it in wherever errors are ignored.
    let mut large = pod("large");
    large["request"]["object"]["metadata"]["annotations"] = json!({"notes": "x".repeat(9 << 20)});
    assert_eq!(world.send(&large).await.code(), 413);
    let mut elsewhere = pod("a");
    elsewhere["request"]["namespace"] = json!("team-b");
    assert_eq!(world.send(&elsewhere).await.status, 503, "its quotas may not be known yet");

    world.ledger.watermark().advance(quotad::now());
    assert!(world.send(&pod("a")).await.allowed());
}

#[tokio::test]
async fn a_ledger_that_is_behind_decides_on_what_it_knows_if_told_to() {
    let mut rules = rules();
    rules.allow_when_behind = true;
    let world = World::with(rules, Watermark::unknown(), SPACIOUS);
    world.set_quota("q", &[("pods", "1")]).await;
    let answer = world.send(&pod("a")).await;
    assert!(answer.allowed());
    assert_eq!(answer.annotation("behind"), Some("true"));
    assert!(answer.warnings()[0].contains("not complete"));
    assert!(!world.send(&pod("b")).await.allowed());
}
