//! What the ledger believes to be there, and the listing lacks.

use std::collections::HashSet;

use quota_client::http::Address;
use serde_json::{Value, json};

use super::{
    Difference,
    compare::{Mark, mark},
    scope::Scope,
};
use crate::{
    failure::Outcome,
    session::{Session, text},
};

/// Most namespaces that are asked for one by one; of more, all objects of the ledger are looked through.
const NAMESPACES_MAX: usize = 32;

/// What the ledger believes of the objects that the listing speaks of.
#[derive(Default)]
pub(super) struct LedgerObjects {
    /// What is not listed.
    pub(super) gone: Vec<Difference>,
    /// How many objects it believes in.
    pub(super) count: usize,
    /// How many came after the listing, and are not in it for that reason.
    pub(super) newer: usize,
    /// How many were committed just now by their holders, and not seen since.
    pub(super) awaited: usize,
    /// As of when.
    pub(super) as_of: Value,
}

/// Reads what the ledger believes. What came behind `head`, or in a newer version than was listed, is not taken for gone.
pub(super) fn read(
    session: &Session,
    scope: &Scope,
    listed: &HashSet<Mark>,
    head: u64,
    version: Option<u64>,
) -> Outcome<LedgerObjects> {
    let addresses: Vec<_> = match scope.namespaces(NAMESPACES_MAX) {
        Some(names) => {
            let objects = |name: &str| Address::in_namespace(name, ["objects"]);
            names.into_iter().map(objects).collect()
        }
        None => vec![Address::of(["v1", "objects"])],
    };
    let mut known = LedgerObjects::default();
    for address in addresses {
        let address = address.with_some("resource", scope.resource());
        let answer = session.client.walk(&address, usize::MAX, |found| {
            for object in found {
                let is_ours = scope.holds(text(&object, "/resource"), text(&object, "/namespace"));
                if is_ours {
                    known.take(object, listed, head, version);
                }
            }
            Ok(())
        })?;
        known.as_of = answer.get("asOf").cloned().unwrap_or_default();
    }
    let order = |difference: &Difference| {
        let field = |name| text(&difference.shown, name).to_owned();
        (field("/namespace"), field("/resource"), field("/name"))
    };
    known.gone.sort_by_cached_key(order);
    Ok(known)
}

impl LedgerObjects {
    fn take(&mut self, object: Value, listed: &HashSet<Mark>, head: u64, version: Option<u64>) {
        self.count += 1;
        if listed.contains(&mark(text(&object, "/uid"))) {
            return;
        }
        let entry = object.get("sequence").and_then(Value::as_u64);
        let own: Option<u64> = text(&object, "/resourceVersion").parse().ok();
        let is_newer = version.is_some_and(|version| own.is_some_and(|own| own > version));
        if is_newer || entry.is_none_or(|entry| entry > head) {
            self.newer += 1;
        } else if object.get("awaitedSince").is_some() {
            self.awaited += 1;
        } else {
            let mut shown = json!({"difference": "gone"});
            for field in ["uid", "namespace", "resource", "name"] {
                shown[field] = object[field].clone();
            }
            shown["known"] = object;
            self.gone.push(Difference {
                shown,
                object: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_listing_could_not_hold_is_not_gone() {
        let object = |uid: &str, sequence: u64, version: Option<&str>| {
            let mut object = json!({"uid": uid, "namespace": "a", "resource": "pods", "name": uid, "sequence": sequence});
            if let Some(version) = version {
                object["resourceVersion"] = version.into();
            }
            object
        };
        let listed = HashSet::from([mark("there")]);
        let mut awaited = object("awaited", 1, None);
        awaited["awaitedSince"] = "2026-11-20T10:00:00Z".into();
        let objects = [
            object("there", 1, Some("5")),
            object("gone", 10, Some("7")),
            object("plain", 1, None),
            object("late", 11, Some("5")),
            object("new", 1, Some("8")),
            awaited,
        ];
        let mut known = LedgerObjects::default();
        for object in objects {
            known.take(object, &listed, 10, Some(7));
        }
        let gone: Vec<_> = known
            .gone
            .iter()
            .map(|gone| text(&gone.shown, "/uid"))
            .collect();
        assert_eq!(gone, ["gone", "plain"]);
        assert_eq!((known.count, known.newer, known.awaited), (6, 2, 1));
    }
}
