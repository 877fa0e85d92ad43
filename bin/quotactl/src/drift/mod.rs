//! `drift`: compares the objects of the ledger with a listing.

mod listing;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::{self, File},
    io::{self, BufReader, Read},
    path::Path,
    time::Duration,
};

use quota_client::{
    http::Address,
    wire::{AsOf, Compared, CorrectionOutcome, Difference, DriftAnswer, Object, Page},
};
use serde::{Deserialize, Serialize};

use listing::Item;

use crate::{
    args::Drift,
    failure::{Exit, Failure, Outcome},
    output::{Progress, note},
    session::Session,
};

/// The maximum age of a listing without a resourceVersion that is used for corrections.
const LISTING_MAX_AGE: Duration = Duration::from_secs(600);

/// The number of objects that may be ended whatever their share of the scope.
const FEW: usize = 10;

/// A difference, and the data for its correction.
#[derive(Clone, Debug)]
enum Drifted {
    /// A listed object that differs, and its listed JSON text, if the difference is to be corrected.
    Listed { compared: Box<Compared<'static>>, text: Box<str> },
    /// An object of the ledger that is not listed.
    Gone(Box<Object<'static>>),
}

/// The objects of a listing, each as JSON text. An incomplete listing is refused as a whole.
///
/// # Errors
/// If the listing cannot be read, or is incomplete.
pub fn objects_of(input: impl Read) -> Result<Vec<Box<str>>, String> {
    let mut objects = Vec::new();
    let read = listing::read(input, |item| {
        objects.push(item.text);
        Ok(())
    });
    match read {
        Ok(_) => Ok(objects),
        Err(failure) => Err(failure.message),
    }
}

/// Compares the ledger with a listing; fails with [`Exit::Conflict`] if they differ.
pub(crate) fn run(session: &Session, args: &Drift) -> Outcome {
    if args.correct != session.reason.is_some() {
        return Err(Failure::usage(
            "--correct and --reason go together: each entry holds the reason",
        ));
    }
    let requested = ScopeArguments {
        resources: args.resources.iter().cloned().collect(),
        namespace: session.scope.given.clone(),
        all: session.scope.all,
        allow_empty: args.allow_empty,
    };
    let place = place(&args.listing);
    // What comes into the ledger from now on may not be in the listing yet.
    let head = head(session)?;
    let progress = Progress::over_file("comparing", &args.listing);
    let input = progress.read(open(&args.listing)?);
    let mut comparing = Comparing::new(session, &requested, args.correct);
    let listed_as_of = listing::read(BufReader::new(input), |item| comparing.take(item))
        .and_then(|version| comparing.finish().map(|compared| (version, compared)))
        .map_err(|failure| failure.about(&place));
    drop(progress);
    let (version, mut compared) = listed_as_of?;
    let version = args.resource_version.or(version);
    let listed = std::mem::take(&mut compared.listed);
    let scope = Scope::new(&requested, listed).map_err(|failure| failure.about(&place))?;
    // The new object of a name is set before the old one is ended, so that a quota's limits hold without a gap.
    let gone = add_gone(session, &scope, &mut compared, head, version)?;
    let Some(reason) = session.reason.as_deref().filter(|_| args.correct) else {
        compared.show(session, None)?;
        return found(compared.differences.is_empty());
    };
    if let Err(failure) = may_correct(args, version, gone, compared.counts.believed) {
        compared.show(session, None)?;
        return Err(failure);
    }
    let outcomes = report::correct(session, &compared.differences, reason)?;
    let all_right = outcomes
        .iter()
        .all(|it| matches!(it, CorrectionOutcome::Corrected | CorrectionOutcome::Right));
    compared.show(session, Some(&outcomes))?;
    found(all_right)
}

fn found(none: bool) -> Outcome {
    match none {
        true => Ok(()),
        false => Err(Failure::silent(Exit::Conflict)),
    }
}

fn place(listing: &Path) -> String {
    match listing == Path::new("-") {
        true => "standard input".to_owned(),
        false => listing.display().to_string(),
    }
}

fn open(listing: &Path) -> Outcome<Box<dyn Read>> {
    if listing == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let about = |error| Failure::from(error).about(listing.display());
    Ok(Box::new(File::open(listing).map_err(about)?))
}

/// The last entry of the ledger.
fn head(session: &Session) -> Outcome<u64> {
    let address = Address::of(["v1", "objects"]).with("limit", 1);
    let page = session.client.get::<Page<Object<'static>>>(&address)?.content;
    session.note_lag(page.lagging);
    Ok(page.as_of.sequence)
}

/// Refuses corrections if it is not certain enough that unlisted objects are gone.
fn may_correct(args: &Drift, version: Option<u64>, gone: usize, believed: usize) -> Outcome {
    if gone > FEW && gone > believed / 2 && !args.allow_ending_most {
        let wrong = format!("{gone} of {believed} objects would be ended; nothing was corrected");
        let hint = "if the listing is complete, use --allow-ending-most";
        return Err(Failure::general(wrong).hint(hint));
    }
    if gone > 0 && version.is_none() && is_old(&args.listing) {
        let wrong = "the listing is old and has no resourceVersion; nothing was corrected";
        let hint = "newer objects would count as gone: list again, or give --resource-version";
        return Err(Failure::general(wrong).hint(hint));
    }
    Ok(())
}

/// Whether a listing is a file that was written some time ago.
fn is_old(listing: &Path) -> bool {
    let modified = fs::metadata(listing).and_then(|file| file.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    listing != Path::new("-") && age.is_some_and(|age| age > LISTING_MAX_AGE)
}

/// Reports a count on standard error, unless it is 0.
fn note_some(count: usize, what: &str) {
    if count > 0 {
        note(format!("{count} {what}"));
    }
}

// The comparison of listed objects, piece by piece, and the namespaces that it covers.

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
type Identity = u128;

/// The identity of an object.
fn identity(object: &Object<'_>) -> Identity {
    // No namespace holds a zero byte: the same text is never of another pair.
    let pair = format!("{}\0{}", object.namespace, object.uid);
    let hash = blake3::hash(pair.as_bytes());
    let bytes = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Identity::from_le_bytes(bytes)
}

/// The result of comparing a listing.
#[derive(Default)]
struct Comparison {
    /// The differences.
    differences: Vec<Drifted>,
    /// The identities of the listed objects.
    identities: HashSet<Identity>,
    /// The namespaces in which objects were listed, by resource.
    listed: Listed,
    /// The counts of objects.
    counts: Counts,
}

/// Counts of objects.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    /// The number of listed objects that were compared.
    listed: usize,
    /// The number of objects in the ledger within the scope of the listing.
    believed: usize,
    /// The number of listed objects of which the ledger has a later version, or the deletion, and of unlisted ones that
    /// are newer than the listing.
    newer: usize,
    /// The number of listed objects outside of the scope.
    outside: usize,
    /// The number of listed objects that are not relevant to quotas.
    ignored: usize,
    /// The position of the ledger; none if no request was sent for its objects.
    as_of: Option<AsOf>,
}

/// A comparison in progress.
struct Comparing<'a> {
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
    fn new(session: &'a Session, requested: &'a ScopeArguments, keep: bool) -> Self {
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
    fn take(&mut self, item: Item) -> Outcome {
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
    fn finish(&mut self) -> Outcome<Comparison> {
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
fn add_gone(
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
struct ScopeArguments {
    /// The resources; empty: those that occur in the listing.
    resources: BTreeSet<String>,
    /// The only namespace.
    namespace: Option<String>,
    /// Whether all namespaces are in the scope, listed or not.
    all: bool,
    /// Whether an empty listing is accepted.
    allow_empty: bool,
}

impl ScopeArguments {
    /// Whether a listed object is within the scope.
    fn is_about(&self, resource: &str, namespace: &str) -> bool {
        let is_ours = self.all || self.namespace.as_deref().is_none_or(|own| own == namespace);
        is_ours && (self.resources.is_empty() || self.resources.contains(resource))
    }
}

/// The namespaces in which objects were listed, by resource.
type Listed = BTreeMap<String, BTreeSet<String>>;

/// The namespaces of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spaces {
    All,
    These(BTreeSet<String>),
}

/// The scope of a listing, by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope(BTreeMap<String, Spaces>);

impl Scope {
    /// The scope of a listing: by default the resources that occur in it, each in the namespaces in which it occurs.
    fn new(requested: &ScopeArguments, listed: Listed) -> Outcome<Self> {
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
    fn holds(&self, resource: &str, namespace: &str) -> bool {
        match self.0.get(resource) {
            Some(Spaces::All) => true,
            Some(Spaces::These(names)) => names.contains(namespace),
            None => false,
        }
    }

    /// The namespaces of the scope, if there are at most `most`.
    fn namespaces(&self, most: usize) -> Option<BTreeSet<&str>> {
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
    fn resource(&self) -> Option<&str> {
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
