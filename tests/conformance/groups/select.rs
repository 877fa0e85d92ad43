//! Which namespaces a ClusterResourceQuota selects.

use quota_semantics::group::Selector;
use serde_json::Value;

use super::{read, text};
use crate::conformance::vectors::{same, same_text};

pub(crate) fn run(case: &Value) -> Result<(), String> {
    let selector: Selector = read(case, "selector")?;
    let namespace = &case["namespace"];
    let labels = read::<Option<_>>(namespace, "labels")?.unwrap_or_default();
    let annotations = read::<Option<_>>(namespace, "annotations")?.unwrap_or_default();
    match selector.check() {
        Err(error) => same_text("error", &error.to_string(), &case["error"]),
        Ok(()) => same(
            "matches",
            &selector.matches(text(namespace, "name"), Some((&labels, &annotations))),
            &case["matches"].as_bool(),
        ),
    }
}
