use std::{sync::mpsc, thread, time::Duration};

use quota_core::event::{Actor, Event, Reservation, Sequence};
use quota_journal::Error;
use quota_semantics::{Name, Span, uid::Uid};
use tokio::sync::broadcast::error::TryRecvError;

use super::*;
use crate::{fairness::Meter, now};

/// A journal that accepts everything, and is durable at once.
#[derive(Default)]
struct Memory {
    last: u64,
}

impl Journal for Memory {
    fn append(&mut self, batch: quota_journal::Batch) -> Result<(), Error> {
        self.last = batch.last_sequence();
        Ok(())
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        Ok(Durable { sequence: self.last, ..Durable::NOTHING })
    }
}

/// A journal whose node is replaced as the leader after so many entries.
struct Replaced {
    kept: u64,
    memory: Memory,
}

impl Journal for Replaced {
    fn append(&mut self, batch: quota_journal::Batch) -> Result<(), Error> {
        match batch.last_sequence() > self.kept {
            true => Err(Error::Deposed),
            false => self.memory.append(batch),
        }
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        self.memory.sync()
    }
}

fn options() -> Options {
    Options { policy: Policy::default(), queue: 64, max_batch_entries: 16 }
}

fn started() -> (Ledger, Threads<Memory>) {
    started_with(Memory::default())
}

fn started_with<J: Journal + 'static>(journal: J) -> (Ledger, Threads<J>) {
    start(
        State::default(),
        journal,
        Durable::NOTHING,
        Arc::new(Watermark::without_sources()),
        options(),
        |error| panic!("{error}"),
    )
    .unwrap()
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn nothing_is_dated_by_a_clock_that_is_not_known_to_be_right() {
    let (ledger, threads) = started();
    let head = || block_on(ledger.decide(|context| context.transaction.now()));
    assert!(head().is_ok());
    ledger.clock().limit(500);
    assert_eq!(head(), Err(Unavailable::NotLeader));
    assert!(!ledger.decides());
    ledger.close();
    threads.join().unwrap();
}

