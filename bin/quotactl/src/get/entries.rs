//! `get entries` and `get dead-letters`: what happened, and what could not be understood.

use quota_client::{http::Address, wire::DeadLetter};
use serde_json::Value;

use super::List;
use crate::{
    args::Range,
    client::read,
    entry,
    failure::Outcome,
    output::note,
    session::{Session, items, text},
    table::Table,
};

/// Entries from a sequence on.
pub(super) struct Entries(pub(super) Range);

impl List for Entries {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let range = self.0;
        let mut address = Address::of(["v1", "entries"])
            .with_some("from", range.from)
            .with_some("namespace", session.scope.filter());
        if range.tail.is_some() {
            address = address.with("order", "desc");
        }
        let limit = range.tail.unwrap_or(range.limit);
        let mut answer = session.client.list(&address, Some(limit))?;
        if range.tail.is_some()
            && let Some(entries) = answer.get_mut("items").and_then(Value::as_array_mut)
        {
            entries.reverse();
        }
        Ok(answer)
    }

    fn name(&self, entry: &Value) -> String {
        format!("entry/{}", entry["sequence"])
    }

    fn table(&self, _: &Session, entries: &[Value], wide: bool) -> Outcome<Table> {
        Ok(entry::table(entries, wide))
    }

    fn note_empty(&self, _: &Session) {
        note("No entries found");
    }
}

/// The entry behind those of an answer.
pub(super) fn next(answer: &Value) -> Option<u64> {
    let last = items(answer).last()?.get("sequence")?.as_u64()?;
    Some(last.saturating_add(1))
}

/// Says where the next page begins, if there is one.
pub(super) fn note_more(range: &Range, answer: &Value) {
    let more = range.tail.is_none() && !text(answer, "/continue").is_empty();
    if let (Some(next), true) = (next(answer), more) {
        note(format!("there are more: --from {next}"));
    }
}

/// Events that could not be understood, with the reasons.
pub(super) struct DeadLetters {
    pub(super) limit: Option<usize>,
}

impl List for DeadLetters {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::of(["v1", "dead-letters"]);
        session.client.list(&address, self.limit)
    }

    fn name(&self, letter: &Value) -> String {
        format!("entry/{}", letter["sequence"])
    }

    fn table(&self, _: &Session, letters: &[Value], wide: bool) -> Outcome<Table> {
        let letters = letters.iter().map(read).collect::<Outcome<_>>()?;
        Ok(letters_table(letters, wide))
    }

    fn note_empty(&self, _: &Session) {
        note("No dead letters found");
    }
}

fn letters_table(letters: Vec<DeadLetter>, wide: bool) -> Table {
    let mut titles = vec![">ENTRY", "TIME", "SOURCE", ">POSITION", "REASON"];
    if wide {
        titles.push("PAYLOAD");
    }
    let mut table = Table::new(&titles);
    for letter in letters {
        let mut row = vec![
            letter.sequence.to_string(),
            letter.time.to_string(),
            letter.source,
            letter.position.to_string(),
            letter.reason,
        ];
        if wide {
            row.push(letter.payload);
        }
        table.row(row);
    }
    table
}
