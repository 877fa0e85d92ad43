//! Which workloads are charged for the pods that they make.
//!
//! Kubernetes charges each pod when it is created. So a deployment that does not fit is accepted, and fails where
//! nobody looks. An operator may have workloads charged instead:
//!
//! - A charged workload counts for its replicas (parallelism) times what a pod of its template counts for, as soon
//!   as it is created, changed or scaled.
//! - What a charged workload controls is not counted twice: such a pod counts only as `count/pods`, such a workload
//!   (the replica set of a deployment) only as itself. A pod of a deployment is controlled by a replica set; it is
//!   known by its `pod-template-hash` label, with which the name of the replica set ends.
//!
//! That rule looks at the object alone, so that what is observed counts the same in whatever order it is seen. When a
//! pod is to be created, the ledger also has to know the workload that is charged for it ([`Payer`]); otherwise the
//! pod is charged by itself until it is observed. A pod that only pretends to be controlled is let go of, or deleted,
//! by the controller that it names.

use std::collections::BTreeSet;

use crate::{
    Name, Timestamp,
    object::{self, Context, Footprint, GroupResource, Metadata, Object, OwnerReference},
    uid::Uid,
};

/// The kinds of workloads that are charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charging(BTreeSet<GroupResource>);

/// A kind that cannot be charged as a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChargingError {
    /// It is not the name of a kind.
    #[error(transparent)]
    NotAKind(#[from] object::ParseGroupResourceError),
    /// How many pods it makes does not stand in it.
    #[error("{0} cannot be charged for pods: {1}")]
    NoReplicas(GroupResource, &'static str),
}

/// The charged workload that an object says it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payer {
    /// It is the object's controller.
    Controller(Uid),
    /// It is the controller of the object's controller; its resource and name.
    Above(Name, Box<str>),
}

impl Charging {
    /// Charges these kinds, as `deployments.apps`.
    ///
    /// # Errors
    /// If one of them does not say in its spec how many pods of which template it makes.
    pub fn new<'k>(kinds: impl IntoIterator<Item = &'k str>) -> Result<Self, ChargingError> {
        let kinds = kinds.into_iter().map(|text| {
            let kind: GroupResource = text.parse()?;
            match why_not(&kind) {
                Some(why) => Err(ChargingError::NoReplicas(kind, why)),
                None => Ok(kind),
            }
        });
        kinds.collect::<Result<_, _>>().map(Self)
    }

    /// The kinds, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupResource> {
        self.0.iter()
    }

    /// Whether workloads of this kind are charged.
    #[must_use]
    pub fn charges(&self, kind: &GroupResource) -> bool {
        self.0.contains(kind)
    }

    /// Reads an object, a charged workload with its template.
    ///
    /// # Errors
    /// As [`Object::from_json`].
    pub fn read(&self, kind: &GroupResource, json: &[u8]) -> Result<Object, object::Error> {
        if !self.charges(kind) {
            return Object::from_json(kind, json);
        }
        Object::workload_from_json(kind, json)
    }

    /// What an object counts for at `now`: less than by itself if a charged workload pays for it.
    #[must_use]
    pub fn footprint(
        &self,
        kind: &GroupResource,
        object: &Object,
        now: Timestamp,
        context: &dyn Context,
    ) -> Footprint {
        let footprint = object.footprint(kind, now, context);
        match self.payer(object) {
            None => footprint,
            Some(_) => relieved(kind, &footprint),
        }
    }

    /// The charged workload that the object says it belongs to, if there is one.
    #[must_use]
    pub fn payer(&self, object: &Object) -> Option<Payer> {
        if self.0.is_empty() || !matches!(object, Object::Pod(_) | Object::Workload(_)) {
            return None;
        }
        let metadata = object.metadata();
        let controller = metadata.controller()?;
        if self.charges(&kind_of(controller)) {
            return Uid::new(&controller.uid).ok().map(Payer::Controller);
        }
        let deployments = GroupResource::new("apps", "deployments");
        let deployment = deployment_of(metadata, controller)?;
        self.charges(&deployments)
            .then(|| Payer::Above(deployments.to_string().into(), deployment.into()))
    }
}

