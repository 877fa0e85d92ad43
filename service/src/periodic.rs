//! Work that is repeated for as long as a program runs.

use std::time::Duration;

/// How often recorded samples are moved into the histograms.
pub const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Runs this now, and then at each end of a period.
pub async fn run_every(period: Duration, run: impl Fn()) {
    let mut ticks = tokio::time::interval(period);
    loop {
        ticks.tick().await;
        run();
    }
}
