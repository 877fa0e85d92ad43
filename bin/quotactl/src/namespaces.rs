//! Lists over all namespaces, joined from lists that the API has only per namespace.

use std::collections::BTreeSet;

use quota_client::{
    http::Address,
    wire::{AsOf, NamespaceUsage, Page, Quota},
};
use quota_semantics::Timestamp;
use serde_json::{Value, json};

use super::{
    failure::{Exit, Outcome},
    session::Session,
};

/// The point in time of a query; without either field: now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct When {
    pub(crate) at: Option<Timestamp>,
    pub(crate) sequence: Option<u64>,
}

impl When {
    /// The address with the query parameters for this point in time.
    pub(crate) fn of(self, address: Address) -> Address {
        let address = address.with_some("at", self.at);
        address.with_some("sequence", self.sequence)
    }

    const fn is_now(self) -> bool {
        self.at.is_none() && self.sequence.is_none()
    }
}

/// The namespaces with data in the ledger.
#[derive(Default)]
struct LedgerNamespaces {
    names: BTreeSet<String>,
    /// The position of the ledger at which the namespaces were read: later ones may be missing.
    as_of: AsOf,
    lagging: bool,
}

impl LedgerNamespaces {
    fn read(session: &Session, when: When) -> Outcome<Self> {
        let mut known = Self::default();
        let mut pages = 0;
        let address = when.of(Address::of(["v1", "usage"]));
        let take = |page: Page<NamespaceUsage>| {
            if pages == 0 {
                known.as_of = page.as_of;
            }
            pages += 1;
            known.lagging |= page.lagging;
            let names = page.items.iter().map(|usage| usage.namespace.to_string());
            known.names.extend(names);
            Ok(())
        };
        session.client.walk(&address, take)?;
        if pages > 1 && when.is_now() {
            // The pages have the fullest first: one that fills up in between is on none of them. Quotas are listed by name.
            let take = |page: Page<Quota<'static>>| {
                let quotas = page.items.iter();
                let names = quotas.map(|quota| quota.metadata.namespace.to_string());
                known.names.extend(names);
                Ok(())
            };
            session.client.walk(&Address::of(["v1", "quotas"]), take)?;
        }
        Ok(known)
    }
}

/// The results of `ask` for each namespace, as one list: the items of a list, or the response itself.
pub(crate) fn everywhere(
    session: &Session,
    when: When,
    mut ask: impl FnMut(&str) -> Outcome<Value>,
) -> Outcome<Value> {
    let LedgerNamespaces {
        names,
        as_of,
        mut lagging,
    } = LedgerNamespaces::read(session, when)?;
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
