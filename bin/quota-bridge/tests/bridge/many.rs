//! A cluster with many namespaces: the bridge keeps little of each, and lists all of them at once.

use serde_json::json;

use super::{
    process::Program,
    scene::{Scene, metric, pod, until_ready},
    until,
};

const NAMESPACES: u64 = 50_000;
const PAGE: u64 = 500;

/// Most memory of a bridge. It keeps about a hundred bytes of an object, and the queue is bounded: 35 MiB were seen.
const MEMORY_MAX_MEBIBYTES: u64 = 75;

/// What a namespace has beside its labels. All of it together would not fit.
const ANNOTATION_BYTES: usize = 1_000;

/// The most memory that the process ever had, in MiB.
pub(crate) fn memory(bridge: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", bridge.id())).unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kibibytes = peak.and_then(|it| it.trim().strip_suffix(" kB")).unwrap();
    kibibytes.parse::<u64>().unwrap() / 1024
}

/// The bridge has listed all pods, and the ledger holds them.
fn check(scene: &Scene, bridge: &Program) {
    until_ready(bridge);
    until("the ledger holds what was listed", || {
        let last = scene.used(&format!("tenant-{}", NAMESPACES - 1), "pods");
        (last.as_deref() == Some("1")).then_some(())
    });
    scene.until_no_drift(bridge);
    let complete = "quota_bridge_relists_total{resource=\"pods\",outcome=\"complete\"}";
    assert_eq!(metric(bridge, complete), 1.0);
    let memory = memory(bridge);
    assert!(memory < MEMORY_MAX_MEBIBYTES, "{memory} MiB");
}

#[test]
fn fifty_thousand_namespaces_need_no_more_memory_and_requests_than_their_objects() {
    let scene = Scene::new();
    let metadata = json!({
        "labels": {"team": "red"},
        "annotations": {"example.com/note": "x".repeat(ANNOTATION_BYTES)},
    });
    for number in 0..NAMESPACES {
        let name = format!("tenant-{number}");
        let namespace = json!({"metadata": metadata});
        scene.world.create("namespaces", "", &name, namespace);
        scene.world.create("pods", &name, "p", pod("1m"));
    }
    let mut bridge = scene.bridge(&["--list.mode=pages", &format!("--list.page={PAGE}")]);
    check(&scene, &bridge);
    let pages = scene.world.requests("pods", "Continue");
    assert!(pages <= NAMESPACES / PAGE, "{pages} pages");

    // Who takes over lists them again, in another way, and ends what went meanwhile and nothing else.
    bridge.kill();
    for number in 0..NAMESPACES / 100 {
        let name = format!("tenant-{}", number * 100);
        scene.world.delete("pods", &name, "p");
        scene.world.delete("namespaces", "", &name);
    }
    let bridge = scene.bridge(&["--list.mode=watch"]);
    check(&scene, &bridge);
    assert_eq!(scene.used("tenant-100", "pods").as_deref().unwrap_or("0"), "0");
}
