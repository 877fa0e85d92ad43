//! Large answers: they are made on threads of their own, one of each principal at a time, principals in turn.
//!
//! The threads that serve connections are few. An answer that takes one of them for a tenth of a second keeps all requests
//! waiting that are behind it. So what is large is made here, with a pause behind each step: one principal uses no more
//! than a third of a processor for it, while others are active no more than its [account](crate::pacing) allows (a single
//! answer that takes long waits no longer than [`LONGEST`] for that, so that it can be given at all), and a
//! flood of such requests waits for itself.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::{self, Write},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use quota_semantics::Name;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    cpu_throttle::{self, Meter},
    metrics,
    pacing::{ACTIVITY, Accounts, LONGEST},
    problem::{Problem, Reason},
};

/// Answers that tell no more amounts than this are made at once: that takes less than a millisecond.
pub(crate) const AMOUNTS_AT_ONCE: usize = 1000;

/// Bytes that are written between two looks at the time.
const STEP_BYTES: usize = 4096;

/// How many answers may wait for one principal's turn before further reads are refused.
const WAITING: usize = 16;

/// How many threads there are for each processor. They sleep for most of the time.
const THREADS_PER_PROCESSOR: usize = 2;

/// These threads leave the processors to those that serve connections and to the writer's.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// A job that waits for its turn, and can be cancelled.
#[derive(Clone, Default)]
struct Waiting(Arc<Cancellable>);

#[derive(Default)]
struct Cancellable {
    job: Mutex<Option<Job>>,
    is_cancelled: AtomicBool,
}

/// What unwinds a thread from a job that nobody waits for any more.
struct Cancelled;

/// What a thread makes: for whom, for which request, and what it has used since that was last noted.
struct Served {
    principal: Name,
    waiting: Waiting,
    meter: Meter,
    /// For how long it has waited since others were active.
    delayed: Duration,
}

static POOL: LazyLock<Pool> = LazyLock::new(Pool::start);

thread_local! {
    static SERVES: RefCell<Option<Served>> = const { RefCell::new(None) };
}

/// That a principal may have a large answer made.
pub(crate) struct Permit(Name);

/// Asked for by reads before they copy what a large answer is made of.
///
/// # Errors
/// [`Reason::Overloaded`]: `WAITING` answers wait for the principal's turn.
pub(crate) fn may_wait(principal: &Name) -> Result<Permit, Problem> {
    ACTIVITY.note(Some(principal), Instant::now());
    if POOL.queue.lock().count(principal) < WAITING {
        return Ok(Permit(principal.clone()));
    }
    let detail = format!("{WAITING} large answers are being made for {principal}");
    Err(Problem::new(Reason::Overloaded, detail))
}

impl Permit {
    /// For a request that changes the ledger: what was decided is always answered, however many answers wait.
    pub(crate) fn to_change(principal: &Name) -> Self {
        Self(principal.clone())
    }

    /// Makes an answer that tells about so many amounts: at once, or in the turn of the principal if that are many.
    pub(crate) async fn make<R, W>(&self, amounts: usize, work: W) -> R
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
        let waiting = Waiting::new(job);
        let _cancels = CancelOnDrop(waiting.clone());
        POOL.queue.lock().push(self.0.clone(), waiting);
        POOL.ready.notify_one();
        match making.await {
            Ok(Ok(made)) => made,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("a job is done or its asker has gone"),
        }
    }
}

impl Waiting {
    fn new(job: impl FnOnce() + Send + 'static) -> Self {
        let job: Job = Box::new(job);
        Self(Arc::new(Cancellable {
            job: Mutex::new(Some(job)),
            is_cancelled: AtomicBool::new(false),
        }))
    }

    /// The job, unless it was cancelled.
    fn take(&self) -> Option<Job> {
        self.0.job.lock().take()
    }

    fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        drop(self.take());
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }
}

