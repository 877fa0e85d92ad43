//! The watched kinds: which are needed; runs discovery, starts tasks for needed kinds, and ends tasks of removed kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quota_semantics::{
    Name,
    group::manifest::{GROUP, PLURAL},
    object::{GroupResource, MEASURED, is_ignored},
    syntax,
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    discovery::{
        Definition, Discovered, LeftOut, Served, definition, discover, may_be_defined, was_defined,
    },
    kind::{self, Relist, Shared},
    line::{self, Begin, End, Scope},
    metrics,
};

/// The tasks of the needed kinds.
pub struct Kinds {
    shared: Arc<Shared>,
    registry: Registry,
    wanted: Wanted,
    /// The watched namespaces; empty: all.
    namespaces: Vec<Name>,
    every: Duration,
    running: BTreeMap<GroupResource, Running>,
    left_out: LeftOut,
    /// The kinds that this bridge has watched before: their definition is gone, or no quota limits them any more.
    left: BTreeSet<GroupResource>,
}

/// By how much the interval of watermarks is longer for kinds that are watched only because of quotas: there may be many.
const RARELY: u32 = 3;

struct Running {
    served: Served,
    changed: Changed,
    /// Whether the kind has a definition; none: not determined yet.
    is_defined: Option<bool>,
    /// The tasks of the kind; dropping the set ends them.
    _tasks: JoinSet<()>,
}

impl Running {
    /// Whether the kind may be gone if discovery leaves it out: it has, or had, a definition. A definition that was missing
    /// once may have been about to go, or to come back, while discovery still listed the kind.
    fn may_be_gone(&self, kind: &GroupResource) -> bool {
        self.is_defined == Some(true) || was_defined(kind) && !self.served.aggregated
    }
}

/// A changed discovery result for a watched kind, with the time of the first such discovery.
#[derive(Debug, Default)]
struct Changed(Option<(Served, Instant)>);

impl Changed {
    /// Records the result `served` of the discovery at `now` for a kind that is watched as `watched`. Returns whether
    /// all discoveries for at least `least` had this changed result: API servers of two releases may answer in turn,
    /// and each change costs a list.
    fn note(&mut self, watched: &Served, served: &Served, now: Instant, least: Duration) -> bool {
        if served == watched {
            self.0 = None;
            return false;
        }
        match &self.0 {
            Some((before, since)) if before == served => {
                *since < now && now.duration_since(*since) >= least
            }
            _ => {
                self.0 = Some((served.clone(), now));
                false
            }
        }
    }
}

impl Kinds {
    /// Starts no tasks yet.
    pub fn new(
        shared: Arc<Shared>,
        registry: Registry,
        wanted: Wanted,
        namespaces: Vec<Name>,
        every: Duration,
    ) -> Self {
        Self {
            shared,
            registry,
            wanted,
            namespaces,
            every,
            running: BTreeMap::new(),
            left_out: LeftOut::default(),
            left: BTreeSet::new(),
        }
    }

