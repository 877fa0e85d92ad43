//! Reloads files while the daemon runs.

use std::time::Duration;

use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How often files are read. Kubernetes replaces a mounted secret by changing a symbolic link, so contents are compared
/// instead of watching a directory.
const POLL: Duration = Duration::from_secs(5);

/// A file that is being written in place may be read half. So the same content must be read again after this time.
const SETTLED: Duration = Duration::from_secs(1);

/// Files whose changes are followed.
pub trait Followed: Send {
    /// The content of the files.
    type Content: PartialEq + Send;

    /// Reads the files; returns their content if it is new.
    fn news(&mut self) -> Option<Self::Content>;

    /// Applies the content, if it can be used.
    fn take(&mut self, content: Self::Content);

    /// Reads the files once and applies them.
    #[cfg(test)]
    fn look(&mut self) {
        if let Some(content) = self.news() {
            self.take(content);
        }
    }
}

/// Applies the files whenever they change or a reload is requested, until `stop`. Files that cannot be used change
/// nothing.
pub async fn follow(
    mut followed: impl Followed,
    mut reload: watch::Receiver<u64>,
    stop: CancellationToken,
) {
    let mut ticks = tokio::time::interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            Ok(()) = reload.changed() => {}
        }
        let mut new_content = followed.news();
        while let Some(content) = new_content {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SETTLED) => {}
            }
            new_content = followed.news();
            if new_content.as_ref() == Some(&content) {
                followed.take(content);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc};

    use parking_lot::Mutex;

    use super::*;

    /// The result of each read of a file, and the applied contents.
    struct Written(VecDeque<Option<&'static str>>, Arc<Mutex<Vec<&'static str>>>);

    impl Followed for Written {
        type Content = &'static str;

        fn news(&mut self) -> Option<&'static str> {
            self.0.pop_front().flatten()
        }

        fn take(&mut self, content: &'static str) {
            self.1.lock().push(content);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_half_written_is_not_taken() {
        let taken = Arc::default();
        let reads = [
            Some("ha"),
            Some("half"),
            Some("whole"),
            Some("whole"),
            // The content in force is not new, and neither is a change that is reverted at once.
            None,
            Some("cut"),
            None,
        ];
        let written = Written(reads.into(), Arc::clone(&taken));
        let (_ask, reload) = watch::channel(0);
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow(written, reload, stop.clone()));
        tokio::time::sleep(10 * POLL).await;
        assert_eq!(*taken.lock(), ["whole"]);
        stop.cancel();
        following.await.unwrap();
    }
}
