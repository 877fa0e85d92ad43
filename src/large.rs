//! Large answers: they are made on threads of their own, one of each principal at a time, principals in turn.
//!
//! The threads that serve connections are few. An answer that takes one of them for a tenth of a second keeps all requests
//! waiting that are behind it. So what is large is made here, with a pause behind each step: one principal uses no more
//! than a third of a processor for it, and a flood of such requests waits for itself.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{self, Write},
    sync::{Arc, LazyLock},
    thread,
};

use parking_lot::{Condvar, Mutex};
use quota_semantics::Name;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    cpu_throttle, metrics,
    problem::{Problem, Reason},
};

/// Answers that tell no more amounts than this are made at once: that takes less than a millisecond.
pub(crate) const AMOUNTS_AT_ONCE: usize = 1000;

/// Bytes that are written between two looks at the time.
const STEP_BYTES: usize = 4096;

/// How many answers may wait for one principal's turn before further reads are refused.
const WAITING: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Holds a job until its turn. When the request ends early, the job is taken out again and its memory is freed.
type Slot = Arc<Mutex<Option<Job>>>;

static POOL: LazyLock<Pool> = LazyLock::new(Pool::start);

thread_local! {
    /// Whether this is one of the threads that make large answers.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Called by reads before they copy what a large answer is made of. Requests that change the ledger do not call this: they
/// are decided already, and are always answered.
///
/// # Errors
/// [`Reason::Overloaded`]: `WAITING` answers wait for the principal's turn.
pub(crate) fn may_wait(principal: &Name) -> Result<(), Problem> {
    if POOL.waiting.lock().count(principal) < WAITING {
        return Ok(());
    }
    let detail = format!("{WAITING} large answers are being made for {principal}");
    Err(Problem::new(Reason::Overloaded, detail))
}

/// Makes an answer that tells about so many amounts: at once, or in the turn of the principal if that are many.
pub(crate) async fn make<R, W>(principal: &Name, amounts: usize, work: W) -> R
where
    R: Send + 'static,
    W: FnOnce() -> R + Send + 'static,
{
    if amounts <= AMOUNTS_AT_ONCE || POOL.threads == 0 {
        return work();
    }
    let (made, making) = oneshot::channel();
    let job = move || {
        // Whoever asked may have gone while it waited.
        if !made.is_closed() {
            let _ = made.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
        }
    };
    let slot: Slot = Arc::new(Mutex::new(Some(Box::new(job))));
    let _ends = TakeBack(Arc::clone(&slot));
    POOL.waiting.lock().push(principal.clone(), slot);
    POOL.ready.notify_one();
    match making.await {
        Ok(Ok(made)) => made,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => unreachable!("a job is done or its asker has gone"),
    }
}

/// Empties a slot when its request is answered or dropped.
struct TakeBack(Slot);

impl Drop for TakeBack {
    fn drop(&mut self) {
        drop(self.0.lock().take());
    }
}

/// Leaves the processor to others, if this is a large answer and it has gone on for long enough.
pub(crate) fn pause() {
    if IS_HERE.get() {
        cpu_throttle::pause();
    }
}

/// A value as JSON, with pauses.
///
/// # Errors
/// It cannot be told in JSON.
pub(crate) fn to_json(value: &impl Serialize, capacity: usize) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(capacity);
    serde_json::to_writer(Paced::new(&mut text), value)?;
    Ok(text)
}

/// A writer that pauses now and then.
pub(crate) struct Paced<W> {
    inner: W,
    bytes: usize,
}

impl<W> Paced<W> {
    pub(crate) const fn new(inner: W) -> Self {
        Self { inner, bytes: 0 }
    }
}

