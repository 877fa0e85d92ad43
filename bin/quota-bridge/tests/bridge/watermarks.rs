//! Watermarks: what was committed before one stands before it in the stream.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use quota_semantics::Timestamp;
use serde_json::{Value, json};

use super::{
    process::Program,
    scene::{Scene, ask, daemon, get, pod, quota, until_ready},
    until,
    world::{Fault, Request},
};

/// All lines of the stream, in order.
fn lines(scene: &Scene) -> Vec<Value> {
    scene.runtime.block_on(async {
        let jetstream = scene.nats.jetstream().await;
        let mut stream = jetstream.get_stream("OBJECTS").await.unwrap();
        let state = stream.info().await.unwrap().state.clone();
        let mut lines = Vec::new();
        for sequence in state.first_sequence..=state.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            let text = String::from_utf8(message.payload.to_vec()).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        lines
    })
}

fn watermark(line: &Value) -> Option<Timestamp> {
    line["resources"]["pods"]["watermark"].as_str()?.parse().ok()
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_nanoseconds(i64::try_from(since.as_nanos()).unwrap())
}

/// The newest watermark of pods in the stream.
fn newest(scene: &Scene) -> Option<Timestamp> {
    lines(scene).iter().filter_map(watermark).next_back()
}

#[test]
fn what_was_committed_before_a_watermark_stands_before_it() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    // Name and time of each pod, noted after it was committed.
    let mut committed = BTreeMap::new();
    for round in 0..40 {
        if round == 20 {
            scene.world.cut();
        }
        for number in 0..5 {
            let name = format!("p-{round}-{number}");
            scene.world.create("pods", "team-a", &name, pod("1m"));
            committed.insert(name, now());
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    let last = now();
    until("a later watermark", || newest(&scene).filter(|mark| *mark > last));
    let (mut seen, mut marks) = (std::collections::BTreeSet::new(), 0);
    for line in lines(&scene) {
        if let Some(name) = line["object"]["metadata"]["name"].as_str() {
            seen.insert(name.to_owned());
        }
        if let Some(mark) = watermark(&line) {
            marks += 1;
            for (name, time) in &committed {
                assert!(
                    *time > mark || seen.contains(name),
                    "{name} of {time} is not before {mark}"
                );
            }
        }
    }
    assert!(marks >= 3, "{marks} watermarks");
}

#[test]
pub(crate) fn an_api_server_that_is_cut_off_from_etcd_gives_no_watermark() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.world.cut_off(true);
    let since = now();
    // It goes on answering from its cache; what happens meanwhile it does not see.
    scene.world.create("pods", "team-a", "unseen", pod("1"));
    until("reads fail", || {
        let name = "quota_bridge_errors_total{resource=\"pods\",code=\"504\"}";
        let newest = newest(&scene).unwrap();
        assert!(newest < since, "a watermark without a quorum: {newest}");
        (super::scene::metric(&bridge, name) >= 3.0).then_some(())
    });
    scene.world.cut_off(false);
    until("a watermark again", || newest(&scene).filter(|mark| *mark > since));
    scene.settle();
}

#[test]
fn an_idle_kind_is_known_by_a_second_watch() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    let since = now();
    // Nothing happens to pods, but the version of the cluster goes on.
    scene.world.create("configmaps", "team-a", "other", serde_json::json!({}));
    until("a watermark", || newest(&scene).filter(|mark| *mark > since));
    let absent = lines(&scene);
    let absent =
        absent.iter().any(|line| line["resources"]["widgets.example.com"]["absent"] == true);
    assert!(!absent, "nobody needs it");
}

#[test]
fn an_idle_kind_of_a_server_that_does_not_say_how_far_it_is_is_listed() {
    let scene = Scene::new();
    scene.world.set_minor(30);
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    let since = now();
    let other = serde_json::json!({});
    scene.world.create("configmaps", "team-a", "other", other);
    until("a watermark", || newest(&scene).filter(|mark| *mark > since));
    scene.settle();
}

/// Nothing is granted before there are watermarks that are later than the daemon's start.
#[test]
fn a_daemon_that_starts_does_not_wait_until_the_next_watermark_is_due() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--watermark.every=1h"]);
    until_ready(&bridge);
    until_a_daemon_is_ready(&scene);
}

/// A daemon that relies on watermarks, and starts now, gets ready.
fn until_a_daemon_is_ready(scene: &Scene) {
    let directory = tempfile::TempDir::new().unwrap();
    let late = daemon(&scene.nats, directory.path(), &["--nats.watermark=bridge"]);
    until_ready(&late);
}

