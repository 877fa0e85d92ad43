use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use quota_core::{
    codec,
    decide::{self, Basis, Policy, Request, Requester, Verdict},
    event::{Actor, Entry},
    source::Observation,
    state::{Head, State},
    time::{Period, report::Entries},
    transaction::{OpenBatch, WriteTransaction},
};
use quota_journal::{
    Batch, FileJournal, FileReader, Journal as _, Options, Reader as _, Retention, disk::RealDisk,
};
use quota_ledger::{period::Fold, replay::Until};
use quota_semantics::{Span, Timestamp, object::Footprint, uid::Uid};

use super::{Cache, Error, History, STATES};
use crate::{
    fairness::{AMOUNTS_AT_ONCE, Permit, Turn},
    intake::payload,
};

const SECOND: Span = Span::from_seconds(1);

/// Entries between two snapshots.
const SNAPSHOT: u64 = 300;

fn start() -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(1_790_000_000))
}

/// A ledger of the recorded history, with interleaved reservations, one batch per second, snapshots and compaction.
struct Recorded {
    directory: tempfile::TempDir,
    archive: bool,
    state: State,
    entries: Vec<Entry>,
    snapshots: u64,
}

impl Recorded {
    fn new(archive: bool) -> Self {
        let mut recorded = Self {
            directory: tempfile::tempdir().unwrap(),
            archive,
            state: State::default(),
            entries: Vec::new(),
            snapshots: 0,
        };
        let (mut journal, reader) = recorded.open();
        let lines =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/history-a.events.jsonl");
        let lines = std::fs::read_to_string(lines).unwrap();
        let understood = Arc::new(payload::Reader::new(&BTreeMap::new(), true));
        let lines: Vec<&str> = lines.lines().collect();
        for (number, lines) in lines.chunks(3).enumerate() {
            recorded.batch(number, lines, &understood, &mut journal, &reader);
        }
        let retention = Retention { max_age: None, max_bytes: Some(0) };
        journal.work().unwrap();
        while journal.work().unwrap() {}
        reader.compact(start(), &retention).unwrap();
        while journal.work().unwrap() {}
        let compacted = reader.compact(start(), &retention).unwrap();
        assert!(compacted.kept_from > 1, "nothing was compacted");
        journal.close().unwrap();
        recorded
    }

    fn open(&self) -> (FileJournal, FileReader) {
        let options = Options {
            segment_bytes: 64 * 1024,
            epoch_bytes: 64 * 1024,
            archive: self.archive.then(|| self.directory.path().join("archive")),
            background: false,
            ..Options::default()
        };
        let data = self.directory.path().join("data");
        let (journal, reader, _) = FileJournal::open(Arc::new(RealDisk), &data, options).unwrap();
        (journal, reader)
    }

    fn batch(
        &mut self,
        number: usize,
        lines: &[&str],
        understood: &Arc<payload::Reader>,
        journal: &mut FileJournal,
        reader: &FileReader,
    ) {
        let now = start().plus(Span::from_seconds(number as i64));
        let actor = Actor::named("recording");
        let mut open = OpenBatch::default();
        let due = decide::due(&self.state, now, now, Span::from_seconds(3600));
        let due: Vec<_> = due.collect();
        WriteTransaction::new(&mut self.state, &mut open, now).record(&actor, due);
        for line in lines {
            for event in understood.read(Bytes::copy_from_slice(line.as_bytes()), now) {
                let Some(Observation::Sighting(sighting)) = event.unwrap().observation else {
                    continue;
                };
                if let Verdict::Accepted(events) = decide::observe(&self.state, sighting) {
                    WriteTransaction::new(&mut self.state, &mut open, now).record(&actor, events);
                }
            }
        }
        let request = request(&self.state, number);
        if let Some(Ok(reserved)) = request.map(|request| {
            decide::reserve(
                &self.state,
                now,
                &Requester::holder("test"),
                &request,
                &Policy::default(),
            )
        }) {
            WriteTransaction::new(&mut self.state, &mut open, now).record(&actor, reserved.events);
        }
        let entries = open.take();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        journal
            .append(Batch {
                first_sequence: first.sequence,
                count: u32::try_from(entries.len()).unwrap(),
                time: last.time,
                payload: codec::encode_entries(&entries),
            })
            .unwrap();
        let durable = journal.sync().unwrap();
        self.entries.extend(entries);
        if durable.sequence / SNAPSHOT > self.snapshots {
            self.snapshots = durable.sequence / SNAPSHOT;
            let mut output = reader.snapshots().create(durable).unwrap();
            self.state.image().write(&mut output).unwrap();
            output.finish().unwrap();
            reader.snapshots().thin(3).unwrap();
        }
        journal.work().unwrap();
    }

