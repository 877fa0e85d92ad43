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

/// How often changes by others are corrected.
const LOOK: Duration = Duration::from_secs(60);

/// How long after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// How long the bridge waits for further limits: quotas are often created several at a time.
const GATHER: Duration = Duration::from_secs(1);

/// Keeps the rules of one configuration.
pub(crate) struct Rules {
    /// The API server.
    pub(crate) client: Client,
    /// The ValidatingWebhookConfiguration.
    pub(crate) webhook: String,
    /// Kinds whose number is limited by quotas that only quotad has.
    pub(crate) include: BTreeSet<GroupResource>,
    /// Workloads that are charged for their pods.
    pub(crate) charge: BTreeSet<GroupResource>,
}

impl Rules {
    /// Keeps them until the sender of `limited` is gone: the kinds that quotas of the cluster limit. Writes nothing while
    /// that is `None`.
    pub(crate) async fn run(&self, mut limited: watch::Receiver<Option<BTreeSet<GroupResource>>>) {
        loop {
            let current = limited.borrow_and_update().clone();
            let wait = match current {
                None => LOOK,
                Some(limited) => self.look(&limited).await,
            };
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

    /// Returns the time until the next step.
    async fn look(&self, limited: &BTreeSet<GroupResource>) -> Duration {
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

    async fn write(&self, limited: &BTreeSet<GroupResource>) -> Result<(), Failure> {
        let counted: BTreeSet<_> = limited.union(&self.include).cloned().collect();
        let counted = counted.difference(&self.charge);
        let rules = json!(webhook_rules(counted, &self.charge));
        let path = webhook::configuration(&self.webhook);
        let mut configuration = webhook::read(&self.client, &path).await?;
        if set(&mut configuration, &rules) {
            webhook::write(&self.client, &path, &configuration).await?;
            let counted: Vec<_> = limited.iter().map(ToString::to_string).collect();
            tracing::info!(
                webhook = self.webhook,
                ?counted,
                "wrote the webhook's rules"
            );
        }
        Ok(())
    }
}

/// Whether that changed something.
fn set(configuration: &mut Value, rules: &Value) -> bool {
    let mut changed = false;
    let webhooks = configuration["webhooks"].as_array_mut();
    for webhook in webhooks.into_iter().flatten() {
        changed |= webhook["rules"] != *rules;
        webhook["rules"] = rules.clone();
    }
    changed
}
