//! Watermarks: what was committed before one stands before it in the stream.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use quota_semantics::Timestamp;
use serde_json::Value;

use super::{
    programs::until,
    scene::{Scene, pod, until_ready},
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
            lines.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()),
            );
        }
        lines
    })
}

fn watermark(line: &Value) -> Option<Timestamp> {
    line["resources"]["pods"]["watermark"]
        .as_str()?
        .parse()
        .ok()
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
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
    until("a later watermark", || {
        newest(&scene).filter(|mark| *mark > last)
    });
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
    until("a watermark again", || {
        newest(&scene).filter(|mark| *mark > since)
    });
    scene.settle();
}

#[test]
fn an_idle_kind_is_known_by_a_second_watch() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    let since = now();
    // Nothing happens to pods, but the version of the cluster goes on.
    scene
        .world
        .create("configmaps", "team-a", "other", serde_json::json!({}));
    until("a watermark", || {
        newest(&scene).filter(|mark| *mark > since)
    });
    let absent = lines(&scene);
    let absent = absent
        .iter()
        .any(|line| line["resources"]["widgets.example.com"]["absent"] == true);
    assert!(!absent, "nobody needs it");
}

#[test]
fn an_idle_kind_of_a_server_that_does_not_say_how_far_it_is_is_listed() {
    let scene = Scene::new();
    scene.world.lock().minor = 30;
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    let since = now();
    let other = serde_json::json!({});
    scene.world.create("configmaps", "team-a", "other", other);
    until("a watermark", || {
        newest(&scene).filter(|mark| *mark > since)
    });
    scene.settle();
}

#[test]
fn a_needed_kind_that_is_not_served_is_said_to_be_absent() {
    let scene = Scene::new();
    let bridge = scene.bridge(&["--resources.include=widgets.example.com"]);
    until_ready(&bridge);
    until("it is said", || {
        let lines = lines(&scene);
        let mut lines = lines.iter();
        lines
            .find(|line| line["resources"]["widgets.example.com"]["absent"] == true)
            .map(|_| ())
    });
}
