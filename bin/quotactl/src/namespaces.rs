//! Lists over all namespaces, where the API has them by namespace: joined as they came.

use std::collections::BTreeSet;

use quota_client::{
    http::Address,
    wire::{Page, Quota},
};
use serde_json::{Value, json};

use super::{
    failure::{Exit, Outcome},
    session::Session,
};

/// The namespaces that have quotas.
pub(crate) fn with_quotas(session: &Session) -> Outcome<BTreeSet<String>> {
    let address = Address::of(["v1", "quotas"]);
    let quotas = session
        .client
        .list::<Page<Quota<'static>>>(&address, None)?
        .content;
    let names = quotas.items.into_iter();
    Ok(names
        .map(|quota| quota.metadata.namespace.to_string())
        .collect())
}

/// What `ask` gives for each namespace that has quotas, as one list.
pub(crate) fn everywhere(
    session: &Session,
    mut ask: impl FnMut(&str) -> Outcome<Vec<Value>>,
) -> Outcome<Value> {
    let mut all = Vec::new();
    for namespace in with_quotas(session)? {
        match ask(&namespace) {
            Ok(found) => all.extend(found),
            // It went away in between.
            Err(failure) if failure.exit == Exit::NotFound => {}
            Err(failure) => return Err(failure.about(namespace)),
        }
    }
    Ok(json!({ "items": all }))
}
