//! Entries of the ledger, told in a line.

use serde_json::{Map, Value};

use super::{get::plain, reservation, session::text, table::Table};

/// What stands in the columns of an entry.
pub(crate) struct EntryColumns {
    sequence: String,
    time: String,
    event: String,
    namespace: String,
    subject: String,
    detail: String,
    actor: String,
    reason: String,
}

impl EntryColumns {
    /// Tells an entry as the API writes it.
    pub(crate) fn of(entry: &Value) -> Self {
        let none = Map::new();
        let event = entry
            .get("event")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        let field = |name: &str| event.get(name).map(plain).unwrap_or_default();
        let (name, uid) = (field("name"), field("uid"));
        let subject = match (field("resource"), name.is_empty()) {
            (resource, false) if !resource.is_empty() => format!("{resource}/{name}"),
            (_, false) => name,
            (_, true) if !uid.is_empty() => uid,
            // A relist is of a kind.
            (resource, true) if !resource.is_empty() => resource,
            (_, true) => field("source"),
        };
        let principal = text(entry, "/actor/principal");
        let user = text(entry, "/actor/user");
        Self {
            sequence: entry.get("sequence").map(plain).unwrap_or_default(),
            time: text(entry, "/time").to_owned(),
            event: field("type"),
            namespace: field("namespace"),
            subject,
            detail: detail(event),
            actor: if user.is_empty() {
                principal.to_owned()
            } else {
                user.to_owned()
            },
            reason: text(entry, "/actor/reason").to_owned(),
        }
    }

    /// The entry as a line of its own, as it comes.
    pub(crate) fn line(&self) -> String {
        let shown = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text.to_owned()
            }
        };
        let reason = match self.reason.is_empty() {
            true => String::new(),
            false => format!(": {}", self.reason),
        };
        let line = format!(
            "{:>6}  {:<30}  {:<21}  {}  {}  {}  by {}{reason}",
            self.sequence,
            self.time,
            self.event,
            shown(&self.namespace),
            shown(&self.subject),
            shown(&self.detail),
            shown(&self.actor)
        );
        line.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    }
}

/// Entries as a table.
pub(crate) fn table(entries: &[Value], wide: bool) -> Table {
    let mut titles = vec![
        ">SEQUENCE",
        "TIME",
        "EVENT",
        "NAMESPACE",
        "SUBJECT",
        "DETAIL",
    ];
    if wide {
        titles.extend(["ACTOR", "REASON"]);
    }
    let mut table = Table::new(&titles);
    for entry in entries {
        let told = EntryColumns::of(entry);
        let mut row = vec![
            told.sequence,
            told.time,
            told.event,
            told.namespace,
            told.subject,
            told.detail,
        ];
        if wide {
            row.extend([told.actor, told.reason]);
        }
        table.row(row);
    }
    table
}

