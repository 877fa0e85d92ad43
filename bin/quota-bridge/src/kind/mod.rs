//! The tasks of a kind, which list and watch its objects. A failing kind does not affect others.

pub mod machine;
mod probe;
mod reader;
mod task;

#[cfg(test)]
pub(crate) mod fakes;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use quota_semantics::{admission::Charging, object::GroupResource};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use machine::WentBack;
pub(crate) use probe::AWAITED_EVERY;
pub use reader::{Alive, Deleted, Reader};

use crate::{
    config::Config,
    discovery::Served,
    kubernetes::{Answer, Client, Failure},
    line::{RelistIds, Scope},
    publisher::{Closed, Queue, Status},
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

// Bounds on the number of lists that are read at the same time, and on the size of their pages.

/// The maximum size of all pages in memory, in bytes. The lines that result from a page may need as much again; both
/// together fit into the memory limit of the chart (512 MiB).
const PAGES_MAX_BYTES: usize = 128 << 20;

/// The size of a page into which every object fits, in bytes: an API server accepts at most 3 MiB, whatever etcd
/// stores, and JSON needs up to six bytes for a character.
const OBJECT_MAX_BYTES: usize = 20 << 20;

/// The maximum size of a page in memory without a permit, in bytes. A page of which more has arrived keeps its permit.
const PAUSED_MAX_BYTES: usize = 1 << 20;

/// The time for which a list keeps its permit while no data arrive. A server answers sooner, unless a part of it is
/// down.
const PATIENCE: Duration = Duration::from_secs(1);

/// Permits to read lists, for the tasks of all kinds. Clones share them.
#[derive(Clone, Debug)]
pub struct Lists {
    permits: Arc<Semaphore>,
    page_max_bytes: usize,
}

/// A permit to read a list.
type Permit = OwnedSemaphorePermit;

impl Lists {
    /// Permits for `concurrency` lists.
    pub fn new(concurrency: NonZeroUsize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(concurrency.get())),
            page_max_bytes: (PAGES_MAX_BYTES / concurrency).max(OBJECT_MAX_BYTES),
        }
    }

    /// The maximum size of a page, in bytes.
    const fn page_max_bytes(&self) -> usize {
        self.page_max_bytes
    }

    /// Sends a request for a list. Returns the response with the permit to read it.
    ///
    /// A request waits for a permit, so that the server computes few lists at the same time.
    async fn open<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Result<(T, Permit), Failure>, Closed> {
        let permit = self.permit().await?;
        self.patiently(request, permit).await
    }

    /// Reads the page that an answer brings. It comes with a permit, too.
    async fn page(
        &self,
        mut answer: Answer,
        mut permit: Permit,
    ) -> Result<Result<(Bytes, Permit), Failure>, Closed> {
        loop {
            let is_long = answer.read_bytes() > PAUSED_MAX_BYTES;
            let more = answer.read_more(self.page_max_bytes);
            let more = match is_long {
                true => more.await.map(|is_more| (is_more, permit)),
                false => self.patiently(more, permit).await?,
            };
            match more {
                Ok((true, kept)) => permit = kept,
                Ok((false, kept)) => return Ok(Ok((answer.into_read(), kept))),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    /// Waits for what a server sends next. One that does not send it soon must not hold up other kinds: then this list
    /// goes on without a permit, until it comes.
    async fn patiently<T>(
        &self,
        next: impl Future<Output = Result<T, Failure>>,
        permit: Permit,
    ) -> Result<Result<(T, Permit), Failure>, Closed> {
        let mut next = pin!(next);
        if let Ok(sent) = timeout(PATIENCE, &mut next).await {
            return Ok(sent.map(|sent| (sent, permit)));
        }
        drop(permit);
        match next.await {
            Ok(sent) => Ok(Ok((sent, self.permit().await?))),
            Err(failure) => Ok(Err(failure)),
        }
    }

    async fn permit(&self) -> Result<Permit, Closed> {
        let permit = self.permits.clone().acquire_owned();
        permit.await.map_err(|_| Closed)
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use futures::FutureExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::oneshot,
    };

    use super::*;

    use crate::kubernetes::{Access, Client, JSON};

    fn kinds(names: std::ops::Range<usize>) -> Vec<GroupResource> {
        let name = |number| GroupResource::new("x.y", &format!("a{number}"));
        names.map(name).collect()
    }

    fn scope() -> Scope {
        Scope { resource: crate::kinds::quotas(), namespace: None }
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
        let groups = Scope { resource: crate::kinds::groups(), namespace: None };
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

    fn lists(concurrency: usize) -> Lists {
        Lists::new(NonZeroUsize::new(concurrency).unwrap())
    }

    #[test]
    fn the_pages_of_all_lists_have_a_bound_and_each_object_fits() {
        assert_eq!(lists(1).page_max_bytes(), PAGES_MAX_BYTES);
        assert_eq!(lists(4).page_max_bytes() * 4, PAGES_MAX_BYTES);
        assert_eq!(lists(1000).page_max_bytes(), OBJECT_MAX_BYTES);
    }

    #[tokio::test]
    async fn a_list_waits_for_others_but_not_for_those_without_an_answer() {
        let lists = lists(1);
        let (first, permit) = lists.open(future::ready(Ok(1))).await.unwrap().unwrap();
        assert_eq!(first, 1);
        let second = lists.open(future::ready(Ok(2))).now_or_never();
        assert!(second.is_none(), "the first one is being read");
        drop(permit);
        // Some never answer, or late.
        let silent: Vec<_> = (0..2)
            .map(|_| {
                let lists = lists.clone();
                tokio::spawn(async move { lists.open(future::pending::<Result<(), _>>()).await })
            })
            .collect();
        let (answer, answered) = oneshot::channel::<()>();
        let late = tokio::spawn({
            let lists = lists.clone();
            async move {
                let request = answered.map(|_| Err::<(), _>(Failure::Silent));
                lists.open(request).await
            }
        });
        tokio::task::yield_now().await;
        let third = timeout(PATIENCE * 20, lists.open(future::ready(Ok(3)))).await;
        let (third, permit) = third.unwrap().unwrap().unwrap();
        assert_eq!(third, 3);
        // A failure needs no permit.
        answer.send(()).unwrap();
        let late = late.await.unwrap().unwrap();
        assert_eq!(late.unwrap_err(), Failure::Silent);
        drop(permit);
        for task in silent {
            task.abort();
        }
    }

    #[tokio::test]
    async fn an_answer_that_comes_late_is_read_with_a_permit() {
        let lists = lists(1);
        let (answer, answered) = oneshot::channel::<()>();
        let late = tokio::spawn({
            let lists = lists.clone();
            async move {
                let request = answered.map(|_| Ok::<_, Failure>(()));
                lists.open(request).await
            }
        });
        tokio::task::yield_now().await;
        let (_, permit) = lists.open(future::ready(Ok(()))).await.unwrap().unwrap();
        answer.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!late.is_finished(), "another list is being read");
        drop(permit);
        assert!(late.await.unwrap().unwrap().is_ok());
    }

    /// The answer of a server that sends so many bytes, and one more when it is told to.
    async fn paused(bytes: usize) -> (Answer, oneshot::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (go_on, told) = oneshot::channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let length = bytes + 1;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; bytes]).await.unwrap();
            told.await.unwrap();
            stream.write_all(b" ").await.unwrap();
        });
        let client = Client::new(Access::plain(&url)).unwrap();
        (client.open("/api", JSON).await.unwrap(), go_on)
    }

    #[tokio::test]
    async fn a_page_that_pauses_does_not_hold_up_others() {
        let lists = lists(1);
        let (answer, go_on) = paused(100).await;
        let permit = lists.permit().await.unwrap();
        let page = tokio::spawn({
            let lists = lists.clone();
            async move { lists.page(answer, permit).await }
        });
        let other = timeout(PATIENCE * 20, lists.open(future::ready(Ok(())))).await;
        let ((), permit) = other.unwrap().unwrap().unwrap();
        go_on.send(()).unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!page.is_finished(), "another list is being read");
        drop(permit);
        let (page, _permit) = page.await.unwrap().unwrap().unwrap();
        assert_eq!(page.len(), 101);
    }

    /// Pages without permits have no bound together.
    #[tokio::test]
    async fn a_page_of_which_much_is_in_memory_keeps_its_permit_while_it_pauses() {
        let lists = lists(1);
        let bytes = PAUSED_MAX_BYTES + 1;
        let (answer, go_on) = paused(bytes).await;
        let permit = lists.permit().await.unwrap();
        let page = tokio::spawn({
            let lists = lists.clone();
            async move { lists.page(answer, permit).await }
        });
        let other = timeout(PATIENCE * 2, lists.open(future::ready(Ok(())))).await;
        assert!(other.is_err(), "a page is being read");
        go_on.send(()).unwrap();
        let (page, _permit) = page.await.unwrap().unwrap().unwrap();
        assert_eq!(page.len(), bytes + 1);
    }
}
