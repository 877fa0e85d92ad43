//! Lists over all namespaces, joined from lists that the API has only per namespace.

use std::collections::BTreeSet;

use quota_client::{
    http::Address,
    wire::{NamespaceUsage, Page, Quota},
};
use serde_json::{Value, json};

use super::{
    args::When,
    failure::{Exit, Outcome},
    session::Session,
};

/// The results of `ask` for each namespace, as one list: the items of a list, or the response itself.
pub(crate) fn everywhere(
    session: &Session,
    when: When,
    selector: Option<&str>,
    mut ask: impl FnMut(&str) -> Outcome<Value>,
) -> Outcome<Value> {
    let mut names = BTreeSet::new();
    // That of the first page: later namespaces may be missing.
    let mut as_of = None;
    let (mut lagging, mut pages) = (false, 0);
    let address = when
        .of(Address::of(["v1", "usage"]))
        .with_some("labelSelector", selector);
    session
        .client
        .walk(&address, |page: Page<NamespaceUsage>| {
            as_of.get_or_insert(page.as_of);
            lagging |= page.lagging;
            pages += 1;
            names.extend(page.items.into_iter().map(|usage| usage.namespace));
            Ok(())
        })?;
    if pages > 1 && when.is_now() && selector.is_none() {
        // The pages have the fullest first: one that fills up in between is on none of them. Quotas are listed by name.
        let quotas = Address::of(["v1", "quotas"]);
        session.client.walk(&quotas, |page: Page<Quota<'static>>| {
            names.extend(page.items.into_iter().map(|quota| quota.metadata.namespace));
            Ok(())
        })?;
    }
    let mut all = Vec::new();
    for namespace in names {
        let mut answer = match ask(&namespace) {
            Ok(answer) => answer,
            // It went away in between.
            Err(failure) if failure.exit == Exit::NotFound => continue,
            Err(failure) => return Err(failure.about(namespace)),
        };
        lagging |= answer.get("lagging") == Some(&Value::Bool(true));
        match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            _ => all.push(answer),
        }
    }
    let mut joined = json!({ "items": all, "asOf": as_of });
    if lagging {
        joined["lagging"] = true.into();
    }
    Ok(joined)
}
