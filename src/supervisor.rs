//! Supervises the tasks that have to run for as long as the daemon does: if one of them panics, or ends before
//! shutdown, the process ends at once, with the reason. Without that task the daemon would go on half alive. Durable
//! entries are recovered at the next start.

use std::{any::Any, panic::AssertUnwindSafe};

use futures::{FutureExt as _, future::BoxFuture};
use quota_service::telemetry::panic_message;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fatal;

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
            fatal::task_ended(name, &why);
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
            child.args(["--exact", "supervisor::tests::a_panic_or_an_early_end_ends_the_process"]);
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
