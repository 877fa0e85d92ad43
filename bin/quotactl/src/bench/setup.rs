//! The quotas of a measurement: real limits that are checked, and never reached.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use http::Method;
use quota_client::http::Address;
use serde_json::json;

use super::super::{
    args::Amounts,
    client::Client,
    failure::{Exit, Failure, Outcome},
};

/// Name of the quota in each namespace.
const QUOTA: &str = "quotactl-bench";

/// More than any measurement reserves.
const HARD: &str = "1P";

/// Quotas that are set at the same time.
const AT_ONCE: usize = 16;

/// The quotas that were set.
pub(super) struct Quotas<'a> {
    client: &'a Client,
    namespaces: &'a [String],
}

impl<'a> Quotas<'a> {
    /// Limits these resources in each namespace.
    pub(super) fn set(
        client: &'a Client,
        namespaces: &'a [String],
        resources: &Amounts,
    ) -> Outcome<Self> {
        let hard: serde_json::Map<_, _> = resources
            .keys()
            .map(|resource| (resource.clone(), HARD.into()))
            .collect();
        let manifest = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": QUOTA},
            "spec": {"hard": hard},
        });
        let quotas = Self { client, namespaces };
        let set = |namespace: &str| {
            let address = address(namespace);
            let set = client.send_json(Method::PUT, &address, &manifest);
            set.map(|_| ())
                .map_err(|failure| failure.about(format!("quota {namespace}/{QUOTA}")))
        };
        if let Err(failure) = quotas.each(set) {
            // What could be set goes again; why the rest could not is the error to report.
            let _ = quotas.remove();
            return Err(failure);
        }
        Ok(quotas)
    }

    /// Deletes them.
    pub(super) fn remove(&self) -> Outcome {
        self.each(|namespace| {
            let deleted = self.client.call(Method::DELETE, &address(namespace));
            match deleted {
                Err(failure) if failure.exit != Exit::NotFound => {
                    Err(failure.about(format!("quota {namespace}/{QUOTA}")))
                }
                _ => Ok(()),
            }
        })
    }

    /// Does something for each namespace, several at a time; the first failure ends it.
    fn each(&self, act: impl Fn(&str) -> Outcome + Sync) -> Outcome {
        let next = AtomicUsize::new(0);
        let work = || -> Outcome {
            while let Some(namespace) = self.namespaces.get(next.fetch_add(1, Ordering::Relaxed)) {
                act(namespace)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE.min(self.namespaces.len()))
                .map(|_| scope.spawn(work))
                .collect();
            workers
                .into_iter()
                .map(|worker| {
                    let ended = worker.join();
                    ended.unwrap_or_else(|_| Err(Failure::general("a worker ended early")))
                })
                .fold(Ok(()), Result::and)
        })
    }
}

fn address(namespace: &str) -> Address {
    Address::in_namespace(namespace, ["quotas", QUOTA])
}