    /// Runs discovery periodically, and starts and ends tasks, until the future is dropped.
    pub async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let wait = match discover(&self.shared.client).await {
                Ok(discovered) => {
                    failures = 0;
                    match self.adjust(&discovered).await {
                        true => self.every,
                        false => self.every / 2,
                    }
                }
                Err(failure) => {
                    tracing::warn!(%failure, "discovery failed");
                    metrics::error("discovery", &failure);
                    failures = failures.saturating_add(1);
                    let wait = Duration::from_millis(500) * 2_u32.saturating_pow(failures.min(6));
                    wait.min(self.every)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.shared.limited.changed() => {}
            }
        }
    }

    /// Starts, restarts and ends tasks. Returns whether it is certain for each needed kind whether the kind is served.
    async fn adjust(&mut self, discovered: &Discovered) -> bool {
        let served = discovered.kinds.keys().cloned().collect();
        if self.shared.limited.serve(served) {
            let quotas = [quotas(), groups()].map(|kind| kind.to_string());
            self.registry.relist(&quotas.into());
        }
        let independent = self.wanted.independent_of_quotas();
        let (needed, unwatched) = self.needed();
        metrics::limited_kinds(needed.difference(&independent).count());
        self.leave_all_but(&needed);
        let is_kept = |kind: &GroupResource| {
            needed.contains(kind) || unwatched.contains(kind) || self.left.contains(kind)
        };
        self.shared.watermarks.keep_absent(is_kept);
        for kind in &unwatched {
            self.shared.watermarks.absent(kind);
        }
        let (now, least) = (Instant::now(), self.every / 2);
        let (mut missing, mut is_certain) = (Vec::new(), true);
        for kind in &needed {
            let served = discovered.kinds.get(kind);
            let is_left_out = served.is_none() && discovered.is_certain_of(&kind.group);
            let is_out_for_long = self.left_out.note(kind, is_left_out, now, least);
            match (served, self.running.get_mut(kind)) {
                (Some(served), Some(running)) => {
                    let Running { served: watched, changed, .. } = running;
                    if changed.note(watched, served, now, least) {
                        self.start(served.clone());
                    }
                }
                (Some(served), None) => self.start(served.clone()),
                // The tasks of kinds that may come back go on, and fail by themselves.
                (None, Some(running)) => {
                    if is_out_for_long && running.may_be_gone(kind) {
                        missing.push((kind, is_out_for_long));
                    }
                }
                (None, None) if is_left_out => {
                    let was_watched = self.left.contains(kind);
                    let is_independent = independent.contains(kind);
                    // A server that has just started may not yet serve what others define. Kinds that only quotas name may be
                    // invented: the ledger would record each of them, and nobody waits for them.
                    match is_out_for_long {
                        true if was_watched || is_independent => {
                            self.shared.watermarks.absent(kind);
                        }
                        true => {}
                        false => is_certain = false,
                    }
                    let may_be_gone = was_watched || was_defined(kind) && is_independent;
                    if discovered.knows_others && may_be_gone && !self.registry.is_settled(kind) {
                        missing.push((kind, is_out_for_long));
                    }
                }
                (None, None) => {}
            }
        }
        self.left_out.keep(&needed);
        self.registry.keep_settled(&needed);
        self.look_for_definitions(missing).await;
        self.look_at_definitions().await;
        is_certain
    }

    /// Ends the tasks of kinds that are not needed any more. They are reported as absent: what the ledger knows of them is
    /// not kept up to date. Once they are needed again, a list puts it right.
    fn leave_all_but(&mut self, needed: &BTreeSet<GroupResource>) {
        let running = self.running.keys();
        let left: Vec<_> = running.filter(|kind| !needed.contains(*kind)).cloned().collect();
        for kind in left {
            self.running.remove(&kind);
            tracing::info!(resource = %kind, "no quota limits the kind any more: it is not watched");
            self.registry.remove(&kind);
            self.shared.watermarks.absent(&kind);
            self.left.insert(kind);
        }
    }

    /// The kinds that are watched if they are served, and those that are reported as absent.
    fn needed(&self) -> (BTreeSet<GroupResource>, BTreeSet<GroupResource>) {
        let mut needed = needed(&self.wanted, &self.shared.limited.get());
        let mut unwatched = self.wanted.exclude.clone();
        if !self.namespaces.is_empty() {
            // Who sees some namespaces only may not list what is of the whole cluster.
            needed.retain(|kind| !is_of_the_cluster(kind));
            // Groups are then those of the ledger alone, which need not be waited for.
            unwatched.insert(groups());
        }
        (needed, unwatched)
    }

    fn scopes(&self, kind: &GroupResource) -> Vec<Scope> {
        let scope = |namespace: Option<&Name>| Scope {
            resource: kind.clone(),
            namespace: namespace.cloned(),
        };
        match self.namespaces.is_empty() {
            true => vec![scope(None)],
            false => self.namespaces.iter().map(|it| scope(Some(it))).collect(),
        }
    }

    fn start(&mut self, served: Served) {
        let kind = served.resource.clone();
        tracing::info!(resource = %kind, version = served.version, "watching");
        let scopes = self.scopes(&kind);
        let every = self.shared.config.watermark.every.get();
        let every = match self.wanted.independent_of_quotas().contains(&kind) {
            true => every,
            false => every.saturating_mul(RARELY),
        };
        self.left.remove(&kind);
        self.shared.watermarks.watched(&kind, &scopes);
        self.registry.remove(&kind);
        let mut tasks = JoinSet::new();
        for scope in scopes {
            let relists = kind::start(&self.shared, &served, scope.clone(), every, &mut tasks);
            self.registry.add(scope, relists);
        }
        let before = self.running.get(&kind);
        let running = Running {
            is_defined: before
                .and_then(|running| running.is_defined)
                .filter(|_| !served.aggregated),
            served,
            changed: Changed::default(),
            _tasks: tasks,
        };
        self.running.insert(kind, running);
    }

    /// Determines which watched kinds have a definition: only those can be removed.
    async fn look_at_definitions(&mut self) {
        let unknown = self.running.iter().filter(|(kind, running)| {
            running.is_defined.is_none() && !running.served.aggregated && may_be_defined(kind)
        });
        let unknown: Vec<_> = unknown.map(|(kind, _)| kind.clone()).collect();
        for kind in unknown {
            let is_defined = match definition(&self.shared.client, &kind).await {
                Definition::Exists => true,
                Definition::Missing | Definition::Hidden => false,
                // The next discovery is soon.
                Definition::Unknown => return,
            };
            if let Some(running) = self.running.get_mut(&kind) {
                running.is_defined = Some(is_defined);
            }
        }
    }

    /// Requests the definitions of kinds that discovery leaves out, `is_for_long` or once. A kind without one has no
    /// objects; an empty list ends them once the kind is left out for long.
    ///
    /// A kind that this bridge has never watched is among them only if it is configured: its definition may have been
    /// deleted while no bridge ran. The authors of quotas may name any kind, also one whose objects another publisher
    /// reports, which must not end.
    async fn look_for_definitions(&mut self, missing: Vec<(&GroupResource, bool)>) {
        for (kind, is_for_long) in missing {
            match definition(&self.shared.client, kind).await {
                Definition::Missing if is_for_long => {
                    tracing::info!(resource = %kind, "nobody serves the kind, so it has no objects");
                    self.end(kind).await;
                }
                Definition::Missing => self.shared.watermarks.absent(kind),
                Definition::Hidden => self.registry.settle(kind),
                Definition::Exists => {}
                // The next discovery is soon, and each question may take long.
                Definition::Unknown => return,
            }
        }
    }

    /// Ends all objects of a kind by an empty list, since they were deleted with the kind's definition.
    async fn end(&mut self, kind: &GroupResource) {
        if self.running.remove(kind).is_some() {
            self.left.insert(kind.clone());
        }
        self.registry.remove(kind);
        self.registry.settle(kind);
        self.shared.watermarks.absent(kind);
        let losses = self.shared.watermarks.losses();
        for scope in self.scopes(kind) {
            let begin = Begin { id: self.shared.ids.next(), reset: false };
            let end = End { id: begin.id.clone(), version: String::new(), allow_empty: true };
            let (begin, end) = (line::begin(&scope, &begin), line::end(&scope, &end));
            let queue = &self.shared.queue;
            if queue.push(begin).await.is_err()
                || queue.push_unless_lost(end, losses).await.is_err()
            {
                return;
            }
        }
    }
}

