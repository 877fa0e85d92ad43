//! The rights that quota-bridge needs in the cluster: access to the counted kinds, and to its Lease.

use std::collections::{BTreeMap, BTreeSet};

use quota_semantics::{
    admission::counted_kind,
    group::manifest::{GROUP, PLURAL},
    object::{GroupResource, MEASURED, is_ignored},
    syntax,
};
use serde_json::{Value, json};

use crate::{
    args::Bridge,
    failure::Outcome,
    manifest::{self, Document},
    output::{Output, yaml},
};

/// ResourceQuotas, which the bridge always watches.
const QUOTAS: (&str, &str) = ("", "resourcequotas");

pub(super) fn run(wanted: &Bridge, output: &Output) -> Outcome {
    let list = manifests(wanted)?;
    if output.is_structured() {
        return output.value(&list);
    }
    output.line(yaml(&list)?.trim_end())
}

/// The kinds whose number quotas and groups limit. Names that no kind can have are left out.
fn limited(documents: &[Document]) -> BTreeSet<GroupResource> {
    let hard = documents.iter().flat_map(|document| {
        let places = ["/spec/hard", "/spec/quota/hard", "/hard"];
        places.into_iter().filter_map(|place| document.value.pointer(place)?.as_object())
    });
    let kinds = hard.flat_map(|hard| hard.keys().filter_map(|limit| counted_kind(limit)));
    kinds
        .filter(|kind| !is_ignored(kind) && syntax::subdomain(&kind.to_string()).is_empty())
        .collect()
}

/// A List of all manifests.
pub(super) fn manifests(wanted: &Bridge) -> Outcome<Value> {
    let limited = match &*wanted.filenames {
        [] => BTreeSet::new(),
        files => limited(&manifest::load(files)?),
    };
    let Bridge { namespace, name, namespaces, .. } = wanted;
    let account = json!([{ "kind": "ServiceAccount", "name": name, "namespace": namespace }]);
    let mut items = vec![json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": namespace },
    })];
    let mut grant = |kind: &str, metadata: Value, rules: Value| {
        items.push(json!({
            "apiVersion": RBAC, "kind": kind, "metadata": metadata, "rules": rules,
        }));
        items.push(json!({
            "apiVersion": RBAC, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
            "subjects": account,
        }));
    };
    let mut of_cluster = about_the_cluster();
    if let Some(webhook) = &wanted.webhook {
        of_cluster.push(json!({
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": [webhook], "verbs": ["get", "update"],
        }));
    }
    match namespaces.is_empty() {
        true => {
            of_cluster.push(json!({ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"] }));
            of_cluster.extend(groups(wanted.status));
            of_cluster.extend(objects(wanted, &limited));
        }
        false => {
            for namespace in namespaces {
                let metadata = json!({ "name": name, "namespace": namespace });
                grant("Role", metadata, json!(objects(wanted, &limited)));
            }
        }
    }
    grant("ClusterRole", json!({ "name": name }), json!(of_cluster));
    // The Lease has a Role of its own name, since the namespace may be one of those that are watched.
    let lease = format!("{name}-lease");
    let metadata = json!({ "name": lease, "namespace": namespace });
    items.push(json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": metadata,
        "rules": [
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
              "resourceNames": ["quota-bridge"], "verbs": ["get", "update"] },
        ],
    }));
    items.push(json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": lease },
        "subjects": account,
    }));
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The rules for identifying the cluster, and for finding its kinds.
fn about_the_cluster() -> Vec<Value> {
    vec![
        json!({ "apiGroups": [""], "resources": ["namespaces"],
                "resourceNames": ["kube-system"], "verbs": ["get"] }),
        json!({ "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
                "verbs": ["get", "list", "watch"] }),
        json!({ "apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"],
                "verbs": ["get", "list", "watch"] }),
    ]
}

/// The rules for ClusterResourceQuotas, and for their status if the bridge writes it.
fn groups(writes_status: bool) -> Vec<Value> {
    let status = format!("{PLURAL}/status");
    let read =
        json!({ "apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch"] });
    let write = json!({ "apiGroups": [GROUP], "resources": [status], "verbs": ["update"] });
    [read].into_iter().chain(writes_status.then_some(write)).collect()
}

/// The rules for the counted kinds, one per API group.
fn objects(wanted: &Bridge, limited: &BTreeSet<GroupResource>) -> Vec<Value> {
    let more = wanted.count.iter().chain(&wanted.charge).chain(limited);
    let more = more.map(|kind| (&*kind.group, &*kind.resource));
    let mut groups = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (group, resource) in MEASURED.into_iter().chain([QUOTAS]).chain(more) {
        groups.entry(group).or_default().insert(resource);
    }
    let rule = |(group, resources): (&str, BTreeSet<&str>)| json!({ "apiGroups": [group], "resources": resources, "verbs": ["get", "list", "watch"] });
    groups.into_iter().map(rule).collect()
}
