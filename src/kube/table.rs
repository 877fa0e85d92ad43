//! Tables: what `kubectl get` shows.

use quota_core::state::Figure;
use quota_semantics::{Span, Timestamp, quantity::Quantity};
use serde_json::{Value, json};

use super::{
    object::Object,
    resource::Kind,
    status::{Failure, Result},
};
use crate::api::groups::guaranteed_to_others;

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attachment {
    Nothing,
    Metadata,
    Whole,
}

impl Attachment {
    /// Reads `includeObject`.
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
        Kind::Quota => of_quotas(),
        Kind::Group => of_groups(),
    }
}

fn of_groups() -> Value {
    json!([
        column("Name", "name", "Name must be unique."),
        column("Parent", "", "The group that this one is a part of."),
        column("Namespaces", "", "Of how many namespaces objects count."),
        column("Used", "", "What is used of each limit: used/hard."),
        column(
            "Reserved",
            "",
            "What pending reservations hold beside what is used."
        ),
        column(
            "Guaranteed",
            "",
            "What is guaranteed to groups below it and not used by them: it counts as taken."
        ),
        column("Age", "", "The time since the group was created."),
    ])
}

fn of_quotas() -> Value {
    json!([
        column("Name", "name", "Name must be unique within a namespace."),
        column(
            "Request",
            "",
            "What is used of each limit on requests and counts: used/hard."
        ),
        column(
            "Limit",
            "",
            "What is used of each limit on limits: used/hard."
        ),
        column(
            "Reserved",
            "",
            "What pending reservations hold beside what is used."
        ),
        column("Age", "", "The time since the quota was created."),
    ])
}

/// A column of texts.
pub(super) fn column(name: &str, format: &str, description: &str) -> Value {
    json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0})
}

/// The row of an object.
pub(super) fn row(
    object: &Object,
    attachment: Attachment,
    version: &str,
    now: Timestamp,
) -> Result<Value> {
    let cells = cells(object, now);
    Ok(with_object(cells, &object.to_json()?, attachment, version))
}

/// The cells of the row of an object.
pub(super) fn cells(object: &Object, now: Timestamp) -> Value {
    let is_limit = |figure: &&Figure| figure.resource.starts_with("limits.");
    let share = |figure: &Figure| {
        let used = figure.used.clone().unwrap_or(Quantity::ZERO);
        let (used, hard) = (used.exact(), figure.hard.exact());
        format!("{}: {used}/{hard}", figure.resource)
    };
    let figures = object.figures();
    let all = || figures.iter().copied();
    let joined = |parts: Vec<String>| parts.join(", ");
    let reserved = all().filter(|figure| !figure.reserved.is_zero());
    let reserved = joined(
        reserved
            .map(|figure| format!("{}: {}", figure.resource, figure.reserved.exact()))
            .collect(),
    );
    let created = object.manifest.metadata().creation_timestamp;
    let age = created.map_or_else(|| "<unknown>".to_owned(), |created| age(now.since(created)));
    match object.manifest.kind() {
        Kind::Quota => {
            let requests = joined(
                all()
                    .filter(|figure| !is_limit(figure))
                    .map(share)
                    .collect(),
            );
            let limits = joined(all().filter(is_limit).map(share).collect());
            json!([object.name(), requests, limits, reserved, age])
        }
        Kind::Group => {
            let used = joined(all().map(share).collect());
            let group = object.group();
            let parent = group.and_then(|view| view.record.spec.extensions.parent.clone());
            let members = group.map_or(0, |view| view.members).to_string();
            let guaranteed = group.map(guaranteed_to_others).unwrap_or_default();
            let guaranteed = guaranteed
                .iter()
                .map(|(name, amount)| format!("{name}: {}", amount.exact()));
            let guaranteed = joined(guaranteed.collect());
            json!([
                object.name(),
                parent.unwrap_or_default(),
                members,
                used,
                reserved,
                guaranteed,
                age
            ])
        }
    }
}

/// A row with the object that it is about.
pub(super) fn with_object(
    cells: Value,
    object: &Value,
    attachment: Attachment,
    version: &str,
) -> Value {
    match attachment {
        Attachment::Nothing => json!({"cells": cells, "object": null}),
        Attachment::Metadata => json!({"cells": cells, "object": partial(object, version)}),
        Attachment::Whole => json!({"cells": cells, "object": object}),
    }
}

/// Only the metadata of an object, in a version of the API of such.
pub(super) fn partial(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": object["metadata"]})
}

/// An age as kubectl shows it (`k8s.io/apimachinery/pkg/util/duration`): two units at most.
pub(super) fn age(span: Span) -> String {
    let seconds = span.nanoseconds() / 1_000_000_000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let both = |more: i64, unit: &str, less: i64, smaller: &str| match less {
        0 => format!("{more}{unit}"),
        _ => format!("{more}{unit}{less}{smaller}"),
    };
    // A clock may be a second off.
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => both(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => both(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => both(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => both(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_shown_as_kubectl_shows_them() {
        const HOUR: i64 = 3600;
        const DAY: i64 = 24 * HOUR;
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (600, "10m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (9 * HOUR, "9h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (10 * DAY, "10d"),
            (800 * DAY, "2y70d"),
            (10 * 365 * DAY, "10y"),
        ] {
            assert_eq!(age(Span::from_seconds(seconds)), shown, "{seconds}");
        }
    }
}