// The receivers of relist requests, and the unserved kinds that need no relist.

/// The receivers of relist requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    watched: BTreeMap<Scope, mpsc::UnboundedSender<Relist>>,
    /// Unserved kinds whose objects this bridge has ended, or will not end, since the last request for a relist.
    settled: BTreeSet<GroupResource>,
}

impl Registry {
    /// Requests a relist of these kinds, or of all if none is given. Objects of removed kinds are ended once more,
    /// since messages may have been lost.
    pub fn relist(&self, kinds: &BTreeSet<String>) {
        self.request(Relist::Again, |kind| kinds.is_empty() || kinds.contains(&kind.to_string()));
    }

    /// Requests a relist of all kinds, since messages are gone from the stream.
    pub(crate) fn lost(&self) {
        self.request(Relist::Lost, |_| true);
    }

    fn request(&self, relist: Relist, is_meant: impl Fn(&GroupResource) -> bool) {
        let mut registered = self.0.lock();
        for (scope, relists) in &registered.watched {
            if is_meant(&scope.resource) {
                let _ = relists.send(relist);
            }
        }
        registered.settled.retain(|kind| !is_meant(kind));
    }

    fn add(&self, scope: Scope, relists: mpsc::UnboundedSender<Relist>) {
        self.0.lock().watched.insert(scope, relists);
    }

