//! Lists that come whole, and lists that do not.

use std::time::Instant;

use serde_json::json;

use super::{
    scene::{Scene, metric, pod, quota, until_ready},
    until,
    world::{Fault, Request},
};

#[test]
fn what_is_there_counts_and_what_goes_is_freed() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    scene.until_used("team-a", "pods", "7");
    scene.world.create("pods", "team-a", "web", pod("500m"));
    scene.until_used("team-a", "requests.cpu", "1200m");
    scene.world.delete("pods", "team-a", "web");
    scene.until_used("team-a", "requests.cpu", "700m");
    // A quota that was adopted goes with its object.
    let url = format!("{}/v1/namespaces/team-a/quotas/q", scene.quotad.url("api"));
    assert_eq!(super::scene::ask(&url).0, 200);
    scene.world.delete("resourcequotas", "team-a", "q");
    until("the quota is gone", || (super::scene::ask(&url).0 == 404).then_some(()));
    scene.settle();
}

#[test]
fn pages_and_watches_list_the_same() {
    for mode in ["pages", "watch"] {
        let scene = Scene::new();
        let bridge = scene.bridge(&[&format!("--list.mode={mode}")]);
        scene.settle();
        until_ready(&bridge);
        // The probe asks for a list of one object, and in pages the list itself begins with one.
        let least = match mode {
            "pages" => 2,
            _ => 1,
        };
        assert!(scene.world.requests("pods", "List") >= least);
        assert_eq!(scene.world.requests("pods", "Continue") > 0, mode == "pages");
        assert_eq!(scene.world.requests("pods", "WatchList") > 0, mode == "watch");
        until("the relist is complete", || (scene.outcomes("pods") == ["Complete"]).then_some(()));
        scene.churn(mode);
        scene.settle();
    }
}

#[test]
pub(crate) fn a_second_list_in_pages_ends_nothing_that_lives() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--list.mode=pages"]);
    until_ready(&bridge);
    scene.settle();
    let listed = scene.outcomes("pods").len();
    scene.ask_relist(&["pods"]);
    until("a second list", || (scene.outcomes("pods").len() > listed).then_some(()));
    scene.settle();
    assert!(scene.outcomes("pods").iter().all(|it| it == "Complete"));
}

/// The fault happens, and in the end all is as it should be.
fn survives(mode: &str, request: Request, fault: Fault, times: usize) {
    let scene = Scene::new();
    scene.world.plan("pods", request, fault, times);
    let bridge = scene.bridge(&[&format!("--list.mode={mode}"), "--list.idle=500ms"]);
    scene.churn("early");
    until(&format!("{fault:?} of {request:?}"), || {
        scene.nothing_alive_was_ended();
        (!scene.world.is_planned()).then_some(())
    });
    scene.settle();
    until_ready(&bridge);
    scene.churn("late");
    scene.settle();
}

#[test]
fn a_list_that_fails_is_read_again() {
    survives("pages", Request::List, Fault::Status(500, 0), 2);
}

#[test]
fn a_page_that_is_too_old_has_the_list_begin_again() {
    survives("pages", Request::Continue, Fault::Status(410, 0), 2);
}

#[test]
fn a_page_that_is_cut_is_no_page() {
    survives("pages", Request::List, Fault::Cut, 1);
    survives("pages", Request::Continue, Fault::Cut, 2);
}

#[test]
fn a_busy_server_is_left_alone_as_long_as_it_says() {
    let scene = Scene::new();
    scene.world.plan("pods", Request::Continue, Fault::Status(429, 2), 1);
    let begun = Instant::now();
    let bridge = scene.bridge(&["--list.mode=pages"]);
    until_ready(&bridge);
    assert!(begun.elapsed().as_secs() >= 2, "waited as long as the server wanted");
    scene.settle();
}

#[test]
fn a_list_at_the_begin_of_a_watch_that_is_cut_begins_again() {
    survives("watch", Request::WatchList, Fault::Cut, 1);
}

#[test]
fn a_server_whose_lists_at_the_begin_of_watches_are_always_cut_is_asked_for_pages() {
    let scene = Scene::new();
    // As a load balancer that ends every answer after a time.
    scene.world.plan("*", Request::WatchList, Fault::Cut, 1_000);
    let bridge = scene.bridge(&["--list.mode=watch"]);
    until_ready(&bridge);
    scene.settle();
    assert_eq!(scene.world.requests("pods", "WatchList"), 1);
    assert!(scene.world.requests("pods", "Continue") > 0);
}

