//! Quotas and groups as objects of the API, in the shape that was asked for: whole, metadata alone, or a table.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use quota_client::table::{
    GROUP_COLUMNS, GroupPosition, Limit, QUOTA_COLUMNS, group_cells, quota_cells,
};
use quota_core::{
    event::Sequence,
    state::{Figure, GroupView},
};
use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde_json::{Value, json};

use super::{
    Failure, Result,
    request::Params,
    resource::{Key, Kind, Manifest, Record, View, to_json},
};
use crate::{
    enforcement::Enforcement,
    render::{self, group::guaranteed_to_others},
};

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

/// The object that a row of a table carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attachment {
    Nothing,
    Metadata,
    Whole,
}

impl Attachment {
    /// Parses `includeObject`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        match text {
            "None" => Ok(Self::Nothing),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Whole),
            _ => Err(Failure::bad_request("unrecognized includeObject value")),
        }
    }
}

/// The columns of a table of objects of a kind.
pub(super) fn columns(kind: Kind) -> Value {
    match kind {
        Kind::Quota => described(
            QUOTA_COLUMNS,
            [
                "Name must be unique within a namespace.",
                "Usage and limit of requests and object counts: used/hard.",
                "Usage and limit of limits.*: used/hard.",
                "Amounts of pending reservations, beside the usage.",
                "The time since the quota was created.",
            ],
        ),
        Kind::Group => described(
            GROUP_COLUMNS,
            [
                "Name must be unique.",
                "The parent group.",
                "The number of namespaces whose objects count.",
                "Usage and limit: used/hard.",
                "Amounts of pending reservations, beside the usage.",
                "Unused guarantees of descendant groups: they count as taken.",
                "The time since the group was created.",
            ],
        ),
    }
}

/// Describes columns, beginning with the name column.
fn described<const N: usize>(names: [&str; N], descriptions: [&str; N]) -> Value {
    let all = names.iter().zip(descriptions).enumerate();
    let format = |index| if index == 0 { "name" } else { "" };
    all.map(|(index, (name, about))| column(name, format(index), about)).collect()
}

/// A column of strings.
pub(super) fn column(name: &str, format: &str, description: &str) -> Value {
    json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0})
}

/// The cells of the row of an object.
pub(super) fn cells(object: &Object, now: Timestamp) -> Value {
    let limits: Vec<_> = object.figures().into_iter().map(limit).collect();
    let created = object.manifest.metadata().creation_timestamp;
    match object.manifest.kind() {
        Kind::Quota => json!(quota_cells(object.name(), &limits, created, now)),
        Kind::Group => {
            let group = object.group();
            let place = GroupPosition {
                parent: group.and_then(|view| view.record.spec.extensions.parent.as_ref()),
                members: group.map_or(0, |view| view.members),
                each: group.is_some_and(|view| view.record.spec.extensions.each),
                guaranteed_to_others: &group.map(guaranteed_to_others).unwrap_or_default(),
            };
            json!(group_cells(object.name(), place, &limits, created, now))
        }
    }
}

fn limit(figure: &Figure) -> Limit<'_> {
    Limit {
        resource: &figure.resource,
        hard: &figure.hard,
        used: figure.used.as_ref(),
        reserved: Some(&figure.reserved),
    }
}

/// A table with these rows.
pub(super) fn table(version: &str, metadata: &Value, columns: Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": version, "metadata": metadata, "columnDefinitions": columns, "rows": rows,
    })
}

// The shape of a response: its negotiation, and what an object and a list look like in it.

/// The API group of shapes other than the objects themselves.
const META: &str = "meta.k8s.io";

/// Its version in responses with metadata only.
pub(super) const META_VERSION: &str = "meta.k8s.io/v1";

/// The offered types, as listed in a 406 response.
const OFFERED: &str = "application/json, application/json;as=Table;g=meta.k8s.io;v=v1, \
                       application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The shape of a response. All shapes are JSON: Kubernetes' clients accept JSON even where they prefer protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The objects themselves.
    Whole,
    /// Their metadata only.
    Metadata,
    /// A table for people, of this version of its API.
    Table(&'static str),
}

impl<S: Sync> FromRequestParts<S> for Shape {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Self::of(&parts.headers)
    }
}

impl Shape {
    fn of(headers: &HeaderMap) -> Result<Self> {
        let mut ranges = accepted(headers).peekable();
        if ranges.peek().is_none() {
            return Ok(Self::Whole);
        }
        let shape = ranges.find_map(|range| Self::offered(&range));
        shape.ok_or_else(|| Failure::not_acceptable(OFFERED))
    }