    fn remove(&self, kind: &GroupResource) {
        let watched = &mut self.0.lock().watched;
        watched.retain(|scope, _| scope.resource != *kind);
    }

    fn settle(&self, kind: &GroupResource) {
        self.0.lock().settled.insert(kind.clone());
    }

    /// Removes the settled kinds that are no longer needed.
    fn keep_settled(&self, needed: &BTreeSet<GroupResource>) {
        self.0.lock().settled.retain(|kind| needed.contains(kind));
    }

    fn is_settled(&self, kind: &GroupResource) -> bool {
        self.0.lock().settled.contains(kind)
    }
}

// The kinds that have to be watched.

/// The kinds that the operator configures in addition to the kinds that are always needed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Kinds that are watched although no quota in the cluster limits them.
    pub include: BTreeSet<GroupResource>,
    /// Kinds that are never watched.
    pub exclude: BTreeSet<GroupResource>,
    /// Workloads that are charged for their pods.
    pub charge: BTreeSet<GroupResource>,
}

impl Wanted {
    /// The kinds that are watched whatever quotas limit, if they are served.
    pub fn independent_of_quotas(&self) -> BTreeSet<GroupResource> {
        needed(self, &BTreeSet::new())
    }
}

/// The kinds that are always watched: those with amounts other than their number, quotas, groups, and namespaces, by
/// whose labels groups select.
pub fn always() -> BTreeSet<GroupResource> {
    let measured = MEASURED.map(|(group, resource)| GroupResource::new(group, resource));
    measured.into_iter().chain([quotas(), groups(), namespaces()]).collect()
}

/// Namespaces.
pub fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// Quotas of one namespace.
pub fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

/// Quotas over several namespaces, which become groups of the ledger.
pub fn groups() -> GroupResource {
    GroupResource::new(GROUP, PLURAL)
}

/// Whether this is one of the cluster-scoped kinds that are watched.
pub fn is_of_the_cluster(kind: &GroupResource) -> bool {
    [namespaces(), groups()].contains(kind)
}

/// Whether a kind can have this name. Quotas may limit the number of any name that looks like a resource, such as
/// `count/Deployments.apps`; the ledger accepts valid names of kinds only.
pub fn is_possible(kind: &GroupResource) -> bool {
    syntax::subdomain(&kind.to_string()).is_empty()
}

/// All kinds that have to be watched, if they are served. `limited`: the kinds that some quota limits.
pub fn needed(wanted: &Wanted, limited: &BTreeSet<GroupResource>) -> BTreeSet<GroupResource> {
    let mut kinds = always();
    for more in [&wanted.include, &wanted.charge, limited] {
        kinds.extend(more.iter().cloned());
    }
    kinds.retain(|kind| !wanted.exclude.contains(kind) && !is_ignored(kind));
    kinds
}

