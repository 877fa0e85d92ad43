//! `ledger replay`: the state, folded from the entries alone.

use quota_core::{event::Entry, state::State};
use quota_journal::Offline;
use quota_ledger::replay::{self, Error, Until};

use super::{REPAIR, is_repairable, unfolded, unread, view};
use crate::{
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
    progress::Progress,
};

/// Folds the entries up to `until`, and prints the state.
pub(super) fn run(ledger: &Offline, output: &Output, until: Option<Until>) -> Outcome {
    let until = until.unwrap_or(Until::End);
    let mut first = ledger.first_sequence();
    let mut read = Ok(());
    loop {
        let mut state = beginning(ledger, first, until)?;
        match folded(ledger, &mut state, until, |_| {}) {
            Ok(()) => {
                view::print(&state, output)?;
                return read;
            }
            // A snapshot behind the damage holds what the damaged entries amounted to.
            Err(Error::Journal(quota_journal::Error::Damaged(damage)))
                if is_repairable(&damage) =>
            {
                let through = damage.through.filter(|through| *through >= first);
                let failure = unread(damage.into());
                let Some(through) = through else {
                    return Err(failure);
                };
                note(failure.to_string());
                read = Err(Failure::silent(Exit::Damaged));
                first = through.saturating_add(1);
            }
            Err(error) => return Err(unfolded(error)),
        }
    }
}

/// Folds the entries after the state's head, and passes each entry to `seen`.
pub(super) fn fold(
    ledger: &Offline,
    state: &mut State,
    until: Until,
    seen: impl FnMut(&Entry),
) -> Outcome {
    folded(ledger, state, until, seen).map_err(unfolded)
}

fn folded(
    ledger: &Offline,
    state: &mut State,
    until: Until,
    mut seen: impl FnMut(&Entry),
) -> Result<(), Error> {
    let first = state.head().sequence.saturating_add(1);
    let last = match until {
        Until::Sequence(sequence) => sequence.min(ledger.last_sequence()),
        Until::End | Until::Time(_) => ledger.last_sequence(),
    };
    let progress = Progress::over("replaying", first, last);
    let mut batches = ledger.batches(first);
    replay::replay(state, &mut batches, until, |entry| {
        progress.at(entry.sequence);
        seen(entry);
    })
}

/// The empty state; or, if the entries before `first` are gone, the state of the oldest snapshot from which the rest
/// can be folded.
pub(super) fn beginning(ledger: &Offline, first: u64, until: Until) -> Outcome<State> {
    if first <= 1 {
        return Ok(State::default());
    }
    let is_damaged = first > ledger.first_sequence();
    let why = match is_damaged {
        true => format!("the entries before {first} cannot all be read"),
        false => format!("the entries before {first} were compacted away"),
    };
    let gone = || match is_damaged {
        true => Failure::new(
            Exit::Damaged,
            format!("{why}, and there is no snapshot behind them"),
        )
        .hint(REPAIR),
        false => Failure::general(&*why).hint("--archive says where compacted entries are"),
    };
    let Offline::Data(data) = ledger else {
        return Err(gone());
    };
    let reader = data.reader();
    let (snapshots, damaged) = reader.snapshots().list().map_err(unread)?;
    for damage in damaged {
        note(format!("warning: {damage}"));
    }
    let reaches = |position: &quota_journal::Durable| match until {
        Until::End => true,
        Until::Sequence(sequence) => position.sequence <= sequence,
        Until::Time(time) => position.time <= time,
    };
    let usable = snapshots
        .iter()
        .find(|info| info.position.sequence.saturating_add(1) >= first && reaches(&info.position));
    let info = usable.ok_or_else(gone)?;
    note(format!(
        "note: {why}; beginning with the snapshot of entry {}",
        info.position.sequence
    ));
    replay::load(reader, info).map_err(unfolded)
}
