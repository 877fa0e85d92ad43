//! Workloads that are charged for their pods.
//!
//! Kubernetes charges each pod when it is created. So a deployment that does not fit is accepted, and only its replica
//! set reports the failure. An operator can have workloads charged instead:
//!
//! - A charged workload counts for its replicas (parallelism) times the footprint of a pod of its template, as soon as
//!   it is created, changed or scaled.
//! - A pod that names a charged workload as its owner is a replica ([`Traits::Replica`]). For each name, limits count
//!   the larger of the charges of workloads and the need of replicas ([`Amount`](object::Amount)). So pods of a
//!   workload are not counted twice, and pods without a charge count, whatever owner they name.
//! - A workload that a charged workload controls (the replica set of a deployment) counts only as one object, and is
//!   charged nothing for its pods. Users write owner references, so the ledger decides that: only a controller that it
//!   has recorded pays ([`Footprint::payer`]).
//!
//! A pod of a deployment is controlled by a replica set; the name of the replica set ends with the pod's
//! `pod-template-hash` label.
//!
//! The other rules read the object alone, so that observed objects count the same in any order.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::{
    Name, Timestamp,
    object::{self, Context, Footprint, GroupResource, Metadata, Object, OwnerReference, Traits},
    uid::Uid,
};

/// The operator's settings for counting: the kinds of workloads that are charged, and the labels of objects by which
/// groups may select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charging {
    kinds: BTreeSet<GroupResource>,
    /// The labels of objects by which groups may select.
    object_labels: BTreeSet<Name>,
}

/// A kind that cannot be charged as a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChargingError {
    /// The text is not the name of a kind.
    #[error(transparent)]
    NotAKind(#[from] object::ParseGroupResourceError),
    /// The number of pods is not part of the workload's spec.
    #[error("{0} cannot be charged for pods: {1}")]
    NoReplicas(GroupResource, &'static str),
}

impl Charging {
    /// Charges workloads of these kinds, as `deployments.apps`.
    ///
    /// # Errors
    /// If the spec of one of them does not hold a pod template and the number of its pods.
    pub fn new<'k>(kinds: impl IntoIterator<Item = &'k str>) -> Result<Self, ChargingError> {
        let kinds = kinds.into_iter().map(|text| {
            let kind: GroupResource = text.parse()?;
            match why_not(&kind) {
                Some(why) => Err(ChargingError::NoReplicas(kind, why)),
                None => Ok(kind),
            }
        });
        Ok(Self { kinds: kinds.collect::<Result<_, _>>()?, object_labels: BTreeSet::new() })
    }

    /// Records these labels of every object, for the selectors of groups.
    #[must_use]
    pub fn with_object_labels<'k>(self, keys: impl IntoIterator<Item = &'k str>) -> Self {
        Self { object_labels: keys.into_iter().map(Name::from).collect(), ..self }
    }

    /// The labels of objects by which groups may select.
    pub const fn object_labels(&self) -> &BTreeSet<Name> {
        &self.object_labels
    }

    /// Drops the labels that no decision uses.
    pub fn prune(&self, object: &mut Object) {
        let is_needed = |key: &str| {
            key == object::Labels::POD_TEMPLATE_HASH || self.object_labels.contains(key)
        };
        object.metadata_mut().labels.retain(is_needed);
    }

    /// The kinds, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupResource> {
        self.kinds.iter()
    }

    /// Whether workloads of this kind are charged.
    pub fn charges(&self, kind: &GroupResource) -> bool {
        self.kinds.contains(kind)
    }

    /// Reads an object. A charged workload is read with its template.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn read(&self, kind: &GroupResource, json: &[u8]) -> Result<Object, object::Error> {
        if !self.charges(kind) {
            return Object::from_json(kind, json);
        }
        Object::workload_from_json(kind, json)
    }

    /// As [`Self::read`], from the parts of an object by their names: its metadata, spec and status.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn read_parts<'a>(
        &self,
        kind: &GroupResource,
        parts: impl Iterator<Item = (&'static str, &'a RawValue)>,
    ) -> Result<Object, object::Error> {
        Object::from_parts(kind, self.charges(kind), parts)
    }

    /// The footprint of an object at `now`. If it is a workload with a payer, that may have to be taken away.
    pub fn footprint(
        &self,
        kind: &GroupResource,
        object: &Object,
        now: Timestamp,
        context: &dyn Context,
    ) -> Footprint {
        let footprint = self.in_full(kind, object, now, context);
        if !self.is_of_a_workload(object) {
            return footprint;
        }
        match footprint.traits {
            Traits::Pod(pod) => Footprint { traits: Traits::Replica(pod), ..footprint },
            Traits::Template { .. } => {
                let controller = object.metadata().controller();
                let payer = controller.and_then(|controller| Uid::new(&controller.uid).ok());
                Footprint { payer: payer.map(Box::new), ..footprint }
            }
            _ => footprint,
        }
    }

    /// The footprint of an object at `now` by itself, without regard to charges of its owners. Its amounts are canonical.
    pub fn in_full(
        &self,
        kind: &GroupResource,
        object: &Object,
        now: Timestamp,
        context: &dyn Context,
    ) -> Footprint {
        let mut footprint = object.footprint(kind, now, context);
        footprint.resources.make_canonical();
        if let Traits::Template { replica, .. } = &mut footprint.traits {
            replica.make_canonical();
        }
        footprint.labels = object.metadata().labels.of_keys(&self.object_labels);
        footprint
    }

    /// Whether the object names a charged workload as its owner.
    fn is_of_a_workload(&self, object: &Object) -> bool {
        if self.kinds.is_empty() || !matches!(object, Object::Pod(_) | Object::Workload(_)) {
            return false;
        }
        let metadata = object.metadata();
        let Some(controller) = metadata.controller() else {
            return false;
        };
        let deployments = GroupResource::new("apps", "deployments");
        self.charges(&kind_of(controller))
            || self.charges(&deployments) && is_of_a_deployment(metadata, controller)
    }
}

