//! The scope of a listing: the ledger's objects that it should contain.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::{Failure, Outcome};

/// The scope as given on the command line.
#[derive(Clone, Debug, Default)]
pub(super) struct ScopeArguments {
    /// The resources; empty: those that occur in the listing.
    pub(super) resources: BTreeSet<String>,
    /// The only namespace.
    pub(super) namespace: Option<String>,
    /// Whether all namespaces are in the scope, listed or not.
    pub(super) all: bool,
    /// Whether an empty listing is accepted.
    pub(super) allow_empty: bool,
}

impl ScopeArguments {
    /// Whether a listed object is within the scope.
    pub(super) fn is_about(&self, resource: &str, namespace: &str) -> bool {
        let is_ours = self.all || self.namespace.as_deref().is_none_or(|own| own == namespace);
        is_ours && (self.resources.is_empty() || self.resources.contains(resource))
    }
}

/// The namespaces in which objects were listed, by resource.
pub(super) type Listed = BTreeMap<String, BTreeSet<String>>;

/// The namespaces of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spaces {
    All,
    These(BTreeSet<String>),
}

/// The scope of a listing, by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope(BTreeMap<String, Spaces>);

impl Scope {
    /// The scope of a listing: by default the resources that occur in it, each in the namespaces in which it occurs.
    pub(super) fn new(requested: &ScopeArguments, listed: Listed) -> Outcome<Self> {
        let is_listed = |resource: &&String| !listed.contains_key(*resource);
        let unlisted: Vec<_> = requested.resources.iter().filter(is_listed).collect();
        if listed.is_empty() && !requested.allow_empty {
            return Err(Failure::general("the listing is empty").hint(
                "if the cluster has no such objects, --allow-empty says so: then all recorded objects end",
            ));
        }
        if let (Some(resource), false) = (unlisted.first(), requested.allow_empty) {
            return Err(Failure::general(format!("the listing has no {resource}"))
                .hint("if there are none, --allow-empty says so"));
        }
        let names_spaces = requested.all || requested.namespace.is_some();
        if !names_spaces && !unlisted.is_empty() {
            return Err(Failure::usage(
                "where should there be none? -n or -A say so",
            ));
        }
        if listed.is_empty() && requested.resources.is_empty() {
            return Err(Failure::usage(
                "of what should there be none? An empty listing does not say; --resource does",
            ));
        }
        let none = requested
            .resources
            .iter()
            .map(|name| (name.clone(), <_>::default()));
        let mut all: Listed = none.collect();
        all.extend(listed);
        let spaces = |listed| match &requested.namespace {
            _ if requested.all => Spaces::All,
            Some(only) => Spaces::These(BTreeSet::from([only.clone()])),
            None => Spaces::These(listed),
        };
        let spaces = all
            .into_iter()
            .map(|(resource, listed)| (resource, spaces(listed)));
        Ok(Self(spaces.collect()))
    }

    /// Whether an object of the ledger should be in the listing.
    pub(super) fn holds(&self, resource: &str, namespace: &str) -> bool {
        match self.0.get(resource) {
            Some(Spaces::All) => true,
            Some(Spaces::These(names)) => names.contains(namespace),
            None => false,
        }
    }

    /// The namespaces of the scope, if there are at most `most`.
    pub(super) fn namespaces(&self, most: usize) -> Option<BTreeSet<&str>> {
        let mut names = BTreeSet::new();
        for spaces in self.0.values() {
            let Spaces::These(these) = spaces else {
                return None;
            };
            names.extend(these.iter().map(String::as_str));
        }
        (names.len() <= most).then_some(names)
    }

    /// The resource of the scope, if there is only one.
    pub(super) fn resource(&self) -> Option<&str> {
        let mut resources = self.0.keys();
        let only = resources.next()?;
        resources.next().is_none().then_some(only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    fn names(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn listed(pairs: &[(&str, &str)]) -> Listed {
        let pair = |(resource, spaces): &(&str, &str)| ((*resource).to_owned(), names(spaces));
        pairs.iter().map(pair).collect()
    }

    fn requested(resources: &str, namespace: Option<&str>, all: bool) -> ScopeArguments {
        ScopeArguments {
            resources: names(resources),
            namespace: namespace.map(str::to_owned),
            all,
            allow_empty: false,
        }
    }

    #[test]
    fn by_default_it_is_what_occurs_in_the_listing() {
        let listed = listed(&[("pods", "a b"), ("services", "a")]);
        let scope = Scope::new(&requested("", None, false), listed.clone()).unwrap();
        let pairs = [("pods", "a"), ("pods", "b"), ("services", "a")];
        assert!(
            pairs
                .iter()
                .all(|(resource, space)| scope.holds(resource, space))
        );
        assert!(
            !scope.holds("services", "b")
                && !scope.holds("pods", "c")
                && !scope.holds("secrets", "a")
        );
        assert_eq!(scope.namespaces(2).unwrap().len(), 2);
        assert_eq!((scope.namespaces(1), scope.resource()), (None, None));
        let everywhere = Scope::new(&requested("", None, true), listed.clone()).unwrap();
        assert!(everywhere.holds("pods", "c") && everywhere.namespaces(9).is_none());
        let wider = Scope::new(&requested("", Some("c"), false), listed).unwrap();
        assert!(wider.holds("pods", "c") && !wider.holds("pods", "a"));
    }

    #[test]
    fn what_is_listed_elsewhere_is_not_looked_at() {
        assert!(requested("", None, false).is_about("pods", "a"));
        assert!(requested("pods", Some("a"), false).is_about("pods", "a"));
        assert!(!requested("pods", Some("a"), false).is_about("pods", "b"));
        assert!(!requested("pods", None, true).is_about("services", "a"));
        assert!(requested("pods", Some("a"), true).is_about("pods", "b"));
    }

    #[test]
    fn that_there_is_none_has_to_be_said_and_of_what_and_where() {
        let exit = |requested: &ScopeArguments, listed: &Listed| {
            Scope::new(requested, listed.clone()).map_err(|failure| failure.exit)
        };
        let (none, pods) = (Listed::new(), listed(&[("pods", "a")]));
        assert_eq!(
            exit(&requested("pods", None, true), &none),
            Err(Exit::Failure)
        );
        assert_eq!(
            exit(&requested("pods services", None, true), &pods),
            Err(Exit::Failure)
        );
        let allowed = |resources, namespace, all| ScopeArguments {
            allow_empty: true,
            ..requested(resources, namespace, all)
        };
        assert_eq!(exit(&allowed("", None, true), &none), Err(Exit::Usage));
        assert_eq!(exit(&allowed("pods", None, false), &none), Err(Exit::Usage));
        assert_eq!(
            exit(&allowed("services", None, false), &pods),
            Err(Exit::Usage)
        );
        let scope = exit(&allowed("services pods", Some("b"), false), &pods).unwrap();
        assert!(
            scope.holds("services", "b") && scope.holds("pods", "b") && !scope.holds("pods", "a")
        );
        assert_eq!(
            exit(&allowed("pods", None, true), &none)
                .unwrap()
                .resource(),
            Some("pods")
        );
    }
}
