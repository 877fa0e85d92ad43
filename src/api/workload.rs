//! The pods of a workload.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

/// The pods that a workload runs at once.
pub(super) struct Pods {
    /// A pod, as made from the template of the workload.
    pub(super) pod: Box<RawValue>,
    pub(super) replicas: u64,
}

/// The fields of all workloads that say what pods they run.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Workload<'a> {
    kind: &'a str,
    api_version: &'a str,
    #[serde(borrow)]
    spec: Option<Spec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    replicas: Option<u64>,
    parallelism: Option<u64>,
    completions: Option<u64>,
    #[serde(borrow)]
    template: Option<Template<'a>>,
    #[serde(borrow)]
    job_template: Option<JobTemplate<'a>>,
}

#[derive(Deserialize)]
struct JobTemplate<'a> {
    #[serde(borrow, default)]
    spec: Option<Box<Spec<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template<'a> {
    #[serde(borrow)]
    metadata: Option<TemplateMetadata<'a>>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateMetadata<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Pod<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata<'a>,
    spec: &'a RawValue,
}

#[derive(serde::Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<&'a RawValue>,
}

impl Pods {
    /// The pods of a Deployment, ReplicaSet, StatefulSet, ReplicationController, Job or CronJob; none for other objects,
    /// and for what cannot be read.
    pub(super) fn of(object: &str) -> Option<Self> {
        let workload: Workload<'_> = serde_json::from_str(object).ok()?;
        let group = workload.api_version.split_once('/').map_or("", |(group, _)| group);
        let spec = workload.spec?;
        let (spec, replicas) = match (group, workload.kind) {
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
            | ("", "ReplicationController") => {
                let replicas = spec.replicas.unwrap_or(1);
                (spec, replicas)
            }
            ("batch", "Job") => at_once(spec),
            ("batch", "CronJob") => at_once(*spec.job_template?.spec?),
            _ => return None,
        };
        let template = spec.template?;
        let pod = Pod {
            api_version: "v1",
            kind: "Pod",
            metadata: Metadata { labels: template.metadata.unwrap_or_default().labels },
            spec: template.spec?,
        };
        Some(Self { pod: to_raw_value(&pod).ok()?, replicas })
    }
}

/// The pods that a job runs at once: no more than it has to complete.
fn at_once(spec: Spec<'_>) -> (Spec<'_>, u64) {
    let parallelism = spec.parallelism.unwrap_or(1);
    let most = spec.completions.map_or(parallelism, |count| parallelism.min(count));
    (spec, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(object: &str) -> Option<u64> {
        Pods::of(object).map(|pods| pods.replicas)
    }

    #[test]
    fn each_kind_of_workload_says_how_many_pods_it_runs_at_once() {
        let template =
            r#""template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}"#;
        for (kind, fields, expected) in [
            ("apps/v1/Deployment", r#""replicas":3,"#, Some(3)),
            ("apps/v1/StatefulSet", "", Some(1)),
            ("v1/ReplicationController", r#""replicas":null,"#, Some(1)),
            ("batch/v1/Job", r#""parallelism":4,"completions":2,"#, Some(2)),
            ("batch/v1/Job", r#""parallelism":4,"#, Some(4)),
            ("apps/v1/DaemonSet", "", None),
            ("example.com/v1/Deployment", "", None),
        ] {
            let (version, kind) = kind.rsplit_once('/').unwrap();
            let object = format!(
                r#"{{"apiVersion":"{version}","kind":"{kind}","spec":{{{fields}{template}}}}}"#
            );
            assert_eq!(replicas(&object), expected, "{object}");
        }
        let pod = Pods::of(&format!(
            r#"{{"apiVersion":"batch/v1","kind":"CronJob","spec":{{"jobTemplate":{{"spec":{{{template}}}}}}}}}"#
        ));
        assert_eq!(
            pod.unwrap().pod.get(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"}},"spec":{"containers":[]}}"#
        );
        for other in ["{}", "[]", r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#] {
            assert_eq!(replicas(other), None);
        }
    }
}
