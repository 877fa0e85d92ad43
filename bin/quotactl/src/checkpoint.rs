//! `checkpoint`: compares signed checkpoints with each other and with the ledger.

use std::path::Path;

use quota_journal::Damage;
use serde_json::json;

use super::{
    args::{Checkpoint, Jobs, LedgerPath},
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
    let about = About::of(&claims);
    let wrong = match ledger {
        Some(directory) => {
            let place = LedgerPath {
                data_dir: directory.clone(),
                archive: archive.clone(),
            };
            in_ledger(&place, claims, jobs)?
        }
        None => claims.into_wrong(),
    };
    about.print(&wrong, ledger.as_deref(), output)?;
    for damage in &wrong {
        note(Failure::general(damage.to_string()).to_string());
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::silent(Exit::Damaged)),
    }
}

/// Errors in the checkpoints, or in the ledger.
fn in_ledger(place: &LedgerPath, claims: Claims, jobs: &Jobs) -> Outcome<Vec<Damage>> {
    Ok(ledger::check(place, claims, jobs)?.damages)
}

/// A summary of the checkpoints.
struct About {
    origin: String,
    count: usize,
    first: u64,
    last: u64,
}

impl About {
    fn of(claims: &Claims) -> Self {
        let mut signed = claims.signed();
        let (first, count) = (signed.clone().next(), signed.len());
        Self {
            origin: first.map_or_else(String::new, |first| first.origin.clone()),
            count,
            first: first.map_or(0, |first| first.sequence),
            last: signed.next_back().map_or(0, |last| last.sequence),
        }
    }

    fn print(&self, wrong: &[Damage], ledger: Option<&Path>, output: &Output) -> Outcome {
        if output.is_structured() {
            return output.value(&json!({
                "consistent": wrong.is_empty(),
                "origin": self.origin,
                "checkpoints": self.count,
                "firstSequence": self.first,
                "lastSequence": self.last,
                "ledger": ledger,
                "damages": wrong.iter().map(ledger::damage_as_json).collect::<Vec<_>>(),
            }));
        }
        if !wrong.is_empty() {
            return Ok(());
        }
        let Self {
            origin,
            count,
            first,
            last,
        } = self;
        let extended = match ledger {
            Some(_) => "; the ledger extends them",
            None => "",
        };
        output.line(format!(
            "consistent: {count} checkpoints of {origin}, sequences {first} to {last}{extended}"
        ))
    }
}
