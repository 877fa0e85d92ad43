//! Objects, and the cluster around them, as the vectors give them.

use quota_semantics::{
    Name, Timestamp,
    object::{Context, GroupResource, Metadata, NoContext, Object, OwningPod},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::vectors::Case;

/// The kind that `group` and `resource` of the input name.
pub(crate) fn kind(case: &Case) -> GroupResource {
    GroupResource::new(&case.text("group"), &case.text("resource"))
}

/// An object of the input, or none where there is `null`.
pub(crate) fn object(kind: &GroupResource, json: &str) -> Result<Option<Object>, String> {
    if json == "null" {
        return Ok(None);
    }
    let object = Object::from_json(kind, json.as_bytes()).map_err(|error| error.to_string())?;
    pruned_counts_the_same(kind, &object)?;
    condensed_counts_the_same(kind, &object)?;
    Ok(Some(object))
}

/// An object that was read and written again says the same of all that counts.
fn pruned_counts_the_same(kind: &GroupResource, object: &Object) -> Result<(), String> {
    const NAMES: [&str; 4] = ["requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
    let text = serde_json::to_vec(object).map_err(|error| error.to_string())?;
    let pruned = Object::from_json(kind, &text).map_err(|error| error.to_string())?;
    let same = [Timestamp::EPOCH, Timestamp::MAX].iter().all(|now| {
        pruned.footprint(kind, *now, &NoContext) == object.footprint(kind, *now, &NoContext)
    }) && pruned.lapse() == object.lapse()
        && pruned.metadata() == object.metadata()
        && pruned.missing_requirements(&NAMES) == object.missing_requirements(&NAMES);
    match same {
        true => Ok(()),
        false => Err(format!("pruned, it counts differently: {}", String::from_utf8_lossy(&text))),
    }
}

/// An object that was condensed counts the same.
fn condensed_counts_the_same(kind: &GroupResource, object: &Object) -> Result<(), String> {
    let mut condensed = object.clone();
    let left_out = condensed.condense(usize::MAX);
    let text = serde_json::to_vec(&condensed).map_err(|error| error.to_string())?;
    let condensed = Object::from_json(kind, &text).map_err(|error| error.to_string())?;
    let same = [Timestamp::EPOCH, Timestamp::MAX].iter().all(|now| {
        condensed.footprint(kind, *now, &NoContext) == object.footprint(kind, *now, &NoContext)
    });
    match same && left_out == 0 && condensed.lapse() == object.lapse() {
        true => Ok(()),
        false => {
            Err(format!("condensed, it counts differently: {}", String::from_utf8_lossy(&text)))
        }
    }
}

/// `input.context`, and the clock.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Cluster {
    device_classes: Vec<DeviceClass>,
    pods: Vec<Box<RawValue>>,
    claims: Vec<Claim>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceClass {
    metadata: Metadata,
    spec: DeviceClassSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceClassSpec {
    extended_resource_name: Option<Name>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claim {
    metadata: Metadata,
}

impl Cluster {
    pub(crate) fn read(case: &Case, now: Timestamp) -> Result<Self, String> {
        let cluster: Option<Self> = case.read("context")?;
        Ok(Self { now, ..cluster.unwrap_or_default() })
    }
}

impl Context for Cluster {
    fn extended_resource(&self, device_class: &str) -> Option<Name> {
        let class = self.device_classes.iter().find(|class| class.metadata.name == device_class)?;
        class.spec.extended_resource_name.clone()
    }

    fn is_device_class_resource(&self, extended_resource: &str) -> bool {
        self.device_classes.iter().any(|class| {
            let name = class.spec.extended_resource_name.as_ref();
            name.is_some_and(|name| *name == extended_resource)
        })
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<OwningPod> {
        let pods = GroupResource::new("", "pods");
        self.pods.iter().find_map(|json| {
            let Ok(Object::Pod(pod)) = Object::from_json(&pods, json.get().as_bytes()) else {
                return None;
            };
            let found = pod.metadata.name == name && pod.metadata.namespace == namespace;
            found.then(|| OwningPod {
                uid: pod.metadata.uid.clone(),
                extended_resource_claim: pod.extended_resource_claim().cloned(),
                resources: pod.resources(self.now),
            })
        })
    }

    fn has_older_claim(&self, namespace: &str, pod_uid: &str, than: (Timestamp, &str)) -> bool {
        self.claims.iter().map(|claim| &claim.metadata).any(|it| {
            let since = it.creation_timestamp.unwrap_or(Timestamp::EPOCH);
            it.namespace == namespace
                && it.made_for_pod().is_some_and(|uid| *uid == pod_uid)
                && (since, it.name.as_str()) < than
        })
    }
}
