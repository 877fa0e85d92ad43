//! Workloads: objects that create pods from a template, charged for all of them at once.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    Footprint, GroupResource, Traits, count,
    metadata::{Labels, Metadata},
    names::COUNT_PODS,
    pod::Pod,
};
use crate::{Name, Timestamp, nullable::nullable_fields, resource::ResourceList};

nullable_fields! {
    /// A workload with the fields that quota rules use: its template, and the number of its pods.
    pub struct Workload {
        /// Its metadata.
        pub metadata: Metadata,
        spec: Spec,
        status: Status,
    }

    struct Spec {
        replicas: Option<i64>,
        parallelism: Option<i64>,
        completions: Option<i64>,
        suspend: bool,
        template: Pod,
    }

    struct Status {
        succeeded: Option<i64>,
        conditions: Vec<Condition>,
    }

    struct Condition {
        #[serde(rename = "type")]
        kind: Name,
        status: Name,
    }
}

impl Workload {
    /// A workload from the JSON of its parts.
    ///
    /// # Errors
    /// When a field that counts has the wrong type.
    pub fn from_parts(
        metadata: Metadata,
        spec: Option<&RawValue>,
        status: Option<&RawValue>,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self { metadata, spec: read(spec)?, status: read(status)? })
    }

    /// The footprint of the workload: itself, and its replicas times the amounts of a pod of its template.
    ///
    /// `count/pods` is left out: the pods count there by themselves. So are the additional pods during a roll-out.
    pub fn footprint(&self, kind: &GroupResource) -> Footprint {
        let itself = Footprint {
            resources: count::resources(kind),
            traits: self.traits(),
            ..Footprint::default()
        };
        itself.scaled(self.replicas(kind)).unwrap_or(itself)
    }

    /// The traits of its pods, and the amounts of one of them.
    pub fn traits(&self) -> Traits {
        let pod = self.pod();
        let mut replica = pod.resources(Timestamp::EPOCH);
        replica.remove(&COUNT_PODS);
        Traits::Template { pod: pod.traits(), replica }
    }

    /// As [`Pod::steps`], of a pod of its template.
    pub(super) fn steps(&self) -> usize {
        self.spec.template.steps()
    }

    /// The requirements of quotas on cpu or memory that the template's containers do not meet.
    pub fn missing_requirements(&self, required: &[&str]) -> Option<String> {
        self.pod().missing_requirements(required)
    }

    /// A pod of the template, with the defaults that the API server sets on creation.
    fn pod(&self) -> Pod {
        let mut pod = self.spec.template.clone();
        pod.set_api_defaults();
        pod
    }

    /// As [`Object::condense`](super::Object::condense), with the pod of its template.
    pub(super) fn condense(&mut self, max_bytes: usize) -> usize {
        let mut pod = self.pod();
        let left_out = pod.condense(max_bytes);
        pod.metadata.labels = Labels::default();
        self.spec.template = pod;
        self.status.conditions.retain(Condition::is_of_the_end);
        self.status.conditions.truncate(1);
        left_out
    }

    /// The number of pods that the workload keeps alive. A job keeps as many as it may run at once, but no more than it
    /// still has to complete.
    fn replicas(&self, kind: &GroupResource) -> u64 {
        let Spec { replicas, parallelism, completions, suspend, .. } = &self.spec;
        let replicas = if kind.is("batch", "jobs") {
            let open = completions.map_or(i64::MAX, |completions| {
                completions.saturating_sub(self.status.succeeded.unwrap_or(0))
            });
            let at_rest = *suspend || self.is_finished();
            if at_rest { 0 } else { parallelism.unwrap_or(1).min(open) }
        } else {
            replicas.unwrap_or(1)
        };
        u64::try_from(replicas).unwrap_or(0)
    }

    fn is_finished(&self) -> bool {
        self.status.conditions.iter().any(Condition::is_of_the_end)
    }
}

impl Condition {
    /// Whether it says that a job has ended.
    fn is_of_the_end(&self) -> bool {
        self.status == "True" && (self.kind == "Complete" || self.kind == "Failed")
    }
}

