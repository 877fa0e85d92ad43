//! The objects of the ledger that the listing lacks.

use std::collections::HashSet;

use quota_client::{
    http::Address,
    wire::{Object, Page},
};

use super::{
    Drifted,
    compare::{Comparison, Counts, Identity, identity},
    scope::Scope,
};
use crate::{failure::Outcome, session::Session};

/// The maximum number of namespaces that are read one by one; for more, all objects of the ledger are read.
const NAMESPACES_MAX: usize = 32;

/// Adds the ledger's objects that are not listed to the differences, and returns their number. Objects recorded after
/// `head`, or with a newer version than the listing, are not gone.
pub(super) fn add_gone(
    session: &Session,
    scope: &Scope,
    compared: &mut Comparison,
    head: u64,
    version: Option<u64>,
) -> Outcome<usize> {
    let addresses: Vec<_> = match scope.namespaces(NAMESPACES_MAX) {
        Some(names) => {
            let objects = |name: &str| Address::in_namespace(name, ["objects"]);
            names.into_iter().map(objects).collect()
        }
        None => vec![Address::of(["v1", "objects"])],
    };
    let Comparison {
        identities, counts, ..
    } = compared;
    let mut gone: Vec<Object<'static>> = Vec::new();
    for address in addresses {
        let address = address.with_some("resource", scope.resource());
        session
            .client
            .walk(&address, |page: Page<Object<'static>>| {
                for object in page.items {
                    if scope.holds(&object.resource, &object.namespace)
                        && counts.is_gone(&object, identities, head, version)
                    {
                        gone.push(object);
                    }
                }
                counts.as_of = Some(page.as_of);
                Ok(())
            })?;
    }
    gone.sort_by_cached_key(|it| (it.namespace.clone(), it.resource.clone(), it.name.clone()));
    let count = gone.len();
    let gone = gone.into_iter().map(|it| Drifted::Gone(Box::new(it)));
    compared.differences.extend(gone);
    Ok(count)
}

impl Counts {
    /// Counts an object. Whether it is gone.
    fn is_gone(
        &mut self,
        object: &Object<'_>,
        listed: &HashSet<Identity>,
        head: u64,
        version: Option<u64>,
    ) -> bool {
        self.believed += 1;
        if listed.contains(&identity(object)) {
            return false;
        }
        let own: Option<u64> = object
            .resource_version
            .as_ref()
            .and_then(|text| text.parse().ok());
        let is_newer = version.is_some_and(|version| own.is_some_and(|own| own > version));
        if is_newer || object.sequence.is_none_or(|entry| entry > head) {
            self.newer += 1;
        } else {
            return true;
        }
        false
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
        // A uid is of one namespace.
        let mut elsewhere = object("there", 1, Some("5"));
        elsewhere.namespace = "b".into();
        let objects = [
            there,
            object("gone", 10, Some("7")),
            object("plain", 1, None),
            object("late", 11, Some("5")),
            object("new", 1, Some("8")),
            elsewhere,
        ];
        let mut counts = Counts::default();
        let gone: Vec<_> = objects
            .iter()
            .filter(|object| counts.is_gone(object, &listed, 10, Some(7)))
            .map(|object| format!("{}/{}", object.namespace, object.uid))
            .collect();
        assert_eq!(gone, ["a/gone", "a/plain", "b/there"]);
        assert_eq!((counts.believed, counts.newer), (6, 2));
    }
}
