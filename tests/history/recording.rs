//! The recorded files.

use std::path::Path;

use quota_semantics::{Timestamp, resource::ResourceList};
use serde::Deserialize;

pub(crate) struct Recording {
    pub(crate) lines: Vec<String>,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// What the real controller said after so many lines.
#[derive(Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) checkpoint: u32,
    pub(crate) after_line: usize,
    pub(crate) time: Timestamp,
    pub(crate) quotas: Vec<Quota>,
}

#[derive(Deserialize)]
pub(crate) struct Quota {
    pub(crate) namespace: String,
    pub(crate) name: String,
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    used: ResourceList,
}

impl Recording {
    pub(crate) fn load() -> Self {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        let read = |name: &str| std::fs::read_to_string(vectors.join(name)).unwrap();
        let checkpoints = read("history-a.checkpoints.jsonl");
        Self {
            lines: read("history-a.events.jsonl").lines().map(str::to_owned).collect(),
            checkpoints: checkpoints
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }
}

/// Compares every value of a checkpoint, and answers how many there were.
pub(crate) fn compare(
    checkpoint: &Checkpoint,
    used: impl Fn(&str, &str) -> Option<ResourceList>,
) -> usize {
    let (compared, wrong) = differences(checkpoint, used);
    assert!(wrong.is_empty(), "checkpoint {}:\n{}", checkpoint.checkpoint, wrong.join("\n"));
    compared
}

/// How many values a checkpoint has, and which of them are not ours.
pub(crate) fn differences(
    checkpoint: &Checkpoint,
    used: impl Fn(&str, &str) -> Option<ResourceList>,
) -> (usize, Vec<String>) {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for quota in &checkpoint.quotas {
        let Quota { namespace, name, status } = quota;
        let Some(ours) = used(namespace, name) else {
            wrong.push(format!("there is no quota {namespace}/{name}"));
            continue;
        };
        for (resource, expected) in status.used.iter() {
            compared += 1;
            if ours.get(resource) != Some(expected) {
                wrong.push(format!(
                    "{namespace}/{name} {resource}: {:?}, not {expected}",
                    ours.get(resource)
                ));
            }
        }
        let more = ours.names().find(|resource| status.used.get(*resource).is_none());
        wrong.extend(
            more.map(|resource| format!("{namespace}/{name} {resource} has no used in Kubernetes")),
        );
    }
    (compared, wrong)
}
