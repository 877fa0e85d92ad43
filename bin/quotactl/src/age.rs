//! Ages as kubectl shows them: the two largest units that matter.

use quota_semantics::{Span, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time now, for ages and for what expires.
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(now).unwrap_or(i64::MAX))
}

/// How long ago a time was, or `<unknown>` if the text is none.
pub(crate) fn age(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => span(now.since(time)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// How long it is until a time; `0s` if it has passed.
pub(crate) fn until(text: &str, now: Timestamp) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => left(time, now),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// How long it is until a time; `0s` if it has passed.
pub(crate) fn left(time: Timestamp, now: Timestamp) -> String {
    span(time.since(now).max(Span::ZERO))
}

/// A length of time with kubectl's precision: the further it reaches, the coarser.
pub(crate) fn span(span: Span) -> String {
    let seconds = span.nanoseconds() / 1_000_000_000;
    // Clocks differ a little between machines; a second in the future is now.
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, large: (i64, &str), small: (i64, &str)) -> String {
    let rest = seconds % large.0 / small.0;
    let head = format!("{}{}", seconds / large.0, large.1);
    if rest == 0 {
        head
    } else {
        format!("{head}{rest}{}", small.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR + DAY, "8y"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(span(Span::from_seconds(seconds)), shown);
        }
    }

    #[test]
    fn what_has_passed_is_not_negative() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        assert_eq!(until("2026-11-20T09:00:00Z", now), "0s");
        assert_eq!(until("2026-11-20T10:00:30Z", now), "30s");
        assert_eq!(age("2026-11-20T09:58:30Z", now), "90s");
        assert_eq!(age("soon", now), "<unknown>");
    }
}
