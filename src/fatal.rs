//! Errors that end the process at once, wherever they occur: nothing more is answered or retried.

use std::path::Path;

use crate::exit::{Exit, Failure};

/// The exit code for an error of the journal at start.
pub(crate) fn exit_at_start(error: &quota_journal::Error) -> Exit {
    match error {
        error if error.is_damage() => Exit::Damaged,
        error if error.is_failed_write() => Exit::Poisoned,
        _ => Exit::Failure,
    }
}

/// The failure of a start that an error of the journal ends.
pub(crate) fn at_start(error: quota_journal::Error) -> Failure {
    Failure { exit: exit_at_start(&error), error: error.into() }
}

/// The exit code after an error of an open journal. Unless the ledger is damaged, acknowledged entries may not be on
/// disk.
pub(crate) fn exit_of_stopped(error: &quota_journal::Error) -> Exit {
    match error.is_damage() {
        true => Exit::Damaged,
        false => Exit::Poisoned,
    }
}

/// Ends the process after a fatal error of the journal.
pub(crate) fn journal_stopped(error: &quota_journal::Error) -> ! {
    let exit = exit_of_stopped(error);
    let exit_code = exit.code();
    match exit {
        Exit::Damaged => tracing::error!(%error, exit_code, "the ledger is damaged"),
        _ => tracing::error!(%error, exit_code, "a write or sync failed"),
    }
    std::process::exit(exit_code.into());
}

/// Ends the process because this node can no longer be part of its cluster.
pub(crate) fn cluster_ended(failure: &Failure) -> ! {
    let exit_code = failure.exit.code();
    tracing::error!(error = %failure, exit_code, "this node stops taking part in the cluster");
    std::process::exit(exit_code.into());
}

/// Ends the process because the ledger does not extend the last signed checkpoint, or cannot be compared with it.
pub(crate) fn checkpoint_contradicted(failure: &Failure) -> ! {
    let exit_code = failure.exit.code();
    tracing::error!(error = %failure, exit_code, "cannot verify that the ledger extends the last checkpoint");
    std::process::exit(exit_code.into());
}

/// Ends the process because the ledger is no longer in its place: further writes could not be found again. The process
/// must not restart by itself, since it would begin another ledger there.
pub(crate) fn ledger_removed(lock: &Path) -> ! {
    let exit_code = Exit::Damaged.code();
    tracing::error!(file = %lock.display(), exit_code, "the ledger was taken away");
    std::process::exit(exit_code.into());
}

/// Ends the process because a task has ended without which it must not go on.
pub(crate) fn task_ended(name: &str, why: &str) -> ! {
    let exit_code = Exit::Failure.code();
    tracing::error!(task = name, why, exit_code, "a task ended unexpectedly");
    std::process::exit(exit_code.into());
}

/// Ends the process when the thread or the task that holds this panics: the process would go on without that part, half
/// changed, and no caller would be answered any more. Durable entries are recovered at the next start.
pub(crate) struct EndOnPanic;

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(Exit::Failure.code().into());
        }
    }
}
