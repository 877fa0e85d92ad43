//! Ages as kubectl shows them, from now.

pub(crate) use quota_client::table::span;
use quota_semantics::{Span, Timestamp};

/// The current time, for ages and expiry times.
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(now).unwrap_or(i64::MAX))
}

/// How long ago a time was, by this machine's clock. A time of another machine may be ahead of it.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    let age = now.since(time);
    match age < Span::from_nanoseconds(-1_000_000_000) {
        true => format!("{} ahead of this clock", span(time.since(now))),
        false => format!("{} ago", span(age)),
    }
}

/// The duration until a time; `0s` if the time has passed.
pub(crate) fn left(time: Timestamp, now: Timestamp) -> String {
    span(time.since(now).max(Span::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_ahead_of_this_clock_is_not_an_invalid_age() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        for (time, said) in [
            ("2026-11-20T09:59:30Z", "30s ago"),
            ("2026-11-20T10:00:01Z", "0s ago"),
            ("2026-11-20T10:00:02Z", "2s ahead of this clock"),
            ("2026-11-20T10:05:00Z", "5m ahead of this clock"),
        ] {
            assert_eq!(ago(time.parse().unwrap(), now), said);
        }
    }

    #[test]
    fn what_has_passed_is_not_negative() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let left_of = |time: &str| left(time.parse().unwrap(), now);
        assert_eq!(left_of("2026-11-20T09:00:00Z"), "0s");
        assert_eq!(left_of("2026-11-20T10:00:30Z"), "30s");
    }
}
