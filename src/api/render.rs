//! Renders a quota as a v1 ResourceQuota for responses, and its metadata for storage.

use std::borrow::Cow;

use http::HeaderValue;
use quota_client::wire::{Quota, QuotaReservation, QuotaStatus};
use quota_core::{
    event::{QuotaRecord, Sequence},
    state::{Head, QuotaView},
};
use quota_semantics::{
    Name,
    quota::{
        Manifest,
        manifest::{API_VERSION, KIND, Metadata},
    },
};
use serde::Serialize;

use super::{answer, groups::numbers, precondition, reservations::holder};
use crate::enforcement::Enforcement;

/// A ResourceQuota with its numbers, ready to be serialized.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ResourceQuota<'a> {
    body: Quota<'a>,
    #[serde(skip)]
    entry: Sequence,
}

impl<'a> ResourceQuota<'a> {
    /// A quota with its numbers. Its conditions name the limits that are not in force.
    #[must_use]
    pub fn of(view: &'a QuotaView, enforcement: &Enforcement) -> Self {
        let holds = view.holds.iter().map(|(reservation, reserved)| QuotaReservation {
            reserved_by: holder(reservation),
            reserved: Cow::Borrowed(reserved),
            expiration_time: reservation.expiration,
        });
        let body = Quota {
            api_version: Cow::Borrowed(API_VERSION),
            kind: Cow::Borrowed(KIND),
            metadata: metadata(&view.record, view.entry),
            spec: Cow::Borrowed(&view.record.spec),
            status: QuotaStatus {
                hard: Cow::Owned(numbers(&view.figures, |figure| Some(figure.hard.clone()))),
                used: numbers(&view.figures, |figure| figure.used.clone()),
                reserved: numbers(&view.figures, |figure| Some(figure.reserved.clone())),
                reservations: holds.collect(),
                reservations_omitted: view.holds_omitted,
                conditions: enforcement.conditions(&view.record.spec.hard),
            },
            as_of: None,
            lagging: false,
        };
        let entry = view.entry;
        Self { body, entry }
    }

    /// The same, with the position of the ledger, and whether a source lags.
    #[must_use]
    pub fn as_of(mut self, head: Head, lagging: bool) -> Self {
        self.body.as_of = Some(answer::as_of(head));
        self.body.lagging = lagging;
        self
    }

    /// The quota's entity tag: it changes when the quota is set anew and when its numbers change.
    #[must_use]
    pub fn tag(&self) -> HeaderValue {
        let status = serde_json::to_vec(&self.body.status).unwrap_or_default();
        precondition::tag(self.entry, &status)
    }
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
        // The stored metadata was written by `stored_metadata`; an adopted quota may have none.
        ..serde_json::from_str(&record.metadata).unwrap_or_default()
    }
}

/// A quota as a manifest without its numbers, for comparison with a changed manifest.
#[must_use]
pub fn manifest(record: &QuotaRecord, entry: Sequence) -> Manifest {
    let mut manifest = Manifest::default();
    API_VERSION.clone_into(&mut manifest.api_version);
    KIND.clone_into(&mut manifest.kind);
    manifest.metadata = metadata(record, entry);
    manifest.spec = record.spec.clone();
    manifest
}

/// The part of a manifest's metadata that is stored beside the record's own fields.
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
