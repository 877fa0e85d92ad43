//! Several bridges: one publishes, whoever believes what.

use std::process::Command;

use rustix::process::Signal;

use super::{
    nats,
    process::Program,
    proxy::{Mode, Proxy},
    scene::{Scene, metric, pod, until_ready},
    until,
};

pub(crate) const LEASE: [&str; 4] =
    ["--lease.namespace=quota", "--lease.duration=3s", "--lease.renew=2s", "--lease.retry=300ms"];

pub(crate) fn leads(bridge: &Program) -> bool {
    metric(bridge, "quota_bridge_leader") == 1.0
}

fn pair(scene: &Scene) -> (Program, Program) {
    let first = scene.bridge(&LEASE);
    until("the first one leads", || leads(&first).then_some(()));
    let second = scene.bridge(&LEASE);
    until_ready(&second);
    assert!(!leads(&second), "it is ready to lead, and does not");
    (first, second)
}

#[test]
pub(crate) fn one_of_two_leads_and_the_other_takes_over() {
    let scene = Scene::new();
    let (mut first, second) = pair(&scene);
    scene.churn("first");
    scene.settle();
    first.kill();
    scene.churn("nobody");
    until("the second one leads", || leads(&second).then_some(()));
    scene.settle();
    until_ready(&second);
    scene.churn("second");
    scene.settle();
}

#[test]
fn who_waits_for_the_stream_keeps_the_lease() {
    let scene = Scene::new();
    let empty = nats::Server::start();
    let bridge = Program::start(scene.command_to(&empty.url()).args(LEASE));
    let lease = || {
        let lease = scene.world.list("leases.coordination.k8s.io").pop()?;
        let time =
            |key: &str| -> Option<jiff::Timestamp> { lease["spec"][key].as_str()?.parse().ok() };
        Some((time("acquireTime")?, time("renewTime")?))
    };
    // Who gives up has to take it anew; the time for that is over twice.
    until("the lease was held for long", || {
        let (acquired, renewed) = lease()?;
        (renewed.duration_since(acquired).as_secs() >= 5).then_some(())
    });
    assert!(!leads(&bridge), "it cannot publish");
}

#[test]
pub(crate) fn who_leads_again_lists_everything() {
    let scene = Scene::new();
    let proxy = Proxy::start(scene.nats.address());
    let first = format!("nats://{}", proxy.address());
    let first = Program::start(scene.command_to(&first).args(LEASE));
    until("the first one leads", || leads(&first).then_some(()));
    scene.settle();
    let mut second = scene.bridge(&LEASE);
    until_ready(&second);
    // Without NATS it gives up the Lease, and goes on as the one that waits.
    proxy.set(Mode::Refuse);
    proxy.cut();
    scene.churn("away");
    until("the second one leads", || leads(&second).then_some(()));
    scene.settle();
    proxy.set(Mode::Pass);
    second.kill();
    scene.churn("nobody");
    until("the first one leads again", || leads(&first).then_some(()));
    scene.settle();
    until_ready(&first);
    scene.settle();
}

#[test]
fn who_is_stopped_gives_up_the_lease() {
    let scene = Scene::new();
    let patient: Vec<&str> = LEASE
        .iter()
        .copied()
        .map(|it| if it.contains("duration") { "--lease.duration=600s" } else { it })
        .collect();
    let mut first = scene.bridge(&patient);
    until("the first one leads", || leads(&first).then_some(()));
    let second = scene.bridge(&patient);
    first.signal(Signal::TERM);
    assert_eq!(first.ended().code(), Some(0), "{}", first.log());
    until("the second one leads", || leads(&second).then_some(()));
    scene.churn("second");
    scene.settle();
}

