//! The tasks of a kind, which list and watch its objects. A failing kind does not affect others.

#[cfg(test)]
pub(crate) mod fakes;
mod lists;
pub mod machine;
mod probe;
mod reader;
mod task;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use quota_semantics::{admission::Charging, object::GroupResource};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;

pub use lists::Lists;
pub(crate) use probe::AWAITED_EVERY;
pub use reader::{Alive, Deleted, Reader};

use machine::WentBack;

use crate::{
    config::Config,
    discovery::Served,
    kubernetes::Client,
    line::{RelistIds, Scope},
    publisher::Status,
    queue::Queue,
    watermarks::Watermarks,
};

/// The data that the tasks of all kinds share.
pub struct Shared {
    /// The API server.
    pub client: Client,
    /// The queue of lines.
    pub queue: Queue,
    /// The ids of this publisher's relists.
    pub ids: RelistIds,
    /// The configuration, with the intervals and timeouts of lists and watches.
    pub(crate) config: Arc<Config>,
    /// Whether lists are requested as the initial events of watches.
    pub watch_list: bool,
    /// The workloads that are charged for their pods.
    pub charging: Charging,
    /// The permits to list.
    pub lists: Lists,
    /// The kinds that quotas limit.
    pub limited: Limited,
    /// The watermarks of all kinds.
    pub watermarks: Watermarks,
    /// Changes when watermarks are requested.
    pub awaited: watch::Receiver<()>,
    /// The status of the publisher, which converts times to the clock of the NATS servers.
    pub publisher: Arc<Status>,
}

/// The kinds whose number a quota limits. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Limited {
    inner: Arc<Mutex<LimitedKinds>>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct LimitedKinds {
    /// The kinds that the quotas of each scope limit.
    scopes: BTreeMap<Scope, OfScope>,
    /// The kinds that the API server serves.
    served: BTreeSet<GroupResource>,
    /// Whether some kinds were left out.
    is_incomplete: bool,
    /// Whether there is room again since some were left out.
    has_room: bool,
}

#[derive(Debug, Default)]
struct OfScope {
    kinds: BTreeSet<GroupResource>,
    /// Those of the quotas that are being listed.
    listed: BTreeSet<GroupResource>,
}

/// The maximum number of limited kinds that are not served: users may invent their names.
const UNSERVED_MAX: usize = 256;

/// The maximum number of limited kinds that are served: each of them takes a watch, and requests for its watermark.
const SERVED_MAX: usize = 512;

impl LimitedKinds {
    fn all(&self) -> BTreeSet<GroupResource> {
        let kinds = self.scopes.values().flat_map(|of| &of.kinds);
        kinds.cloned().collect()
    }

    /// Adds these kinds, as many as there is room for.
    fn extend(&mut self, scope: &Scope, kinds: Vec<GroupResource>) {
        let mut all = self.all();
        let of = self.scopes.entry(scope.clone()).or_default();
        let unserved = all.difference(&self.served).count();
        let mut room_of_unserved = UNSERVED_MAX.saturating_sub(unserved);
        let mut room_of_served = SERVED_MAX.saturating_sub(all.len() - unserved);
        for kind in kinds {
            let room = match self.served.contains(&kind) {
                true => &mut room_of_served,
                false => &mut room_of_unserved,
            };
            if !all.contains(&kind) {
                if *room == 0 {
                    if !std::mem::replace(&mut self.is_incomplete, true) {
                        tracing::warn!(
                            %kind,
                            "quotas limit the number of more than {SERVED_MAX} kinds, or of more than {UNSERVED_MAX} that \
                             nobody serves: nothing is known of the others"
                        );
                    }
                    continue;
                }
                *room -= 1;
                all.insert(kind.clone());
            }
            of.kinds.insert(kind.clone());
            of.listed.insert(kind);
        }
    }
}

impl Limited {
    /// Adds the kinds that an object of this scope limits.
    pub(crate) fn add(&self, scope: &Scope, kinds: Vec<GroupResource>) {
        // As for nearly every object: the tasks of all kinds share the lock.
        if kinds.is_empty() {
            return;
        }
        self.change(|limited| limited.extend(scope, kinds));
    }

    /// Records that a list of this scope begins.
    pub(crate) fn list_begins(&self, scope: &Scope) {
        if let Some(of) = self.inner.lock().scopes.get_mut(scope) {
            of.listed.clear();
        }
    }