    fn last(&self) -> u64 {
        self.entries.last().unwrap().sequence
    }

    /// The number of entries up to this moment.
    fn belonging(&self, until: Until) -> usize {
        self.entries.partition_point(|entry| until.includes(entry))
    }

    /// The fold of all entries up to this moment.
    fn fold(&self, until: Until) -> State {
        let mut state = State::default();
        for entry in &self.entries[..self.belonging(until)] {
            state.apply(entry);
        }
        state
    }
}

fn request(state: &State, number: usize) -> Option<Request> {
    let namespace = state.namespaces("").nth(number % 5)?.clone();
    let mut footprint = Footprint::default();
    footprint.resources.insert("pods".into(), "1".parse().unwrap());
    Some(Request {
        uid: Uid::new(&format!("reserved-{number}")).unwrap(),
        namespace,
        resource: "pods".parse().unwrap(),
        name: "".into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        basis: Basis::Create,
        subresource: "".into(),
        footprint: footprint.into(),
        before: None,
        object: None,
        ttl: None,
    })
}

fn permit() -> Permit {
    Permit::of_past(&"test".into())
}

/// The position and the digest of the state at a moment.
async fn head_and_digest(history: &History, until: Until) -> Result<(Head, [u8; 32]), Error> {
    let view = |state: &State| (state.head(), state.digest());
    let permit = permit();
    history.answer(&permit, until, view, |_| 1, |seen, _| seen).await
}

fn random() -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32])
}

#[tokio::test]
async fn a_thousand_points_of_a_compacted_history_are_as_they_were() {
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    assert!(reader.kept_from() > 1 && reader.first_sequence() == 1);
    let history = History::new(reader, u64::MAX, 8);
    let mut random = random();
    let mut points: Vec<Until> = (0..1000_u64)
        .map(|number| {
            let sequence = random.next_u64() % (recorded.last() + 1);
            match recorded.entries.get(sequence as usize) {
                Some(entry) if number % 2 == 0 => {
                    let before = Span::from_nanoseconds((random.next_u64() % 1_000_000_000) as i64);
                    Until::Time(entry.time.minus(before))
                }
                _ => Until::Sequence(sequence),
            }
        })
        .collect();
    points.push(Until::Sequence(0));
    points.push(Until::End);
    points.sort_by_key(|until| recorded.belonging(*until));
    let mut expected = State::default();
    for until in points {
        let at = expected.head().sequence as usize;
        for entry in &recorded.entries[at..recorded.belonging(until)] {
            expected.apply(entry);
        }
        let (head, digest) = head_and_digest(&history, until).await.unwrap();
        assert_eq!(head, expected.head(), "{until:?}");
        assert_eq!(digest, expected.digest(), "{until:?}");
    }
}

/// A fold that keeps what it saw at the beginning.
struct Begun<S>(S);

impl<S> Fold for Begun<S> {
    fn before(&mut self, _: &State, _: &Entry) {}
    fn after(&mut self, _: &State) {}
}

/// Looks at the state with which a period begins.
async fn begun<S: Send + 'static>(
    history: &History,
    permit: &Permit,
    from: Timestamp,
    sample: impl FnOnce(&State) -> S + Send + 'static,
) -> Result<S, Error> {
    let period = Period { from, to: from };
    let begin = |state: &State| Begun(sample(state));
    let make = |begun: Begun<S>, _: &State, _: Entries, _: &Turn| begun.0;
    history.period(permit, period, begin, make).await
}

#[tokio::test]
async fn a_period_begins_with_the_state_of_its_first_moment() {
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    let history = History::new(reader, u64::MAX, 8);
    let points: Vec<Timestamp> = (-5..100)
        .map(|step| start().plus(Span::from_nanoseconds(SECOND.nanoseconds() * 8 * step)))
        .collect();
    for point in points {
        let from = point.plus(Span::from_nanoseconds(1));
        let digest = begun(&history, &permit(), from, State::digest).await;
        let expected = recorded.fold(Until::Time(point));
        assert_eq!(digest.unwrap(), expected.digest(), "{point}");
    }
}

