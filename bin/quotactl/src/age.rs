//! Ages as kubectl shows them, from now.

pub(crate) use quota_client::table::span;
use quota_semantics::{Span, Timestamp};

/// The current time, for ages and expiry times.
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(now).unwrap_or(i64::MAX))
}

/// The duration until a time; `0s` if the time has passed.
pub(crate) fn left(time: Timestamp, now: Timestamp) -> String {
    span(time.since(now).max(Span::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_not_negative() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let left_of = |time: &str| left(time.parse().unwrap(), now);
        assert_eq!(left_of("2026-11-20T09:00:00Z"), "0s");
        assert_eq!(left_of("2026-11-20T10:00:30Z"), "30s");
    }
}