fn why_not(kind: &GroupResource) -> Option<&'static str> {
    match (kind.group.as_str(), kind.resource.as_str()) {
        ("", "pods") => Some("pods are charged by themselves"),
        ("apps", "daemonsets") => Some("it makes one for each node"),
        ("batch", "cronjobs") => Some("it makes jobs; charge jobs.batch"),
        ("", "services" | "persistentvolumeclaims") | ("resource.k8s.io", "resourceclaims") => {
            Some("it makes none")
        }
        _ => None,
    }
}

fn kind_of(owner: &OwnerReference) -> GroupResource {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    GroupResource { group: group.into(), resource: object::plural(group, &owner.kind) }
}

/// Whether the controller is the replica set of a deployment: it is called `<deployment>-<hash>`.
fn is_of_a_deployment(metadata: &Metadata, controller: &OwnerReference) -> bool {
    let is_replica_set = kind_of(controller).is("apps", "replicasets");
    let hash = metadata.labels.pod_template_hash().map(Name::as_str);
    let Some(hash) = hash.filter(|hash| is_replica_set && !hash.is_empty()) else {
        return false;
    };
    let deployment = controller.name.strip_suffix(hash);
    let deployment = deployment.and_then(|name| name.strip_suffix('-'));
    deployment.is_some_and(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::NoContext;

    fn counted(charging: &Charging, kind: &str, json: &str) -> (String, bool) {
        let kind: GroupResource = kind.parse().unwrap();
        let object = charging.read(&kind, json.as_bytes()).unwrap();
        let footprint = charging.footprint(&kind, &object, Timestamp::EPOCH, &NoContext);
        let is_replica = matches!(footprint.traits, Traits::Replica(_));
        (footprint.resources.pretty(), is_replica)
    }

    fn owned(by: &str, name: &str, hash: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"p","labels":{{"pod-template-hash":"{hash}","app":"x"}},
                "ownerReferences":[{{"apiVersion":"apps/v1","kind":"{by}","name":"{name}","uid":"u1","controller":true}}]}},
                "spec":{{"template":{{"spec":{{}}}}}}}}"#
        )
    }

    const POD: &str = "count/pods=1,pods=1";

    #[test]
    fn a_pod_of_a_charged_workload_is_a_replica_with_all_that_it_needs() {
        let charging = Charging::new(["deployments.apps", "statefulsets.apps"]).unwrap();
        let replica = (POD.to_owned(), true);
        let counted = |json: String| counted(&charging, "pods", &json);
        assert_eq!(counted(owned("StatefulSet", "db", "")), replica);
        assert_eq!(counted(owned("ReplicaSet", "web-5d4f8", "5d4f8")), replica);
    }

    #[test]
    fn a_workload_of_a_charged_workload_has_a_payer_and_may_count_only_for_itself() {
        let both = Charging::new(["deployments.apps", "replicasets.apps"]).unwrap();
        let footprint = |by: &str| {
            let kind = GroupResource::new("apps", "replicasets");
            let object = both.read(&kind, owned(by, "web", "5d4f8").as_bytes());
            both.footprint(&kind, &object.unwrap(), Timestamp::EPOCH, &NoContext)
        };
        let replica_set = footprint("Deployment");
        assert_eq!(replica_set.payer.as_deref(), Some(&Uid::new("u1").unwrap()));
        assert!(replica_set.resources.pretty().contains(",pods=1"));
        let itself = replica_set.itself().unwrap();
        assert_eq!(itself.resources.pretty(), "count/replicasets.apps=1");
        assert_eq!(footprint("DaemonSet").payer, None);
    }

    #[test]
    fn what_nobody_pays_for_counts_by_itself() {
        let charging = Charging::new(["deployments.apps"]).unwrap();
        for json in [
            owned("StatefulSet", "db", ""),
            owned("ReplicaSet", "web", ""),
            owned("ReplicaSet", "web-5d4f8", "other"),
            owned("ReplicaSet", "-5d4f8", "5d4f8"),
            r#"{"metadata":{"name":"p"}}"#.to_owned(),
        ] {
            let counted = counted(&charging, "pods", &json);
            assert_eq!(counted, (POD.to_owned(), false), "{json}");
        }
        assert_eq!(
            counted(&Charging::default(), "deployments.apps", "{}").0,
            "count/deployments.apps=1"
        );
    }

    #[test]
    fn the_labels_that_groups_choose_by_are_recorded_and_no_others() {
        let charging = Charging::new(["deployments.apps"]).unwrap();
        let charging = charging.with_object_labels(["app", "tier"]);
        let long = "x".repeat(64);
        let json = format!(
            r#"{{"metadata":{{"labels":{{"app":"web","tier":"{long}","other":"x","pod-template-hash":"5d4f8"}}}}}}"#
        );
        for kind in ["pods", "configmaps", "deployments.apps"] {
            let kind: GroupResource = kind.parse().unwrap();
            let mut object = charging.read(&kind, json.as_bytes()).unwrap();
            let of =
                |object: &Object| charging.footprint(&kind, object, Timestamp::EPOCH, &NoContext);
            let footprint = of(&object);
            assert_eq!(footprint.labels, [("app".into(), "web".into())].into());
            charging.prune(&mut object);
            assert_eq!(of(&object), footprint);
            let pruned = serde_json::to_string(&object).unwrap();
            assert!(pruned.contains("5d4f8") && !pruned.contains("other"), "{pruned}");
        }
    }

    #[test]
    fn kinds_without_replicas_are_refused() {
        for kind in ["pods", "daemonsets.apps", "cronjobs.batch", "services", ""] {
            assert!(Charging::new([kind]).is_err(), "{kind}");
        }
        assert!(Charging::new(["rollouts.argoproj.io", "replicationcontrollers"]).is_ok());
    }
}
