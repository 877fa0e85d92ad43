//! What ends the process at once, wherever it occurs, so that nothing more is answered or retried: errors of the journal
//! and the cluster, and the end of a task that has to run.

use std::{any::Any, panic::AssertUnwindSafe, path::Path};

use futures::{FutureExt as _, future::BoxFuture};
use quota_service::telemetry::panic_message;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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

// Supervises the tasks that have to run for as long as the daemon does: if one of them panics, or ends before
// shutdown, the process ends at once, with the reason. Without that task the daemon would go on half alive. Durable
// entries are recovered at the next start.

/// Spawns a task that may end only after `stop`. `name` is a noun with its article, for the log.
pub(crate) fn spawn(
    name: &'static str,
    stop: CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    spawn_boxed(name, stop, task.boxed())
}

/// As [`spawn`]. Of one type for all tasks: what tokio needs for each type of a task is much to compile.
fn spawn_boxed(
    name: &'static str,
    stop: CancellationToken,
    task: BoxFuture<'static, ()>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let ended = AssertUnwindSafe(task).catch_unwind().await;
        if let Some(why) = unexpected(ended, &stop) {
            task_ended(name, &why);
        }
    })
}

/// Spawns a task that has nothing left to do after `stop`, and is then dropped wherever it is.
pub(crate) fn spawn_until(
    name: &'static str,
    stop: CancellationToken,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let task = stop.clone().run_until_cancelled_owned(task).map(drop);
    spawn(name, stop, task)
}

/// Why the end of a task was not expected.
fn unexpected(ended: Result<(), Box<dyn Any + Send>>, stop: &CancellationToken) -> Option<String> {
    match ended {
        Err(panic) => Some(format!("it panicked: {}", panic_message(&*panic))),
        Ok(()) if stop.is_cancelled() => None,
        Ok(()) => Some("it ended before the daemon stops".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_after_the_stop_is_expected() {
        let stop = CancellationToken::new();
        let early = unexpected(Ok(()), &stop);
        assert_eq!(early.as_deref(), Some("it ended before the daemon stops"));
        stop.cancel();
        assert_eq!(unexpected(Ok(()), &stop), None);
        let panicked = unexpected(Err(Box::new("no number")), &stop);
        assert_eq!(panicked.as_deref(), Some("it panicked: no number"));
    }

    /// The test runs itself as the process that ends.
    #[test]
    fn a_panic_or_an_early_end_ends_the_process() {
        const HOW: &str = "QUOTAD_TEST_TASK_ENDS";
        if let Ok(how) = std::env::var(HOW) {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            return runtime.block_on(async {
                let task = async move {
                    assert_eq!(how, "early");
                };
                let stop = CancellationToken::new();
                let running = spawn("a task", stop, task);
                running.await.unwrap();
                std::future::pending::<()>().await;
            });
        }
        for how in ["early", "by a panic"] {
            let own = std::env::current_exe().unwrap();
            let mut child = std::process::Command::new(own);
            child.args(["--exact", "fatal::tests::a_panic_or_an_early_end_ends_the_process"]);
            let output = child.env(HOW, how).output().unwrap();
            // The code of a failed test is another one.
            assert_eq!(output.status.code(), Some(1), "{how}: {output:?}");
        }
    }

    #[tokio::test]
    async fn a_task_that_ends_after_the_stop_ends_nothing_else() {
        let stop = CancellationToken::new();
        let waiting = spawn("a task", stop.clone(), stop.clone().cancelled_owned());
        let endless = spawn_until("a task", stop.clone(), std::future::pending());
        stop.cancel();
        waiting.await.unwrap();
        endless.await.unwrap();
    }
}