#[test]
fn names_of_kinds_that_nobody_serves_stop_no_watermark() {
    let scene = Scene::new();
    let odd = json!({"count/Deployments.apps": "1", "count/a_b.example.com": "1", "pods": "9"});
    scene.world.create("resourcequotas", "team-a", "odd", quota(odd));
    let made_up = |number| (format!("count/a{number}.example.com"), json!("1"));
    let many: serde_json::Map<_, _> = (0..2000).map(made_up).collect();
    scene.world.create("resourcequotas", "team-b", "many", quota(many.into()));
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    until_a_daemon_is_ready(&scene);
    let since = now();
    until("a later watermark", || newest(&scene).filter(|mark| *mark > since));
    let named =
        lines(&scene).iter().filter_map(|line| Some(line["resources"].as_object()?.len())).max();
    assert!(named.unwrap() <= 300, "{named:?} kinds in a bookmark");
    scene.settle();
}

#[test]
fn a_kind_that_is_not_watched_on_purpose_is_not_waited_for() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--resources.exclude=services"]);
    until_ready(&bridge);
    until_a_daemon_is_ready(&scene);
}

#[test]
fn a_needed_kind_that_is_not_served_is_said_to_be_absent() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--resources.include=widgets.example.com"]);
    until_ready(&bridge);
    until("it is said", || {
        let lines = lines(&scene);
        let mut lines = lines.iter();
        lines.find(|line| line["resources"]["widgets.example.com"]["absent"] == true).map(|_| ())
    });
}

/// Has a program's wall clock differ by so many seconds.
const SHIFT: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME) time->tv_sec += atol(getenv("CLOCK_SHIFT"));
    return result;
}
"#;

#[test]
fn a_clock_that_is_an_hour_off_makes_no_wrong_watermarks() {
    let directory = tempfile::TempDir::new().unwrap();
    let (source, shift) = (directory.path().join("shift.c"), directory.path().join("shift.so"));
    std::fs::write(&source, SHIFT).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&shift, &source])
        .status()
        .unwrap();
    assert!(compiled.success());
    for seconds in ["3600", "-3600"] {
        let scene = Scene::new();
        let mut command = scene.command();
        command.env("LD_PRELOAD", &shift).env("CLOCK_SHIFT", seconds);
        let bridge = Program::start(&mut command);
        until_ready(&bridge);
        let skew = super::scene::metric(&bridge, "quota_bridge_clock_skew_seconds");
        assert!((skew - seconds.parse::<f64>().unwrap()).abs() < 60.0, "{skew}");
        let since = now();
        let later = until("a watermark of now", || newest(&scene).filter(|mark| *mark > since));
        assert!(later < now(), "{later} has not come yet");
        scene.settle();
    }
}

/// Otherwise the limit would be lost without a word: reservations end, and nobody reports the objects.
#[test]
fn a_quota_says_which_of_its_kinds_may_not_be_listed() {
    let scene = Scene::new();
    for request in [Request::List, Request::WatchList] {
        scene.world.plan("secrets", request, Fault::Status(403, 0), 4);
    }
    let limits = quota(json!({"count/secrets": "9", "count/configmaps": "9"}));
    scene.world.create("resourcequotas", "team-b", "secrets", limits);
    let bridge = scene.bridge(&[]);
    // It is ready once the bridge has reported the kinds that it may list.
    let directory = tempfile::TempDir::new().unwrap();
    let quotad = daemon(&scene.nats, directory.path(), &["--nats.watermark=bridge"]);
    let url = quotad.url("api");
    let conditions = || {
        let path = format!("{url}/api/v1/namespaces/team-b/resourcequotas/secrets");
        let quota: Value = serde_json::from_str(&ask(&path).1).ok()?;
        quota["status"].get("hard")?;
        Some(quota["status"]["conditions"].to_string())
    };
    until("the condition", || {
        let text = conditions()?;
        (text.contains("NotReported") && text.contains("403") && !text.contains("configmaps"))
            .then_some(())
    });
    let status = get(&format!("{url}/v1/status"));
    assert!(status.contains("403"), "{status}");
    let metrics = get(&format!("{}/metrics", quotad.url("admin")));
    let named = "quota_ledger_kind_not_reported{resource=\"secrets\",reason=\"403\"} 1";
    assert!(metrics.contains(named), "{metrics}");
    until("no condition", || (conditions()? == "null").then_some(()));
    until_ready(&bridge);
}
