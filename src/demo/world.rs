//! The made-up company: what it has, and what creates its pods.

use quota_semantics::yaml;
use serde_json::{Value, json};

/// What `world.yaml` says.
pub(super) struct World {
    /// The objects, in order.
    pub(super) objects: Vec<Value>,
    pub(super) workloads: Vec<Workload>,
}

/// What creates pods.
pub(super) struct Workload {
    namespace: String,
    pub(super) name: String,
    pub(super) pattern: Pattern,
    spec: Value,
}

/// How many pods a workload has.
#[derive(Clone, Copy)]
pub(super) enum Pattern {
    /// Replicas at night, and in the busiest hour.
    Replicas(u64, u64),
    /// Jobs that begin in the busiest hour, and the minutes that each takes.
    Jobs(u64, u64),
}

/// How busy each hour before the end of the past is, in percent: it ends in an afternoon.
const BUSY: [u64; 24] =
    [100, 100, 95, 90, 85, 75, 60, 40, 25, 10, 5, 0, 0, 0, 0, 5, 10, 20, 35, 50, 65, 80, 90, 100];

/// How busy the company is so many minutes before the end, in percent: two of the days are a weekend.
pub(super) fn busy(minutes_before: i64) -> u64 {
    let hours = usize::try_from(minutes_before / 60).unwrap_or(0);
    let busy = BUSY[hours % BUSY.len()];
    match hours / BUSY.len() {
        3 | 4 => busy / 4,
        _ => busy,
    }
}

impl World {
    pub(super) fn load() -> Result<Self, yaml::Error> {
        let mut objects = yaml::objects(include_str!("world.yaml"))?;
        for object in &mut objects {
            let metadata = &object["metadata"];
            let text = |value: &Value| value.as_str().unwrap_or("all").to_lowercase();
            let (kind, namespace) = (text(&object["kind"]), text(&metadata["namespace"]));
            object["metadata"]["uid"] =
                json!(format!("{kind}-{namespace}-{}", text(&metadata["name"])));
        }
        let workloads = objects.iter().filter_map(Workload::of).collect();
        Ok(Self { objects, workloads })
    }

    /// Before how many hours an object was changed to what is here; none: it is so from the beginning.
    pub(super) fn hours_ago(&self, object: usize) -> Option<u64> {
        let annotations = &self.objects[object]["metadata"]["annotations"];
        annotations["hours-ago"].as_str()?.parse().ok()
    }
}

impl Workload {
    /// The workload that an object is.
    fn of(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        let numbers = |key: &str| {
            let text = metadata["annotations"][key].as_str()?;
            let (first, second) = text.split_once(' ')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let replicas = numbers("replicas").map(|(night, day)| Pattern::Replicas(night, day));
        let jobs = || numbers("jobs").map(|(count, minutes)| Pattern::Jobs(count, minutes));
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            name: metadata["name"].as_str()?.to_owned(),
            pattern: replicas.or_else(jobs)?,
            spec: object["spec"]["template"]["spec"].clone(),
        })
    }

    /// One of its pods.
    pub(super) fn pod(&self, name: &str, uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "spec": self.spec,
            "metadata": {"namespace": self.namespace, "name": name, "uid": uid},
        })
    }
}
