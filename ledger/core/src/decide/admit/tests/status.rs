//! The status of a claim states what is there already.

use super::*;

fn claim(id: &str, storage: &str) -> Review {
    let kind = GroupResource::new("", "persistentvolumeclaims");
    let json = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{storage}"}}}}}}}}"#);
    create(&kind, Object::from_json(&kind, json.as_bytes()).unwrap(), id)
}

/// The claim has grown to so much, by its status.
fn grown(id: &str, storage: &str) -> Review {
    let before = claim(id, "1Gi").request.footprint.clone();
    of_another(update(claim(id, storage), Some(before), 1), |request| {
        request.subresource = "status".into();
    })
}

#[test]
fn the_status_of_a_claim_is_held_as_far_as_possible_and_never_denied() {
    let mut world = World::with_quota(&[("requests.storage", "2Gi")]);
    world.see(&claim("a", "1Gi"), 1);
    world.see(&claim("b", "1Gi"), 1);
    world.policy.max_pending_per_namespace = 1;
    world.admit(&grown("a", "3Gi")).unwrap();
    assert_eq!(world.counted("requests.storage"), "2Gi+2Gi");
    let admitted = world.admit(&grown("b", "3Gi")).unwrap();
    assert!(admitted.events.is_empty(), "no more can be held");
    assert!(world.admit(&claim("c", "1Gi")).is_err());
    world.see(&claim("b", "3Gi"), 2);
    assert_eq!(world.counted("requests.storage"), "4Gi+2Gi");
}
