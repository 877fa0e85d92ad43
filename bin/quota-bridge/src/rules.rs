//! The webhook's rules, maintained by the leading bridge: the API server calls the webhook for the kinds that quotas
//! limit.

use std::{collections::BTreeSet, time::Duration};

use quota_semantics::{admission::webhook_rules, object::GroupResource};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    kubernetes::{Client, Failure},
    metrics, webhook,
};

/// The interval at which changes by others are corrected.
const LOOK: Duration = Duration::from_secs(60);

/// The delay after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// The delay in which further limits are collected: quotas are often created several at a time.
const GATHER: Duration = Duration::from_secs(1);

/// Maintains the rules of one ValidatingWebhookConfiguration.
pub(crate) struct Rules {
    /// The API server.
    pub(crate) client: Client,
    /// The name of the ValidatingWebhookConfiguration.
    pub(crate) webhook: String,
    /// Kinds whose number is limited by quotas that exist only in quotad.
    pub(crate) include: BTreeSet<GroupResource>,
    /// Workloads that are charged for their pods.
    pub(crate) charge: BTreeSet<GroupResource>,
}

impl Rules {
    /// Maintains the rules until the sender of `limited`, the kinds that quotas of the cluster limit, is dropped. While
    /// `limited` is `None`, existing rules stay; a webhook without rules gets those that do not depend on quotas.
    pub(crate) async fn run(&self, mut limited: watch::Receiver<Option<BTreeSet<GroupResource>>>) {
        loop {
            let current = limited.borrow_and_update().clone();
            let wait = self.look(current.as_ref()).await;
            tokio::select! {
                changed = limited.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHER).await;
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Writes the rules if they differ. Returns the delay until the next check.
    async fn look(&self, limited: Option<&BTreeSet<GroupResource>>) -> Duration {
        match self.write(limited).await {
            Ok(()) => LOOK,
            // The object was changed concurrently: read it again.
            Err(failure) if failure.code() == Some(409) => GATHER,
            Err(failure) => {
                tracing::warn!(%failure, webhook = self.webhook, "cannot keep the webhook's rules");
                metrics::error("webhook", &failure);
                RETRY
            }
        }
    }

    async fn write(&self, limited: Option<&BTreeSet<GroupResource>>) -> Result<(), Failure> {
        let known = limited.is_some();
        let limited = limited.into_iter().flatten().chain(&self.include);
        let counted: BTreeSet<_> = limited.filter(|kind| !self.charge.contains(kind)).collect();
        let rules = json!(webhook_rules(counted.iter().copied(), &self.charge));
        let path = webhook::configuration(&self.webhook);
        let mut configuration = webhook::read(&self.client, &path).await?;
        if set(&mut configuration, &rules, known) {
            webhook::write(&self.client, &path, &configuration).await?;
            let counted: Vec<_> = counted.iter().map(ToString::to_string).collect();
            tracing::info!(webhook = self.webhook, ?counted, "wrote the webhook's rules");
        }
        Ok(())
    }
}

/// Sets the rules of all webhooks, or only of those without rules. Returns whether something changed.
fn set(configuration: &mut Value, rules: &Value, of_all: bool) -> bool {
    let mut changed = false;
    let webhooks = configuration["webhooks"].as_array_mut();
    for webhook in webhooks.into_iter().flatten() {
        let has_none = webhook["rules"].as_array().is_none_or(Vec::is_empty);
        if webhook["rules"] != *rules && (of_all || has_none) {
            webhook["rules"] = rules.clone();
            changed = true;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bridge that may not list quotas never knows the limits. The webhook is called nevertheless.
    #[test]
    fn until_limits_are_known_only_missing_rules_are_written() {
        let mut configuration = json!({"webhooks": [{"name": "a"}, {"name": "b", "rules": [7]}]});
        let rules = json!([1]);
        assert!(set(&mut configuration, &rules, false));
        let written = |configuration: &Value| {
            let of = |webhook: usize| configuration["webhooks"][webhook]["rules"].clone();
            [of(0), of(1)]
        };
        assert_eq!(written(&configuration), [json!([1]), json!([7])]);
        assert!(!set(&mut configuration, &json!([2]), false));
        assert!(set(&mut configuration, &rules, true));
        assert_eq!(written(&configuration), [json!([1]), json!([1])]);
    }
}