/// What an object counts for that a charged workload pays for.
#[must_use]
pub fn relieved(kind: &GroupResource, footprint: &Footprint) -> Footprint {
    let itself = format!("count/{kind}");
    let alias = object::plain_count_name(kind);
    Footprint {
        resources: footprint
            .resources
            .mask(|name| name == itself || alias == Some(name)),
        traits: match &footprint.traits {
            object::Traits::Template { .. } => object::Traits::Plain,
            traits => traits.clone(),
        },
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
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    GroupResource {
        group: group.into(),
        resource: object::plural(group, &owner.kind),
    }
}

/// The deployment whose replica set controls the object: the controller is called `<deployment>-<hash>`.
fn deployment_of<'m>(metadata: &'m Metadata, controller: &'m OwnerReference) -> Option<&'m str> {
    let is_replica_set = kind_of(controller).is("apps", "replicasets");
    let hash = metadata.labels.pod_template_hash.as_ref()?;
    if !is_replica_set || hash.is_empty() {
        return None;
    }
    let deployment = controller.name.strip_suffix(hash.as_str())?;
    deployment.strip_suffix('-').filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::NoContext;

    fn counted(charging: &Charging, kind: &str, json: &str) -> (String, Option<Payer>) {
        let kind: GroupResource = kind.parse().unwrap();
        let object = charging.read(&kind, json.as_bytes()).unwrap();
        let footprint = charging.footprint(&kind, &object, Timestamp::EPOCH, &NoContext);
        (footprint.resources.pretty(), charging.payer(&object))
    }

    fn owned(by: &str, name: &str, hash: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"p","labels":{{"pod-template-hash":"{hash}","app":"x"}},
                "ownerReferences":[{{"apiVersion":"apps/v1","kind":"{by}","name":"{name}","uid":"u1","controller":true}}]}},
                "spec":{{"template":{{"spec":{{}}}}}}}}"#
        )
    }

    #[test]
    fn what_a_charged_workload_controls_counts_only_for_itself() {
        let charging = Charging::new(["deployments.apps", "statefulsets.apps"]).unwrap();
        let by_controller = Some(Payer::Controller(Uid::new("u1").unwrap()));
        assert_eq!(
            counted(&charging, "pods", &owned("StatefulSet", "db", "")),
            ("count/pods=1".to_owned(), by_controller.clone())
        );
        let deployment = Some(Payer::Above("deployments.apps".into(), "web".into()));
        assert_eq!(
            counted(
                &charging,
                "pods",
                &owned("ReplicaSet", "web-5d4f8", "5d4f8")
            ),
            ("count/pods=1".to_owned(), deployment)
        );

        let both = Charging::new(["deployments.apps", "replicasets.apps"]).unwrap();
        let replica_set = owned("Deployment", "web", "5d4f8");
        assert_eq!(
            counted(&both, "replicasets.apps", &replica_set),
            ("count/replicasets.apps=1".to_owned(), by_controller)
        );
    }

    #[test]
    fn what_nobody_pays_for_counts_in_full() {
        let charging = Charging::new(["deployments.apps"]).unwrap();
        for json in [
            owned("StatefulSet", "db", ""),
            owned("ReplicaSet", "web", ""),
            owned("ReplicaSet", "web-5d4f8", "other"),
            owned("ReplicaSet", "-5d4f8", "5d4f8"),
            r#"{"metadata":{"name":"p"}}"#.to_owned(),
        ] {
            let (resources, payer) = counted(&charging, "pods", &json);
            assert_eq!(
                (resources.as_str(), payer),
                ("count/pods=1,pods=1", None),
                "{json}"
            );
        }
        let (resources, payer) = counted(&Charging::default(), "deployments.apps", "{}");
        assert_eq!(
            (resources.as_str(), payer),
            ("count/deployments.apps=1", None)
        );
    }

    #[test]
    fn kinds_without_replicas_are_refused() {
        for kind in ["pods", "daemonsets.apps", "cronjobs.batch", "services", ""] {
            assert!(Charging::new([kind]).is_err(), "{kind}");
        }
        assert!(Charging::new(["rollouts.argoproj.io", "replicationcontrollers"]).is_ok());
    }
}