/// Cancels a job, and frees what it holds, when its request is answered or dropped.
struct CancelOnDrop(Waiting);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Leaves the processor to others, if this is a large answer and it has gone on for long enough. Does not return if nobody
/// waits for the answer any more: no lock may be held here.
pub(crate) fn pause() {
    let is_in_vain = SERVES.with_borrow_mut(|serves| {
        let Some(served) = serves else { return false };
        cpu_throttle::pause_for(|| {
            let wait = POOL.charge(&served.principal, served.meter.lap());
            let wait = wait.min(LONGEST.saturating_sub(served.delayed));
            served.delayed += wait;
            wait
        });
        served.waiting.is_cancelled()
    });
    if is_in_vain {
        std::panic::resume_unwind(Box::new(Cancelled));
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
    queue: Mutex<Queue>,
    ready: Condvar,
    threads: usize,
}

impl Pool {
    fn start() -> Self {
        let processors = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let named = || thread::Builder::new().name("answers".to_owned());
        let started = (0..THREADS_PER_PROCESSOR * processors)
            .map_while(|_| named().spawn(|| POOL.run()).ok());
        Self {
            queue: Mutex::default(),
            ready: Condvar::new(),
            threads: started.count(),
        }
    }

    fn run(&self) {
        // Of this thread alone. Without it, answers are made all the same.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut queue = self.queue.lock();
        loop {
            let (principal, waiting) = match queue.take(Instant::now()) {
                Next::Job(principal, waiting) => (principal, waiting),
                Next::In(longest) => {
                    self.ready.wait_for(&mut queue, longest);
                    continue;
                }
                Next::Nothing => {
                    self.ready.wait(&mut queue);
                    continue;
                }
            };
            drop(queue);
            if let Some(job) = waiting.take() {
                self.serve(&principal, waiting, job);
            }
            queue = self.queue.lock();
            if queue.done(&principal) {
                self.ready.notify_one();
            }
        }
    }

    fn serve(&self, principal: &Name, waiting: Waiting, job: Job) {
        metrics::large_answer();
        SERVES.set(Some(Served {
            principal: principal.clone(),
            waiting,
            meter: Meter::start(),
            delayed: Duration::ZERO,
        }));
        job();
        if let Some(mut served) = SERVES.take() {
            self.charge(&served.principal, served.meter.lap());
        }
    }

    /// Notes what was used for a principal. For how long it has to wait now.
    fn charge(&self, principal: &Name, work: Duration) -> Duration {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        queue.accounts.charge(principal, work, &ACTIVITY, now);
        queue.wait_of(principal, now)
    }
}

/// Jobs that wait for their turn.
#[derive(Default)]
struct Queue {
    /// Of each principal that has any.
    jobs: BTreeMap<Name, VecDeque<Waiting>>,
    /// Those of them for whom nothing is made right now, the next one first.
    order: VecDeque<Name>,
    /// For whom something is made right now.
    served: BTreeSet<Name>,
    accounts: Accounts,
}

/// What a thread finds in the queue.
enum Next {
    Job(Name, Waiting),
    /// Nothing before so long: who has jobs has used up what it may.
    In(Duration),
    Nothing,
}

impl Queue {
    fn count(&self, principal: &Name) -> usize {
        self.jobs.get(principal).map_or(0, VecDeque::len)
    }

    fn push(&mut self, principal: Name, job: Waiting) {
        let jobs = self.jobs.entry(principal.clone()).or_default();
        jobs.push_back(job);
        if jobs.len() == 1 && !self.served.contains(&principal) {
            self.order.push_back(principal);
        }
    }

    /// The next job of the first principal that may have more made now.
    fn take(&mut self, now: Instant) -> Next {
        let waits = self.order.iter().map(|name| self.wait_of(name, now));
        let Some((at, wait)) = waits.enumerate().min_by_key(|(_, wait)| *wait) else {
            return Next::Nothing;
        };
        if !wait.is_zero() {
            return Next::In(wait);
        }
        let principal = self.order.remove(at);
        let taken = principal.and_then(|principal| {
            let jobs = self.jobs.get_mut(&principal)?;
            let job = jobs.pop_front()?;
            if jobs.is_empty() {
                self.jobs.remove(&principal);
            }
            self.served.insert(principal.clone());
            Some(Next::Job(principal, job))
        });
        taken.unwrap_or(Next::Nothing)
    }

    /// For how long the principal has to wait before more is made for it.
    fn wait_of(&self, principal: &Name, now: Instant) -> Duration {
        let until = self.accounts.waits_until(principal, &ACTIVITY, now);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
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

    fn next(waiting: &mut Queue) -> Option<String> {
        match waiting.take(Instant::now()) {
            Next::Job(principal, _) => Some(principal.to_string()),
            Next::In(_) | Next::Nothing => None,
        }
    }

    fn permit(principal: &str) -> Permit {
        Permit::to_change(&principal.into())
    }

    #[test]
    fn principals_take_turns_and_have_one_at_a_time() {
        let mut waiting = Queue::default();
        for principal in ["a", "a", "a", "b", "b"] {
            waiting.push(principal.into(), Waiting::default());
        }
        assert_eq!(next(&mut waiting).as_deref(), Some("a"));
        assert_eq!(next(&mut waiting).as_deref(), Some("b"));
        assert_eq!(next(&mut waiting), None, "both are served");
        waiting.push("a".into(), Waiting::default());
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
        assert_eq!(permit("a").make(AMOUNTS_AT_ONCE, thread).await, here);
        assert_ne!(permit("a").make(AMOUNTS_AT_ONCE + 1, thread).await, here);
        let numbers: Vec<u32> = (0..10_000).collect();
        let expected = serde_json::to_vec(&numbers).unwrap();
        let permit = permit("a");
        let made = permit.make(usize::MAX, move || to_json(&numbers, 0).unwrap());
        assert!(made.await == expected);
    }

    #[tokio::test]
    async fn who_has_gone_leaves_nothing_and_who_has_many_waits() {
        let name = Name::from("crowd");
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let first = tokio::spawn(async move {
            let permit = permit("crowd");
            permit.make(usize::MAX, move || wait.recv()).await
        });
        while !POOL.queue.lock().served.contains(&name) {
            tokio::task::yield_now().await;
        }
        let held = Arc::new(());
        let asks = (0..WAITING).map(|_| {
            let held = Arc::clone(&held);
            tokio::spawn(async move {
                let permit = permit("crowd");
                permit.make(usize::MAX, move || drop(held)).await;
            })
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

    #[test]
    fn who_has_used_too_much_holds_nobody_up() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let [much, other] = ["has had much", "has had nothing"].map(Name::from);
        ACTIVITY.note(Some(&much), now);
        ACTIVITY.note(Some(&other), now);
        queue
            .accounts
            .charge(&much, Duration::from_secs(60), &ACTIVITY, now);
        queue.push(much.clone(), Waiting::default());
        queue.push(other.clone(), Waiting::default());
        assert!(matches!(queue.take(now), Next::Job(name, _) if name == other));
        assert!(
            matches!(queue.take(now), Next::In(_)),
            "the first one waits"
        );
        let later = now + Duration::from_secs(3600);
        assert!(matches!(queue.take(later), Next::Job(name, _) if name == much));
        assert!(matches!(queue.take(later), Next::Nothing));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_made_to_its_end() {
        let (has_begun, begun) = std::sync::mpsc::channel();
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        let request = tokio::spawn(async move {
            let work = move || {
                let _ends = ends;
                has_begun.send(()).unwrap();
                loop {
                    pause();
                }
            };
            permit("gone").make::<(), _>(usize::MAX, work).await;
        });
        while begun.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        let ended = tokio::task::spawn_blocking(move || ended.recv());
        assert!(ended.await.unwrap().is_err(), "its thread has left it");
        assert_eq!(permit("gone").make(usize::MAX, || 7).await, 7);
    }

    #[tokio::test]
    async fn a_panic_is_that_of_the_request_and_the_next_one_is_answered() {
        let panics = tokio::spawn(async { permit("p").make(usize::MAX, || panic!("no")).await });
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(permit("p").make(usize::MAX, || 7).await, 7);
    }
}
