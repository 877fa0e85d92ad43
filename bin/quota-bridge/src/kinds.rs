//! The watched kinds: runs discovery, starts tasks for needed kinds, and ends tasks of removed kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use quota_semantics::{Name, object::GroupResource};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    discovery::{Discovered, Served, discover},
    kind::{self, Relist, Shared},
    kubernetes::JSON,
    line::{self, Begin, End, Scope},
    metrics,
    needed::{Wanted, groups, is_of_the_cluster, needed},
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
    /// Empty relists that end the objects of removed kinds.
    relists: u64,
}

struct Running {
    served: Served,
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
            relists: 0,
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
        let mut needed = needed(&self.wanted, &self.shared.limited.get());
        if !self.namespaces.is_empty() {
            // Who sees some namespaces only may not list what is of the whole cluster.
            needed.retain(|kind| !is_of_the_cluster(kind));
            // Groups are then those of the ledger alone, which need not be waited for.
            self.shared.watermarks.absent(&groups());
        }
        for kind in &needed {
            let served = discovered.kinds.get(kind);
            let running = self.running.get(kind).map(|running| &running.served);
            match (served, running) {
                (Some(served), Some(running)) if served == running => {}
                (Some(served), _) => self.start(served.clone()),
                (None, None) if discovered.is_certain_of(&kind.group) => {
                    self.shared.watermarks.absent(kind);
                }
                (None, Some(running)) if discovered.is_certain_of(&kind.group) => {
                    if !running.aggregated && self.is_gone(kind).await {
                        self.end(kind).await;
                    }
                }
                // Not certain: what runs goes on, and fails by itself.
                (None, _) => {}
            }
        }
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
        let running = Running {
            served,
            _tasks: tasks,
        };
        self.running.insert(kind, running);
    }

    /// Discovery does not have a kind. It is gone if its definition is as well.
    async fn is_gone(&self, kind: &GroupResource) -> bool {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let path = format!("{definitions}/{kind}");
        match self.shared.client.get(&path, JSON).await {
            Ok(_) => false,
            Err(failure) => failure.code() == Some(404),
        }
    }

    /// The objects of a kind go with its definition: an empty list ends them.
    async fn end(&mut self, kind: &GroupResource) {
        tracing::warn!(resource = %kind, "the kind is gone, and so are its objects");
        self.running.remove(kind);
        self.registry.remove(kind);
        self.shared.watermarks.absent(kind);
        for scope in self.scopes(kind) {
            self.relists += 1;
            let begin = Begin {
                id: format!("{}/gone/{}", self.shared.instance, self.relists),
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
