//! The errors that end the process at once, wherever they are found: nothing is answered any more, and nothing tried again.

use std::path::Path;

use crate::{
    exit::{Exit, Failure},
    metrics,
};

/// The exit code that an error of the journal means at start.
pub(crate) fn exit_at_start(error: &quota_journal::Error) -> Exit {
    match error {
        error if error.is_damage() => Exit::Damaged,
        error if error.is_failed_write() => Exit::Poisoned,
        _ => Exit::Failure,
    }
}

/// The exit code of a journal that was open and has stopped. Unless the ledger is damaged, what was acknowledged may
/// not be on disk.
pub(crate) fn exit_of_stopped(error: &quota_journal::Error) -> Exit {
    match error.is_damage() {
        true => Exit::Damaged,
        false => Exit::Poisoned,
    }
}

/// Ends the process, since an error has ended the journal.
pub(crate) fn journal_stopped(error: &quota_journal::Error) -> ! {
    metrics::poisoned();
    let exit = exit_of_stopped(error);
    let exit_code = exit.code();
    match exit {
        Exit::Damaged => tracing::error!(%error, exit_code, "the ledger is damaged"),
        _ => tracing::error!(%error, exit_code, "a write or sync failed"),
    }
    std::process::exit(exit_code.into());
}

/// Ends the process, since this node can take part in its cluster no more.
pub(crate) fn cluster_ended(failure: &Failure) -> ! {
    let exit_code = failure.exit.code();
    tracing::error!(error = %failure, exit_code, "this node can take part in its cluster no more");
    std::process::exit(exit_code.into());
}

/// Ends the process, since the ledger is not where it was opened: nothing more that is written can be found again.
/// Starting again, before somebody has looked, would begin another ledger there.
pub(crate) fn ledger_removed(lock: &Path) -> ! {
    let exit_code = Exit::Damaged.code();
    tracing::error!(file = %lock.display(), exit_code, "the ledger was taken away");
    std::process::exit(exit_code.into());
}