#[tokio::test]
async fn what_is_neither_kept_nor_archived_is_said_to_be_gone() {
    let recorded = Recorded::new(false);
    let (_journal, reader) = recorded.open();
    let kept_from = reader.kept_from();
    let oldest = reader.snapshots().list().unwrap().0[0].position.sequence;
    assert!(kept_from > 1 && oldest + 1 >= kept_from);
    let history = History::new(reader, u64::MAX, 8);
    for gone in [Until::Sequence(1), Until::Sequence(oldest - 1), Until::Time(start())] {
        let error = head_and_digest(&history, gone).await.unwrap_err();
        assert!(
            matches!(error, Error::Compacted { kept_from, since: None } if kept_from == oldest),
            "{error}"
        );
    }
    for kept in [oldest, oldest + 1, recorded.last()] {
        let until = Until::Sequence(kept);
        let (_, digest) = head_and_digest(&history, until).await.unwrap();
        assert_eq!(digest, recorded.fold(until).digest());
    }
    let gone = begun(&history, &permit(), start(), State::head).await;
    let Err(Error::Compacted { since: Some(since), .. }) = gone else {
        panic!("{gone:?}");
    };
    let first = begun(&history, &permit(), since, State::head).await;
    assert!(first.unwrap().sequence >= oldest);
    let earlier = since.minus(Span::from_nanoseconds(1000));
    assert!(begun(&history, &permit(), earlier, State::head).await.is_err());
}

#[tokio::test]
async fn the_cost_is_bounded() {
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    let history = History::new(reader, 100, 8);
    let moments = [Until::Sequence(101), Until::Time(recorded.entries[150].time)];
    for far in moments {
        let error = head_and_digest(&history, far).await.unwrap_err();
        assert!(matches!(error, Error::TooFar { limit: 100, .. }), "{far:?}: {error}");
    }
    assert!(head_and_digest(&history, Until::Sequence(100)).await.is_ok());
    let beyond = head_and_digest(&history, Until::Sequence(recorded.last() + 1)).await;
    assert!(matches!(beyond, Err(Error::Future { .. })));
    let from = recorded.entries[150].time;
    assert!(matches!(
        begun(&history, &permit(), from, State::head).await,
        Err(Error::TooFar { .. })
    ));
}

#[tokio::test]
async fn a_question_that_nobody_waits_for_is_given_up() {
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    let history = History::new(reader, u64::MAX, 8);
    let (entered, inside) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut waits = Some((entered, released));
    let queried = history.clone();
    let question = tokio::spawn(async move {
        let mut sample = move |_: &State| {
            if let Some((entered, released)) = waits.take() {
                entered.send(()).unwrap();
                released.recv().unwrap();
            }
        };
        let period = Period { from: start(), to: Timestamp::MAX };
        let begin = move |state: &State| {
            sample(state);
            Begun(())
        };
        queried.period(&permit(), period, begin, |_, _, _, _| ()).await
    });
    tokio::task::spawn_blocking(move || inside.recv().unwrap()).await.unwrap();
    question.abort();
    assert!(question.await.unwrap_err().is_cancelled());
    release.send(()).unwrap();
    // The thread gives the query up, and answers others.
    let until = Until::Sequence(recorded.last());
    let (head, _) = head_and_digest(&history, until).await.unwrap();
    assert_eq!(head.sequence, recorded.last());
}