/// A decision that is being made until it is told to end, so that what is sent meanwhile waits together.
fn held(
    ledger: &Ledger,
) -> (impl Future<Output = Result<(), Unavailable>> + use<>, mpsc::Sender<()>) {
    let (has_begun, begun) = mpsc::channel();
    let (go, wait) = mpsc::channel();
    let held = ledger.decide(move |_| {
        has_begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    begun.recv().unwrap();
    (held, go)
}

fn record(context: &mut DecisionContext<'_>) -> Sequence {
    let deleted = Event::ObjectDeleted { uid: Uid::from_uuid([7; 16]), namespace: "team-a".into() };
    context.transaction.record(&Actor::named("test"), [deleted])
}

/// Several decisions about nothing.
fn decide_each<D>(
    ledger: &Ledger,
    principal: &Name,
    decisions: Vec<D>,
) -> impl Future<Output = Result<Vec<Sequence>, Unavailable>> + use<D>
where
    D: FnOnce(&mut DecisionContext<'_>) -> Sequence + Send + 'static,
{
    let decisions = decisions.into_iter();
    let about = |decision: D| move |context: &mut DecisionContext<'_>, (): &()| decision(context);
    ledger.decide_each(principal, Arc::new(()), decisions.map(about).collect())
}

/// Either thread syncs batches. If a batch were published after the next one, a reader that waits for the newest entry
/// would wait forever.
#[test]
fn what_is_durable_is_told_in_its_order() {
    const WORKERS: u64 = 3;
    const DECISIONS: u64 = 5_000;
    let (ledger, threads) = started();
    let mut watched = ledger.watch();
    let watching = thread::spawn(move || {
        let mut last = 0;
        while last < WORKERS * DECISIONS {
            // A watcher that was too slow skips batches: the order holds nevertheless.
            let Ok(batch) = watched.blocking_recv() else {
                continue;
            };
            for entry in batch.iter() {
                assert!(entry.sequence > last, "{} behind {last}", entry.sequence);
                last = entry.sequence;
            }
        }
        assert_eq!(watched.try_recv().unwrap_err(), TryRecvError::Empty);
    });
    let decisions = async || {
        for _ in 0..DECISIONS {
            let sequence = ledger.decide(record).await.unwrap();
            let durable = ledger.durable().sequence;
            assert!(durable >= sequence, "{durable} behind {sequence}");
        }
    };
    let work = || block_on(decisions());
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    watching.join().unwrap();
    ledger.close();
    assert_eq!(threads.join().unwrap().last, WORKERS * DECISIONS);
}

/// Even if one call has many decisions, no other job waits for all of them.
#[test]
fn a_flood_queues_behind_itself() {
    let (ledger, threads) = started();
    let (held, go) = held(&ledger);
    let [flood, other] = ["flood", "other"].map(Name::from);
    let flood = decide_each(&ledger, &flood, vec![record; 20]);
    let other = ledger.decide_for(For::Principal(&other), record);
    let cluster = ledger.decide(record);
    go.send(()).unwrap();
    let all = async { tokio::join!(held, cluster, other, flood) };
    let (held, cluster, other, flood) = block_on(all);
    held.unwrap();
    assert_eq!((cluster, other), (Ok(1), Ok(3)));
    let rest = (4..=22).collect::<Vec<_>>();
    assert_eq!(flood.unwrap(), [vec![2], rest].concat());
    ledger.close();
    threads.join().unwrap();
}

/// The expensive jobs of a flood wait while others are active, even when it is the flood's turn.
#[test]
fn whose_decisions_were_expensive_waits_while_others_are_active() {
    let (ledger, threads) = started();
    let (held, go) = held(&ledger);
    let work = |context: &mut DecisionContext<'_>| {
        let mut meter = Meter::start();
        let mut used = Duration::ZERO;
        while used < Duration::from_millis(100) {
            used += meter.lap();
        }
        record(context)
    };
    let [flood, other] = ["an expensive flood", "one beside it"].map(Name::from);
    let flood = decide_each(&ledger, &flood, vec![work; 2]);
    let other = decide_each(&ledger, &other, vec![record; 4]);
    go.send(()).unwrap();
    let (held, other, flood) = block_on(async { tokio::join!(held, other, flood) });
    held.unwrap();
    // Without the delay it would be 3.
    assert_eq!(flood.unwrap(), [1, 6]);
    assert_eq!(other.unwrap(), [2, 3, 4, 5]);
    // At the end all delays end.
    let last = ledger.decide_for(For::Principal(&Name::from("an expensive flood")), record);
    ledger.close();
    assert_eq!(block_on(last), Ok(7));
    threads.join().unwrap();
}

/// After an expensive job the other jobs of its group are put back.
#[test]
fn what_was_put_back_is_decided_before_the_end() {
    let (ledger, threads) = started();
    let (held, go) = held(&ledger);
    let work = |context: &mut DecisionContext<'_>| {
        let mut meter = Meter::start();
        let mut used = Duration::ZERO;
        while used < Duration::from_millis(5) {
            used += meter.lap();
        }
        record(context)
    };
    let expensive = decide_each(&ledger, &Name::from("one"), vec![work; 3]);
    let cheap = decide_each(&ledger, &Name::from("another"), vec![record; 2]);
    ledger.close();
    go.send(()).unwrap();
    let (held, expensive, cheap) = block_on(async { tokio::join!(held, expensive, cheap) });
    held.unwrap();
    assert_eq!(expensive.unwrap().len() + cheap.unwrap().len(), 5);
    threads.join().unwrap();
}

#[test]
fn of_several_decisions_that_nobody_waits_for_any_more_the_rest_is_not_made() {
    let (ledger, threads) = started();
    let (held, go) = held(&ledger);
    let name = Name::from("gone");
    let subject = Arc::new(());
    drop(decide_each(&ledger, &name, vec![record; 5]));
    drop(
        ledger.decide_about(For::Principal(&name), subject.clone(), |context, ()| record(context)),
    );
    assert_eq!(Arc::strong_count(&subject), 1, "no job keeps the subject");
    drop(subject);
    drop(ledger.decide_for(For::Principal(&name), record));
    let last = ledger.decide_for(For::Principal(&name), record);
    go.send(()).unwrap();
    let (held, last) = block_on(async { tokio::join!(held, last) });
    held.unwrap();
    assert_eq!(last, Ok(2), "one decision by itself is made all the same");
    ledger.close();
    threads.join().unwrap();
}

#[test]
fn what_was_peeked_at_before_the_state_was_rebuilt_is_no_answer() {
    let (ledger, threads, replica) = start_following(
        State::default(),
        ReplicatedJournal::new(Memory::default()),
        Durable::NOTHING,
        Arc::new(Watermark::without_sources()),
        options(),
        |error| panic!("{error}"),
    )
    .unwrap();
    let head = |before| block_on(ledger.read_after(before, |state| state.head().sequence));
    let before = ledger.before_peeks();
    assert_eq!(head(before), Ok(0));
    replica.rebuild(State::default());
    assert_eq!(head(before), Err(Unavailable::NotLeader));
    assert_eq!(head(ledger.before_peeks()), Ok(0));
    assert_eq!(block_on(ledger.read(|_| ())), Ok(()));
    ledger.close();
    threads.join().unwrap();
}

/// The first entry is that of another request.
#[test]
fn of_several_decisions_none_is_said_to_be_made_if_some_are() {
    for (kept, refused) in [(1, Unavailable::NotLeader), (17, Unavailable::OutcomeUnknown)] {
        let memory = Memory::default();
        let (ledger, threads) = started_with(Replaced { kept, memory });
        ledger.inbox.open();
        assert_eq!(block_on(ledger.decide(record)), Ok(1));
        let all = decide_each(&ledger, &Name::from("batch"), vec![record; 40]);
        assert_eq!(block_on(all), Err(refused));
        ledger.close();
        assert!(threads.join().unwrap().memory.last <= kept);
    }
}

/// No job waits for all reservations that expire at the same moment.
#[test]
fn what_is_due_at_once_is_recorded_a_part_at_a_time() {
    const ALL: usize = 1000;
    let (ledger, threads) = started();
    let mut watched = ledger.watch();
    let granted = |number: usize| {
        Event::ReservationGranted(Arc::new(Reservation {
            uid: Uid::new(&format!("u{number}")).unwrap(),
            namespace: "team-a".into(),
            resource: "pods".into(),
            name: "".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: Arc::default(),
            created: now(),
            expiration: now().minus(Span::from_seconds(60)),
            after_version: 0,
            requested: None,
        }))
    };
    let decided = ledger.decide(move |context| {
        let all = (0..ALL).map(granted);
        context.transaction.record(&Actor::named("test"), all)
    });
    block_on(decided).unwrap();
    let mut ended = Vec::new();
    while ended.iter().sum::<usize>() < ALL {
        let batch = watched.blocking_recv().unwrap();
        let ends =
            batch.iter().filter(|entry| matches!(entry.event, Event::ReservationExpired { .. }));
        ended.push(ends.count());
    }
    assert!(ended.iter().all(|count| *count < ALL / 2), "{ended:?}");
    assert_eq!(ledger.peek(State::pending_count), 0);
    ledger.close();
    threads.join().unwrap();
}
