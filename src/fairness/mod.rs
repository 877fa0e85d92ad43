//! Fair shares of what principals compete for: the writer, and the processors.
//!
//! Every principal has one share, however many requests, connections or namespaces it has. For processor time, two
//! places enforce it, with the same parts (watches, expensive readers and bytes of bodies have bounds of their own:
//! `watch_slots`, the turns in `api/entries.rs`, `server::BodyBudget`):
//!
//! - `Lanes`: the writer's queue. Principals take turns, one decision each, behind the cluster's own jobs.
//! - `Permit`: the bounded pool of threads for expensive reads. Principals take turns, one answer each.
//!
//! Both keep jobs in `Turns`, and the processor time of each principal in `Accounts`. A principal whose work was
//! expensive waits while others are active (`ACTIVITY`); a principal that is alone never waits. Work that takes long
//! yields the processor after each step.

mod accounts;
mod lanes;
mod turns;
mod watch_slots;

#[cfg(test)]
mod tests;

use std::{
    cell::{Cell, RefCell},
    io::{self, Write},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use quota_journal::Throttle;
use quota_semantics::Name;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use accounts::ACTIVITY;
use accounts::LONGEST;
pub(crate) use lanes::{Lane, Lanes, Queued};
use turns::Turns;
pub use watch_slots::{Full, Slot, WatchLimits, Watches};

use crate::{
    metrics,
    problem::{Problem, Reason},
};

/// How long background work runs before it yields the processor to request threads: the scheduler preempts a busy
/// thread only at its next tick, whatever the nice value, so it would keep a processor for four to eight milliseconds
/// each time, longer than nearly all requests take.
const STEP: Duration = Duration::from_micros(250);

/// How long it pauses.
const PAUSE: Duration = Duration::from_micros(500);

thread_local! {
    /// The beginning of this thread's step.
    static BEGAN: Cell<Instant> = Cell::new(Instant::now());
}

/// Throttles until `stop`: from then on a caller waits for the work to end.
pub(crate) fn until(stop: CancellationToken) -> Throttle {
    Throttle::new(move || {
        if !stop.is_cancelled() {
            pause();
        }
    })
}

/// Pauses if this thread's step was long enough; answers whether it was.
pub(crate) fn pause() -> bool {
    pause_for(|| Some(PAUSE))
}

/// Like [`pause`], but for the duration that `wanted` returns if that is longer. If `wanted` returns none, the next
/// step begins at once.
pub(crate) fn pause_for(wanted: impl FnOnce() -> Option<Duration>) -> bool {
    let is_over = BEGAN.get().elapsed() >= STEP;
    if is_over {
        if let Some(wanted) = wanted() {
            thread::sleep(wanted.max(PAUSE));
        }
        BEGAN.set(Instant::now());
    }
    is_over
}

/// Measures the processor time of the thread on which it was made. Time in which another thread has the processor does
/// not count.
#[derive(Debug)]
pub(crate) struct Meter(Duration);

impl Meter {
    pub(crate) fn start() -> Self {
        Self(used_by_this_thread())
    }

    /// The processor time since the start, or since the last call.
    pub(crate) fn lap(&mut self) -> Duration {
        let used = used_by_this_thread();
        used.saturating_sub(std::mem::replace(&mut self.0, used))
    }
}

fn used_by_this_thread() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Answers with at most this many amounts are made at once: that takes less than a millisecond.
pub(crate) const AMOUNTS_AT_ONCE: usize = 1000;

/// Names that are copied while the state is locked once.
pub(crate) const NAMES_AT_ONCE: usize = 2 * AMOUNTS_AT_ONCE;

/// This many bytes of text count as one amount.
pub(crate) const BYTES_PER_AMOUNT: usize = 64;

/// How many answers may wait for the turn of one principal before further reads are refused.
const WAITING: usize = 16;

/// Threads per processor. They sleep for most of the time.
const THREADS_PER_PROCESSOR: usize = 2;

/// Queries of past states that are processed at the same time: each holds a state of its own in memory.
const PAST_AT_ONCE: usize = 2;

/// The nice value of these threads: threads that serve connections and the writer's threads take precedence.
const NICE: i32 = 10;

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Answers with many amounts.
    Answers,
    /// The lines of watches. They have turns of their own: many watches keep no list of their principal waiting.
    Watches,
    /// Answers about the past. A single one may take long: they are charged to no principal, and pause only while
    /// others are active.
    Past,
}

static ANSWERS: LazyLock<Pool> =
    LazyLock::new(|| Pool::start(&ANSWERS, Kind::Answers, THREADS_PER_PROCESSOR * processors()));

static WATCHES: LazyLock<Pool> =
    LazyLock::new(|| Pool::start(&WATCHES, Kind::Watches, processors()));

static PAST: LazyLock<Pool> = LazyLock::new(|| Pool::start(&PAST, Kind::Past, PAST_AT_ONCE));

fn processors() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// The permission to have a large answer made for a principal. Every large answer needs one for its purpose: a read is
/// refused while too many answers wait.
pub(crate) struct Permit {
    principal: Name,
    pool: &'static LazyLock<Pool>,
}