#[cfg(test)]
mod tests {
    use quota_testkit::fake_api::world::{Fault, Request, World};
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    use crate::{kind::fakes, line::Progress, publisher::Line};

    const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
    const WIDGETS: &str = "widgets.example.com";
    const GATEWAYS: &str = "gateways.gateway.networking.k8s.io";

    /// A leading bridge, between a cluster and a queue that is not published.
    struct Scene {
        world: World,
        kinds: Kinds,
        lines: mpsc::Receiver<Line>,
    }

    impl Scene {
        async fn new(include: &[&str]) -> Self {
            let (world, shared, lines) = fakes::shared().await;
            let wanted = Wanted {
                include: include.iter().map(|kind| kind.parse().unwrap()).collect(),
                ..Wanted::default()
            };
            let shared = Arc::new(shared);
            let registry = Registry::default();
            let kinds = Kinds::new(shared, registry, wanted, Vec::new(), Duration::ZERO);
            Self { world, kinds, lines }
        }

        /// Runs discovery, and returns whether the result is certain.
        async fn discover(&mut self) -> bool {
            let discovered = discover(&self.kinds.shared.client).await.unwrap();
            self.kinds.adjust(&discovered).await
        }

        /// Runs discovery twice, since one result alone ends nothing, and drops the lines of the first.
        async fn discover_twice(&mut self) {
            self.discover().await;
            while self.lines.try_recv().is_ok() {}
            self.discover().await;
        }

        fn is_absent(&self, kind: &str) -> bool {
            let progress = self.kinds.shared.watermarks.progress();
            progress.get(kind) == Some(&Progress::Absent { absent: true })
        }

        /// The number of relists of a kind that have begun since the last call.
        fn relists(&mut self, kind: &str) -> usize {
            let begin = format!(r#"{{"type":"RELIST_BEGIN","resource":"{kind}""#);
            let mut count = 0;
            while let Ok(line) = self.lines.try_recv() {
                count += usize::from(line.text.starts_with(begin.as_bytes()));
            }
            count
        }
    }

    /// The scope of groups. The cluster does not define them, so only the test says what they limit.
    fn unlisted() -> Scope {
        Scope { resource: groups(), namespace: None }
    }

