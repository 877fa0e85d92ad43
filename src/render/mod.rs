//! What is stored, as clients see it: in the wire types of `/v1`, and as the manifests of the Kubernetes API. Below both.

pub(crate) mod group;
pub(crate) mod quota;
pub(crate) mod reservation;

use std::collections::BTreeMap;

use quota_core::event::NamespaceRecord;
use quota_semantics::group::selector::NAME_LABEL;

/// The labels of a namespace: those that were observed, and the one with its name, which every namespace has.
pub(crate) fn labels_of(name: &str, record: Option<&NamespaceRecord>) -> BTreeMap<String, String> {
    let observed = record.into_iter().flat_map(|record| &record.labels);
    let observed = observed.map(|(key, value)| (key.to_string(), value.to_string()));
    observed.chain([(NAME_LABEL.to_owned(), name.to_owned())]).collect()
}
