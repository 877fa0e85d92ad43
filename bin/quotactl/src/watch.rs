//! `watch`: entries as they become durable.

use std::{thread, time::Duration};

use quota_client::{
    http::Address,
    wire::{Entry, Page, Status},
};
use serde_json::{Map, Value};

use crate::{
    args::Beginning,
    failure::{Failure, Outcome, Transient},
    manifest::{plain, text},
    output::{Format, note},
    session::{Session, read},
    table::{Table, Text, blank_controls},
};

/// The delay before the first attempt to reconnect; doubled for each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The maximum delay between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// One connection to a stream.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// Whether the daemon has ever answered. If so, a broken connection is re-established.
    pub(crate) connected: bool,
    /// Whether data has been received on this connection.
    pub(crate) moved: bool,
}

/// The sequence of the first entry of a range. That of a time is searched for: entries are in the order of their times.
pub(crate) fn sequence_of(session: &Session, beginning: Beginning) -> Outcome<u64> {
    let time = match beginning {
        Beginning::Sequence(sequence) => return Ok(sequence),
        Beginning::Time(time) => time,
    };
    let answer = session.client.get::<Status>(&Address::of(["v1", "status"]))?;
    let status = answer.content;
    let mut first = status.oldest.map_or(1, |oldest| oldest.sequence);
    let mut behind = status.as_of.sequence.saturating_add(1);
    while first < behind {
        let middle = first + (behind - first) / 2;
        let address = Address::of(["v1", "entries"]).with("from", middle);
        let page = session.client.list::<Page<Entry>>(&address, Some(1))?;
        // The entries that the caller may see.
        match page.content.items.first() {
            Some(entry) if entry.time < time => first = entry.sequence.saturating_add(1),
            _ => behind = middle,
        }
    }
    Ok(first)
}

/// Prints entries until it is interrupted, and resumes after broken connections. Without `from`: entries from now on.
pub(crate) fn run(session: &Session, from: Option<u64>) -> Outcome {
    let address = Address::of(["v1", "watch"]).with_some("namespace", session.scope.filter());
    // The stream goes on behind the last one seen, which for a given beginning is the one before it.
    let mut last = match from {
        Some(from) => from.saturating_sub(1),
        // What comes between a first connection that breaks early and the next one must not be missed.
        None => head(session)?,
    }
    .to_string();
    patiently(|attempt| {
        let mut events = session.client.stream(&address, Some(&last))?;
        attempt.connected = true;
        loop {
            let event = events.next_event().map_err(|error| Failure {
                transient: Some(Transient::Unreachable),
                ..Failure::from(error)
            });
            // Bookmarks without data move the position from which the stream is resumed, too.
            if events.last_id() != last && !events.last_id().is_empty() {
                attempt.moved = true;
                events.last_id().clone_into(&mut last);
            }
            let Some(event) = event? else { return Ok(()) };
            let json: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if json.get("event").is_some() {
                print(session, &json, &read(&json)?)?;
            }
        }
    })
}

/// The last entry of the ledger.
fn head(session: &Session) -> Outcome<u64> {
    let status = session.client.get::<Status>(&Address::of(["v1", "status"]))?;
    Ok(status.content.as_of.sequence)
}

/// Follows a stream until it is interrupted: reconnects after broken connections, with increasing delays while no data
/// is received.
///
/// # Errors
/// Failures of `follow` before the first connection, and those that a new connection would not fix.
pub(crate) fn patiently(mut follow: impl FnMut(&mut Attempt) -> Outcome) -> Outcome {
    let mut attempt = Attempt::default();
    let mut wait = FIRST_WAIT;
    loop {
        attempt.moved = false;
        let failure = match follow(&mut attempt) {
            Ok(()) => Failure::general("the daemon ended the stream"),
            Err(failure) if attempt.connected && failure.transient.is_some() => failure,
            Err(failure) => return Err(failure),
        };
        if attempt.moved {
            wait = FIRST_WAIT;
        }
        if let Some(Transient::Busy(requested)) = failure.transient {
            wait = wait.max(requested);
        }
        wait = wait.min(LONGEST_WAIT);
        note(format!("{}; connecting again in {}s", failure.message, wait.as_secs()));
        thread::sleep(wait);
        wait = wait.saturating_mul(2);
    }
}

/// Prints an entry, which was received as `json`.
fn print(session: &Session, json: &Value, entry: &Entry) -> Outcome {
    let output = &session.output;
    output.line(match &output.format {
        Format::Json => json.to_string(),
        Format::Yaml => return output.value(json),
        Format::Name => name(entry),
        Format::Table | Format::Wide => EntryColumns::new(entry).line(),
        Format::Csv => {
            let line = table(std::slice::from_ref(entry), true).to_csv(false);
            line.trim_end().to_owned()
        }
    })
}

