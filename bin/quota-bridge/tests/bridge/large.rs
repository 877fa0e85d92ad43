//! Objects so large that not many of them fit into a page.

use serde_json::{Value, json};

use super::{
    many::memory,
    scene::{Scene, metric, pod, until_ready},
    until,
};

/// As many bytes of annotations as an object may have. JSON makes them six times as long.
const ANNOTATION_BYTES: usize = 256 << 10;

/// More objects than fit.
const CLAIMS: usize = 40;

/// Most memory of the bridge: a page and what it makes of it, and what it needs without any.
const MEMORY_MAX_MEBIBYTES: u64 = 100;

fn claim(annotation_bytes: usize) -> Value {
    json!({
        "metadata": {"annotations": {"example.com/note": "\u{1}".repeat(annotation_bytes)}},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[test]
fn a_page_that_is_too_long_is_requested_with_fewer_objects() {
    let scene = Scene::new();
    for number in 0..CLAIMS {
        scene.world.create(
            "persistentvolumeclaims",
            "team-c",
            &format!("large-{number}"),
            claim(ANNOTATION_BYTES),
        );
    }
    let bridge = scene.bridge(&["--list.mode=pages", "--list.page=500"]);
    until_ready(&bridge);
    scene.until_used("team-c", "persistentvolumeclaims", &CLAIMS.to_string());
    let pages = scene.world.requests("persistentvolumeclaims", "Continue");
    assert!((1..=4).contains(&pages), "{pages} further pages");
    let complete =
        "quota_bridge_relists_total{resource=\"persistentvolumeclaims\",outcome=\"complete\"}";
    assert_eq!(metric(&bridge, complete), 1.0);
    let memory = memory(&bridge);
    assert!(memory < MEMORY_MAX_MEBIBYTES, "{memory} MiB");
}

/// Each of them takes more than a message, and counts like any other.
#[test]
fn odd_objects_of_one_tenant_hold_up_nobody() {
    let scene = Scene::new();
    let mut annotated = pod("100m");
    let note = "\u{1}".repeat(ANNOTATION_BYTES - 100);
    annotated["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": note});
    scene.world.create("pods", "team-c", "annotated", annotated);
    let container = |number| {
        let amounts = json!({"cpu": "1m"});
        json!({"name": format!("c{number}"), "resources": {"requests": amounts, "limits": amounts}})
    };
    let containers: Vec<_> = (0..20_000).map(container).collect();
    let many = json!({"spec": {"containers": containers}});
    scene.world.create("pods", "team-c", "many", many);
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.until_used("team-c", "requests.cpu", "20100m");
    scene.settle();
    // A watch shows them as well.
    scene.world.create("pods", "team-c", "annotated", pod("200m"));
    scene.until_used("team-c", "requests.cpu", "20200m");
    let unreadable = "quota_bridge_unreadable_total{resource=\"pods\"}";
    assert_eq!(metric(&bridge, unreadable), 0.0);
}

#[test]
fn an_object_that_no_page_can_hold_is_an_error_of_its_kind() {
    let scene = Scene::new();
    scene.world.create("persistentvolumeclaims", "team-c", "a", claim(ANNOTATION_BYTES));
    scene.world.create("persistentvolumeclaims", "team-c", "b", claim(6 << 20));
    let bridge = scene.bridge(&["--list.mode=pages", "--list.page=500"]);
    let errors = "quota_bridge_errors_total{resource=\"persistentvolumeclaims\",code=\"too_long\"}";
    until("an error", || (metric(&bridge, errors) > 1.0).then_some(()));
    assert!(bridge.log().contains("an object is longer"));
    scene.until_used("team-a", "pods", "7");
    // The list goes on where it was.
    let complete =
        "quota_bridge_relists_total{resource=\"persistentvolumeclaims\",outcome=\"complete\"}";
    assert_eq!(metric(&bridge, complete), 0.0);
    scene.world.delete("persistentvolumeclaims", "team-c", "b");
    scene.world.compact();
    until_ready(&bridge);
    scene.until_used("team-c", "persistentvolumeclaims", "1");
}
