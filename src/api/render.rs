//! A quota as a v1 ResourceQuota: as it is shown, and as it is stored.

use http::HeaderValue;
use quota_client::wire::Holder;
use quota_core::{
    event::{QuotaRecord, Sequence},
    state::{Figure, Head, QuotaView},
};
use quota_semantics::{
    Name, Timestamp,
    admission::Coverage,
    quantity::Quantity,
    quota::{
        Manifest, Spec,
        manifest::{API_VERSION, KIND, Metadata},
    },
    resource::ResourceList,
};
use serde::Serialize;

use super::{precondition, reservations::holder};

/// A ResourceQuota with its numbers, ready to be serialized.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    spec: &'a Spec,
    status: Status<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Head>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
    #[serde(skip)]
    entry: Sequence,
}

/// As in Kubernetes, with what is reserved beside it.
#[derive(Debug, Serialize)]
struct Status<'a> {
    hard: &'a ResourceList,
    used: ResourceList,
    reserved: ResourceList,
    reservations: Vec<Hold<'a>>,
    #[serde(rename = "reservationsOmitted", skip_serializing_if = "is_zero")]
    omitted: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[Condition; 1]>,
}

/// As Kubernetes writes conditions. The only one says which limits nothing keeps; without it all are kept.
#[derive(Debug, Serialize)]
struct Condition {
    r#type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Which limits are not enforced, in a sentence for people; none: all are.
#[must_use]
pub fn not_enforced(hard: &ResourceList, coverage: &Coverage) -> Option<String> {
    let names: Vec<&str> = coverage.uncovered(hard).map(|name| &**name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "not enforced: {}: the webhook's rules do not list what they count (admission.count)",
            names.join(", ")
        )
    })
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hold<'a> {
    reserved_by: Holder<'a>,
    reserved: &'a ResourceList,
    expiration_time: Timestamp,
}

impl<'a> ResourceQuota<'a> {
    /// A quota with its numbers. `coverage` says which limits are enforced.
    #[must_use]
    pub fn of(view: &'a QuotaView, coverage: &Coverage) -> Self {
        let holds = view.holds.iter().map(|(reservation, reserved)| Hold {
            reserved_by: holder(reservation),
            reserved,
            expiration_time: reservation.expiration,
        });
        Self {
            api_version: API_VERSION,
            kind: KIND,
            metadata: metadata(&view.record, view.entry),
            spec: &view.record.spec,
            status: Status {
                hard: &view.record.spec.hard,
                used: numbers(&view.figures, |figure| figure.used.clone()),
                reserved: numbers(&view.figures, |figure| Some(figure.reserved.clone())),
                reservations: holds.collect(),
                omitted: view.holds_omitted,
                conditions: not_enforced(&view.record.spec.hard, coverage).map(|message| {
                    [Condition {
                        r#type: "Enforced",
                        status: "False",
                        reason: "NotAskedAbout",
                        message,
                    }]
                }),
            },
            as_of: None,
            lagging: false,
            entry: view.entry,
        }
    }
}

impl ResourceQuota<'_> {
    /// The same, with how far the ledger was, and whether a source is behind.
    #[must_use]
    pub fn as_of(self, head: Head, lagging: bool) -> Self {
        Self {
            as_of: Some(head),
            lagging,
            ..self
        }
    }

    /// Its entity tag: another one when it is set anew, and when its numbers change.
    #[must_use]
    pub fn tag(&self) -> HeaderValue {
        let status = serde_json::to_vec(&self.status).unwrap_or_default();
        precondition::tag(self.entry, &status)
    }
}

fn numbers(figures: &[Figure], number: impl Fn(&Figure) -> Option<Quantity>) -> ResourceList {
    let of = |figure: &Figure| Some((figure.resource.clone(), number(figure)?));
    figures.iter().filter_map(of).collect()
}

/// The metadata of a quota; its resourceVersion is the entry that set it.
#[must_use]
pub fn metadata(record: &QuotaRecord, entry: Sequence) -> Metadata {
    Metadata {
        name: record.name.clone(),
        namespace: record.namespace.clone(),
        uid: record.uid.to_string(),
        resource_version: entry.to_string(),
        creation_timestamp: Some(record.created),
        // What is stored was written by `stored_metadata`; an adopted quota may have none.
        ..serde_json::from_str(&record.metadata).unwrap_or_default()
    }
}

/// A quota as a manifest without its numbers, to be compared with a changed one.
#[must_use]
pub fn manifest(record: &QuotaRecord, entry: Sequence) -> Manifest {
    let mut manifest = Manifest::default();
    API_VERSION.clone_into(&mut manifest.api_version);
    KIND.clone_into(&mut manifest.kind);
    manifest.metadata = metadata(record, entry);
    manifest.spec = record.spec.clone();
    manifest
}

/// What of a manifest's metadata is stored beside the fields that the record has of its own.
#[must_use]
pub fn stored_metadata(metadata: &Metadata) -> Box<str> {
    let stored = Metadata {
        name: Name::default(),
        generate_name: String::new(),
        namespace: Name::default(),
        uid: String::new(),
        resource_version: String::new(),
        creation_timestamp: None,
        ..metadata.clone()
    };
    if stored == Metadata::default() {
        return Box::default();
    }
    serde_json::to_string(&stored).unwrap_or_default().into()
}