// Entries of the ledger, one per line.
//
// Events stay free JSON: each type has fields of its own, and those of a newer daemon are shown as well.

/// The columns of an entry.
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
    /// The columns of an entry.
    pub(crate) fn new(entry: &Entry) -> Self {
        let none = Map::new();
        let event = entry.event.as_object().unwrap_or(&none);
        let field = |name: &str| event.get(name).map(plain).unwrap_or_default();
        let (mut name, uid) = (field("name"), field("uid"));
        if name.is_empty() {
            name = field("quota");
        }
        let mut resource = field("resource");
        let mut detail = detail(event);
        if let Some(found) = &entry.subject {
            (name, resource) = (found.name.to_string(), found.resource.to_string());
            if name.is_empty() {
                name.clone_from(&uid);
            }
            let has_amounts = ["footprint", "resources"].iter().any(|it| event.contains_key(*it));
            if !has_amounts {
                detail = format!("{} {detail}", found.amounts.pretty()).trim().to_owned();
            }
        }
        let subject = match (resource, name.is_empty()) {
            (resource, false) if !resource.is_empty() => format!("{resource}/{name}"),
            (_, false) => name,
            (_, true) if !uid.is_empty() => uid,
            // A relist is of a kind.
            (resource, true) if !resource.is_empty() => resource,
            (_, true) => field("source"),
        };
        let actor = &entry.actor;
        Self {
            sequence: entry.sequence.to_string(),
            time: entry.time.to_string(),
            event: entry.event_type().to_owned(),
            namespace: field("namespace"),
            subject,
            detail,
            actor: actor.user.as_ref().unwrap_or(&actor.principal).to_string(),
            reason: actor.reason.as_deref().unwrap_or_default().to_owned(),
        }
    }

    /// The entry as one line.
    pub(crate) fn line(&self) -> String {
        let shown = |text: &str| {
            if text.is_empty() { "-".to_owned() } else { text.to_owned() }
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
        blank_controls(&line)
    }
}

/// The name of an entry in output.
pub(crate) fn name(entry: &Entry) -> String {
    format!("entry/{}", entry.sequence)
}

/// The table of entries.
pub(crate) fn table(entries: &[Entry], wide: bool) -> Table {
    let mut titles = vec![">SEQUENCE", "TIME", "EVENT", "NAMESPACE", "SUBJECT", "DETAIL"];
    if wide {
        titles.extend(["ACTOR", "REASON"]);
    }
    let mut table = Table::new(&titles);
    for entry in entries {
        let columns = EntryColumns::new(entry);
        let time = in_seconds(&columns.time);
        let detail = in_seconds(&columns.detail);
        let mut row: Vec<Text> = vec![
            columns.sequence.into(),
            Text::with_short(columns.time, Some(time)),
            columns.event.into(),
            columns.namespace.into(),
            columns.subject.into(),
            Text::with_short(columns.detail, Some(detail)),
        ];
        if wide {
            row.extend([columns.actor.into(), columns.reason.into()]);
        }
        table.row(row);
    }
    table
}

/// The text without the fractions of seconds in times.
fn in_seconds(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('.') {
        short.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_time = digits > 0 && after[digits..].starts_with('Z');
        rest = match is_time {
            true => &after[digits..],
            false => {
                short.push('.');
                after
            }
        };
    }
    short + rest
}

