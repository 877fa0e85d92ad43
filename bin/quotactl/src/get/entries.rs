//! `get entries` and `get dead-letters`: what happened, and what could not be understood.

use serde_json::Value;

use crate::{
    address::Address,
    args::Range,
    entry,
    failure::Outcome,
    output::note,
    session::{Session, items, text},
    table::Table,
};

/// Shows entries from a sequence on.
pub(super) fn get(session: &Session, range: Range) -> Outcome {
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
    let entries = items(&answer);
    if entries.is_empty() {
        note("No entries found");
    }
    session.output.answer(
        &answer,
        || {
            entries
                .iter()
                .map(|entry| format!("entry/{}", entry["sequence"]))
                .collect()
        },
        |wide| entry::table(entries, wide),
    )?;
    let last = entries.last().and_then(|entry| entry["sequence"].as_u64());
    let more = range.tail.is_none() && !text(&answer, "/continue").is_empty();
    if let (Some(last), true) = (last, more) {
        note(format!("there are more: --from {}", last.saturating_add(1)));
    }
    Ok(())
}

/// Shows events that could not be understood, with the reasons.
pub(super) fn dead_letters(session: &Session, limit: Option<usize>) -> Outcome {
    let answer = session
        .client
        .list(&Address::of(["v1", "dead-letters"]), limit)?;
    let letters = items(&answer);
    if letters.is_empty() {
        note("No dead letters found");
    }
    session.output.answer(
        &answer,
        || {
            letters
                .iter()
                .map(|letter| format!("entry/{}", letter["sequence"]))
                .collect()
        },
        |wide| letters_table(letters, wide),
    )
}

fn letters_table(letters: &[Value], wide: bool) -> Table {
    let mut titles = vec![">ENTRY", "TIME", "SOURCE", ">POSITION", "REASON"];
    if wide {
        titles.push("PAYLOAD");
    }
    let mut table = Table::new(&titles);
    for letter in letters {
        let mut row = vec![
            letter["sequence"].to_string(),
            text(letter, "/time").to_owned(),
            text(letter, "/source").to_owned(),
            letter["position"].to_string(),
            text(letter, "/reason").to_owned(),
        ];
        if wide {
            row.push(text(letter, "/payload").to_owned());
        }
        table.row(row);
    }
    table
}
