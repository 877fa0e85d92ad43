//! Files that are taken into force anew while the daemon runs.

use std::time::Duration;

use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How often files are looked at. Kubernetes swaps a mounted secret by changing a symbolic link, so
/// contents are compared instead of waiting for events of a directory.
const POLL: Duration = Duration::from_secs(5);

/// A file that is written in place is read half. So what was read has to be there again after this time.
const SETTLED: Duration = Duration::from_secs(1);

/// Files that are followed.
pub(crate) trait Followed {
    /// What they hold.
    type Content: PartialEq;

    /// Reads the files: what they hold, if that is news.
    fn news(&mut self) -> Option<Self::Content>;

    /// Takes it into force, if it can be used.
    fn take(&mut self, content: Self::Content);
}

/// Looks at files every few seconds and whenever a reload is requested, until `stop`.
pub(crate) async fn follow(
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
        let mut news = followed.news();
        while let Some(content) = news {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(SETTLED) => {}
            }
            news = followed.news();
            if news.as_ref() == Some(&content) {
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

    /// What each read of a file gives, and what was taken.
    struct Written(
        VecDeque<Option<&'static str>>,
        Arc<Mutex<Vec<&'static str>>>,
    );

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
            // What is in force is no news; what changes back is none either.
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
