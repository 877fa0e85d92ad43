//! The Kubernetes-style API: bodies in protobuf, JSON, YAML, and patches.

use serde_json::Value;

use super::world;

const TYPES: [&str; 6] = [
    "application/vnd.kubernetes.protobuf",
    "application/json",
    "application/yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
];

/// Sends the input behind its first byte, which selects the request. The answer is a Kubernetes object; an accepted
/// object can be read as it was returned.
pub fn run(data: &[u8]) {
    let Some((how, body)) = data.split_first() else {
        return;
    };
    let quotas = "/api/v1/namespaces/a/resourcequotas";
    let quota = format!("{quotas}/q");
    let applied = format!("{quota}?fieldManager=fuzz&force=true");
    let (method, path, content_type) = match how % 10 {
        kind @ 0..=2 => ("POST", quotas, TYPES[usize::from(kind)]),
        kind @ 3..=5 => ("PUT", &*quota, TYPES[usize::from(kind - 3)]),
        kind @ 6..=8 => ("PATCH", &*quota, TYPES[usize::from(kind - 3)]),
        _ => ("PATCH", &*applied, "application/apply-patch+yaml"),
    };
    world::with(|world| {
        let before = world.head();
        let (status, answer) = world.call(method, path, content_type, body.to_vec());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(status < 500, "{status}: {answer}");
        if status >= 400 {
            assert_eq!((&answer["kind"], &answer["code"]), (&"Status".into(), &status.into()));
            assert_eq!(world.head(), before, "a refusal wrote something");
            return;
        }
        assert_eq!(answer["kind"], "ResourceQuota");
        let name = answer["metadata"]["name"].as_str().unwrap();
        let path = format!("{quotas}/{name}");
        let (status, read) = world.call("GET", &path, "application/json", Vec::new());
        let read: Value = serde_json::from_slice(&read).unwrap();
        assert_eq!((status, &read["spec"]), (200, &answer["spec"]));
    });
}
