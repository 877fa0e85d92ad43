//! The API server's own quota plugin, as far as its audit events show it.
//!
//! It decides behind the webhook, on numbers of its own that run behind. Where it limits the same, it refuses what was
//! admitted here, and neither limit can be used to its end.

use parking_lot::Mutex;
use quota_semantics::{Span, Timestamp};
use quota_service::health::Health;

use crate::metrics;

/// How long after the last denial the plugin is reported.
const TOLD_FOR: Span = Span::from_seconds(3600);

/// Least time between two lines of the log.
const LOGGED_EVERY: Span = Span::from_seconds(600);

/// What is recorded of it.
#[derive(Default)]
pub(in crate::admission) struct Plugin(Mutex<PluginState>);

#[derive(Default)]
struct PluginState {
    /// Quotas that it has as well.
    shared: usize,
    /// What it has denied since the start.
    denials: Denials,
}

#[derive(Default)]
struct Denials {
    count: u64,
    last: Option<Timestamp>,
    logged: Option<Timestamp>,
}

impl Plugin {
    /// It has denied a creation; webhooks, which decide before it, had admitted it.
    pub(super) fn denied(&self, now: Timestamp, namespace: &str) {
        metrics::plugin_denied();
        let denials = &mut self.0.lock().denials;
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
                "the API server's own quota plugin refuses what the webhook admits: docs/webhook.md says how to avoid that"
            );
        }
    }

    /// So many quotas were adopted, and it has them as well.
    pub(super) fn shares(&self, quotas: usize) {
        metrics::quotas_enforced_twice(quotas);
        let before = std::mem::replace(&mut self.0.lock().shared, quotas);
        if before == 0 && quotas > 0 {
            tracing::warn!(
                quotas,
                "adopted quotas are enforced by the API server's own quota plugin as well, unless it is off \
                 (quotas.plugin_is_off): docs/webhook.md says what follows"
            );
        }
    }

    pub(super) fn health(&self, now: Timestamp) -> Health {
        let known = self.0.lock();
        let Denials { count, last, .. } = known.denials;
        match (last, known.shared) {
            (Some(last), _) if now.since(last) < TOLD_FOR => Health::Lagging(format!(
                "the API server's own quota plugin has refused {count} creations that the webhook admits, the last one {}s ago",
                now.since(last).nanoseconds() / 1_000_000_000,
            )),
            (_, 0) => Health::Passed,
            (_, shared) => Health::Lagging(format!(
                "{shared} adopted quotas are enforced by the API server's own quota plugin as well, unless it is off (quotas.plugin_is_off)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_denials_are_reported_for_an_hour() {
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        let plugin = Plugin::default();
        assert_eq!(plugin.health(at(0)), Health::Passed);
        plugin.denied(at(10), "team-a");
        plugin.denied(at(20), "team-a");
        let Health::Lagging(why) = plugin.health(at(50)) else {
            panic!("it is not reported");
        };
        assert!(
            why.contains("refused 2 creations") && why.contains(" 30s ago"),
            "{why}"
        );
        assert_eq!(plugin.health(at(3620)), Health::Passed);
    }

    #[test]
    fn quotas_that_it_has_as_well_are_reported_until_there_are_none() {
        let plugin = Plugin::default();
        plugin.shares(2);
        let health = plugin.health(Timestamp::EPOCH);
        assert!(matches!(&health, Health::Lagging(why) if why.starts_with("2 adopted quotas")));
        plugin.denied(Timestamp::EPOCH, "team-a");
        let health = plugin.health(Timestamp::EPOCH);
        assert!(matches!(&health, Health::Lagging(why) if why.contains("refused 1 creations")));
        let later = Timestamp::EPOCH.plus(TOLD_FOR);
        assert!(matches!(plugin.health(later), Health::Lagging(_)));
        plugin.shares(0);
        assert_eq!(plugin.health(later), Health::Passed);
    }
}
