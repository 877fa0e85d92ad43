//! Files that are taken into force anew while the daemon runs.

use std::time::Duration;

use tokio::{sync::watch, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// How often files are looked at. Kubernetes swaps a mounted secret by changing a symbolic link, so
/// contents are compared instead of waiting for events of a directory.
const POLL: Duration = Duration::from_secs(5);

/// Looks at files every few seconds and whenever a reload is asked for, until `stop`.
pub(crate) async fn follow(
    mut look: impl FnMut(),
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
        look();
    }
}
