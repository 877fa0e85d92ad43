//! The watched kinds: runs discovery, starts tasks for needed kinds, and ends tasks of removed kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quota_semantics::{Name, object::GroupResource};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    definitions::{Definition, LeftOut, definition, may_be_defined, was_defined},
    discovery::{Discovered, Served, discover},
    kind::{self, Relist, Shared},
    line::{self, Begin, End, Scope},
    metrics,
    needed::{Wanted, groups, is_of_the_cluster, needed, quotas},
};

/// Where relists are requested, by scope. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<Scope, mpsc::UnboundedSender<Relist>>>>);

impl Registry {
    /// Requests a relist of these kinds, or of all if none is named.
    pub fn relist(&self, kinds: &BTreeSet<String>) {
        for (scope, relists) in self.0.lock().iter() {
            if kinds.is_empty() || kinds.contains(&scope.resource.to_string()) {
                let _ = relists.send(Relist { reset: false });
            }
        }
    }

    fn remove(&self, kind: &GroupResource) {
        self.0.lock().retain(|scope, _| scope.resource != *kind);
    }
}

/// Watches what is needed.
pub struct Kinds {
    shared: Arc<Shared>,
    registry: Registry,
    wanted: Wanted,
    /// The only namespaces; none: all of them.
    namespaces: Vec<Name>,
    every: Duration,
    running: BTreeMap<GroupResource, Running>,
    left_out: LeftOut,
    /// Kinds that nobody serves, and whose objects this bridge has ended or will not end.
    settled: BTreeSet<GroupResource>,
}

struct Running {
    served: Served,
    /// Whether it has a definition; none: not known yet.
    is_defined: Option<bool>,
    /// Ended when dropped.
    _tasks: JoinSet<()>,
}

impl Kinds {
    /// Nothing is watched yet.
    #[must_use]
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
            settled: BTreeSet::new(),
        }
    }

    /// Works until it is dropped.
    pub async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let wait = match discover(&self.shared.client).await {
                Ok(discovered) => {
                    failures = 0;
                    self.adjust(&discovered).await;
                    self.every
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
                () = self.shared.limited.more() => {}
            }
        }
    }

    async fn adjust(&mut self, discovered: &Discovered) {
        let served = discovered.kinds.keys().cloned().collect();
        if self.shared.limited.serve(served) {
            let quotas = [quotas(), groups()].map(|kind| kind.to_string());
            self.registry.relist(&quotas.into());
        }
        let (needed, unwatched) = self.needed();
        let is_needed = |kind: &GroupResource| needed.contains(kind) || unwatched.contains(kind);
        self.shared.watermarks.keep_absent(is_needed);
        for kind in &unwatched {
            self.shared.watermarks.absent(kind);
        }
        for kind in &needed {
            let served = discovered.kinds.get(kind);
            let is_left_out = served.is_none() && discovered.is_certain_of(&kind.group);
            let (now, least) = (Instant::now(), self.every / 2);
            let is_out_for_long = self.left_out.note(kind, is_left_out, now, least);
            match (served, self.running.get(kind)) {
                (Some(served), Some(running)) if *served == running.served => {}
                (Some(served), _) => self.start(served.clone()),
                (None, Some(running)) => {
                    // The tasks of kinds that may come back go on, and fail by themselves.
                    if is_out_for_long && running.is_defined == Some(true) {
                        self.end_running(kind).await;
                    }
                }
                (None, None) if is_left_out => {
                    self.shared.watermarks.absent(kind);
                    if is_out_for_long && discovered.knows_others && was_defined(kind) {
                        self.end_unseen(kind).await;
                    }
                }
                (None, None) => {}
            }
        }
        self.left_out.keep(&needed);
        self.settled.retain(|kind| needed.contains(kind));
        self.look_at_definitions().await;
    }

    /// The kinds that are watched if they are served, and those that nobody has to wait for.
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
        self.shared.watermarks.watched(&kind, &scopes);
        self.registry.remove(&kind);
        let mut tasks = JoinSet::new();
        for scope in scopes {
            let relists = kind::start(&self.shared, &served, scope.clone(), &mut tasks);
            self.registry.0.lock().insert(scope, relists);
        }
        let before = self.running.get(&kind);
        let running = Running {
            is_defined: before
                .and_then(|running| running.is_defined)
                .filter(|_| !served.aggregated),
            served,
            _tasks: tasks,
        };
        self.running.insert(kind, running);
    }

    /// Notes which kinds have a definition: only those can go.
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

    /// Ends a kind that was watched, if its definition is gone.
    async fn end_running(&mut self, kind: &GroupResource) {
        if definition(&self.shared.client, kind).await == Definition::Missing {
            tracing::warn!(resource = %kind, "the kind is gone, and so are its objects");
            self.end(kind).await;
        }
    }

    /// Ends a kind that this bridge has never watched: its definition may have gone while no bridge was there.
    async fn end_unseen(&mut self, kind: &GroupResource) {
        if self.settled.contains(kind) {
            return;
        }
        match definition(&self.shared.client, kind).await {
            Definition::Missing => {
                tracing::info!(resource = %kind, "nobody serves the kind, so it has no objects");
                self.end(kind).await;
            }
            Definition::Hidden => {
                self.settled.insert(kind.clone());
            }
            Definition::Exists | Definition::Unknown => {}
        }
    }

    /// The objects of a kind go with its definition: an empty list ends them.
    async fn end(&mut self, kind: &GroupResource) {
        self.running.remove(kind);
        self.registry.remove(kind);
        self.shared.watermarks.absent(kind);
        self.settled.insert(kind.clone());
        for scope in self.scopes(kind) {
            let begin = Begin {
                id: self.shared.ids.next(),
                reset: false,
            };
            let end = End {
                id: begin.id.clone(),
                version: String::new(),
                allow_empty: true,
            };
            let lines = [line::begin(&scope, &begin), line::end(&scope, &end)];
            for line in lines {
                if self.shared.queue.push(line).await.is_err() {
                    return;
                }
            }
        }
    }
}
