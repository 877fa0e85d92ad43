//! Quotas with very much that is invalid, or with very much metadata, on the paths of Kubernetes. `tests/api/invalid.rs` has
//! those of the API.

use serde_json::{Map, Value, json};

use super::support::callers::{Callers, Principal};

const WHO: &[Principal<'_>] = &[("editor", "read,admin", "a")];
const KUBE: &str = "/api/v1/namespaces/a/resourcequotas";
const TOO_LONG: &str = "metadata: Too long: may not be more than 524288 bytes";

fn quota(name: &str, metadata: &Value) -> Value {
    let mut quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
        "spec": {"hard": {"pods": "1"}}});
    quota["metadata"]["name"] = json!(name);
    quota
}

/// What is answered to a large body: it must be short.
#[track_caller]
fn refused(callers: &Callers, method: &str, path: &str, body: &Value) -> Value {
    let answer = callers.expect(422, "editor", method, path, body);
    let bytes = answer.to_string().len();
    assert!(bytes < 300 << 10, "{method} {path}: {bytes} bytes");
    answer
}

#[test]
fn a_refusal_is_short_however_much_is_invalid() {
    let callers = Callers::start(WHO, &[]);
    let owner =
        json!({"apiVersion": "v1", "kind": "A", "name": "n", "uid": "1", "controller": true});
    let mut owners = vec![owner; 999];
    owners[0]["name"] = json!("n".repeat(900_000));
    for metadata in [
        json!({"finalizers": vec![""; 300_000]}),
        json!({"finalizers": vec![""; 1000]}),
        json!({"ownerReferences": owners}),
    ] {
        let body = quota("q", &metadata);
        let answer = refused(&callers, "POST", KUBE, &body);
        assert_eq!(answer["reason"], "Invalid");
        let causes = answer["details"]["causes"].as_array().unwrap();
        assert!(causes.len() <= 100);
    }
    let body = quota(&"N".repeat(500_000), &json!({}));
    refused(&callers, "POST", KUBE, &body);
    // What is right is still taken.
    let body = quota("q", &json!({}));
    callers.expect(201, "editor", "POST", KUBE, &body);
}

/// The managers of a quota's fields name all its labels once more.
#[test]
fn metadata_is_bounded_together_with_the_managers_of_its_fields() {
    let callers = Callers::start(WHO, &[]);
    let label = |number| {
        let key = format!("{}/{number:0>60}", "p".repeat(240));
        (key, json!("v".repeat(63)))
    };
    let labels = |count: usize| Value::Object((0..count).map(label).collect::<Map<_, _>>());
    let body = quota("q", &json!({"labels": labels(1000)}));
    let answer = refused(&callers, "POST", KUBE, &body);
    let message = format!("ResourceQuota \"q\" is invalid: {TOO_LONG}");
    assert_eq!(answer["message"], message);
    let body = quota("q", &json!({"labels": labels(500)}));
    callers.expect(201, "editor", "POST", KUBE, &body);
    let body = quota("q", &json!({"labels": labels(1000)}));
    let answer = refused(&callers, "PUT", &format!("{KUBE}/q"), &body);
    assert_eq!(answer["message"], message);
    let body = quota("r", &json!({"labels": labels(1000)}));
    callers.expect(201, "editor", "PUT", "/v1/namespaces/a/quotas/r", &body);
}
