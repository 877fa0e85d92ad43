//! `ledger replay`: the state, from nothing but the entries.

use quota_ledger::{
    event::Entry,
    journal::Offline,
    replay::{self, Until},
    state::State,
};

use super::{progress::Progress, unfolded, unread, view};
use crate::cli::{
    failure::{Failure, Outcome},
    output::{Output, note},
};

/// Folds the entries up to `until`, and prints the state.
pub(super) fn run(ledger: &Offline, output: &Output, until: Option<Until>) -> Outcome {
    let until = until.unwrap_or(Until::End);
    let mut state = beginning(ledger, until)?;
    fold(ledger, &mut state, until, |_| {})?;
    view::print(&state, output)
}

/// Folds what follows the state's head, and tells each entry.
pub(super) fn fold(
    ledger: &Offline,
    state: &mut State,
    until: Until,
    mut seen: impl FnMut(&Entry),
) -> Outcome {
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
    .map_err(unfolded)
}

/// The empty state; or, where the first entries are gone, that of the oldest snapshot that the rest can be
/// folded upon.
pub(super) fn beginning(ledger: &Offline, until: Until) -> Outcome<State> {
    let first = ledger.first_sequence();
    if first <= 1 {
        return Ok(State::default());
    }
    let gone = || {
        Failure::general(format!("the entries before {first} were compacted away"))
            .hint("--archive says where compacted entries are")
    };
    let Offline::Data(data) = ledger else {
        return Err(gone());
    };
    let reader = data.reader();
    let (snapshots, damaged) = reader.snapshots().list().map_err(unread)?;
    for damage in damaged {
        note(format!("warning: {damage}"));
    }
    let reaches = |position: &quota_ledger::journal::Durable| match until {
        Until::End => true,
        Until::Sequence(sequence) => position.sequence <= sequence,
        Until::Time(time) => position.time <= time,
    };
    let usable = snapshots
        .iter()
        .find(|info| info.position.sequence.saturating_add(1) >= first && reaches(&info.position));
    let info = usable.ok_or_else(gone)?;
    note(format!(
        "note: the entries before {first} were compacted away; beginning with the snapshot of entry {}",
        info.position.sequence
    ));
    replay::load(reader, info).map_err(unfolded)
}
