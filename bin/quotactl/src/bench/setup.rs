//! The quotas of a measurement: real limits that are checked, but never reached.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use http::Method;
use quota_client::http::Address;
use quota_semantics::resource::ResourceList;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::{
    client::Client,
    failure::{Exit, Failure, Outcome},
    output::note,
};

/// The name of the quota in each namespace.
const QUOTA: &str = "quotactl-bench";

/// A limit that no measurement reaches.
const HARD: &str = "1P";

/// The number of quotas that are set concurrently.
const AT_ONCE: usize = 16;

/// The quotas of a measurement.
pub(super) struct Quotas<'a> {
    client: &'a Client,
    namespaces: &'a [String],
}

/// The progress over the namespaces, in their order.
struct Done {
    /// The number of namespaces that were tried.
    count: usize,
    result: Outcome,
}

impl<'a> Quotas<'a> {
    /// Sets a quota for these resources in each namespace, until `stop` is cancelled.
    pub(super) fn set(
        client: &'a Client,
        namespaces: &'a [String],
        resources: &ResourceList,
        stop: &CancellationToken,
    ) -> Outcome<Self> {
        let hard: serde_json::Map<_, _> = resources
            .names()
            .map(|resource| (resource.to_string(), HARD.into()))
            .collect();
        let manifest = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": QUOTA},
            "spec": {"hard": hard},
        });
        let set = |namespace: &str| {
            let address = address(namespace);
            let set = client.send_json(Method::PUT, &address, &manifest);
            set.map(|_| ())
                .map_err(|failure| failure.about(format!("quota {namespace}/{QUOTA}")))
        };
        let done = each(namespaces, set, stop);
        let namespaces = namespaces.get(..done.count).unwrap_or(namespaces);
        let quotas = Self { client, namespaces };
        let failure = match done.result {
            Err(failure) => failure,
            Ok(()) if stop.is_cancelled() => Failure::general("interrupted"),
            Ok(()) => return Ok(quotas),
        };
        // What could be set goes again; why the rest could not is the error to report, and not twice.
        if let Err(left) = quotas.remove()
            && left.transient != failure.transient
        {
            note(left.to_string());
        }
        Err(failure)
    }

    /// Deletes the quotas.
    pub(super) fn remove(&self) -> Outcome {
        let delete = |namespace: &str| {
            let deleted = self.client.call(Method::DELETE, &address(namespace));
            match deleted {
                Err(failure) if failure.exit != Exit::NotFound => {
                    Err(failure.about(format!("quota {namespace}/{QUOTA}")))
                }
                _ => Ok(()),
            }
        };
        each(self.namespaces, delete, &CancellationToken::new()).result
    }
}

/// Applies a function to each namespace, several at a time, until it is stopped or the first failure.
fn each(
    namespaces: &[String],
    act: impl Fn(&str) -> Outcome + Sync,
    stop: &CancellationToken,
) -> Done {
    let next = AtomicUsize::new(0);
    let work = || -> Outcome {
        while !stop.is_cancelled()
            && let Some(namespace) = namespaces.get(next.fetch_add(1, Ordering::Relaxed))
        {
            act(namespace)?;
        }
        Ok(())
    };
    let result = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE.min(namespaces.len()))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .map(|worker| {
                let ended = worker.join();
                ended.unwrap_or_else(|_| Err(Failure::general("a worker ended early")))
            })
            .fold(Ok(()), Result::and)
    });
    let count = next.into_inner().min(namespaces.len());
    Done { count, result }
}

fn address(namespace: &str) -> Address {
    Address::in_namespace(namespace, ["quotas", QUOTA])
}
