//! What tenants try against the model of docs/security.md, from outside, at the real daemon. Each attack stands beside the
//! use that it imitates.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quota_testkit as support;

mod audit;
mod bounds;
mod certificates;
mod events;
mod floods;
mod invalid;
mod reservations;
mod sizes;
mod webhook;

use serde_json::{Value, json};

/// A pod that needs so much of a processor, as a reservation asks for it.
fn reserve_request(uid: &str, cpu: &str) -> Value {
    json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": format!("name-of-{uid}"), "uid": uid},
        "reserved": {"requests.cpu": cpu}})
}

/// The same as an object of the cluster.
fn pod(namespace: &str, uid: &str, version: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("name-of-{uid}"), "namespace": namespace, "uid": uid, "resourceVersion": version},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// What an API server asks before it stores it.
fn review(namespace: &str, uid: &str, cpu: &str) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": format!("review-of-{uid}"), "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": format!("name-of-{uid}"), "namespace": namespace,
        "userInfo": {"username": "somebody"}, "object": pod(namespace, uid, "", cpu)}})
}