#[test]
fn kinds_that_do_not_answer_do_not_hold_up_the_lists_of_others() {
    const SILENT: usize = 6;
    let scene = Scene::new();
    let names: Vec<_> = (0..SILENT).map(|it| format!("widgets{it}")).collect();
    let kinds: Vec<_> = names.iter().map(|it| format!("{it}.example.com")).collect();
    for (name, kind) in names.iter().zip(&kinds) {
        let definition = json!({"spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": name, "kind": name}, "versions": [{"name": "v1"}]}});
        let definitions = "customresourcedefinitions.apiextensions.k8s.io";
        scene.world.create(definitions, "", kind, definition);
        // As kinds whose conversion webhook is gone.
        scene.world.plan(kind, Request::List, Fault::Silent, 1_000);
    }
    let hard = kinds.iter().map(|kind| (format!("count/{kind}"), json!(9)));
    let hard = serde_json::Value::Object(hard.collect());
    scene.world.create("resourcequotas", "team-a", "more", quota(hard));
    let bridge = scene.bridge(&["--list.mode=pages", "--list.concurrency=1"]);
    scene.until_used("team-a", "pods", "7");
    until("the silent kinds wait", || {
        let listed = |kind: &&String| scene.world.requests(kind, "List") > 0;
        kinds.iter().find(listed).map(|_| ())
    });
    let listed = scene.outcomes("pods").len();
    let begun = Instant::now();
    scene.ask_relist(&["pods"]);
    until("another list of pods", || (scene.outcomes("pods").len() > listed).then_some(()));
    let waited = begun.elapsed();
    assert!(waited.as_secs() < 20, "{waited:?}\n{}", bridge.log());
}

#[test]
fn a_list_at_the_begin_of_a_watch_that_says_nothing_is_left() {
    survives("watch", Request::WatchList, Fault::Silent, 1);
}

#[test]
fn a_server_that_never_ends_its_list_is_asked_for_pages() {
    let scene = Scene::new();
    // All objects come, and no bookmark after them.
    scene.world.plan("*", Request::WatchList, Fault::Empty, 100);
    let bridge = scene.bridge(&["--list.mode=watch", "--list.idle=300ms"]);
    until_ready(&bridge);
    assert!(scene.world.requests("pods", "Continue") > 0);
    scene.settle();
}

#[test]
fn a_server_whose_etcd_reports_no_progress_is_listed_in_pages() {
    let scene = Scene::new();
    // What kube-apiserver 1.36 answers with an etcd that reports no progress, as 3.4.23.
    scene.world.plan("*", Request::WatchList, Fault::Status(500, 0), 100);
    let bridge = scene.bridge(&["--list.mode=watch"]);
    until_ready(&bridge);
    assert!(scene.world.requests("pods", "Continue") > 0);
    scene.settle();
}

#[test]
fn an_object_that_cannot_be_read_ends_nothing() {
    for mode in ["pages", "watch"] {
        let scene = Scene::new();
        let bridge = scene.bridge(&[&format!("--list.mode={mode}")]);
        scene.settle();
        until_ready(&bridge);
        let request = match mode {
            "pages" => Request::List,
            _ => Request::WatchList,
        };
        // A probe lists as well, and does not look at objects.
        scene.world.plan("pods", request, Fault::Unreadable, 1_000);
        scene.ask_relist(&["pods"]);
        let unreadable = "quota_bridge_unreadable_total{resource=\"pods\"}";
        until("an object cannot be read", || (metric(&bridge, unreadable) > 0.0).then_some(()));
        scene.settle();
        let ended = |outcome: &str| {
            let name =
                format!("quota_bridge_relists_total{{resource=\"pods\",outcome=\"{outcome}\"}}");
            metric(&bridge, &name)
        };
        until("the list is over", || (ended("doubtful") > 0.0).then_some(()));
        assert_eq!(ended("complete"), 1.0, "the first one");
        scene.world.heal();
        scene.ask_relist(&["pods"]);
        until("a whole list", || (ended("complete") > 1.0).then_some(()));
        scene.churn("later");
        scene.settle();
    }
}

#[test]
fn a_list_that_lost_everything_of_another_server_ends_nothing() {
    let scene = Scene::new();
    let widgets = json!({"spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1"}]}});
    let service = json!({"spec": {"group": "example.com", "service": {"name": "s"}}});
    scene.world.create(
        "customresourcedefinitions.apiextensions.k8s.io",
        "",
        "widgets.example.com",
        widgets,
    );
    scene.world.create("apiservices.apiregistration.k8s.io", "", "v1.example.com", service);
    scene.world.create("widgets.example.com", "team-a", "w", json!({}));
    let bridge = scene.bridge(&["--resources.include=widgets.example.com"]);
    until_ready(&bridge);
    scene.settle();
    scene.world.plan("widgets.example.com", Request::List, Fault::Empty, 1_000);
    scene.ask_relist(&["widgets.example.com"]);
    let doubtful =
        "quota_bridge_relists_total{resource=\"widgets.example.com\",outcome=\"doubtful\"}";
    until("an empty list", || (metric(&bridge, doubtful) > 0.0).then_some(()));
    scene.settle();
    assert!(scene.ended().is_empty());
}
