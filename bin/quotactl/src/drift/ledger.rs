//! The objects of the ledger that the listing lacks.

use std::collections::HashSet;

use quota_client::{
    http::Address,
    wire::{AsOf, Object, Page},
};

use super::{
    Drifted,
    compare::{Identity, identity},
    scope::Scope,
};
use crate::{failure::Outcome, session::Session};

/// The maximum number of namespaces that are read one by one; for more, all objects of the ledger are read.
const NAMESPACES_MAX: usize = 32;

/// The objects of the ledger within the scope of the listing.
#[derive(Default)]
pub(super) struct LedgerObjects {
    /// The objects of the ledger that are not listed.
    pub(super) gone: Vec<Drifted>,
    /// The number of objects in the ledger.
    pub(super) count: usize,
    /// The number of unlisted objects that are newer than the listing.
    pub(super) newer: usize,
    /// The number of unlisted objects that were committed recently, and that no source has reported yet.
    pub(super) awaited: usize,
    /// The position of the ledger; none if no request was sent.
    pub(super) as_of: Option<AsOf>,
}

/// Reads the ledger's objects. Objects recorded after `head`, or with a newer version than the listing, are not gone.
pub(super) fn read(
    session: &Session,
    scope: &Scope,
    listed: &HashSet<Identity>,
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
    let mut found = LedgerObjects::default();
    let mut gone = Vec::new();
    for address in addresses {
        let address = address.with_some("resource", scope.resource());
        session
            .client
            .walk(&address, |page: Page<Object<'static>>| {
                for object in page.items {
                    if scope.holds(&object.resource, &object.namespace) {
                        gone.extend(found.sort_out(object, listed, head, version));
                    }
                }
                found.as_of = Some(page.as_of);
                Ok(())
            })?;
    }
    gone.sort_by_cached_key(|object: &Object<'static>| {
        let Object {
            namespace,
            resource,
            name,
            ..
        } = object;
        (namespace.clone(), resource.clone(), name.clone())
    });
    let gone = gone.into_iter();
    found.gone = gone.map(|object| Drifted::Gone(Box::new(object))).collect();
    Ok(found)
}

impl LedgerObjects {
    /// Counts an object. Returns the object if it is gone.
    fn sort_out(
        &mut self,
        object: Object<'static>,
        listed: &HashSet<Identity>,
        head: u64,
        version: Option<u64>,
    ) -> Option<Object<'static>> {
        self.count += 1;
        if listed.contains(&identity(&object)) {
            return None;
        }
        let own: Option<u64> = object
            .resource_version
            .as_ref()
            .and_then(|text| text.parse().ok());
        let is_newer = version.is_some_and(|version| own.is_some_and(|own| own > version));
        if is_newer || object.sequence.is_none_or(|entry| entry > head) {
            self.newer += 1;
        } else if object.awaited_since.is_some() {
            self.awaited += 1;
        } else {
            return Some(object);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(uid: &str, sequence: u64, version: Option<&str>) -> Object<'static> {
        let mut object = json!({"uid": uid, "namespace": "a", "resource": "pods", "name": uid,
                                "usage": {"pods": "1"}, "sequence": sequence});
        if let Some(version) = version {
            object["resourceVersion"] = version.into();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_the_listing_could_not_hold_is_not_gone() {
        let there = object("there", 1, Some("5"));
        let listed = HashSet::from([identity(&there)]);
        let mut awaited = object("awaited", 1, None);
        awaited.awaited_since = Some("2026-11-20T10:00:00Z".parse().unwrap());
        // A uid is of one namespace.
        let mut elsewhere = object("there", 1, Some("5"));
        elsewhere.namespace = "b".into();
        let objects = [
            there,
            object("gone", 10, Some("7")),
            object("plain", 1, None),
            object("late", 11, Some("5")),
            object("new", 1, Some("8")),
            awaited,
            elsewhere,
        ];
        let mut found = LedgerObjects::default();
        let gone: Vec<_> = objects
            .into_iter()
            .filter_map(|object| found.sort_out(object, &listed, 10, Some(7)))
            .map(|object| format!("{}/{}", object.namespace, object.uid))
            .collect();
        assert_eq!(gone, ["a/gone", "a/plain", "b/there"]);
        assert_eq!((found.count, found.newer, found.awaited), (7, 2, 1));
    }
}