    /// Records that a list of this scope is complete: only the kinds that its objects limit are left.
    pub(crate) fn list_ends(&self, scope: &Scope) {
        self.change(|limited| {
            if let Some(of) = limited.scopes.get_mut(scope)
                && of.kinds != of.listed
            {
                of.kinds.clone_from(&of.listed);
                limited.has_room = true;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut LimitedKinds)) {
        let mut limited = self.inner.lock();
        let before = limited.all();
        change(&mut limited);
        if limited.all() != before {
            self.changed.notify_one();
        }
    }

    /// Records the served kinds. Returns whether quotas have to be read again, since they may limit a kind for which
    /// there was no room before.
    pub(crate) fn serve(&self, served: BTreeSet<GroupResource>) -> bool {
        let mut limited = self.inner.lock();
        let has_more = !served.is_subset(&limited.served);
        let has_room = std::mem::take(&mut limited.has_room);
        limited.served = served;
        (has_more || has_room) && std::mem::take(&mut limited.is_incomplete)
    }

    /// The limited kinds so far.
    #[must_use]
    pub fn get(&self) -> BTreeSet<GroupResource> {
        self.inner.lock().all()
    }

    /// Waits until the limited kinds have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// A request for a relist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relist {
    /// After the current list, if there is one.
    Again,
    /// Messages are gone from the stream, perhaps also pages of the current list, which is discarded.
    Lost,
    /// Versions have gone back. The current list is discarded.
    Reset,
}

/// The version up to which the events of a scope have been received and queued; none: not certain.
type Shown = watch::Receiver<Option<u64>>;

/// Starts the tasks of one scope, which end with the set: the watermark is determined at about this interval. Returns
/// the sender of relist requests.
pub fn start(
    shared: &Arc<Shared>,
    served: &Served,
    scope: Scope,
    watermark_every: Duration,
    tasks: &mut JoinSet<()>,
) -> mpsc::UnboundedSender<Relist> {
    let (relists, requests) = mpsc::unbounded_channel();
    if shared.publisher.adopts() {
        let _ = relists.send(Relist::Reset);
    }
    let (show, shown) = watch::channel(None);
    let task = task::Task::new(shared.clone(), served, scope.clone(), requests, show);
    tasks.spawn(task.run());
    let probe = probe::Probe::new(shared.clone(), served, scope, shown, relists.clone());
    tasks.spawn(probe.run(watermark_every));
    relists
}

/// The metadata of a list.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    /// The token of the next page.
    #[serde(rename = "continue")]
    next: Option<String>,
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

/// A random number from 0 to 1.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(()) >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(names: std::ops::Range<usize>) -> Vec<GroupResource> {
        let name = |number| GroupResource::new("x.y", &format!("a{number}"));
        names.map(name).collect()
    }

    fn scope() -> Scope {
        Scope { resource: crate::needed::quotas(), namespace: None }
    }

    /// The objects of all kinds come by here, and few of them limit anything.
    #[test]
    fn objects_without_limits_do_not_wait_for_each_other() {
        let limited = Limited::default();
        let (finish, finished) = std::sync::mpsc::channel();
        let _elsewhere = limited.inner.lock();
        let (limited, scope) = (limited.clone(), scope());
        std::thread::spawn(move || {
            limited.add(&scope, Vec::new());
            finish.send(())
        });
        assert!(finished.recv_timeout(Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn names_that_nobody_serves_take_no_room_from_those_that_are_served() {
        let limited = Limited::default();
        let pods = GroupResource::new("", "pods");
        assert!(!limited.serve(BTreeSet::from([pods.clone()])));
        limited.add(&scope(), kinds(0..2000));
        limited.add(&scope(), kinds(0..2000));
        assert_eq!(limited.get().len(), UNSERVED_MAX);
        limited.add(&scope(), vec![pods.clone()]);
        assert!(limited.get().contains(&pods));
        assert!(!limited.serve(BTreeSet::from([pods.clone()])), "nothing new is served");

        // A kind that was left out is served: the quotas are read again, and it is found.
        let late = kinds(1999..2000);
        assert!(!limited.get().contains(&late[0]));
        let served = BTreeSet::from([pods, late[0].clone()]);
        assert!(limited.serve(served.clone()));
        limited.add(&scope(), kinds(0..2000));
        assert!(limited.get().contains(&late[0]));
        assert_eq!(limited.get().len(), UNSERVED_MAX + 2);
        assert!(!limited.serve(served));
    }

    /// Otherwise everything that a quota ever named would be watched for as long as the bridge publishes.
    #[test]
    fn kinds_that_no_quota_names_any_more_are_left_out_after_the_next_list() {
        let limited = Limited::default();
        limited.serve(kinds(0..SERVED_MAX + 1).into_iter().collect());
        limited.add(&scope(), kinds(0..SERVED_MAX + 1));
        assert_eq!(limited.get().len(), SERVED_MAX);
        let groups = Scope { resource: crate::needed::groups(), namespace: None };
        limited.add(&groups, kinds(0..1));

        limited.list_begins(&scope());
        limited.add(&scope(), kinds(1..2));
        limited.add(&scope(), kinds(SERVED_MAX..SERVED_MAX + 1));
        assert_eq!(limited.get().len(), SERVED_MAX, "the list is not over");
        limited.list_ends(&scope());
        let mut left = kinds(0..2);
        assert_eq!(limited.get(), left.iter().cloned().collect());
        // There is room for the one that was left out.
        let served: BTreeSet<_> = kinds(0..SERVED_MAX + 1).into_iter().collect();
        assert!(limited.serve(served.clone()) && !limited.serve(served));
        limited.list_begins(&scope());
        limited.add(&scope(), kinds(1..2));
        limited.add(&scope(), kinds(SERVED_MAX..SERVED_MAX + 1));
        limited.list_ends(&scope());
        left.extend(kinds(SERVED_MAX..SERVED_MAX + 1));
        assert_eq!(limited.get(), left.into_iter().collect());
    }
}
