//! `get entries` and `get dead-letters`: the entries, and the rejected events.

use quota_client::{
    http::Address,
    wire::{DeadLetter, Entry},
};
use serde_json::Value;

use super::{Item, List, Listing};
use crate::{
    args::{Beginning, DeadLetters, Moment, Range},
    client::read,
    entry,
    failure::Outcome,
    output::note,
    session::Session,
    table::Table,
    watch::sequence_of,
};

impl Item for Entry {
    fn identity(&self) -> String {
        self.sequence.to_string()
    }
}

impl List for Range {
    type Item = Entry;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let from = self.from.map(|from| sequence_of(session, from));
        let mut address = Address::of(["v1", "entries"])
            .with_some("from", from.transpose()?)
            .with_some("namespace", session.scope.filter());
        if self.tail.is_some() {
            address = address.with("order", "desc");
        }
        let limit = self.tail.unwrap_or(self.limit);
        let mut answer = session.client.list_json(&address, Some(limit))?;
        if self.tail.is_some()
            && let Some(entries) = answer.get_mut("items").and_then(Value::as_array_mut)
        {
            entries.reverse();
        }
        if let Some(Moment(to)) = self.to
            && let Some(entries) = answer.get_mut("items").and_then(Value::as_array_mut)
        {
            let is_within =
                |entry: &Value| read::<Entry>(entry).is_ok_and(|entry| entry.time <= to);
            let within = entries.iter().take_while(|entry| is_within(entry)).count();
            if within < entries.len() {
                entries.truncate(within);
                answer["continue"] = Value::Null;
            }
        }
        Ok(answer)
    }

    fn name(&self, entry: &Entry) -> String {
        entry::name(entry)
    }

    fn table(&self, _: &Session, entries: &[Entry], wide: bool) -> Table {
        entry::table(entries, wide)
    }

    fn note_empty(&self, _: &Session) {
        note("No entries found");
    }
}

/// The sequence after the entries of a response, which may be in any order.
fn next(listing: &Listing<Entry>) -> Option<u64> {
    let last = listing.items.iter().map(|entry| entry.sequence).max()?;
    Some(last.saturating_add(1))
}

/// The sequence of the first entry after a response; none if the daemon does not return it.
pub(super) fn behind(range: &Range, listing: &Listing<Entry>) -> Option<u64> {
    let behind_head = || Some(listing.head.as_of?.sequence.saturating_add(1));
    let from = range.from.and_then(|from| match from {
        Beginning::Sequence(sequence) => Some(sequence),
        Beginning::Time(_) => None,
    });
    next(listing).or(from).or_else(behind_head)
}

/// Reports the begin of the next page, if there is one.
pub(super) fn note_more(range: &Range, listing: &Listing<Entry>) {
    let next_page = listing.head.next.as_ref();
    let more = range.tail.is_none() && next_page.is_some_and(|token| !token.is_empty());
    if let (Some(next), true) = (next(listing), more) {
        note(format!("there are more: --from {next}"));
    }
}

impl Item for DeadLetter {
    fn identity(&self) -> String {
        self.sequence.to_string()
    }
}

impl List for DeadLetters {
    type Item = DeadLetter;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::of(["v1", "dead-letters"]);
        session.client.list_json(&address, self.limit)
    }

    fn name(&self, letter: &DeadLetter) -> String {
        format!("entry/{}", letter.sequence)
    }

    fn table(&self, _: &Session, letters: &[DeadLetter], wide: bool) -> Table {
        Table::of(
            letters,
            &[
                (true, ">ENTRY", &|it| it.sequence.to_string()),
                (true, "TIME", &|it| it.time.to_string()),
                (true, "SOURCE", &|it| it.source.clone()),
                (true, ">POSITION", &|it| it.position.to_string()),
                (true, "REASON", &|it| it.reason.clone()),
                (wide, "PAYLOAD", &|it| it.payload.clone()),
            ],
        )
    }

    fn note_empty(&self, _: &Session) {
        note("No dead letters found");
    }
}
