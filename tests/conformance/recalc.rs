//! Counting a quota anew from all objects.

use std::collections::BTreeMap;

use quota_semantics::{
    Name, Timestamp,
    object::{Evaluator, Footprint, GroupResource, NoContext},
    quota::Spec,
    resource::ResourceList,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    cluster,
    recount::{Listing, Status, recount},
    vectors::{Case, same, same_list, same_text},
};

#[derive(Deserialize)]
struct Quota {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: QuotaStatus,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: Name,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaStatus {
    hard: Option<ResourceList>,
    used: Option<ResourceList>,
}

#[derive(Deserialize)]
struct Kind {
    group: String,
    version: String,
    resource: String,
}

#[derive(Deserialize)]
struct Object {
    #[serde(flatten)]
    kind: Kind,
    object: Box<RawValue>,
}

/// Kinds that Kubernetes counts without discovery.
const BUILT_IN: [(&str, &str); 8] = [
    ("", "pods"),
    ("", "services"),
    ("", "persistentvolumeclaims"),
    ("resource.k8s.io", "resourceclaims"),
    ("", "configmaps"),
    ("", "secrets"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
];

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let quota: Quota = case.read("quota")?;
    let kinds: Option<Vec<Kind>> = case.read("kinds")?;
    let unsynced: Option<Vec<GroupResource>> = case.read("unsynced")?;
    let objects: Option<Vec<Object>> = case.read("objects")?;

    let mut footprints: BTreeMap<GroupResource, Option<Vec<Footprint>>> = BUILT_IN
        .into_iter()
        .map(|(group, resource)| (GroupResource::new(group, resource), Some(Vec::new())))
        .collect();
    for kind in kinds.iter().flatten() {
        footprints.entry(kind.group_resource()).or_insert(Some(Vec::new()));
    }
    for object in objects.iter().flatten() {
        let kind = object.kind.group_resource();
        if let Some(footprint) = measure(&kind, object.object.get(), &quota.metadata.namespace)? {
            let list = footprints.entry(kind).or_insert(Some(Vec::new()));
            list.get_or_insert_default().push(footprint);
        }
    }
    for kind in unsynced.iter().flatten() {
        footprints.insert(kind.clone(), None);
    }
    let listings: Vec<Listing<'_>> = footprints
        .iter()
        .map(|(kind, footprints)| Listing {
            kind,
            footprints: footprints.as_ref().map(|list| list.iter().collect()),
        })
        .collect();
    let before = Status { hard: quota.status.hard, used: quota.status.used };
    let outcome = recount(&quota.spec, &before, &listings, &NoContext);
    let queue = if is_urgent(&quota.spec, &before, &listings) { "priority" } else { "normal" };

    let expected = &case.expected;
    same_text("queue", queue, &expected["queue"])?;
    same("written", &outcome.changed, &(expected["written"] == true))?;
    if outcome.changed {
        same_list("hard", &outcome.hard, &expected["status"]["hard"])?;
        same_list("used", &outcome.used, &expected["status"]["used"])?;
    }
    let texts: Vec<String> = outcome
        .missing
        .iter()
        .map(|missing| not_listed(missing, kinds.as_deref().unwrap_or_default()))
        .collect();
    same_error(&texts, expected["error"].as_str().unwrap_or_default())
}

impl Kind {
    fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

fn measure(
    kind: &GroupResource,
    json: &str,
    namespace: &Name,
) -> Result<Option<Footprint>, String> {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().map_err(|_| "clock")?;
    let object = cluster::object(kind, json)?.ok_or("no object")?;
    let here = object.metadata().namespace == *namespace;
    Ok(here.then(|| object.footprint(kind, now, &NoContext)))
}

/// Whether Kubernetes counts the quota before others: its limits are not in force yet, or a name
/// that somebody counts under has no value.
fn is_urgent(spec: &Spec, before: &Status, listings: &[Listing<'_>]) -> bool {
    let hard = before.hard.clone().unwrap_or_default();
    let used = before.used.clone().unwrap_or_default();
    let counts = |name: &Name| {
        listings.iter().any(|listing| Evaluator::of(listing.kind).owns(name, &NoContext))
    };
    hard != spec.hard || hard.names().any(|name| used.get(name).is_none() && counts(name))
}

fn not_listed(kind: &GroupResource, kinds: &[Kind]) -> String {
    let listed = kinds.iter().find(|it| it.group_resource() == *kind);
    let version = listed.map_or("v1", |kind| &kind.version);
    let GroupResource { group, resource } = kind;
    format!("failed to list content: {group}/{version}, Resource={resource} not yet synced")
}

/// Kubernetes goes through the kinds in random order.
fn same_error(ours: &[String], expected: &str) -> Result<(), String> {
    let length: usize = ours.iter().map(String::len).sum();
    let brackets = if ours.len() > 1 { 2 * ours.len() } else { 0 };
    let all = ours.iter().all(|text| expected.contains(text.as_str()));
    if all && length + brackets == expected.len() {
        Ok(())
    } else {
        Err(format!("error is {ours:?}, expected {expected:?}"))
    }
}