impl<W: Write> Write for Paced<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written;
        if self.bytes >= STEP_BYTES {
            self.bytes = 0;
            pause();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

struct Pool {
    waiting: Mutex<Waiting>,
    ready: Condvar,
    threads: usize,
}

impl Pool {
    /// As many threads as there are processors: each uses a third of one.
    fn start() -> Self {
        let wanted = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let named = || thread::Builder::new().name("answers".to_owned());
        let started = (0..wanted).map_while(|_| named().spawn(|| POOL.run()).ok());
        Self {
            waiting: Mutex::default(),
            ready: Condvar::new(),
            threads: started.count(),
        }
    }

    fn run(&self) {
        IS_HERE.set(true);
        let mut waiting = self.waiting.lock();
        loop {
            let Some((principal, job)) = waiting.take() else {
                self.ready.wait(&mut waiting);
                continue;
            };
            drop(waiting);
            let job = job.lock().take();
            if let Some(job) = job {
                metrics::large_answer();
                job();
            }
            waiting = self.waiting.lock();
            if waiting.done(&principal) {
                self.ready.notify_one();
            }
        }
    }
}

/// Jobs that wait for their turn.
#[derive(Default)]
struct Waiting {
    /// Of each principal that has any.
    jobs: BTreeMap<Name, VecDeque<Slot>>,
    /// Those of them for whom nothing is made right now, the next one first.
    order: VecDeque<Name>,
    /// For whom something is made right now.
    served: BTreeSet<Name>,
}

impl Waiting {
    fn count(&self, principal: &Name) -> usize {
        self.jobs.get(principal).map_or(0, VecDeque::len)
    }

    fn push(&mut self, principal: Name, job: Slot) {
        let jobs = self.jobs.entry(principal.clone()).or_default();
        jobs.push_back(job);
        if jobs.len() == 1 && !self.served.contains(&principal) {
            self.order.push_back(principal);
        }
    }

    fn take(&mut self) -> Option<(Name, Slot)> {
        let principal = self.order.pop_front()?;
        let jobs = self.jobs.get_mut(&principal)?;
        let job = jobs.pop_front()?;
        if jobs.is_empty() {
            self.jobs.remove(&principal);
        }
        self.served.insert(principal.clone());
        Some((principal, job))
    }

    /// What was made for a principal is done; whether the next of its jobs waits.
    fn done(&mut self, principal: &Name) -> bool {
        self.served.remove(principal);
        let more = self.jobs.contains_key(principal);
        if more {
            self.order.push_back(principal.clone());
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(waiting: &mut Waiting) -> Option<String> {
        waiting.take().map(|(principal, _)| principal.to_string())
    }

    #[test]
    fn principals_take_turns_and_have_one_at_a_time() {
        let mut waiting = Waiting::default();
        for principal in ["a", "a", "a", "b", "b"] {
            waiting.push(principal.into(), Slot::default());
        }
        assert_eq!(next(&mut waiting).as_deref(), Some("a"));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert_eq!(next(&mut waiting), None, "both are served");
        waiting.push("a".into(), Slot::default());
        assert_eq!(next(&mut waiting), None, "a is served");
        assert!(waiting.done(&"b".into()));
        assert!(waiting.done(&"a".into()));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert!(!waiting.done(&"b".into()));
        for left in [true, true, false] {
            assert_eq!(next(&mut waiting).as_deref(), Some("a"));
            assert_eq!(waiting.done(&"a".into()), left);
        }
        assert!(waiting.jobs.is_empty() && waiting.order.is_empty() && waiting.served.is_empty());
    }

    #[tokio::test]
    async fn what_is_large_is_made_elsewhere_and_what_is_small_here() {
        let thread = || thread::current().id();
        let here = thread();
        assert_eq!(make(&"a".into(), AMOUNTS_AT_ONCE, thread).await, here);
        assert_ne!(make(&"a".into(), AMOUNTS_AT_ONCE + 1, thread).await, here);
        let numbers: Vec<u32> = (0..10_000).collect();
        let expected = serde_json::to_vec(&numbers).unwrap();
        let principal = Name::from("a");
        let made = make(&principal, usize::MAX, move || {
            to_json(&numbers, 0).unwrap()
        });
        assert!(made.await == expected);
    }

    #[tokio::test]
    async fn who_has_gone_leaves_nothing_and_who_has_many_waits() {
        let name = Name::from("crowd");
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let first = tokio::spawn({
            let name = name.clone();
            async move { make(&name, usize::MAX, move || wait.recv()).await }
        });
        while !POOL.waiting.lock().served.contains(&name) {
            tokio::task::yield_now().await;
        }
        let held = Arc::new(());
        let asks = (0..WAITING).map(|_| {
            let (name, held) = (name.clone(), Arc::clone(&held));
            tokio::spawn(async move { make(&name, usize::MAX, move || drop(held)).await })
        });
        let asks: Vec<_> = asks.collect();
        while may_wait(&name).is_ok() {
            tokio::task::yield_now().await;
        }
        for ask in &asks {
            ask.abort();
        }
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        first.await.unwrap().unwrap();
        while may_wait(&name).is_err() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_panic_is_that_of_the_request_and_the_next_one_is_answered() {
        let panics = tokio::spawn(async { make(&"p".into(), usize::MAX, || panic!("no")).await });
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(make(&"p".into(), usize::MAX, || 7).await, 7);
    }
}