#[tokio::test]
async fn a_flood_of_questions_waits_for_itself_and_leaves_room_to_others() {
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    let most = 8;
    let history = History::new(reader, u64::MAX, most);
    let [flood, other] = ["a flood of questions", "who asks once"];
    let (answered, mut order) = tokio::sync::mpsc::unbounded_channel();
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let gate = Arc::new(std::sync::Barrier::new(2));
    let ask = |name: &'static str, waits: Option<Arc<std::sync::Barrier>>| {
        let (history, answered, entered) = (history.clone(), answered.clone(), entered.clone());
        tokio::spawn(async move {
            let sample = move |_: &State| {
                entered.send(()).unwrap();
                if let Some(gate) = &waits {
                    gate.wait();
                }
            };
            let permit = Permit::of_past(&name.into());
            let begun = begun(&history, &permit, start(), sample).await;
            answered.send((name, begun.is_ok())).unwrap();
        })
    };
    ask(flood, Some(gate.clone()));
    inside.recv().await.unwrap();
    // One principal alone leaves half of the places to others.
    for _ in 0..most {
        ask(flood, None);
    }
    let mut refused = 0;
    while refused < most / 2 {
        assert_eq!(order.recv().await.unwrap(), (flood, false));
        refused += 1;
    }
    ask(other, None);
    assert_eq!(order.recv().await.unwrap(), (other, true));
    gate.wait();
    for _ in 0..=most - refused {
        assert_eq!(order.recv().await.unwrap(), (flood, true));
    }
}

/// A view of a past state, which counts how many there are.
struct Counted {
    sequence: u64,
    now: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn what_waits_holds_no_state() {
    const QUESTIONS: u64 = 12;
    let recorded = Recorded::new(true);
    let (_journal, reader) = recorded.open();
    let history = History::new(reader, u64::MAX, 64);
    let [now, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    // Some ask for a state that is cached.
    for sequence in 1..=4 {
        let until = Until::Sequence(sequence);
        head_and_digest(&history, until).await.unwrap();
    }
    let asking = (1..=QUESTIONS).map(|sequence| {
        let history = history.clone();
        let (now, most) = (now.clone(), most.clone());
        tokio::spawn(async move {
            let view = move |state: &State| {
                let there_are = now.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(there_are, Ordering::SeqCst);
                Counted { sequence: state.head().sequence, now: now.clone() }
            };
            let make = |view: Counted, _: &Turn| view.sequence;
            let permit = Permit::of_past(&format!("principal {sequence}").into());
            let until = Until::Sequence(sequence);
            let many = |_: &Counted| AMOUNTS_AT_ONCE + 1;
            let answer = history.answer(&permit, until, view, many, make).await;
            assert_eq!(answer.unwrap(), sequence);
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    // Two are made at a time. Of a cached state, one view is taken before, and dropped at once.
    let most = most.load(Ordering::SeqCst);
    assert!(most <= 3, "{most}");
    let cached = Until::Sequence(QUESTIONS);
    let permit = permit();
    let small = history.answer(&permit, cached, |_| (), |()| 1, |(), _| 7);
    assert_eq!(small.await.unwrap(), 7);
}

#[tokio::test]
async fn the_backup_of_a_compacted_ledger_answers_the_same() {
    let recorded = Recorded::new(false);
    let (_journal, reader) = recorded.open();
    assert!(reader.kept_from() > 1);
    let into = recorded.directory.path().join("backup");
    let (mut bytes, disk) = (Vec::new(), Arc::new(RealDisk));
    let made = quota_journal::write_backup(&reader, &mut bytes).unwrap();
    assert_eq!(made.last, reader.durable());
    quota_journal::read_backup(&mut bytes.as_slice(), &into, disk, &into).unwrap();
    let found = quota_journal::verify(Arc::new(RealDisk), &into, None, 1, &()).unwrap();
    assert_eq!(found.damages, []);
    let (_copied, copy, _) =
        FileJournal::open(Arc::new(RealDisk), &into, Options::default()).unwrap();
    assert_eq!(copy.kept_from(), reader.kept_from());
    let history = History::new(copy, u64::MAX, 8);
    let oldest = reader.snapshots().list().unwrap().0[0].position.sequence;
    for sequence in [oldest, oldest + 7, recorded.last()] {
        let until = Until::Sequence(sequence);
        let (_, digest) = head_and_digest(&history, until).await.unwrap();
        assert_eq!(digest, recorded.fold(until).digest());
    }
}

#[test]
fn what_was_used_least_lately_goes() {
    let mut cache = Cache::default();
    let state = Arc::new(State::default());
    for sequence in 1..=4 {
        cache.put(Until::Sequence(sequence), &state);
    }
    assert!(cache.get(Until::Sequence(1)).is_some());
    cache.put(Until::Sequence(5), &state);
    assert!(cache.get(Until::Sequence(1)).is_some());
    assert!(cache.get(Until::Sequence(2)).is_none());
    assert_eq!(cache.0.len(), STATES);
}
