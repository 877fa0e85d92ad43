//! Watches that are cut, too old, silent, or of another time.

use super::{
    process::Program,
    scene::{Scene, metric, pod, until_ready},
    until,
    world::{Fault, Request},
};

/// Watches of pods are opened again with this fault, and in the end all is as it should be.
fn survives(fault: Fault, times: usize) {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--watch.idle=1s"]);
    until_ready(&bridge);
    scene.settle();
    scene.world.plan("pods", Request::Watch, fault, times);
    scene.world.cut();
    for round in 0..3 {
        scene
            .churn(&format!("{fault:?}-{round}").to_lowercase().replace(['(', ')', ',', ' '], "-"));
    }
    until(&format!("{fault:?}"), || (!scene.world.is_planned()).then_some(()));
    scene.settle();
    until_ready(&bridge);
    scene.churn("late");
    scene.settle();
}

#[test]
fn a_watch_that_is_cut_within_an_event_goes_on_before_it() {
    survives(Fault::Cut, 3);
}

#[test]
fn a_watch_that_is_refused_is_tried_again() {
    survives(Fault::Status(500, 0), 2);
    survives(Fault::Status(410, 0), 2);
}

#[test]
fn a_watch_that_says_it_is_too_old_is_followed_by_a_relist() {
    survives(Fault::Expired, 2);
}

#[test]
fn a_silent_watch_is_left() {
    survives(Fault::Silent, 2);
}

#[test]
fn an_event_that_cannot_be_read_is_followed_by_a_relist() {
    survives(Fault::Unreadable, 1);
}

#[test]
fn deletions_that_nobody_showed_are_found_by_the_relist() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    // What happens while nobody watches, and is forgotten by the server.
    scene.world.plan("pods", Request::Watch, Fault::Status(500, 1), 2);
    scene.world.cut();
    scene.world.delete("pods", "team-a", "first-1");
    scene.world.delete("pods", "team-a", "first-2");
    scene.world.create("pods", "team-a", "new", pod("1"));
    scene.world.compact();
    scene.settle();
    assert_eq!(scene.ended().len(), 2);
}

#[test]
fn what_changes_nothing_that_counts_is_not_published() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    let mut running = pod("100m");
    running["status"]["phase"] = "Running".into();
    running["status"]["podIP"] = "10.0.0.7".into();
    scene.world.create("pods", "team-a", "first-0", running);
    until("a change is suppressed", || {
        (metric(&bridge, "quota_bridge_suppressed_total") > 0.0).then_some(())
    });
    let mut ended = pod("100m");
    ended["status"]["phase"] = "Succeeded".into();
    scene.world.create("pods", "team-a", "first-0", ended);
    scene.until_used("team-a", "pods", "6");
    scene.settle();
}

#[test]
fn versions_that_go_back_are_noticed_on_a_silent_watch() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    // The server goes on from the old version: with the same names, and versions that were given before.
    let restore = lose_history(&scene);
    restore(&scene);
    until("the restore is noticed", || {
        (!bridge.said("versions have gone back").is_empty()).then_some(())
    });
    let begins = || bridge.said("\"reset\":true");
    until("a relist that says so", || (!begins().is_empty()).then_some(()));
    scene.until_no_drift(&bridge);
    scene.churn("later");
    scene.until_no_drift(&bridge);
}

/// Much happens behind a backup, and the ledger counts it.
fn lose_history(scene: &Scene) -> impl FnOnce(&Scene) + use<> {
    let backup = scene.world.backup();
    for round in 0..5 {
        scene.churn(&format!("lost-{round}"));
    }
    scene.settle();
    move |scene| {
        scene.world.restore(backup);
        scene.world.create("pods", "team-a", "after", pod("1"));
    }
}

#[test]
fn versions_that_go_back_are_noticed_by_any_relist() {
    let scene = Scene::new();
    // Neither the bridge's reads nor the ledger notice it: watermarks are from before the history that is lost.
    let mut command = scene.command();
    let bridge = Program::start(command.env("QUOTA_BRIDGE_WATERMARK__EVERY", "1h"));
    until_ready(&bridge);
    scene.settle();
    let restore = lose_history(&scene);
    restore(&scene);
    scene.ask_relist(&[]);
    scene.until_no_drift(&bridge);
    scene.churn("later");
    scene.until_no_drift(&bridge);
}

#[test]
fn versions_that_go_back_while_no_bridge_runs_are_noticed_by_the_ledger() {
    let scene = Scene::with_daemon(&["--nats.relist_interval=1s"]);
    let mut bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    let restore = lose_history(&scene);
    let reached = scene.world.revision();
    until("watermarks of what will be lost", || {
        (scene.watermark_version("pods") >= reached).then_some(())
    });
    bridge.kill();
    restore(&scene);
    let bridge = scene.bridge(&[]);
    scene.until_no_drift(&bridge);
    scene.churn("later");
    scene.until_no_drift(&bridge);
}

#[test]
fn one_kind_that_may_not_be_seen_does_not_stop_the_others() {
    let scene = Scene::new();
    scene.world.plan("services", Request::List, Fault::Status(403, 0), 1_000);
    scene.world.plan("services", Request::WatchList, Fault::Status(403, 0), 1_000);
    let bridge = scene.bridge(&[]);
    scene.until_used("team-a", "pods", "7");
    scene.churn("others");
    let forbidden = "quota_bridge_errors_total{resource=\"services\",code=\"403\"}";
    until("the kind is refused", || (metric(&bridge, forbidden) > 0.0).then_some(()));
    let (status, text) = super::scene::ask(&format!("{}/readyz?verbose", bridge.url("admin")));
    assert_eq!(status, 503, "{text}");
    // A page whose name points to this machine reads nothing.
    let foreign =
        ureq::get(format!("{}/metrics", bridge.url("admin"))).header("host", "evil.example");
    let refused = foreign.call().unwrap_err();
    assert!(matches!(refused, ureq::Error::StatusCode(421)), "{refused}");
    scene.world.heal();
    scene.ask_relist(&[]);
    scene.settle();
    until_ready(&bridge);
}
