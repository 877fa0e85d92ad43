//! `checkpoint`: compares signed checkpoints with each other and with the ledger.

use serde_json::json;

use super::{
    args::{Checkpoint, LedgerPath},
    failure::{Exit, Failure, Outcome},
    ledger::{self, Claims},
    output::{Output, note},
};

/// Runs a `checkpoint` command.
pub(super) fn run(command: &Checkpoint, output: &Output) -> Outcome {
    let Checkpoint::Verify {
        files,
        public_key,
        ledger,
        archive,
        jobs,
    } = command;
    let claims = Claims::load(files, public_key)?;
    let (first, count) = (claims.signed().next(), claims.signed().len());
    let origin = first.map_or_else(String::new, |first| first.origin.clone());
    let first = first.map_or(0, |first| first.sequence);
    let last = claims.signed().next_back();
    let last = last.map_or(0, |last| last.sequence);
    let wrong = match ledger {
        Some(directory) => {
            let place = LedgerPath {
                data_dir: directory.clone(),
                archive: archive.clone(),
            };
            ledger::check(&place, claims, jobs)?.damages
        }
        None => claims.into_wrong(),
    };
    if output.is_structured() {
        output.value(&json!({
            "consistent": wrong.is_empty(),
            "origin": origin,
            "checkpoints": count,
            "firstSequence": first,
            "lastSequence": last,
            "ledger": ledger,
            "damages": wrong.iter().map(ledger::damage_as_json).collect::<Vec<_>>(),
        }))?;
    } else if wrong.is_empty() {
        let extended = match ledger {
            Some(_) => "; the ledger extends them",
            None => "",
        };
        output.line(format!(
            "consistent: {count} checkpoints of {origin}, sequences {first} to {last}{extended}"
        ))?;
    }
    for damage in &wrong {
        note(Failure::general(damage.to_string()).to_string());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent(Exit::Damaged)),
    }
}