/// Both `null` and an absent value are read as the empty value.
fn read<T: DeserializeOwned + Default>(json: Option<&RawValue>) -> Result<T, serde_json::Error> {
    let read = json.map(|json| serde_json::from_str::<Option<T>>(json.get()));
    Ok(read.transpose()?.flatten().unwrap_or_default())
}

impl Footprint {
    /// The footprint of a workload that is not charged for its pods; `None` if this is not the footprint of a charged
    /// one.
    pub fn itself(&self) -> Option<Self> {
        let Traits::Template { replica, .. } = &self.traits else {
            return None;
        };
        Some(Self {
            resources: self.resources.mask(|name| replica.get(name).is_none()),
            traits: Traits::Plain,
            labels: self.labels.clone(),
            payer: None,
        })
    }

    /// The footprint of the same workload with another number of replicas; `None` if this is not a workload's.
    pub fn scaled(&self, replicas: u64) -> Option<Self> {
        let Traits::Template { replica, .. } = &self.traits else {
            return None;
        };
        let mut resources: ResourceList = self.resources.mask(|name| replica.get(name).is_none());
        let times = |(name, amount): (&Name, &crate::quantity::Quantity)| {
            (name.clone(), amount.times(replicas))
        };
        resources.add(&replica.iter().map(times).collect());
        Some(self.with_resources(resources))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(kind: &GroupResource, json: &str) -> String {
        let workload: Workload = serde_json::from_str(json).unwrap();
        workload.footprint(kind).resources.pretty()
    }

    const TEMPLATE: &str = r#""template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[
        {"name":"c","resources":{"requests":{"cpu":"250m"},"limits":{"memory":"1Gi"}}}]}}"#;

    #[test]
    fn a_deployment_counts_for_itself_and_its_replicas() {
        let kind = GroupResource::new("apps", "deployments");
        let of =
            |replicas: &str| footprint(&kind, &format!(r#"{{"spec":{{{replicas}{TEMPLATE}}}}}"#));
        let four = "count/deployments.apps=1,cpu=1,limits.memory=4Gi,memory=4Gi,pods=4,\
                    requests.cpu=1,requests.memory=4Gi";
        assert_eq!(of(r#""replicas":4,"#), four);
        assert!(of("").contains("pods=1"), "one replica is the default");
        assert!(of(r#""replicas":0,"#).contains("pods=0"));
    }

    #[test]
    fn a_job_counts_for_what_it_still_runs() {
        let kind = GroupResource::new("batch", "jobs");
        let pods = |spec: &str, status: &str| {
            let json = format!(r#"{{"spec":{{{spec},{TEMPLATE}}},"status":{{{status}}}}}"#);
            let all = footprint(&kind, &json);
            all.split(',').find(|part| part.starts_with("pods=")).unwrap().to_owned()
        };
        assert_eq!(pods(r#""parallelism":3"#, ""), "pods=3");
        assert_eq!(pods(r#""parallelism":3,"completions":2"#, ""), "pods=2");
        assert_eq!(pods(r#""parallelism":3,"completions":4"#, r#""succeeded":3"#), "pods=1");
        assert_eq!(pods(r#""parallelism":3,"suspend":true"#, ""), "pods=0");
        let finished = r#""conditions":[{"type":"Complete","status":"True"}]"#;
        assert_eq!(pods(r#""parallelism":3"#, finished), "pods=0");
    }

    #[test]
    fn scaling_is_what_another_number_of_replicas_counts_for() {
        let kind = GroupResource::new("apps", "deployments");
        let of = |replicas: u64| {
            let json = format!(r#"{{"spec":{{"replicas":{replicas},{TEMPLATE}}}}}"#);
            serde_json::from_str::<Workload>(&json).unwrap().footprint(&kind)
        };
        for (from, to) in [(0, 5), (5, 0), (3, 7)] {
            assert_eq!(of(from).scaled(to), Some(of(to)));
        }
        assert_eq!(Footprint::default().scaled(2), None);
        let itself = of(3).itself().unwrap();
        assert_eq!(itself.resources.pretty(), "count/deployments.apps=1");
        assert_eq!((itself.itself(), itself.traits), (None, Traits::Plain));
    }
}