    fn offered(range: &MediaRange<'_>) -> Option<Self> {
        if !range.is_json() {
            return None;
        }
        match (range.get("as"), range.get("g"), range.get("v")) {
            (None, ..) => Some(Self::Whole),
            (Some("Table"), Some(META), Some("v1")) => Some(Self::Table(META_VERSION)),
            (Some("Table"), Some(META), Some("v1beta1")) => {
                Some(Self::Table("meta.k8s.io/v1beta1"))
            }
            (
                Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
                Some(META),
                Some("v1"),
            ) => Some(Self::Metadata),
            _ => None,
        }
    }
}

/// One of the media types that a caller accepts.
#[derive(Clone, Debug)]
pub(super) struct MediaRange<'a> {
    essence: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let parameters = parts.filter_map(|part| part.split_once('=')).collect();
        Self { essence, parameters }
    }

    pub(super) fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    pub(super) fn is_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].iter().any(|essence| self.is(essence))
    }

    pub(super) fn get(&self, parameter: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(name, _)| *name == parameter).map(|(_, value)| *value)
    }
}

/// The media types that a caller accepts, in the order of the header.
pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = MediaRange<'_>> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = values.flat_map(|value| value.split(','));
    ranges.map(str::trim).filter(|range| !range.is_empty()).map(MediaRange::parse)
}

impl Shape {
    /// What the rows of a table carry.
    pub(super) fn attachment(self, params: &Params) -> Result<Attachment> {
        match self {
            Self::Table(_) => Attachment::parse(&params.include_object),
            Self::Whole | Self::Metadata => Ok(Attachment::Nothing),
        }
    }

    /// Whether whole objects are sent: not only their metadata, or the cells of a table.
    pub(super) fn is_whole(self, attachment: Attachment) -> bool {
        match self {
            Self::Whole => true,
            Self::Metadata => false,
            Self::Table(_) => attachment == Attachment::Whole,
        }
    }

    /// As much of an object as JSON as is sent of it.
    pub(super) fn json(self, object: &Object, attachment: Attachment) -> Result<Value> {
        match (self, attachment) {
            (Self::Table(_), Attachment::Nothing) => Ok(Value::Null),
            _ if self.is_whole(attachment) => object.to_json(),
            _ => Ok(json!({"metadata": to_json(object.manifest.metadata())?})),
        }
    }

    /// The item of a list, or its row of a table.
    pub(super) fn item(
        self,
        object: Value,
        attachment: Attachment,
        cells: impl FnOnce() -> Value,
    ) -> Value {
        match self {
            Self::Whole => object,
            Self::Metadata => partial(&object, META_VERSION),
            Self::Table(version) => {
                let object = match attachment {
                    Attachment::Nothing => Value::Null,
                    Attachment::Metadata => partial(&object, version),
                    Attachment::Whole => object,
                };
                json!({"cells": cells(), "object": object})
            }
        }
    }

    /// The response for one object: its item, or a table with its row alone.
    pub(super) fn one(
        self,
        item: Value,
        resource_version: &str,
        columns: impl FnOnce() -> Value,
    ) -> Value {
        match self {
            Self::Whole | Self::Metadata => item,
            Self::Table(version) => {
                let metadata = json!({"resourceVersion": resource_version});
                table(version, &metadata, columns(), vec![item])
            }
        }
    }

    /// A list of these items.
    pub(super) fn list(
        self,
        (kind, api_version): (&str, &str),
        metadata: &Value,
        columns: impl FnOnce() -> Value,
        items: Vec<Value>,
    ) -> Value {
        let list = |kind, version, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": version, "metadata": metadata, "items": items});
        match self {
            Self::Whole => list(kind, api_version, items),
            Self::Metadata => list("PartialObjectMetadata", META_VERSION, items),
            Self::Table(version) => table(version, metadata, columns(), items),
        }
    }
}

/// Only the metadata of an object, in this version of the metadata API.
fn partial(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn shape(accept: &'static str) -> Option<Shape> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        Shape::of(&headers).ok()
    }

    #[test]
    fn the_first_shape_that_is_offered_is_taken() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                       application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(shape(kubectl), Some(Shape::Table("meta.k8s.io/v1")));
        assert_eq!(
            shape("application/vnd.kubernetes.protobuf,application/json"),
            Some(Shape::Whole)
        );
        assert_eq!(shape("application/json;as=Other;g=meta.k8s.io;v=v1, */*"), Some(Shape::Whole));
        assert_eq!(
            shape("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Shape::Metadata)
        );
        assert_eq!(shape("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(Shape::of(&HeaderMap::new()).ok(), Some(Shape::Whole));
    }
}
