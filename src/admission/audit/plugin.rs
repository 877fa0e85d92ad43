//! The API server's own quota plugin, as far as its audit events show it.
//!
//! It decides behind the webhook, on numbers of its own that run behind. Where it limits the same, it refuses what was
//! admitted here, and neither limit can be used to its end.

use parking_lot::Mutex;
use quota_semantics::{Span, Timestamp};
use quota_service::health::Health;

use crate::metrics;

/// How long after the last denial it is told of.
const TOLD_FOR: Span = Span::from_seconds(3600);

/// Least time between two lines of the log.
const LOGGED_EVERY: Span = Span::from_seconds(600);

/// What it has denied since the start.
#[derive(Default)]
pub(in crate::admission) struct Plugin(Mutex<Denials>);

#[derive(Default)]
struct Denials {
    count: u64,
    last: Option<Timestamp>,
    logged: Option<Timestamp>,
}

impl Plugin {
    /// It has denied a creation that was admitted here.
    pub(super) fn denied(&self, now: Timestamp, namespace: &str) {
        metrics::plugin_denied();
        let mut denials = self.0.lock();
        denials.count += 1;
        denials.last = Some(now);
        let is_logged = denials
            .logged
            .is_some_and(|time| now.since(time) < LOGGED_EVERY);
        if !is_logged {
            denials.logged = Some(now);
            let count = denials.count;
            tracing::warn!(
                namespace,
                count,
                "the API server's own quota plugin refuses what was admitted here: docs/webhook.md says how to avoid that"
            );
        }
    }

    pub(super) fn health(&self, now: Timestamp) -> Health {
        let denials = self.0.lock();
        match denials.last {
            Some(last) if now.since(last) < TOLD_FOR => Health::Lagging(format!(
                "the API server's own quota plugin has refused {} creations that were admitted here, the last one {}s ago",
                denials.count,
                now.since(last).nanoseconds() / 1_000_000_000,
            )),
            _ => Health::Passed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_denials_are_told_of_for_an_hour() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let plugin = Plugin::default();
        assert_eq!(plugin.health(at(0)), Health::Passed);
        plugin.denied(at(10), "team-a");
        plugin.denied(at(20), "team-a");
        let Health::Lagging(why) = plugin.health(at(50)) else {
            panic!("it is not told of");
        };
        assert!(
            why.contains("refused 2 creations") && why.contains(" 30s ago"),
            "{why}"
        );
        assert_eq!(plugin.health(at(3620)), Health::Passed);
    }
}