/// What an event says beside what it is about.
fn detail(event: &Map<String, Value>) -> String {
    /// What stands in other columns, or is told by them.
    const TOLD_ELSEWHERE: [&str; 10] = [
        "type",
        "namespace",
        "name",
        "uid",
        "resource",
        "source",
        "payload",
        "created",
        "apiVersion",
        "kind",
    ];
    let mut parts = Vec::new();
    for (field, value) in event {
        match (field.as_str(), value) {
            (known, _) if TOLD_ELSEWHERE.contains(&known) => {}
            ("footprint", footprint) => parts.push(amounts(footprint.get("resources"))),
            ("resources", Value::Array(kinds)) => parts.extend(kinds.iter().map(watermark)),
            ("resources", amount) => parts.push(amounts(Some(amount))),
            // That of a group has it one level down.
            ("spec", spec) => {
                parts.push(amounts(
                    spec.get("hard").or_else(|| spec.pointer("/quota/hard")),
                ));
            }
            ("was", was @ Value::Object(_)) => {
                parts.push(format!("was:{}", amounts(was.get("resources"))));
            }
            ("cause", cause) => parts.push(format!("cause={}", text(cause, "/by"))),
            ("uids", Value::Array(uids)) => parts.push(format!("objects={}", uids.len())),
            ("cursor", cursor) => {
                let position = cursor.get("position").map(plain).unwrap_or_default();
                parts.push(format!("position={position}"));
            }
            (_, Value::String(text)) if text.is_empty() => {}
            (_, Value::Bool(false) | Value::Null | Value::Object(_) | Value::Array(_)) => {}
            // A version of which nothing is known.
            (_, Value::Number(number)) if number.as_u64() == Some(0) => {}
            (field, Value::Bool(true)) => parts.push(field.to_owned()),
            (field, value) => parts.push(format!("{field}={}", plain(value))),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// How far a kind has been shown.
fn watermark(kind: &Value) -> String {
    let resource = text(kind, "/resource");
    match kind["absent"].as_bool() {
        Some(true) => format!("{resource}=absent"),
        _ => format!("{resource}={}", text(kind, "/watermark")),
    }
}

fn amounts(value: Option<&Value>) -> String {
    reservation::list(value.and_then(Value::as_object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_told_in_a_line() {
        let entry = json!({
            "sequence": 7, "time": "2026-11-20T10:00:00Z", "actor": {"principal": "anonymous"},
            "event": {"type": "ObjectObserved", "uid": "u1", "namespace": "a", "resource": "pods", "name": "web",
                      "version": 42, "footprint": {"resources": {"pods": "1", "requests.cpu": "500m"}},
                      "lapse": null, "endsReservation": true}
        });
        let words: Vec<_> = EntryColumns::of(&entry)
            .line()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(
            words[..5],
            [
                "7",
                "2026-11-20T10:00:00Z",
                "ObjectObserved",
                "a",
                "pods/web"
            ]
        );
        let detail = words[5..words.len() - 2].join(" ");
        assert_eq!(
            detail,
            "endsReservation pods=1,requests.cpu=500m version=42"
        );
        assert_eq!(words[words.len() - 2..], ["by", "anonymous"]);
    }

    #[test]
    fn a_relist_is_told_by_its_kind_and_a_correction_with_why() {
        let began = json!({"actor": {"principal": "stream/OBJECTS"},
                           "event": {"type": "RelistBegan", "resource": "pods", "source": "stream/OBJECTS", "allowEmpty": true}});
        let told = EntryColumns::of(&began);
        assert_eq!(
            (told.subject.as_str(), told.detail.as_str()),
            ("pods", "allowEmpty")
        );
        let listed = json!({"event": {"type": "ObjectsListed", "source": "stream/OBJECTS", "uids": ["a", "b"]}});
        let told = EntryColumns::of(&listed);
        assert_eq!(
            (told.subject.as_str(), told.detail.as_str()),
            ("stream/OBJECTS", "objects=2")
        );
        let corrected = json!({"actor": {"principal": "jane", "reason": "INC-1042"}, "event": {
            "type": "ObjectCorrected", "resource": "pods", "name": "web", "uid": "u1", "version": 0,
            "footprint": {"resources": {"pods": "1"}}, "was": {"resources": {"pods": "2"}}}});
        let told = EntryColumns::of(&corrected);
        assert_eq!(
            (told.subject.as_str(), told.detail.as_str()),
            ("pods/web", "pods=1 was:pods=2")
        );
        assert!(
            told.line().ends_with("by jane: INC-1042"),
            "{}",
            told.line()
        );
        let ended = json!({"event": {"type": "ObjectEnded", "resource": "pods", "name": "web", "cause": {"by": "Drift"}}});
        assert_eq!(EntryColumns::of(&ended).detail, "cause=Drift");
        let advanced = json!({"event": {"type": "WatermarksAdvanced", "source": "nats:OBJECTS", "clusterUid": "", "resources": [
            {"resource": "pods", "watermark": "2026-11-20T10:00:00Z", "resourceVersion": 7, "absent": false},
            {"resource": "widgets.example.com", "watermark": "2026-11-20T10:00:00Z", "resourceVersion": 0, "absent": true}]}});
        assert_eq!(
            EntryColumns::of(&advanced).detail,
            "pods=2026-11-20T10:00:00Z widgets.example.com=absent"
        );
        let wide = table(&[corrected], true).render(true);
        assert!(
            wide.contains("REASON") && wide.contains("INC-1042"),
            "{wide}"
        );
    }

    #[test]
    fn an_entry_without_names_is_told_by_uid_or_source() {
        let released =
            json!({"sequence": 1, "event": {"type": "ReservationReleased", "uid": "u1"}});
        assert_eq!(EntryColumns::of(&released).subject, "u1");
        let advanced = json!({"event": {"type": "SourceAdvanced", "source": "OBJECTS", "cursor": {"position": 9}}});
        let told = EntryColumns::of(&advanced);
        assert_eq!(
            (told.subject.as_str(), told.detail.as_str()),
            ("OBJECTS", "position=9")
        );
        assert!(EntryColumns::of(&json!(null)).line().contains('-'));
        assert_eq!(table(&[released], true).render(true).lines().count(), 2);
    }
}