/// The fields of an event other than its object.
fn detail(event: &Map<String, Value>) -> String {
    /// Fields that other columns show.
    const OF_OTHER_COLUMNS: [&str; 11] = [
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
        "quota",
    ];
    let mut parts = Vec::new();
    for (field, value) in event {
        match (field.as_str(), value) {
            (field, _) if OF_OTHER_COLUMNS.contains(&field) => {}
            ("footprint", footprint) => parts.push(amounts(footprint.get("resources"))),
            ("resources", Value::Array(kinds)) => parts.extend(kinds.iter().map(watermark)),
            ("resources", amount) => parts.push(amounts(Some(amount))),
            // That of a group has it one level down.
            ("spec", spec) => {
                parts.push(amounts(spec.get("hard").or_else(|| spec.pointer("/quota/hard"))));
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
            // An unknown version.
            (_, Value::Number(number)) if number.as_u64() == Some(0) => {}
            (field, Value::Bool(true)) => parts.push(field.to_owned()),
            (field, value) => parts.push(format!("{field}={}", plain(value))),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// The watermark of a kind as text.
fn watermark(kind: &Value) -> String {
    let resource = text(kind, "/resource");
    match kind["absent"].as_bool() {
        Some(true) => format!("{resource}=absent"),
        _ => format!("{resource}={}", text(kind, "/watermark")),
    }
}

/// Quantities by resource, as `cpu=1,pods=1`.
fn amounts(value: Option<&Value>) -> String {
    let amount = |(resource, amount): (&String, &Value)| format!("{resource}={}", plain(amount));
    let amounts = value.and_then(Value::as_object).into_iter().flatten();
    amounts.map(amount).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(entry: Value) -> Entry {
        serde_json::from_value(entry).unwrap()
    }

    /// An entry with this event.
    fn of(event: Value) -> Entry {
        read(json!({"sequence": 7, "time": "2026-11-20T10:00:00Z",
                    "actor": {"principal": "stream/OBJECTS"}, "event": event}))
    }

    #[test]
    fn an_entry_is_a_line() {
        let entry = read(json!({
            "sequence": 7, "time": "2026-11-20T10:00:00Z", "actor": {"principal": "anonymous"},
            "event": {"type": "ObjectObserved", "uid": "u1", "namespace": "a", "resource": "pods", "name": "web",
                      "version": 42, "footprint": {"resources": {"pods": "1", "requests.cpu": "500m"}},
                      "lapse": null, "endsReservation": true}
        }));
        let words: Vec<_> =
            EntryColumns::new(&entry).line().split_whitespace().map(str::to_owned).collect();
        assert_eq!(words[..5], ["7", "2026-11-20T10:00:00Z", "ObjectObserved", "a", "pods/web"]);
        let detail = words[5..words.len() - 2].join(" ");
        assert_eq!(detail, "endsReservation pods=1,requests.cpu=500m version=42");
        assert_eq!(words[words.len() - 2..], ["by", "anonymous"]);
    }

    #[test]
    fn a_relist_is_shown_by_its_kind_and_a_correction_with_its_reason() {
        let shown = |event: Value| {
            let columns = EntryColumns::new(&of(event));
            (columns.subject, columns.detail)
        };
        let pair = |subject: &str, detail: &str| (subject.to_owned(), detail.to_owned());
        let began = json!({"type": "RelistBegan", "resource": "pods", "source": "stream/OBJECTS", "allowEmpty": true});
        assert_eq!(shown(began), pair("pods", "allowEmpty"));
        let listed =
            json!({"type": "ObjectsListed", "source": "stream/OBJECTS", "uids": ["a", "b"]});
        assert_eq!(shown(listed), pair("stream/OBJECTS", "objects=2"));
        let ended = json!({"type": "ObjectEnded", "resource": "pods", "name": "web", "cause": {"by": "Drift"}});
        assert_eq!(shown(ended), pair("pods/web", "cause=Drift"));
        let advanced = json!({"type": "WatermarksAdvanced", "source": "nats:OBJECTS", "clusterUid": "", "resources": [
            {"resource": "pods", "watermark": "2026-11-20T10:00:00Z", "resourceVersion": 7, "absent": false},
            {"resource": "widgets.example.com", "watermark": "2026-11-20T10:00:00Z", "resourceVersion": 0, "absent": true}]});
        assert_eq!(shown(advanced).1, "pods=2026-11-20T10:00:00Z widgets.example.com=absent");
        let corrected = json!({"type": "ObjectCorrected", "resource": "pods", "name": "web", "uid": "u1", "version": 0,
            "footprint": {"resources": {"pods": "1"}}, "was": {"resources": {"pods": "2"}}});
        assert_eq!(shown(corrected.clone()), pair("pods/web", "pods=1 was:pods=2"));
        let mut corrected = of(corrected);
        corrected.actor.principal = "jane".into();
        corrected.actor.reason = Some("INC-1042".into());
        let line = EntryColumns::new(&corrected).line();
        assert!(line.ends_with("by jane: INC-1042"), "{line}");
        let wide = table(&[corrected], true).render(true);
        assert!(wide.contains("REASON") && wide.contains("INC-1042"), "{wide}");
    }

    #[test]
    fn an_entry_without_names_is_shown_by_uid_or_source() {
        let ended = of(json!({"type": "OverrideEnded", "namespace": "a", "quota": "compute"}));
        let columns = EntryColumns::new(&ended);
        assert_eq!([columns.namespace, columns.subject, columns.detail], ["a", "compute", ""]);
        let released = of(json!({"type": "ReservationReleased", "uid": "u1"}));
        assert_eq!(EntryColumns::new(&released).subject, "u1");
        let advanced =
            of(json!({"type": "SourceAdvanced", "source": "OBJECTS", "cursor": {"position": 9}}));
        let columns = EntryColumns::new(&advanced);
        assert_eq!((columns.subject.as_str(), columns.detail.as_str()), ("OBJECTS", "position=9"));
        assert!(EntryColumns::new(&of(json!(null))).line().contains('-'));
        assert_eq!(table(&[released], true).render(true).lines().count(), 2);
    }
}