/// Does work of this many amounts for a caller that has no permit yet. Small work is done at once, without one.
///
/// # Errors
/// As [`Permit::to_read`].
pub(crate) async fn make_sized<R, W>(
    principal: &Name,
    amounts: usize,
    work: W,
) -> Result<R, Problem>
where
    R: Send + 'static,
    W: FnOnce(&Turn) -> R + Send + 'static,
{
    if amounts <= AMOUNTS_AT_ONCE {
        return Ok(work(&Turn::SHORT));
    }
    Ok(Permit::to_read(principal)?.make(amounts, work).await)
}

impl Permit {
    fn new(principal: &Name, pool: &'static LazyLock<Pool>) -> Self {
        let principal = principal.clone();
        Self { principal, pool }
    }

    /// The permission for a read, to be obtained before the data is copied.
    ///
    /// # Errors
    /// [`Reason::Overloaded`]: `WAITING` answers wait for the principal's turn.
    pub(crate) fn to_read(principal: &Name) -> Result<Self, Problem> {
        ACTIVITY.note(Some(principal), Instant::now());
        let permit = Self::new(principal, &ANSWERS);
        if !permit.is_crowded() {
            return Ok(permit);
        }
        let detail = format!("{WAITING} large answers are being made for {principal}");
        Err(Problem::new(Reason::Overloaded, detail))
    }

    /// The permission for a change: a decision is always answered, however many answers wait. While these are too many
    /// ([`Permit::is_crowded`]), a batch shows no checked quotas.
    pub(crate) fn to_change(principal: &Name) -> Self {
        Self::new(principal, &ANSWERS)
    }

    /// The permission for a watch, which makes one part after the other: the number of watches is bounded.
    pub(crate) fn to_watch(principal: &Name) -> Self {
        Self::new(principal, &WATCHES)
    }

    /// The permission for a query of a past state.
    pub(crate) fn of_past(principal: &Name) -> Self {
        ACTIVITY.note(Some(principal), Instant::now());
        Self::new(principal, &PAST)
    }

    /// Returns true if the queue of the principal is full.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting() >= WAITING
    }

    /// How many answers wait for the turn of the principal.
    pub(crate) fn waiting(&self) -> usize {
        self.pool.queue.lock().count(&self.principal)
    }

    /// Makes an answer with this many amounts: at once if there are few, else in the turn of the principal.
    pub(crate) async fn make<R, W>(&self, amounts: usize, work: W) -> R
    where
        R: Send + 'static,
        W: FnOnce(&Turn) -> R + Send + 'static,
    {
        if amounts <= AMOUNTS_AT_ONCE || self.pool.threads == 0 {
            return work(&Turn::SHORT);
        }
        let made = Arc::new(Mutex::new(None));
        let answer = made.clone();
        let job = move |turn: &Turn| {
            let work = std::panic::AssertUnwindSafe(|| work(turn));
            *answer.lock() = Some(std::panic::catch_unwind(work));
        };
        self.done(Box::new(job)).await;
        match made.lock().take().expect("the job is done") {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Does a job in the turn of the principal. Of one type for all answers, so that it is compiled once.
    async fn done(&self, job: Job) {
        let (made, making) = oneshot::channel();
        let job = move |turn: &Turn| {
            // The caller may have disconnected while the job waited.
            if !made.is_closed() {
                job(turn);
                let _ = made.send(());
            }
        };
        let waiting = Waiting::new(job);
        let _cancels = CancelOnDrop(waiting.clone());
        let queued = self.principal.clone();
        self.pool.queue.lock().push(queued, waiting);
        self.pool.ready.notify_one();
        making.await.expect("a job is done unless its caller has gone");
    }
}

/// The work that makes an answer.
type Job = Box<dyn FnOnce(&Turn) + Send>;

/// A job that waits for its turn, and can be cancelled.
#[derive(Clone)]
struct Waiting {
    job: Arc<Mutex<Option<Job>>>,
    is_cancelled: Arc<AtomicBool>,
}

impl Waiting {
    fn new(job: impl FnOnce(&Turn) + Send + 'static) -> Self {
        let job: Job = Box::new(job);
        Self { job: Arc::new(Mutex::new(Some(job))), is_cancelled: Arc::default() }
    }

    /// Takes the job, unless it was cancelled.
    fn take(&self) -> Option<Job> {
        self.job.lock().take()
    }
}

/// Cancels a job and frees its memory when its request is answered or dropped.
struct CancelOnDrop(Waiting);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
        drop(self.0.take());
    }
}

/// Threads that make answers of one kind, one of each principal at a time, principals in turn.
///
/// Few threads serve connections. An answer that occupies one of them for a tenth of a second delays all requests
/// behind it. So large answers are made here, with a pause after each step. A principal uses at most a third of a
/// processor for its answers, and while others are active at most as much as its account allows. So a flood of such
/// requests delays only itself. A single long answer is delayed by at most [`LONGEST`] in total, so that it can be
/// completed.
struct Pool {
    kind: Kind,
    queue: Mutex<Turns<Waiting>>,
    ready: Condvar,
    threads: usize,
}

