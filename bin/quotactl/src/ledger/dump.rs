//! `ledger dump`: entries, one JSON object per line.

use std::io::{self, BufWriter, Write};

use quota_core::event::Entry;
use quota_journal::Offline;

use super::each_entry;
use crate::{
    failure::{Failure, Outcome},
    output::{note, written},
    terminal_text::one_line,
};

/// Prints the entries `from..=to`, of one namespace or of all.
pub(super) fn run(ledger: &Offline, namespace: Option<&str>, from: u64, to: u64) -> Outcome {
    let first = ledger.first_sequence();
    if from.max(1) < first {
        note(format!(
            "note: the entries before {first} were compacted away"
        ));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let read = each_entry(ledger, from, to, |entry| {
        let own = entry.event.namespace();
        if namespace.is_none_or(|wanted| own.is_some_and(|own| *own == *wanted)) {
            print(&mut out, entry)?;
        }
        Ok(())
    });
    written(out.flush())?;
    read
}

fn print(out: &mut impl Write, entry: &Entry) -> Outcome {
    let line = serde_json::to_string(entry).map_err(|error| Failure::general(error.to_string()))?;
    written(writeln!(out, "{}", one_line(&line)))
}

#[cfg(test)]
mod tests {
    use quota_core::event::{Actor, Event};
    use quota_semantics::Timestamp;
    use serde_json::{Value, to_value};

    use super::*;

    #[test]
    fn what_misleads_is_escaped_and_stays_the_same_entry() {
        let entry = Entry {
            sequence: 1,
            time: Timestamp::EPOCH,
            actor: Actor::named("a\u{9b}b\u{202e}c"),
            event: Event::QuotaDeleted {
                namespace: "team\u{7f}".into(),
                name: "q\u{9b}".into(),
            },
        };
        let mut out = Vec::new();
        print(&mut out, &entry).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(line.is_ascii() && !line.trim_end().contains(char::is_control));
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read, to_value(&entry).unwrap());
    }
}
