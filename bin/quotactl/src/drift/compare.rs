//! The comparison of listed objects, piece by piece, and the namespaces that it covers.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use quota_client::{
    http::Address,
    wire::{AsOf, Compared, Difference, DriftAnswer, Object, Page},
};
use serde::{Deserialize, Serialize};

use super::{Drifted, listing::Item};
use crate::{
    failure::{Failure, Outcome},
    output::note,
    session::Session,
};

/// The maximum number of objects of a request.
const PIECE_OBJECTS: usize = 500;

/// The maximum size of the objects of a request, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// The maximum number of objects of a listing: their identities are kept, in about 40 bytes each.
const OBJECTS_MAX: usize = 20_000_000;

/// The maximum size of the objects that are kept for corrections, in bytes.
const KEPT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// The maximum number of unreadable objects that are named one by one.
const NAMED_MAX: usize = 20;

/// A fixed-size digest of an object's identity: its namespace and uid.
pub(super) type Identity = u128;

/// The identity of an object.
pub(super) fn identity(object: &Object<'_>) -> Identity {
    // No namespace holds a zero byte: the same text is never of another pair.
    let pair = format!("{}\0{}", object.namespace, object.uid);
    let hash = blake3::hash(pair.as_bytes());
    let bytes = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Identity::from_le_bytes(bytes)
}

/// The result of comparing a listing.
#[derive(Default)]
pub(super) struct Comparison {
    /// The differences.
    pub(super) differences: Vec<Drifted>,
    /// The identities of the listed objects.
    pub(super) identities: HashSet<Identity>,
    /// The namespaces in which objects were listed, by resource.
    pub(super) listed: Listed,
    /// The counts of objects.
    pub(super) counts: Counts,
}

/// Counts of objects.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// The number of listed objects that were compared.
    pub(super) listed: usize,
    /// The number of objects in the ledger within the scope of the listing.
    pub(super) believed: usize,
    /// The number of listed objects of which the ledger has a later version, or the deletion, and of unlisted ones that
    /// are newer than the listing.
    pub(super) newer: usize,
    /// The number of listed objects outside of the scope.
    pub(super) outside: usize,
    /// The number of listed objects that are not relevant to quotas.
    pub(super) ignored: usize,
    /// The position of the ledger; none if no request was sent for its objects.
    pub(super) as_of: Option<AsOf>,
}

/// A comparison in progress.
pub(super) struct Comparing<'a> {
    session: &'a Session,
    requested: &'a ScopeArguments,
    /// Whether the text of differing objects is kept for corrections.
    keep: bool,
    kept: usize,
    piece: Vec<Item>,
    bytes: usize,
    unreadable: usize,
    compared: Comparison,
}

impl<'a> Comparing<'a> {
    pub(super) fn new(session: &'a Session, requested: &'a ScopeArguments, keep: bool) -> Self {
        Self {
            session,
            requested,
            keep,
            kept: 0,
            piece: Vec::new(),
            bytes: 0,
            unreadable: 0,
            compared: Comparison::default(),
        }
    }

    /// Adds a listed object, and sends full pieces.
    pub(super) fn take(&mut self, item: Item) -> Outcome {
        if self.bytes.saturating_add(item.text.len()) > PIECE_BYTES {
            self.send()?;
        }
        self.bytes += item.text.len();
        self.piece.push(item);
        match self.piece.len() < PIECE_OBJECTS {
            true => Ok(()),
            false => self.send(),
        }
    }

    /// Sends the last piece. Fails if an object could not be parsed.
    pub(super) fn finish(&mut self) -> Outcome<Comparison> {
        self.send()?;
        match self.unreadable {
            0 => Ok(std::mem::take(&mut self.compared)),
            count => Err(Failure::general(format!("{count} objects cannot be read"))
                .hint("an incomplete listing cannot prove that objects are gone")),
        }
    }

    fn send(&mut self) -> Outcome {
        let piece = std::mem::take(&mut self.piece);
        self.bytes = 0;
        if piece.is_empty() {
            return Ok(());
        }
        let texts: Vec<_> = piece.iter().map(|item| &*item.text).collect();
        let body = format!("{{\"listing\":[{}]}}", texts.join(","));
        let address = Address::of(["v1", "drift"]);
        let client = &self.session.client;
        let reply = client.send_patiently(&address, "application/json", body.into_bytes())?;
        let found = reply.read::<DriftAnswer<'static>>()?.items;
        if found.len() != piece.len() {
            return Err(Failure::general("the response does not match the request"));
        }
        let mut pairs = piece.into_iter().zip(found);
        pairs.try_for_each(|(item, compared)| self.note(item, compared))
    }

