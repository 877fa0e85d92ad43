//! Quotas and groups as objects of the API.

use std::{collections::BTreeMap, sync::Arc};

use quota_core::{
    event::Sequence,
    state::{Figure, GroupView},
};
use quota_semantics::{Name, quantity::Quantity};
use serde_json::{Value, json};

use super::{
    kind::Kind,
    resource::{Key, Manifest, Record, View, to_json},
    status::Result,
};
use crate::{enforcement::Enforcement, render};

/// The annotation of a quota that says what its `status.used` is in this API.
const USED: &str = "kubectl.quota-ledger.io/used";

/// The used and the reserved amount. Without the annotation: the used amount.
const WITH_RESERVED: &str = "with-reserved";

/// A quota or group as this API serves it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// The metadata and spec.
    pub(super) manifest: Manifest,
    /// The entry that set the object; 0 if it is not stored.
    pub(super) entry: Sequence,
    /// The view that its figures are read from; none if it has no figures.
    numbers: Option<View>,
    /// The limits of a deleted object, without usage.
    limits: Option<Vec<Figure>>,
    /// Determines which limits are in force; none for a deleted object.
    enforcement: Option<Arc<Enforcement>>,
}

impl Object {
    /// An object of the ledger at a version.
    pub(super) fn new(view: View, version: Sequence, enforcement: &Arc<Enforcement>) -> Self {
        Self {
            manifest: view.record().manifest(version),
            entry: view.entry(),
            numbers: Some(view),
            limits: None,
            enforcement: Some(enforcement.clone()),
        }
    }

    /// An object that is not in the ledger.
    pub(super) fn unwritten(manifest: Manifest, enforcement: &Arc<Enforcement>) -> Self {
        Self {
            manifest,
            entry: 0,
            numbers: None,
            limits: None,
            enforcement: Some(enforcement.clone()),
        }
    }

    /// A deleted object: its usage is no longer available.
    pub(super) fn deleted(record: &Record, version: Sequence) -> Self {
        let manifest = record.manifest(version);
        let figure = |(resource, hard): (&Name, &Quantity)| Figure {
            resource: resource.clone(),
            hard: hard.clone(),
            used: None,
            reserved: Quantity::ZERO,
        };
        Self {
            limits: Some(manifest.hard().iter().map(figure).collect()),
            manifest,
            entry: 0,
            numbers: None,
            enforcement: None,
        }
    }

    /// The same object with other metadata and spec, as a dry run shows it.
    pub(super) fn with(&self, manifest: Manifest) -> Self {
        Self { manifest, ..self.clone() }
    }

    pub(super) fn key(&self) -> Key {
        Key {
            kind: self.manifest.kind(),
            namespace: self.namespace().clone(),
            name: self.name().clone(),
        }
    }

    pub(super) fn namespace(&self) -> &Name {
        &self.manifest.metadata().namespace
    }

    pub(super) fn name(&self) -> &Name {
        &self.manifest.metadata().name
    }

    pub(super) fn uid(&self) -> &str {
        &self.manifest.metadata().uid
    }

    pub(super) fn labels(&self) -> &BTreeMap<String, String> {
        &self.manifest.metadata().labels
    }

    /// Names the limits that are not enforced, if any.
    pub(super) fn not_enforced(&self) -> Option<String> {
        let enforcement = self.enforcement.as_ref()?;
        enforcement.not_enforced(self.manifest.hard())
    }

    /// One figure per limit.
    pub(super) fn figures(&self) -> Vec<&Figure> {
        match &self.numbers {
            None => self.limits.iter().flatten().collect(),
            Some(View::Quota(view)) => view.figures.iter().collect(),
            Some(View::Group(seen)) => render::group::figures(&seen.view).collect(),
        }
    }

    /// How many amounts an answer with this object shows. Its metadata is read and shown, too.
    pub(super) fn amounts(&self) -> usize {
        1 + self.numbers.as_ref().map_or(0, View::work)
    }

    /// The group with its numbers, if the object is a group.
    pub(super) const fn group(&self) -> Option<&GroupView> {
        match &self.numbers {
            Some(View::Group(seen)) => Some(&seen.view),
            _ => None,
        }
    }

    /// The object as JSON.
    pub(super) fn to_json(&self) -> Result<Value> {
        let mut object = self.manifest.to_json()?;
        object["status"] = match (&self.numbers, &self.enforcement) {
            (Some(View::Quota(view)), Some(enforcement)) => {
                let mut status = to_json(&render::quota::status(view, enforcement))?;
                if self.counts_reserved_as_used() {
                    let counted = |figure: &Figure| {
                        let mut used = figure.used.clone()?;
                        used.add_assign(&figure.reserved);
                        Some(used)
                    };
                    status["used"] = to_json(&render::quota::numbers(&view.figures, counted))?;
                }
                status
            }
            (Some(View::Group(seen)), Some(enforcement)) => group_status(seen, enforcement)?,
            _ => self.status_without_numbers(),
        };
        Ok(object)
    }

    /// Whether `status.used` includes the reserved amounts, for `kubectl describe`, which shows nothing else.
    fn counts_reserved_as_used(&self) -> bool {
        let annotations = &self.manifest.metadata().annotations;
        annotations.get(USED).is_some_and(|value| value == WITH_RESERVED)
    }

    fn status_without_numbers(&self) -> Value {
        let Some(limits) = &self.limits else {
            return json!({});
        };
        let hard = self.manifest.hard();
        let reserved = render::quota::numbers(limits, |figure| Some(figure.reserved.clone()));
        let total = json!({"hard": hard, "used": {}, "reserved": reserved});
        match self.manifest.kind() {
            Kind::Quota => {
                let mut status = total;
                status["reservations"] = json!([]);
                status
            }
            Kind::Group => json!({"total": total, "namespaces": []}),
        }
    }
}

/// OpenShift's status of a ClusterResourceQuota, extended by the reserved and the guaranteed amounts.
pub(super) fn group_status(
    seen: &render::group::GroupWithMembers,
    enforcement: &Enforcement,
) -> Result<Value> {
    let view = &seen.view;
    let members = seen.members.iter().map(|member| {
        let member = render::group::member(member);
        let status = json!({"hard": view.hard, "used": member.used, "reserved": member.reserved});
        json!({"namespace": member.namespace, "status": status})
    });
    let mut status = json!({
        "total": {
            "hard": view.hard,
            "used": render::quota::numbers(render::group::figures(view), |figure| figure.used.clone()),
            "reserved": render::quota::numbers(render::group::figures(view), |figure| Some(figure.reserved.clone())),
        },
        "namespaces": members.collect::<Vec<_>>(),
    });
    let guaranteed = render::group::guaranteed_to_others(view);
    if !guaranteed.is_empty() {
        status["total"]["guaranteedToOthers"] = json!(guaranteed);
    }
    if seen.omitted() > 0 {
        status["namespacesOmitted"] = json!(seen.omitted());
    }
    if let Some(until) = view.override_until {
        status["overrideUntil"] = to_json(&until)?;
    }
    let conditions = render::group::conditions(view, Some(seen), enforcement);
    if !conditions.is_empty() {
        status["conditions"] = to_json(&conditions)?;
    }
    Ok(status)
}
