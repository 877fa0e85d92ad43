//! Limits log lines that callers cause, since callers control their number.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The window in which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Longest caller-supplied text in a log line, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Lets a number of lines per second pass, and counts the others.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    lines: u32,
    passed: Mutex<Window>,
}

#[derive(Debug)]
struct Window {
    since: Option<Instant>,
    lines: u32,
    held_back: u64,
}

impl LogLimiter {
    /// A limiter that lets this many lines per second pass.
    pub(crate) const fn new(lines: u32) -> Self {
        let passed = Window { since: None, lines: 0, held_back: 0 };
        Self { lines, passed: Mutex::new(passed) }
    }

    /// Whether a line may be logged now; if so, how many were held back since the last one.
    pub(crate) fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut passed = self.passed.lock();
        let over = |since: Instant| now.saturating_duration_since(since) >= WINDOW;
        if passed.since.is_none_or(over) {
            passed.since = Some(now);
            passed.lines = 0;
        }
        if passed.lines == self.lines {
            passed.held_back = passed.held_back.saturating_add(1);
            return None;
        }
        passed.lines += 1;
        Some(std::mem::take(&mut passed.held_back))
    }
}

/// The beginning of a text, cut to the length for log lines.
pub(crate) fn shortened(text: &str) -> &str {
    cut(text, TEXT_BYTES_MAX)
}

/// The beginning of a text, at most this many bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_of_each_second_pass_and_tell_how_many_there_were() {
        let (limiter, start) = (LogLimiter::new(1), Instant::now());
        assert_eq!(limiter.pass_at(start), Some(0));
        assert_eq!(limiter.pass_at(start), None);
        assert_eq!(limiter.pass_at(start + WINDOW / 2), None);
        assert_eq!(limiter.pass_at(start + WINDOW), Some(2));
        assert_eq!(limiter.pass_at(start + 3 * WINDOW), Some(0));

        let limiter = LogLimiter::new(2);
        let passed: Vec<_> = (0..4).map(|_| limiter.pass_at(start)).collect();
        assert_eq!(passed, [Some(0), Some(0), None, None]);
        assert_eq!(limiter.pass_at(start + WINDOW), Some(2));
        assert_eq!(limiter.pass_at(start + WINDOW), Some(0));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "ä");
        assert_eq!(cut("äöü", 100), "äöü");
        assert_eq!(shortened(&"x".repeat(1 << 20)).len(), TEXT_BYTES_MAX);
    }
}
