//! Retries decisions while the writer is busy or the disk is low.

use std::time::Duration;

use crate::writer::Unavailable;

/// First and longest wait before the next attempt.
const WAITS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// Retries until the writer decides.
///
/// # Errors
/// [`Unavailable::Stopped`].
pub(super) async fn until_decided<R, F: Future<Output = Result<R, Unavailable>>>(
    attempt: impl Fn() -> F,
) -> Result<R, Unavailable> {
    let [mut wait, longest] = WAITS;
    loop {
        match attempt().await {
            Err(Unavailable::Overloaded | Unavailable::DiskLow) => tokio::time::sleep(wait).await,
            answer => return answer,
        }
        wait = (wait * 2).min(longest);
    }
}
