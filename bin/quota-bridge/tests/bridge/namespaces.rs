//! Namespaces: groups choose them by the labels that the bridge brings, and forget them when they are gone.

use serde_json::{Value, json};

use super::{
    scene::{Scene, ask, get, pod, until_ready},
    until,
};

/// A namespace with the label of a team.
pub(crate) fn namespace(scene: &Scene, name: &str, team: &str) {
    let object = json!({"metadata": {"name": name, "labels": {"team": team}}});
    scene.world.put("namespaces", "", object).unwrap();
}

/// Has a group of the namespaces of the red team.
fn red(scene: &Scene) {
    let group =
        json!({"selector": {"labels": {"matchLabels": {"team": "red"}}}, "hard": {"pods": "10"}});
    let url = format!("{}/v1/groups/red", scene.quotad.url("api"));
    let answer = ureq::put(url).send_json(group).unwrap();
    assert_eq!(answer.status(), 201);
}

/// The members of the group, and how many pods count in it.
fn members(scene: &Scene) -> (Vec<String>, String) {
    let text = get(&format!("{}/v1/groups/red", scene.quotad.url("api")));
    let group: Value = serde_json::from_str(&text).unwrap();
    let status = &group["status"];
    let names = status["namespaces"].as_array().unwrap().iter();
    let names = names.map(|it| it["namespace"].as_str().unwrap().to_owned());
    let used = status["used"]["pods"].as_str().unwrap_or_default();
    (names.collect(), used.to_owned())
}

fn until_members(scene: &Scene, expected: &[&str], used: &str) {
    until(&format!("{expected:?} with {used} pods"), || {
        let (names, pods) = members(scene);
        (names == expected && pods == used).then_some(())
    });
}

#[test]
fn a_group_follows_the_labels_of_namespaces() {
    let scene = Scene::new();
    namespace(&scene, "shop", "red");
    namespace(&scene, "blog", "blue");
    scene.world.create("pods", "shop", "a", pod("100m"));
    scene.world.create("pods", "blog", "b", pod("100m"));
    red(&scene);
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    until_members(&scene, &["shop"], "1");
    namespace(&scene, "blog", "red");
    until_members(&scene, &["blog", "shop"], "2");
    namespace(&scene, "shop", "blue");
    until_members(&scene, &["blog"], "1");
    assert!(scene.outcomes("namespaces").iter().all(|it| it == "Complete"));

    // What goes while nobody watches is missing in the next list.
    drop(bridge);
    scene.world.delete("pods", "blog", "b");
    scene.world.delete("namespaces", "", "blog");
    let bridge = scene.bridge(&[]);
    until_ready(&bridge);
    until_members(&scene, &[], "0");
    scene.settle();
    let (code, _) = ask(&format!("{}/v1/groups/red", scene.quotad.url("api")));
    assert_eq!(code, 200);
}
