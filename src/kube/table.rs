//! Tables for `kubectl get`.

use quota_client::table::{
    GROUP_COLUMNS, GroupPosition, Limit, QUOTA_COLUMNS, group_cells, quota_cells,
};
use quota_core::state::Figure;
use quota_semantics::Timestamp;
use serde_json::{Value, json};

use super::{
    kind::Kind,
    object::Object,
    status::{Failure, Result},
};
use crate::render::group::guaranteed_to_others;

/// The object that a row carries beside its cells.
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
