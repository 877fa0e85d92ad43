//! The API server's own quota plugin, as seen in its audit events.
//!
//! The plugin decides after the webhook, on its own usage numbers, which lag behind. Where both enforce the same limit,
//! the plugin refuses requests that the webhook has admitted, and neither limit can be used up.

use parking_lot::Mutex;
use quota_semantics::{Span, Timestamp};
use quota_service::health::Health;

use crate::metrics;

/// How long after its last denial the plugin is reported.
const REPORTED_FOR: Span = Span::from_seconds(3600);

/// Shortest interval between two log lines.
const LOGGED_EVERY: Span = Span::from_seconds(600);

/// The record of the plugin's denials and of the quotas that it shares.
#[derive(Default)]
pub(in crate::admission) struct Plugin(Mutex<PluginState>);

#[derive(Default)]
struct PluginState {
    /// Adopted quotas, which the plugin enforces as well.
    shared: usize,
    /// Denials by the plugin since the start.
    denials: Denials,
}

#[derive(Default)]
struct Denials {
    count: u64,
    last: Option<Timestamp>,
    logged: Option<Timestamp>,
}

impl Plugin {
    /// Records that the plugin has denied a creation that the webhooks had admitted before.
    pub(super) fn denied(&self, now: Timestamp, namespace: &str) {
        metrics::plugin_denied();
        let denials = &mut self.0.lock().denials;
        denials.count += 1;
        denials.last = Some(now);
        let is_logged = denials.logged.is_some_and(|time| now.since(time) < LOGGED_EVERY);
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

    /// Records how many adopted quotas the plugin enforces as well.
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
        let state = self.0.lock();
        let Denials { count, last, .. } = state.denials;
        match (last, state.shared) {
            (Some(last), _) if now.since(last) < REPORTED_FOR => Health::Lagging(format!(
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
        assert!(why.contains("refused 2 creations") && why.contains(" 30s ago"), "{why}");
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
        let later = Timestamp::EPOCH.plus(REPORTED_FOR);
        assert!(matches!(plugin.health(later), Health::Lagging(_)));
        plugin.shares(0);
        assert_eq!(plugin.health(later), Health::Passed);
    }
}