    fn define(world: &World, kind: &str) {
        let (plural, group) = kind.split_once('.').unwrap();
        let definition = json!({"spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": "Kind"}, "versions": [{"name": "v1"}]}});
        world.create(DEFINITIONS, "", kind, definition);
    }

    /// A server that has just started does not yet serve all defined kinds.
    #[tokio::test]
    async fn a_kind_is_absent_if_it_has_no_definition_or_is_left_out_twice() {
        let mut scene =
            Scene::new(&[WIDGETS, GATEWAYS, "deployments.apps", "parts.example.org"]).await;
        define(&scene.world, WIDGETS);
        scene.world.hide(WIDGETS);
        scene.world.hide("deployments.apps");
        assert!(!scene.discover().await);
        assert!(scene.is_absent("parts.example.org"));
        for kind in [WIDGETS, GATEWAYS, "deployments.apps"] {
            assert!(!scene.is_absent(kind), "{kind}");
        }
        assert!(scene.discover().await);
        for kind in [WIDGETS, GATEWAYS, "deployments.apps", "parts.example.org"] {
            assert!(scene.is_absent(kind), "{kind}");
        }
        assert_eq!(scene.relists("parts.example.org"), 1, "its objects are gone");
        assert_eq!(scene.relists(WIDGETS), 0);
    }

    /// Another publisher may report objects of a kind that is none of the cluster, and anybody may write a quota for it.
    #[tokio::test]
    async fn a_kind_that_only_a_quota_names_is_not_ended_unless_it_was_watched() {
        let mut scene = Scene::new(&[]).await;
        let widgets: GroupResource = WIDGETS.parse().unwrap();
        scene.kinds.shared.limited.add(&unlisted(), vec![widgets]);
        for _ in 0..3 {
            scene.discover().await;
            scene.kinds.registry.relist(&BTreeSet::new());
        }
        assert!(!scene.is_absent(WIDGETS), "it may be invented");
        assert_eq!(scene.relists(WIDGETS), 0);
        define(&scene.world, WIDGETS);
        scene.discover().await;
        scene.world.delete(DEFINITIONS, "", WIDGETS);
        scene.discover_twice().await;
        assert_eq!(scene.relists(WIDGETS), 1);
        assert!(scene.is_absent(WIDGETS));
    }

    /// Its new objects are in no namespace, so they do not count, and the old ones are gone.
    #[tokio::test]
    async fn a_kind_that_is_defined_again_for_the_whole_cluster_is_ended() {
        let mut scene = Scene::new(&[WIDGETS]).await;
        define(&scene.world, WIDGETS);
        scene.discover().await;
        scene.world.delete(DEFINITIONS, "", WIDGETS);
        let definition = json!({"spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Kind"}, "versions": [{"name": "v1"}]}});
        scene.world.create(DEFINITIONS, "", WIDGETS, definition);
        scene.discover_twice().await;
        assert_eq!(scene.relists(WIDGETS), 1);
        assert!(scene.is_absent(WIDGETS));
    }

    #[tokio::test]
    async fn a_kind_that_no_quota_names_any_more_is_not_watched() {
        let mut scene = Scene::new(&[]).await;
        let maps = GroupResource::new("", "configmaps");
        let groups = unlisted();
        let limited = scene.kinds.shared.limited.clone();
        limited.add(&groups, vec![maps.clone()]);
        scene.discover().await;
        assert!(scene.kinds.running.contains_key(&maps));
        limited.list_begins(&groups);
        limited.list_ends(&groups);
        for _ in 0..2 {
            scene.discover().await;
            assert!(!scene.kinds.running.contains_key(&maps));
            assert!(scene.is_absent("configmaps"));
        }
        limited.add(&groups, vec![maps.clone()]);
        scene.discover().await;
        assert!(scene.kinds.running.contains_key(&maps));
        assert!(!scene.is_absent("configmaps"));
    }

    /// Whoever writes a quota may name a kind that the bridge may not list, or one whose API is busy for a while.
    #[tokio::test]
    async fn only_a_forbidden_kind_is_refused() {
        let mut scene = Scene::new(&["services", "configmaps"]).await;
        for (kind, code) in [("services", 403), ("configmaps", 503)] {
            let fault = Fault::Status(code, 0);
            scene.world.plan(kind, Request::List, fault, 100);
        }
        scene.discover().await;
        let watermarks = &scene.kinds.shared.watermarks;
        let [services, configmaps] = ["services", "configmaps"].map(|it| it.parse().unwrap());
        let is_tried = async {
            while !watermarks.is_refused(&services)
                || scene.world.requests("configmaps", "List") < 2
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let tried = tokio::time::timeout(Duration::from_secs(60), is_tried).await;
        tried.expect("both kinds are listed");
        assert!(!watermarks.is_refused(&configmaps));
    }

    /// The stream may lose the list that ended its objects.
    #[tokio::test]
    async fn a_kind_that_is_gone_is_ended_again_when_a_relist_is_requested() {
        for kind in [WIDGETS, GATEWAYS] {
            let mut scene = Scene::new(&[kind]).await;
            define(&scene.world, kind);
            scene.discover().await;
            scene.world.delete(DEFINITIONS, "", kind);
            scene.discover().await;
            while scene.lines.try_recv().is_ok() {}
            scene.discover().await;
            assert_eq!(scene.relists(kind), 1);
            for (asked, times) in [(None, 1), (Some(kind), 1), (Some("pods"), 0)] {
                let asked = asked.into_iter().map(str::to_owned).collect();
                scene.kinds.registry.relist(&asked);
                for times in [times, 0] {
                    scene.discover().await;
                    assert_eq!(scene.relists(kind), times, "{asked:?}");
                }
            }
        }
    }

    /// Discovery may go on listing a kind for a while when its definition is gone.
    #[tokio::test]
    async fn a_kind_goes_although_its_definition_was_already_missing_when_it_was_first_watched() {
        for comes_back in [false, true] {
            let mut scene = Scene::new(&[WIDGETS]).await;
            define(&scene.world, WIDGETS);
            let outdated = discover(&scene.kinds.shared.client).await.unwrap();
            scene.world.delete(DEFINITIONS, "", WIDGETS);
            scene.kinds.adjust(&outdated).await;
            if comes_back {
                define(&scene.world, WIDGETS);
                scene.discover().await;
                scene.world.delete(DEFINITIONS, "", WIDGETS);
            }
            scene.discover().await;
            assert!(!scene.is_absent(WIDGETS), "it was left out only once");
            while scene.lines.try_recv().is_ok() {}
            scene.discover().await;
            assert!(scene.is_absent(WIDGETS));
            assert_eq!(scene.relists(WIDGETS), 1, "its objects are gone");
        }
    }

    /// An API that does not answer must not delay discovery by a request for each kind that a quota invents.
    #[tokio::test]
    async fn definitions_that_cannot_be_read_are_not_asked_for_one_by_one() {
        let kinds = ["a.example.com", "b.example.com", "c.example.com"];
        let mut scene = Scene::new(&kinds).await;
        let fault = Fault::Status(503, 0);
        scene.world.plan(DEFINITIONS, Request::Get, fault, 100);
        scene.discover().await;
        // One of a kind that is left out, and one of a kind that is watched.
        assert_eq!(scene.world.requests(DEFINITIONS, "Get"), 2);
        scene.world.heal();
        scene.discover().await;
        assert!(kinds.iter().all(|kind| scene.is_absent(kind)));
    }

    /// While API servers are updated one by one, discovery is answered by old and new ones.
    #[tokio::test]
    async fn a_kind_is_watched_in_another_version_once_discovery_says_so_twice() {
        let mut scene = Scene::new(&[]).await;
        let pods = GroupResource::new("", "pods");
        let old = discover(&scene.kinds.shared.client).await.unwrap();
        let mut new = old.clone();
        new.kinds.get_mut(&pods).unwrap().version = "v2".to_owned();
        let mut watched = Vec::new();
        for discovered in [&old, &new, &old, &new, &new, &old] {
            scene.kinds.adjust(discovered).await;
            watched.push(scene.kinds.running[&pods].served.version.clone());
        }
        assert_eq!(watched, ["v1", "v1", "v1", "v1", "v2", "v2"]);
    }

    #[test]
    fn some_names_can_be_no_kind() {
        for name in ["pods", "widgets.x.y", "a-b.c"] {
            assert!(is_possible(&name.parse().unwrap()), "{name}");
        }
        for name in ["Deployments.apps", "a_b.x", "a..b", "*", "-a"] {
            assert!(!is_possible(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn a_quota_has_its_kinds_watched() {
        let widgets = GroupResource::new("x.y", "widgets");
        let maps = GroupResource::new("", "configmaps");
        let wanted = Wanted {
            exclude: BTreeSet::from([maps.clone(), GroupResource::new("", "services")]),
            include: BTreeSet::from([GroupResource::new("", "events")]),
            charge: BTreeSet::from([GroupResource::new("apps", "deployments")]),
        };
        let needed = needed(&wanted, &BTreeSet::from([widgets, maps]));
        let names: Vec<_> = needed.iter().map(ToString::to_string).collect();
        let expected = [
            "namespaces",
            "persistentvolumeclaims",
            "pods",
            "resourcequotas",
            "deployments.apps",
            "clusterresourcequotas.quota.openshift.io",
            "resourceclaims.resource.k8s.io",
            "widgets.x.y",
        ];
        assert_eq!(names, expected);
    }
}
