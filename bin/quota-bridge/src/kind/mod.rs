//! One kind of objects: listed and watched by a task of its own, with failures of its own.

pub mod machine;
mod probe;
mod reader;
mod task;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use quota_semantics::{admission::Charging, object::GroupResource};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

pub use reader::{Alive, Deleted, Reader};

use machine::WentBack;

use crate::{
    discovery::Served, kubernetes::Client, line::Scope, publisher::Status, queue::Queue,
    watermarks::Watermarks,
};

/// What the tasks of all kinds share.
pub struct Shared {
    /// The API server.
    pub client: Client,
    /// Where lines go.
    pub queue: Queue,
    /// Of this publisher.
    pub instance: String,
    /// How lists and watches are read.
    pub settings: Settings,
    /// The workloads that are charged for their pods.
    pub charging: Charging,
    /// Permits to list.
    pub lists: Arc<Semaphore>,
    /// Kinds that quotas limit.
    pub limited: Limited,
    /// The watermarks of all kinds.
    pub watermarks: Watermarks,
    /// Changes when watermarks are requested.
    pub awaited: watch::Receiver<()>,
    /// Converts times to the clock of the servers.
    pub publisher: Arc<Status>,
}

/// How lists and watches are read.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Have lists sent at the begin of watches.
    pub watch_list: bool,
    /// Objects of one page.
    pub page: u32,
    /// Interval of periodic lists of each kind.
    pub relist_every: Duration,
    /// How long a list at the begin of a watch may be silent.
    pub list_idle: Duration,
    /// The timeout that a watch is opened with.
    pub watch_timeout: Duration,
    /// How long it may be silent.
    pub watch_idle: Duration,
    /// How often a watermark is determined.
    pub watermark_every: Duration,
}

/// The kinds whose number some quota limits. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Limited {
    kinds: Arc<Mutex<BTreeSet<GroupResource>>>,
    more: Arc<Notify>,
}

impl Limited {
    fn add(&self, kinds: Vec<GroupResource>) {
        let mut limited = self.kinds.lock();
        let before = limited.len();
        limited.extend(kinds);
        if limited.len() > before {
            self.more.notify_one();
        }
    }

    /// Those that were seen so far.
    #[must_use]
    pub fn get(&self) -> BTreeSet<GroupResource> {
        self.kinds.lock().clone()
    }

    /// Waits until there are more.
    pub async fn more(&self) {
        self.more.notified().await;
    }
}

/// A request for a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relist {
    /// Versions have gone back.
    pub reset: bool,
}

/// The version up to which a scope was seen and queued; none: not certain.
type Shown = watch::Receiver<Option<u64>>;

/// Starts the tasks of one scope, and gives the sender of relist requests to them. They end with the set.
pub fn start(
    shared: &Arc<Shared>,
    served: &Served,
    scope: Scope,
    tasks: &mut JoinSet<()>,
) -> mpsc::UnboundedSender<Relist> {
    let (relists, requests) = mpsc::unbounded_channel();
    if shared.publisher.adopts() {
        let _ = relists.send(Relist { reset: true });
    }
    let (show, shown) = watch::channel(None);
    let task = task::Task::new(shared.clone(), served, scope.clone(), requests, show);
    tasks.spawn(task.run());
    let probe = probe::Probe::new(shared.clone(), served, scope, shown, relists.clone());
    tasks.spawn(probe.run());
    relists
}

/// A line of a watch.
#[derive(Deserialize)]
struct Watched<'a> {
    #[serde(rename = "type")]
    event: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn warn_of_restore(resource: &str, back: WentBack) {
    tracing::warn!(
        resource,
        version = back.version,
        before = back.newest,
        "versions have gone back: the API server was restored"
    );
}

/// From 0 to 1.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}
