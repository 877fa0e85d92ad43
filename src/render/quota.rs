//! A quota as a v1 ResourceQuota, and its metadata for storage.

use std::borrow::Cow;

use quota_client::wire::{Quota, QuotaReservation, QuotaStatus};
use quota_core::{
    event::{QuotaRecord, Sequence},
    state::{Figure, QuotaView},
};
use quota_semantics::{
    Name,
    quantity::Quantity,
    quota::{
        Manifest,
        manifest::{API_VERSION, KIND, Metadata},
    },
    resource::ResourceList,
};

use super::reservation::holder;
use crate::enforcement::Enforcement;

/// A quota as a v1 ResourceQuota with its numbers.
pub(crate) fn resource_quota<'a>(view: &'a QuotaView, enforcement: &Enforcement) -> Quota<'a> {
    Quota {
        api_version: Cow::Borrowed(API_VERSION),
        kind: Cow::Borrowed(KIND),
        metadata: metadata(&view.record, view.entry),
        spec: Cow::Borrowed(&view.record.spec),
        status: status(view, enforcement),
        as_of: None,
        lagging: false,
    }
}

/// The limits of a quota in force, and its usage. The conditions name the limits that are not in force.
pub(crate) fn status<'a>(view: &'a QuotaView, enforcement: &Enforcement) -> QuotaStatus<'a> {
    let holds = view.holds.iter().map(|(reservation, reserved)| QuotaReservation {
        reserved_by: holder(reservation),
        reserved: Cow::Borrowed(reserved),
        expiration_time: reservation.expiration,
    });
    QuotaStatus {
        hard: Cow::Owned(numbers(&view.figures, |figure| Some(figure.hard.clone()))),
        used: numbers(&view.figures, |figure| figure.used.clone()),
        reserved: numbers(&view.figures, |figure| Some(figure.reserved.clone())),
        reservations: holds.collect(),
        reservations_omitted: view.holds_omitted,
        conditions: enforcement.conditions(&view.record.spec.hard),
    }
}

/// One figure of each limit, by resource.
pub(crate) fn numbers<'a>(
    figures: impl IntoIterator<Item = &'a Figure>,
    number: impl Fn(&Figure) -> Option<Quantity>,
) -> ResourceList {
    let of = |figure: &Figure| Some((figure.resource.clone(), number(figure)?));
    figures.into_iter().filter_map(of).collect()
}

/// The metadata of a quota; its resourceVersion is the entry that set it.
pub(crate) fn metadata(record: &QuotaRecord, entry: Sequence) -> Metadata {
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
pub(crate) fn manifest(record: &QuotaRecord, entry: Sequence) -> Manifest {
    let mut manifest = Manifest::default();
    API_VERSION.clone_into(&mut manifest.api_version);
    KIND.clone_into(&mut manifest.kind);
    manifest.metadata = metadata(record, entry);
    manifest.spec = record.spec.clone();
    manifest
}

/// The part of a manifest's metadata that is stored beside the record's own fields.
pub(crate) fn stored_metadata(metadata: &Metadata) -> Box<str> {
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