impl Pool {
    fn start(this: &'static LazyLock<Self>, kind: Kind, threads: usize) -> Self {
        let name = match kind {
            Kind::Answers => "answers",
            Kind::Watches => "watches",
            Kind::Past => "past",
        };
        let named = || thread::Builder::new().name(name.to_owned());
        let started = (0..threads).map_while(|_| named().spawn(|| this.run()).ok());
        Self { kind, queue: Mutex::default(), ready: Condvar::new(), threads: started.count() }
    }

    fn run(&'static self) {
        // Only for this thread. A failure does not matter.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut queue = self.queue.lock();
        loop {
            queue.end_delays(Instant::now());
            let Some((principal, waiting)) = queue.pop_and_hold(Instant::now()) else {
                match queue.next_ready() {
                    Some(at) => {
                        self.ready.wait_until(&mut queue, at);
                    }
                    None => self.ready.wait(&mut queue),
                }
                continue;
            };
            drop(queue);
            if let Some(job) = waiting.take() {
                self.serve(&principal, &waiting, job);
            }
            queue = self.queue.lock();
            if queue.release(&principal) {
                self.ready.notify_one();
            }
        }
    }

    fn serve(&'static self, principal: &Name, waiting: &Waiting, job: Job) {
        if self.kind == Kind::Answers {
            metrics::large_answer();
        }
        let turn = Turn::begin(self, principal, waiting.is_cancelled.clone());
        job(&turn);
        turn.end();
    }

    /// Charges a principal for the processor time of its answer. Returns how long it has to wait now.
    fn charge(&self, principal: &Name, work: Duration) -> Duration {
        if self.kind == Kind::Past {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let mut queue = self.queue.lock();
        queue.charge(principal, work, now);
        let until = queue.waits_until(principal, now);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

/// Bytes that are written between two checks of the time.
const STEP_BYTES: usize = 4096;

/// The payload that unwinds a thread from a job whose caller has disconnected.
struct Cancelled;

/// The turn of a principal, through which its work pauses. Only [`Permit::make`](Permit::make) creates one, so
/// work that is long enough to pause cannot run elsewhere.
pub(crate) struct Turn(Option<RefCell<Served>>);

/// A running job: its principal, its request, and the processor time since the last charge.
struct Served {
    pool: &'static Pool,
    principal: Name,
    is_cancelled: Arc<AtomicBool>,
    meter: Meter,
    /// How long the job has been delayed because others were active.
    delayed: Duration,
}

impl Turn {
    /// The turn for a small answer that is made at once: it never pauses.
    const SHORT: Self = Self(None);

    /// A turn on a thread of the pool.
    fn begin(pool: &'static Pool, principal: &Name, is_cancelled: Arc<AtomicBool>) -> Self {
        Self(Some(RefCell::new(Served {
            pool,
            principal: principal.clone(),
            is_cancelled,
            meter: Meter::start(),
            delayed: Duration::ZERO,
        })))
    }

    /// Charges the processor time since the last pause.
    fn end(self) {
        if let Some(served) = self.0 {
            let mut served = served.into_inner();
            served.pool.charge(&served.principal, served.meter.lap());
        }
    }

    /// Yields the processor if the work has run for long enough. Does not return if the caller no longer waits for the
    /// answer: no lock may be held here.
    pub(crate) fn pause(&self) {
        let Some(served) = &self.0 else { return };
        let is_in_vain = {
            let served = &mut *served.borrow_mut();
            pause_for(|| {
                let (pool, principal) = (served.pool, &served.principal);
                let wait = pool.charge(principal, served.meter.lap());
                let wait = wait.min(LONGEST.saturating_sub(served.delayed));
                served.delayed += wait;
                let pauses = pool.kind != Kind::Past
                    || ACTIVITY.of_others_until(principal, Instant::now()).is_some();
                pauses.then_some(wait)
            });
            served.is_cancelled.load(Ordering::Relaxed)
        };
        if is_in_vain {
            metrics::answer_given_up();
            std::panic::resume_unwind(Box::new(Cancelled));
        }
    }

    /// A value as JSON, with pauses.
    ///
    /// # Errors
    /// The value cannot be represented in JSON.
    pub(crate) fn to_json(
        &self,
        value: &impl Serialize,
        capacity: usize,
    ) -> serde_json::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(capacity);
        serde_json::to_writer(Paced::new(&mut text, self), value)?;
        Ok(text)
    }
}

/// A writer that pauses at intervals.
struct Paced<'a, W> {
    inner: W,
    turn: &'a Turn,
    bytes: usize,
}

impl<'a, W> Paced<'a, W> {
    const fn new(inner: W, turn: &'a Turn) -> Self {
        Self { inner, turn, bytes: 0 }
    }
}

impl<W: Write> Write for Paced<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written;
        if self.bytes >= STEP_BYTES {
            self.bytes = 0;
            self.turn.pause();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