    /// Records the difference of an object.
    fn note(&mut self, item: Item, found: Compared<'static>) -> Outcome {
        let object = match (&found.difference, &found.object) {
            (Difference::Ignored, _) => {
                self.compared.counts.ignored += 1;
                return Ok(());
            }
            (Difference::Unreadable, _) => {
                self.unreadable += 1;
                if self.unreadable <= NAMED_MAX {
                    let reason = found.reason.as_deref().unwrap_or_default();
                    note(format!("{}{}: {reason}", item.place, named(&item)));
                }
                return Ok(());
            }
            (_, Some(object)) => object,
            (_, None) => {
                let wrong = "the response does not name the compared object";
                return Err(Failure::general(wrong));
            }
        };
        let (resource, namespace) = (&*object.resource, &*object.namespace);
        if !self.requested.is_about(resource, namespace) {
            self.compared.counts.outside += 1;
            return Ok(());
        }
        let compared = &mut self.compared;
        let spaces = compared.listed.entry(resource.to_owned()).or_default();
        if !spaces.contains(namespace) {
            spaces.insert(namespace.to_owned());
        }
        if !compared.identities.insert(identity(object)) {
            let place = format!("{}{}", item.place, named(&item));
            return Err(Failure::general("it was listed before").about(place));
        }
        if compared.identities.len() > OBJECTS_MAX {
            let wrong = format!("more than {OBJECTS_MAX} objects");
            return Err(Failure::general(wrong).hint("compare one namespace at a time"));
        }
        compared.counts.listed += 1;
        match found.difference {
            Difference::None => Ok(()),
            Difference::Newer => {
                compared.counts.newer += 1;
                Ok(())
            }
            _ => self.keep(item, found),
        }
    }

    fn keep(&mut self, item: Item, found: Compared<'static>) -> Outcome {
        if self.keep {
            self.kept = self.kept.saturating_add(item.text.len());
        }
        if self.kept > KEPT_MAX_BYTES {
            let wrong = format!("what differs has more than {KEPT_MAX_BYTES} bytes");
            return Err(Failure::general(wrong).hint("correct one namespace at a time: -n"));
        }
        let text = match self.keep {
            true => item.text,
            false => Box::default(),
        };
        self.compared.differences.push(Drifted::Listed { compared: Box::new(found), text });
        Ok(())
    }
}

/// The name of an object that could not be parsed, for messages.
fn named(item: &Item) -> String {
    /// The names of an object: in the metadata of a Kubernetes object, or among the fields of a plain event.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        name: String,
        namespace: String,
        metadata: Option<Box<Names>>,
    }
    let names: Names = serde_json::from_str(&item.text).unwrap_or_default();
    let names = match names.metadata {
        Some(metadata) => *metadata,
        None => names,
    };
    match (&*names.namespace, &*names.name) {
        (_, "") => String::new(),
        ("", name) => format!(" ({name})"),
        (space, name) => format!(" ({space}/{name})"),
    }
}

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
    let Comparison { identities, counts, .. } = compared;
    let mut gone: Vec<Object<'static>> = Vec::new();
    for address in addresses {
        let address = address.with_some("resource", scope.resource());
        session.client.walk(&address, |page: Page<Object<'static>>| {
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
        let own: Option<u64> = object.resource_version.as_ref().and_then(|text| text.parse().ok());
        let is_newer = version.is_some_and(|version| own.is_some_and(|own| own > version));
        if is_newer || object.sequence.is_none_or(|entry| entry > head) {
            self.newer += 1;
        } else {
            return true;
        }
        false
    }
}

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
                "if the cluster has no such objects, use --allow-empty: then all recorded objects end",
            ));
        }
        if let (Some(resource), false) = (unlisted.first(), requested.allow_empty) {
            return Err(Failure::general(format!("the listing has no {resource}"))
                .hint("if there are none, use --allow-empty"));
        }
        let names_spaces = requested.all || requested.namespace.is_some();
        if !names_spaces && !unlisted.is_empty() {
            return Err(Failure::usage(
                "no namespace is given in which the resource has no objects: use -n or -A",
            ));
        }
        if listed.is_empty() && requested.resources.is_empty() {
            return Err(Failure::usage("an empty listing names no resource: use --resource"));
        }
        let none = requested.resources.iter().map(|name| (name.clone(), <_>::default()));
        let mut all: Listed = none.collect();
        all.extend(listed);
        let spaces = |listed| match &requested.namespace {
            _ if requested.all => Spaces::All,
            Some(only) => Spaces::These(BTreeSet::from([only.clone()])),
            None => Spaces::These(listed),
        };
        let spaces = all.into_iter().map(|(resource, listed)| (resource, spaces(listed)));
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
    use serde_json::json;

    use super::*;
    use crate::failure::Exit;

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
        assert!(pairs.iter().all(|(resource, space)| scope.holds(resource, space)));
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
        assert_eq!(exit(&requested("pods", None, true), &none), Err(Exit::Failure));
        assert_eq!(exit(&requested("pods services", None, true), &pods), Err(Exit::Failure));
        let allowed = |resources, namespace, all| ScopeArguments {
            allow_empty: true,
            ..requested(resources, namespace, all)
        };
        assert_eq!(exit(&allowed("", None, true), &none), Err(Exit::Usage));
        assert_eq!(exit(&allowed("pods", None, false), &none), Err(Exit::Usage));
        assert_eq!(exit(&allowed("services", None, false), &pods), Err(Exit::Usage));
        let scope = exit(&allowed("services pods", Some("b"), false), &pods).unwrap();
        assert!(
            scope.holds("services", "b") && scope.holds("pods", "b") && !scope.holds("pods", "a")
        );
        assert_eq!(exit(&allowed("pods", None, true), &none).unwrap().resource(), Some("pods"));
    }
}
