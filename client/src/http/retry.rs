//! Retries of idempotent calls.

use std::time::Duration;

use super::Error;

/// The delay before the first retry after a broken connection; doubled for each further retry.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The delay before a retry if a busy daemon sends no `Retry-After`.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// The limits on retries. Only idempotent calls are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of attempts while the daemon is busy (429, 503).
    pub busy_attempts: u32,
    /// The maximum number of attempts if the connection breaks or cannot be made.
    pub connection_attempts: u32,
    /// The maximum delay between two attempts; a longer `Retry-After` is cut to it.
    pub longest_wait: Duration,
}

impl Default for Retry {
    /// Four attempts, at most five seconds apart.
    fn default() -> Self {
        Self { busy_attempts: 4, connection_attempts: 4, longest_wait: Duration::from_secs(5) }
    }
}

impl Retry {
    /// No retries.
    pub const NEVER: Self =
        Self { busy_attempts: 1, connection_attempts: 1, longest_wait: Duration::ZERO };

    /// The delay before the next attempt of an idempotent call that has failed `failed` times, last with `error`; none:
    /// no further attempt.
    pub fn wait(&self, failed: u32, error: &Error) -> Option<Duration> {
        let (most, wait) = match error {
            Error::Busy(refusal) => (self.busy_attempts, refusal.retry_after.unwrap_or(BUSY_WAIT)),
            Error::Unreachable { .. } => {
                let doubled = 2_u32.saturating_pow(failed.saturating_sub(1));
                (self.connection_attempts, FIRST_WAIT.saturating_mul(doubled))
            }
            _ => return None,
        };
        (failed < most).then(|| wait.min(self.longest_wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry =
        Retry { busy_attempts: 3, connection_attempts: 40, longest_wait: Duration::from_secs(10) };

    fn busy(seconds: Option<u64>) -> Error {
        let wait = seconds.map(Duration::from_secs);
        Error::of_answer("http://x", 503, wait, br#"{"reason":"Overloaded"}"#)
    }

    #[test]
    fn a_busy_daemon_says_how_long_to_wait_within_bounds() {
        assert_eq!(RETRY.wait(1, &busy(Some(2))), Some(Duration::from_secs(2)));
        assert_eq!(RETRY.wait(2, &busy(Some(3600))), Some(Duration::from_secs(10)));
        assert_eq!(RETRY.wait(1, &busy(None)), Some(BUSY_WAIT));
        assert_eq!(RETRY.wait(3, &busy(Some(2))), None);
    }

    #[test]
    fn broken_connections_are_made_again_less_and_less_often() {
        let broken = Error::Unreachable { server: String::new(), why: String::new() };
        let waits: Vec<_> = (1..=9).filter_map(|n| RETRY.wait(n, &broken)).collect();
        assert_eq!(waits.first(), Some(&FIRST_WAIT));
        assert!(waits.is_sorted() && waits.last() == Some(&RETRY.longest_wait));
        assert_eq!(RETRY.wait(39, &broken), Some(RETRY.longest_wait));
        assert_eq!(RETRY.wait(40, &broken), None);
        assert_eq!(Retry::NEVER.wait(1, &broken), None);
    }

    #[test]
    fn what_was_refused_for_good_is_not_sent_again() {
        let denied = Error::of_answer("http://x", 403, None, br#"{"reason":"ExceedsHard"}"#);
        assert_eq!(RETRY.wait(1, &denied), None);
    }
}
