//! NATS that is away, loses answers, or holds something else than it did.

use async_nats::jetstream;
use rustix::process::Signal;
use serde_json::json;

use super::{
    process::Program,
    proxy::{Mode, Proxy},
    scene::{Scene, ask, metric, quota, until_ready},
    until,
};

fn stream<T>(
    scene: &Scene,
    act: impl AsyncFnOnce(jetstream::Context, jetstream::stream::Stream) -> T,
) -> T {
    scene.runtime.block_on(async {
        let jetstream = scene.nats.jetstream().await;
        let stream = jetstream.get_stream("OBJECTS").await.unwrap();
        act(jetstream, stream).await
    })
}

/// A bridge that reaches NATS by a network that can be cut.
fn behind(scene: &Scene) -> (Proxy, Program) {
    let proxy = Proxy::start(scene.nats.address());
    let url = format!("nats://{}", proxy.address());
    let bridge = Program::start(&mut scene.command_to(&url));
    (proxy, bridge)
}

/// The cluster that the subject's last message is of.
fn last_cluster(scene: &Scene) -> String {
    stream(scene, async |_, stream| {
        let last = stream.get_last_raw_message_by_subject("quota.objects.test");
        let message = last.await.unwrap();
        message.headers.get("Quota-Cluster-Uid").unwrap().to_string()
    })
}

#[test]
fn nats_that_is_away_is_waited_for() {
    let scene = Scene::new();
    let proxy = Proxy::start(scene.nats.address());
    proxy.set(Mode::Refuse);
    let url = format!("nats://{}", proxy.address());
    // At the start.
    let bridge = Program::start(&mut scene.command_to(&url));
    scene.churn("before");
    proxy.set(Mode::Pass);
    scene.settle();
    until_ready(&bridge);
    // In a watch, for as long as it likes.
    proxy.set(Mode::Refuse);
    proxy.cut();
    scene.churn("away");
    until("that it is away is seen", || {
        let (status, _) = super::scene::ask(&format!("{}/readyz", bridge.url("admin")));
        (status == 503).then_some(())
    });
    proxy.set(Mode::Pass);
    scene.settle();
    // In a list.
    scene.ask_relist(&[]);
    proxy.set(Mode::Refuse);
    proxy.cut();
    scene.churn("list");
    proxy.set(Mode::Pass);
    scene.settle();
}

#[test]
fn a_message_whose_acknowledgement_is_lost_is_there_once() {
    let scene = Scene::new();
    let (proxy, bridge) = behind(&scene);
    until_ready(&bridge);
    scene.settle();
    for round in 0..3 {
        proxy.set(Mode::LoseAnswers);
        let before = proxy.lost_answers();
        scene.churn(&format!("lost-{round}"));
        until("an answer is lost", || (proxy.lost_answers() > before).then_some(()));
        proxy.set(Mode::Pass);
        scene.settle();
    }
    // Every message has another id.
    let ids = stream(&scene, async |_, mut stream| {
        let info = stream.info().await.unwrap().state.clone();
        let mut ids = Vec::new();
        for sequence in info.first_sequence..=info.last_sequence {
            let message = stream.get_raw_message(sequence).await.unwrap();
            ids.push(message.headers.get("Nats-Msg-Id").unwrap().to_string());
        }
        ids
    });
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "{ids:?}");
}

#[test]
fn a_stream_that_was_purged_is_filled_again() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    // The daemon stands still, so that it never saw what is purged.
    scene.quotad.signal(Signal::STOP);
    scene.churn("purged");
    until("it is published", || {
        let lines =
            stream(&scene, async |_, mut stream| stream.info().await.unwrap().state.messages);
        (lines > 2).then_some(())
    });
    stream(&scene, async |_, stream| stream.purge().await.unwrap());
    scene.quotad.signal(Signal::CONT);
    scene.settle();
    until("it is noticed", || (!bridge.said("messages are gone").is_empty()).then_some(()));
    scene.settle();
    until_ready(&bridge);
}

#[test]
fn a_stream_that_was_deleted_and_made_anew_is_filled_again() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    stream(&scene, async |jetstream, mut stream| {
        let config = stream.info().await.unwrap().config.clone();
        jetstream.delete_stream("OBJECTS").await.unwrap();
        let _ = jetstream.create_stream(config).await;
    });
    scene.churn("anew");
    scene.settle();
    until_ready(&bridge);
}

#[test]
fn a_full_stream_is_waited_for() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    stream(&scene, async |jetstream, mut stream| {
        let mut config = stream.info().await.unwrap().config.clone();
        config.discard = jetstream::stream::DiscardPolicy::New;
        config.max_messages = i64::try_from(stream.info().await.unwrap().state.messages).unwrap();
        jetstream.update_stream(config).await.unwrap();
    });
    scene.churn("full");
    until("it is said", || (!bridge.said("cannot publish").is_empty()).then_some(()));
    stream(&scene, async |jetstream, mut stream| {
        let mut config = stream.info().await.unwrap().config.clone();
        config.max_messages = -1;
        jetstream.update_stream(config).await.unwrap();
    });
    scene.settle();
}

