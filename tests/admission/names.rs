//! Names that come back before the ends of their objects are seen.

use quota_core::decide::Sighting;
use quota_semantics::uid::Uid;
use serde_json::{Value, json};

use super::harness::{World, pod};

fn of_round(name: &str, round: &str) -> Value {
    let mut review = pod(name);
    review["request"]["object"]["metadata"]["uid"] = json!(format!("{name}-{round}"));
    review
}

fn gone(name: &str, round: &str) -> Sighting {
    Sighting::Deleted {
        uid: Uid::new(&format!("{name}-{round}")).unwrap(),
        namespace: "team-a".into(),
        quota: None,
    }
}

#[tokio::test]
async fn a_larger_one_of_the_same_name_needs_room_for_what_it_has_more() {
    let world = World::new();
    world.set_quota("q", &[("pods", "1"), ("requests.cpu", "700m")]).await;
    let first = of_round("web-0", "first");
    assert!(world.send(&first).await.allowed());
    world.observe(&first, "object").await;
    assert_eq!(world.counted("q", "requests.cpu"), "500m+0");
    let with = |cpu: &str| {
        let mut review = of_round("web-0", cpu);
        let spec = &mut review["request"]["object"]["spec"];
        spec["initContainers"].take();
        spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
        review
    };
    assert_eq!(
        world.send(&with("900m")).await.message(),
        "pods \"web-0\" is forbidden: exceeded quota: q, requested: requests.cpu=400m, \
         used: requests.cpu=500m, limited: requests.cpu=700m"
    );
    assert!(world.send(&with("600m")).await.allowed());
    assert_eq!(world.counted("q", "requests.cpu"), "500m+100m");
    world.see(gone("web-0", "first")).await;
    assert_eq!(world.counted("q", "requests.cpu"), "0+600m");
}
