//! `get --watch`: a list, and then what changes in it.
//!
//! The stream of entries says when to ask again; what differs from the last answer is printed. So every list can be
//! watched, and many entries at once cost few requests.

use std::collections::BTreeMap;

use quota_client::http::{Address, Events};
use serde_json::Value;

use super::{List, items_of, show};
use crate::{
    failure::{Failure, Outcome, Transient},
    output::note,
    session::{Session, text},
    watch,
};

/// Shows a list, and then its changes until it is interrupted.
pub(super) fn follow(
    session: &Session,
    list: &dyn List,
    fetch: impl Fn() -> Outcome<Value>,
) -> Outcome {
    let address = Address::of(["v1", "watch"]).with_some("namespace", list.watched(session));
    let first = session.output.continued();
    let later = first.without_headers();
    let mut shown: Option<Vec<Value>> = None;
    watch::patiently(|attempt| {
        // The stream is open before the list is read: nothing happens unseen in between.
        let mut events = session.client.stream(&address, None)?;
        attempt.connected = true;
        loop {
            let answer = fetch()?;
            let items = items_of(&answer).to_vec();
            match &shown {
                None => show(session, &first, list, &answer)?,
                Some(before) => {
                    let mut changed = list.changes(before, &items);
                    for item in gone(before, &items) {
                        match list.ended(session, &item)? {
                            Some(ended) => changed.push(ended),
                            None => note(format!("{} deleted", list.name(&item))),
                        }
                    }
                    print(session, &later, list, changed)?;
                }
            }
            shown = Some(items);
            attempt.moved = true;
            let head = answer.pointer("/asOf/sequence").and_then(Value::as_u64);
            if !wait(&mut events, head)? {
                return Ok(());
            }
        }
    })
}

/// Waits for an entry that the last answer did not show; false: the stream has ended.
fn wait(events: &mut Events<impl std::io::BufRead>, head: Option<u64>) -> Outcome<bool> {
    loop {
        let event = events.next_event().map_err(|error| Failure {
            transient: Some(Transient::Unreachable),
            ..Failure::from(error)
        })?;
        let Some(event) = event else { return Ok(false) };
        let entry: Value = serde_json::from_str(&event.data).unwrap_or_default();
        // Bookmarks are no entries.
        let Some(sequence) = entry.get("event").and(entry["sequence"].as_u64()) else {
            continue;
        };
        if head.is_none_or(|head| sequence > head) {
            return Ok(true);
        }
    }
}

fn print(
    session: &Session,
    output: &crate::output::Output,
    list: &dyn List,
    changed: Vec<Value>,
) -> Outcome {
    if changed.is_empty() {
        return Ok(());
    }
    if output.is_structured() {
        return changed.iter().try_for_each(|item| output.value(item));
    }
    let mut answer = serde_json::json!({});
    answer["items"] = Value::Array(changed);
    show(session, output, list, &answer)
}

/// An item without what changes with every entry: how far the ledger is.
fn bare(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        fields.remove("asOf");
        fields.remove("lagging");
    }
    item
}

/// The items that were not there before, or differ.
pub(super) fn items(before: &[Value], now: &[Value]) -> Vec<Value> {
    let before: BTreeMap<_, _> = before
        .iter()
        .map(|item| (identity(item), bare(item)))
        .collect();
    let is_new = |item: &&Value| before.get(&identity(item)) != Some(&bare(item));
    now.iter().filter(is_new).cloned().collect()
}

fn gone(before: &[Value], now: &[Value]) -> Vec<Value> {
    let now: std::collections::BTreeSet<_> = now.iter().map(identity).collect();
    let is_gone = |item: &&Value| !now.contains(&identity(item));
    before.iter().filter(is_gone).cloned().collect()
}

/// What makes an item the same one: all that names it, in any kind of list.
fn identity(item: &Value) -> [String; 8] {
    [
        "/namespace",
        "/metadata/namespace",
        "/metadata/name",
        "/metadata/uid",
        "/resource",
        "/reservedBy/uid",
        "/uid",
        "/name",
    ]
    .map(|pointer| text(item, pointer).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_new_or_gone_is_told_apart_from_what_stays() {
        let quota =
            |name: &str, pods: &str| json!({"metadata": {"name": name}, "spec": {"pods": pods}});
        let before = [quota("a", "1"), quota("b", "1"), quota("c", "1")];
        let now = [quota("a", "1"), quota("b", "2"), quota("d", "1")];
        assert_eq!(items(&before, &now), [quota("b", "2"), quota("d", "1")]);
        assert_eq!(gone(&before, &now), [quota("c", "1")]);
        let group =
            |name: &str, members: u64| json!({"name": name, "status": {"members": members}});
        let before = [group("a", 1), group("b", 1)];
        assert_eq!(
            items(&before, &[group("a", 1), group("b", 2)]),
            [group("b", 2)]
        );
        assert_eq!(gone(&before, &[group("a", 1)]), [group("b", 1)]);
        let at = |sequence: u64| [json!({"uid": "u", "asOf": {"sequence": sequence}})];
        assert_eq!(items(&at(1), &at(2)), Vec::<Value>::new());
    }
}