#[test]
fn a_stream_that_would_forget_most_is_refused() {
    let scene = Scene::new();
    stream(&scene, async |jetstream, mut stream| {
        let mut config = stream.info().await.unwrap().config.clone();
        config.max_messages_per_subject = 1;
        jetstream.update_stream(config).await.unwrap();
    });
    let mut bridge = scene.bridge(&[]);
    assert_eq!(bridge.ended().code(), Some(3), "{}", bridge.log());
    assert!(bridge.log().contains("max_msgs_per_subject"), "{}", bridge.log());
}

#[test]
fn a_stream_that_takes_small_messages_only_is_refused() {
    let scene = Scene::new();
    stream(&scene, async |jetstream, mut stream| {
        let mut config = stream.info().await.unwrap().config.clone();
        config.max_message_size = 256 * 1024;
        jetstream.update_stream(config).await.unwrap();
    });
    let mut bridge = scene.bridge(&[]);
    assert_eq!(bridge.ended().code(), Some(3), "{}", bridge.log());
    let log = bridge.log();
    assert!(log.contains("max_msg_size") && log.contains("262144"), "{log}");
}

/// An API server takes annotations of 256 KiB, whose JSON may have more bytes than a message.
#[test]
fn an_object_with_long_annotations_stops_nobody() {
    let scene = Scene::new();
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    let annotations = json!({"long": "\u{1}".repeat(255 * 1024), "other": "short"});
    let mut long = quota(json!({"pods": "1000"}));
    long["metadata"]["annotations"] = annotations.clone();
    scene.world.create("resourcequotas", "team-b", "long", long);
    let namespace = json!({"metadata": {"annotations": annotations}});
    scene.world.create("namespaces", "", "team-long", namespace);
    scene.churn("alive");
    let quotad = scene.quotad.url("api");
    let url = format!("{quotad}/v1/namespaces/team-b/quotas/long");
    until("the quota is there", || (ask(&url).0 == 200).then_some(()));
    let unreadable = metric(&bridge, r#"quota_bridge_unreadable_total{resource="resourcequotas"}"#);
    assert_eq!(unreadable, 0.0);
    scene.world.delete("resourcequotas", "team-b", "long");
    scene.world.delete("namespaces", "", "team-long");
    scene.churn("deleted");
    scene.settle();
    until("the quota is gone", || (ask(&url).0 == 404).then_some(()));
}

#[test]
fn objects_of_another_cluster_are_not_mixed_in() {
    let scene = Scene::new();
    let mut bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
    bridge.kill();
    let other = super::world::World::new();
    other.delete("namespaces", "", "kube-system");
    other.create("namespaces", "", "kube-system", serde_json::json!({}));
    other.create("pods", "team-z", "p", super::scene::pod("1"));
    let api = scene.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(super::server::serve(listener, other.clone()));
        address
    });
    let api = format!("http://{api}");
    let command = || scene.command_between(&["--api", &api], &scene.nats.url());
    let mut refused = Program::start(&mut command());
    assert_eq!(refused.ended().code(), Some(3), "{}", refused.log());
    assert!(refused.log().contains("adopt_cluster"), "{}", refused.log());
    scene.settle();
    // One that ends before everything was listed leaves the rest to the next one.
    let mut adopting = Program::start(command().arg("--adopt-cluster=true"));
    until("the subject is taken over", || {
        adopting.log().contains("took over the subject").then_some(())
    });
    adopting.kill();
    let adopting = Program::start(command().arg("--adopt-cluster=true"));
    until_ready(&adopting);
    scene.until_used("team-z", "pods", "1");
    // Nothing of the other cluster is left, though its versions were higher; its quota went as well.
    until("nothing is used in team-a", || scene.used("team-a", "pods").is_none().then_some(()));
    // From then on the subject is this cluster's.
    let namespaces = other.list("namespaces");
    let system = namespaces.iter().find(|it| it["metadata"]["name"] == "kube-system").unwrap();
    until("the adoption is complete", || {
        (system["metadata"]["uid"] == last_cluster(&scene)).then_some(())
    });
}

#[test]
fn kills_at_any_moment_lose_nothing() {
    let scene = Scene::new();
    let mut published = 0.0;
    for round in 0..12_u64 {
        let mut bridge = scene.bridge(&[]);
        scene.churn(&format!("kill-{round}"));
        // A little later each time: before discovery, in lists, in watches.
        std::thread::sleep(std::time::Duration::from_millis(round * 15));
        published += metric(&bridge, "quota_bridge_publish_duration_seconds_count");
        bridge.kill();
        scene.nothing_alive_was_ended();
    }
    assert!(published > 0.0);
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    scene.settle();
}
