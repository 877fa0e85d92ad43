//! Quotas as objects of the API.

use std::{collections::BTreeMap, sync::Arc};

use quota_core::{
    event::{QuotaRecord, Sequence},
    state::{Figure, QuotaView},
};
use quota_semantics::{
    Name, admission::Coverage, in_microseconds, quantity::Quantity, quota::Manifest,
};
use serde_json::{Value, json};

use super::status::{Failure, Result};
use crate::api::render;

/// A quota as it is served.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// What was written.
    pub(super) manifest: Manifest,
    /// The entry that set it; 0: none has.
    pub(super) entry: Sequence,
    /// Where its figures are from; none: it has none.
    view: Option<QuotaView>,
    /// Which limits are enforced.
    coverage: Arc<Coverage>,
}

impl Object {
    /// A quota of the ledger, as it is at a version.
    pub(super) fn new(view: QuotaView, version: Sequence, coverage: &Arc<Coverage>) -> Self {
        let manifest = render::manifest(&view.record, version);
        Self {
            manifest,
            entry: view.entry,
            view: Some(view),
            coverage: coverage.clone(),
        }
    }

    /// A quota that is not in the ledger.
    pub(super) fn unwritten(manifest: Manifest, coverage: &Arc<Coverage>) -> Self {
        Self {
            manifest,
            entry: 0,
            view: None,
            coverage: coverage.clone(),
        }
    }

    /// A deleted quota: what was used of it is not known any more.
    pub(super) fn deleted(record: &Arc<QuotaRecord>, version: Sequence) -> Self {
        let figure = |(resource, hard): (&Name, &Quantity)| Figure {
            resource: resource.clone(),
            hard: hard.clone(),
            used: None,
            reserved: Quantity::ZERO,
        };
        let figures = record.spec.hard.iter().map(figure).collect();
        Self::new(
            QuotaView {
                record: record.clone(),
                entry: 0,
                figures,
                holds: Vec::new(),
                holds_omitted: 0,
            },
            version,
            &Arc::new(Coverage::everything()),
        )
    }

    /// The same with other metadata and spec, as a dry run shows it.
    pub(super) fn with(&self, manifest: Manifest) -> Self {
        Self {
            manifest,
            ..self.clone()
        }
    }

    /// The version that it is shown with.
    pub(super) fn version(&self) -> Sequence {
        self.manifest
            .metadata
            .resource_version
            .parse()
            .unwrap_or(self.entry)
    }

    pub(super) fn namespace(&self) -> &Name {
        &self.manifest.metadata.namespace
    }

    pub(super) fn name(&self) -> &Name {
        &self.manifest.metadata.name
    }

    pub(super) fn labels(&self) -> &BTreeMap<String, String> {
        &self.manifest.metadata.labels
    }

    /// Which limits are not enforced, if any.
    pub(super) fn not_enforced(&self) -> Option<String> {
        render::not_enforced(&self.manifest.spec.hard, &self.coverage)
    }

    /// One per limit.
    pub(super) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.view.iter().flat_map(|view| &view.figures)
    }

    /// The object as JSON.
    pub(super) fn to_json(&self) -> Result<Value> {
        let mut object = json(&self.manifest)?;
        object["status"] = match &self.view {
            Some(view) => json(&render::ResourceQuota::of(view, &self.coverage))?["status"].take(),
            None => json!({}),
        };
        Ok(object)
    }
}

fn json(value: &impl serde::Serialize) -> Result<Value> {
    let value = in_microseconds(|| serde_json::to_value(value));
    value.map_err(|error| Failure::internal(&error))
}
