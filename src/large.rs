//! Large answers: they are made on threads of their own, one of each principal at a time, principals in turn.
//!
//! The threads that serve connections are few. An answer that takes one of them for a tenth of a second keeps all requests
//! waiting that are behind it. So what is large is made here, with a pause behind each step: one principal uses no more
//! than a third of a processor for it, and a flood of such requests waits for itself.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{self, Write},
    sync::LazyLock,
    thread,
};

use parking_lot::{Condvar, Mutex};
use quota_semantics::Name;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{cpu_throttle, metrics};

/// Answers that tell no more amounts than this are made at once: that takes less than a millisecond.
pub(crate) const AMOUNTS_AT_ONCE: usize = 1000;

/// Bytes that are written between two looks at the time.
const STEP_BYTES: usize = 4096;

type Job = Box<dyn FnOnce() + Send>;

static POOL: LazyLock<Pool> = LazyLock::new(Pool::start);

thread_local! {
    /// Whether this is one of the threads that make large answers.
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
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
    POOL.waiting.lock().push(principal.clone(), Box::new(job));
    POOL.ready.notify_one();
    match making.await {
        Ok(Ok(made)) => made,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => unreachable!("a job is done or its asker has gone"),
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
            metrics::large_answer();
            job();
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
    jobs: BTreeMap<Name, VecDeque<Job>>,
    /// Those of them for whom nothing is made right now, the next one first.
    order: VecDeque<Name>,
    /// For whom something is made right now.
    served: BTreeSet<Name>,
}

impl Waiting {
    fn push(&mut self, principal: Name, job: Job) {
        let jobs = self.jobs.entry(principal.clone()).or_default();
        jobs.push_back(job);
        if jobs.len() == 1 && !self.served.contains(&principal) {
            self.order.push_back(principal);
        }
    }

    fn take(&mut self) -> Option<(Name, Job)> {
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
            waiting.push(principal.into(), Box::new(|| ()));
        }
        assert_eq!(next(&mut waiting).as_deref(), Some("a"));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert_eq!(next(&mut waiting), None, "both are served");
        waiting.push("a".into(), Box::new(|| ()));
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
    async fn a_panic_is_that_of_the_request_and_the_next_one_is_answered() {
        let panics = tokio::spawn(async { make(&"p".into(), usize::MAX, || panic!("no")).await });
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(make(&"p".into(), usize::MAX, || 7).await, 7);
    }
}
