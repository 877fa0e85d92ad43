//! `get --watch`: a list, and then its changes.
//!
//! The stream of entries triggers the next read, and differences from the last response are printed. So every list can
//! be watched, and many entries at once cost few requests.

use std::collections::{BTreeMap, BTreeSet};

use quota_client::http::{Address, Events};
use serde::{Deserialize, de::IgnoredAny};

use super::{Item, List, Listing, show};
use crate::{
    failure::{Failure, Outcome, Transient},
    output::{Output, note, to_json},
    session::Session,
    watch,
};

/// Shows a list, and then its changes until it is interrupted.
pub(super) fn follow<L: List>(
    session: &Session,
    list: &L,
    fetch: impl Fn() -> Outcome<Listing<L::Item>>,
) -> Outcome {
    let address = Address::of(["v1", "watch"]).with_some("namespace", list.watched(session));
    let first = session.output.continued();
    let later = first.without_headers();
    let mut shown: Option<Vec<L::Item>> = None;
    watch::patiently(|attempt| {
        // The stream is opened before the list is read, so no change in between is missed.
        let mut events = session.client.stream(&address, None)?;
        attempt.connected = true;
        loop {
            let listing = fetch()?;
            match &shown {
                None => show(session, &first, list, &listing)?,
                Some(before) => {
                    let mut changed = list.changes(before, &listing.items);
                    for item in gone(before, &listing.items) {
                        match list.ended(session, item)? {
                            Some(ended) => changed.push(ended),
                            None => note(format!("{} deleted", list.name(item))),
                        }
                    }
                    print(session, &later, list, &changed)?;
                }
            }
            shown = Some(listing.items);
            attempt.moved = true;
            let head = listing.head.as_of.map(|head| head.sequence);
            if !wait(&mut events, head)? {
                return Ok(());
            }
        }
    })
}

/// An entry of any type; a bookmark cannot be parsed as one.
#[derive(Deserialize)]
struct AnyEntry {
    sequence: u64,
    #[serde(rename = "event")]
    _event: IgnoredAny,
}

/// Waits for an entry after the last response. Returns false if the stream has ended.
fn wait(events: &mut Events<impl std::io::BufRead>, head: Option<u64>) -> Outcome<bool> {
    loop {
        let event = events.next_event().map_err(|error| Failure {
            transient: Some(Transient::Unreachable),
            ..Failure::from(error)
        })?;
        let Some(event) = event else { return Ok(false) };
        // Bookmarks are no entries.
        let Ok(entry) = serde_json::from_str::<AnyEntry>(&event.data) else {
            continue;
        };
        if head.is_none_or(|head| entry.sequence > head) {
            return Ok(true);
        }
    }
}

fn print<L: List>(session: &Session, output: &Output, list: &L, changed: &[L::Item]) -> Outcome {
    if output.is_structured() {
        return changed.iter().try_for_each(|item| output.value(&to_json(item)?));
    }
    let names = || changed.iter().map(|item| list.name(item)).collect();
    let table = |wide| list.table(session, changed, wide);
    output.answer(&(), names, table)
}

/// The item without fields that change with every entry.
fn bare<T: Item>(item: &T) -> T {
    let mut item = item.clone();
    item.strip_head();
    item
}

/// The items that are new, or differ from before.
pub(super) fn items<T: Item>(before: &[T], now: &[T]) -> Vec<T> {
    let before: BTreeMap<_, _> = before.iter().map(|item| (item.identity(), bare(item))).collect();
    let is_new = |item: &&T| before.get(&item.identity()) != Some(&bare(*item));
    now.iter().filter(is_new).cloned().collect()
}

fn gone<'a, T: Item>(before: &'a [T], now: &[T]) -> impl Iterator<Item = &'a T> {
    let now: BTreeSet<_> = now.iter().map(Item::identity).collect();
    before.iter().filter(move |item| !now.contains(&item.identity()))
}

#[cfg(test)]
mod tests {
    use quota_client::wire::{DeadLetter, Group, Quota, Reservation};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn gone_of<T: Item>(before: &[T], now: &[T]) -> Vec<T> {
        gone(before, now).cloned().collect()
    }

    #[test]
    fn what_is_new_or_gone_differs_from_what_stays() {
        let quota = |name: &str, pods: &str| -> Quota<'static> {
            read(json!({"metadata": {"name": name}, "spec": {"hard": {"pods": pods}}}))
        };
        let before = [quota("a", "1"), quota("b", "1"), quota("c", "1")];
        let now = [quota("a", "1"), quota("b", "2"), quota("d", "1")];
        assert_eq!(items(&before, &now), [quota("b", "2"), quota("d", "1")]);
        assert_eq!(gone_of(&before, &now), [quota("c", "1")]);
        let group = |name: &str, members: u64| -> Group {
            read(json!({"name": name, "status":
                {"hard": {}, "used": {}, "reserved": {}, "members": members}}))
        };
        let before = [group("a", 1), group("b", 1)];
        assert_eq!(items(&before, &[group("a", 1), group("b", 2)]), [group("b", 2)]);
        assert_eq!(gone_of(&before, &[group("a", 1)]), [group("b", 1)]);
    }

    #[test]
    fn how_far_the_ledger_is_makes_nothing_new() {
        let at = |sequence: u64| -> [Reservation<'static>; 1] {
            let time = "2026-11-20T10:00:00Z";
            [read(json!({
                "namespace": "a", "reservedBy": {"uid": "u"}, "reserved": {}, "state": "pending",
                "createdTime": time, "expirationTime": time,
                "asOf": {"sequence": sequence, "time": time}}))]
        };
        assert_eq!(items(&at(1), &at(2)), []);
    }

    #[test]
    fn a_dead_letter_is_new_once() {
        let letter = |sequence: u64| -> DeadLetter {
            read(json!({"sequence": sequence, "time": "2026-11-20T10:00:00Z", "source": "s",
                        "position": sequence, "reason": "odd", "payload": ""}))
        };
        let before = [letter(2), letter(1)];
        assert_eq!(items(&before, &[letter(3), letter(2), letter(1)]), [letter(3)]);
    }
}