#[test]
fn a_leader_that_slept_past_its_lease_changes_nothing() {
    let scene = Scene::new();
    let (mut first, second) = pair(&scene);
    scene.settle();
    first.signal(Signal::STOP);
    scene.churn("asleep");
    until("the second one leads", || leads(&second).then_some(()));
    scene.settle();
    // What it had in its hands is of another time.
    first.signal(Signal::CONT);
    scene.churn("awake");
    let deadline = std::time::Instant::now() + super::PATIENCE;
    while leads(&first) && first.is_running() {
        assert!(std::time::Instant::now() < deadline, "two lead");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    scene.settle();
    scene.churn("after");
    scene.settle();
}

#[test]
fn two_without_a_lease_do_not_both_publish() {
    let scene = Scene::new();
    let mut first = scene.bridge(&[]);
    until_ready(&first);
    let second = scene.bridge(&[]);
    assert_eq!(first.ended().code(), Some(1), "{}", first.log());
    assert!(first.log().contains("another publisher has taken over"), "{}", first.log());
    until_ready(&second);
    scene.churn("second");
    scene.settle();
}

#[test]
fn who_takes_over_in_the_middle_of_changes_misses_none() {
    let scene = Scene::new();
    let world = scene.world.clone();
    let churn = std::thread::spawn(move || {
        for number in 0..3_000 {
            let name = format!("busy-{}", number % 50);
            match number % 3 {
                0 => drop(world.delete("pods", "team-a", &name)),
                _ => drop(world.create(
                    "pods",
                    "team-a",
                    &name,
                    super::scene::pod(&format!("{}m", number % 7 + 1)),
                )),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let mut bridges: Vec<Program> = Vec::new();
    while !churn.is_finished() {
        let bridge = scene.bridge(&[]);
        // It is ready when it has taken over, and has listed everything.
        until_ready(&bridge);
        bridges.push(bridge);
        scene.nothing_alive_was_ended();
    }
    churn.join().unwrap();
    scene.settle();
    let running = bridges.iter_mut().filter_map(|bridge| bridge.is_running().then_some(()));
    assert_eq!(running.count(), 1, "only the last one is left");
}

#[test]
fn its_version_is_that_of_the_build() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quota-bridge"));
    let output = command.env_clear().arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    assert_eq!(version, concat!("quota-bridge ", env!("BUILD_VERSION"), "\n"));
}

#[test]
fn wrong_settings_end_it_with_code_3_and_wrong_usage_with_2() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quota-bridge"));
        let output = command.env_clear().current_dir("/").args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&["--cluster=a.b", "--api=http://x"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.starts_with("cluster: "), "{said}");
    assert_eq!(run(&["--clusterr=a"]).0, 2);
    let (code, said) = run(&["--admin.listen=127.0.0.1:0"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("no API server"), "{said}");
}

/// Much happens after a backup, and is lost. Afterwards versions have passed the lost ones before a bridge looks: they do
/// not show that anything is missing.
fn restore_under_load(scene: &Scene, loses: impl FnOnce()) {
    let backup = scene.world.backup();
    for round in 0..5 {
        scene.churn(&format!("lost-{round}"));
    }
    scene.settle();
    let reached = scene.world.revision();
    loses();
    scene.world.restore(backup);
    let mut number = 0;
    while scene.world.revision() <= reached + 50 {
        number += 1;
        let name = format!("after-{number}");
        scene.world.create("pods", "team-a", &name, pod("1"));
    }
}

/// A bridge with a Lease, whose consistent reads are too rare to notice anything.
fn blind_bridge(scene: &Scene) -> Program {
    let mut command = scene.command();
    command.env("QUOTA_BRIDGE_WATERMARK__EVERY", "1h").args(LEASE);
    Program::start(&mut command)
}

/// Waits until the leader has renewed the Lease: a history without a renewal cannot be missed.
fn until_renewed(scene: &Scene) {
    let kind = "leases.coordination.k8s.io";
    let before = scene.world.requests(kind, "Update");
    until("the lease is renewed twice", || {
        (scene.world.requests(kind, "Update") > before + 1).then_some(())
    });
}

#[test]
fn a_leader_notices_a_lost_history_although_versions_have_passed_it() {
    let scene = Scene::new();
    let bridge = blind_bridge(&scene);
    until_ready(&bridge);
    scene.settle();
    restore_under_load(&scene, || until_renewed(&scene));
    scene.until_no_drift(&bridge);
    assert!(bridge.said("versions have gone back").is_empty());
    scene.churn("later");
    scene.until_no_drift(&bridge);
}

#[test]
fn the_next_leader_notices_a_lost_history_although_versions_have_passed_it() {
    let scene = Scene::new();
    let mut first = blind_bridge(&scene);
    until_ready(&first);
    scene.settle();
    restore_under_load(&scene, || {
        until_renewed(&scene);
        // What names the renewals is a message.
        scene.churn("named");
        scene.settle();
        first.kill();
    });
    let second = blind_bridge(&scene);
    scene.until_no_drift(&second);
    scene.churn("later");
    scene.until_no_drift(&second);
}
