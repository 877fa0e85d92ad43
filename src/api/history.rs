//! Reads stored entries, off the threads that serve requests.

use std::collections::VecDeque;

use quota_core::{
    codec,
    event::{Entry, Event, Sequence},
    size,
};
use quota_journal::{Reader, StoredBatch};
use quota_semantics::Name;
use serde::Deserialize;

use super::{App, problem::Problem, readers::Reading};
use crate::{
    auth::{self, Principal, Role},
    fairness::throttle,
};

/// Most entries that one request reads; matching entries may lie further on.
pub(super) const SCANNED_MAX: usize = 20_000;

/// Bytes of found entries at which a walk ends.
const FOUND_BYTES: usize = 4 * 1024 * 1024;

/// Least and most entries that are read at a time when walking back.
const WINDOWS: (Sequence, Sequence) = (16, 512);

/// Bytes of batches that are read at a time when walking back.
const WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// When a walk ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// This many entries were found.
    pub(super) entries: usize,
    /// The found entries have at least this many bytes.
    pub(super) bytes: usize,
}

impl From<usize> for Most {
    /// This many entries.
    fn from(entries: usize) -> Self {
        Self { entries, bytes: FOUND_BYTES }
    }
}

/// The order in which entries are walked over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    #[default]
    Asc,
    Desc,
}

/// What a walk over entries has found so far, and in the end.
#[derive(Debug)]
pub(super) struct Walk<T> {
    pub(super) found: Vec<T>,
    /// Where to continue; none if the durable end was reached.
    pub(super) next: Option<Sequence>,
    /// The last entry that was looked at; none if there was none.
    pub(super) last: Option<Sequence>,
}

/// Selects the entries of one namespace, or of all that the caller may read.
pub(super) struct Namespaced {
    namespace: Option<String>,
    reader: auth::Reader,
    sees_rejected: bool,
}

impl Namespaced {
    pub(super) fn new(namespace: Option<String>, caller: &Principal) -> Self {
        Self {
            namespace: namespace.filter(|namespace| !namespace.is_empty()),
            reader: auth::Reader::of(caller),
            sees_rejected: caller.may_everywhere(Role::Admin),
        }
    }

    pub(super) fn keeps(&self, entry: &Entry) -> bool {
        let own = entry.event.namespace();
        let is_wanted = |wanted: &str| own.is_some_and(|own| **own == *wanted);
        self.namespace.as_deref().is_none_or(is_wanted)
            && self.reader.reads(own.map_or("", |own| own))
    }

    /// The entry as the caller may see it. A rejected message may hold anything, so only administrators see its text.
    pub(super) fn shown(&self, mut entry: Entry) -> Entry {
        if let Event::MessageRejected(letter) | Event::EventRejected { letter, .. } =
            &mut entry.event
            && !self.sees_rejected
        {
            letter.payload = Box::default();
        }
        entry
    }
}

/// Walks over entries from `from` on in this order, in the turn of the principal. Keeps the results of `pick`. Also
/// returns the turn: while the caller holds it, the bound on readers bounds the results in memory, too.
pub(super) async fn walk<T: Send + 'static>(
    app: &App,
    principal: &Name,
    (from, order): (Sequence, Order),
    most: impl Into<Most>,
    pick: impl FnMut(Entry) -> Option<T> + Send + 'static,
) -> Result<(Walk<T>, Reading), Problem> {
    let search = Search::new(most.into(), pick);
    let turn = app.readers.turn(principal).await?;
    let reader = app.reader.clone();
    let walked = tokio::task::spawn_blocking(move || {
        let walk = match order {
            Order::Asc => scan(&*reader, from.max(1), search)?,
            Order::Desc => scan_back(&*reader, from, search)?,
        };
        Ok((walk, turn))
    });
    walked.await.map_err(|error| Problem::internal(&error))?
}

/// Walks back from an entry, on a thread that may block, in a turn that the caller holds.
pub(super) fn back<T>(
    app: &App,
    from: Sequence,
    most: usize,
    pick: impl FnMut(Entry) -> Option<T>,
) -> Result<Vec<T>, Problem> {
    match most {
        0 => Ok(Vec::new()),
        most => Ok(scan_back(&*app.reader, from, Search::new(most.into(), pick))?.found),
    }
}

/// One entry, on a thread that may block, in a turn that the caller holds; none if it is not kept any more.
pub(super) fn entry(app: &App, sequence: Sequence) -> Result<Option<Entry>, Problem> {
    if sequence < app.reader.first_sequence() {
        return Ok(None);
    }
    let search = Search::new(1.into(), Some);
    let found = scan(&*app.reader, sequence, search)?.found;
    Ok(found.into_iter().find(|entry| entry.sequence == sequence))
}

/// A walk that is under way.
struct Search<T, P> {
    most: Most,
    pick: P,
    scanned: usize,
    bytes: usize,
    so_far: Walk<T>,
}

impl<T, P: FnMut(Entry) -> Option<T>> Search<T, P> {
    const fn new(most: Most, pick: P) -> Self {
        let so_far = Walk { found: Vec::new(), next: None, last: None };
        Self { most, pick, scanned: 0, bytes: 0, so_far }
    }

    /// Looks at an entry; false if the walk ends before it.
    fn look_at(&mut self, entry: Entry) -> bool {
        let found = &mut self.so_far.found;
        if found.len() >= self.most.entries
            || self.bytes >= self.most.bytes
            || self.scanned == SCANNED_MAX
        {
            self.so_far.next = Some(entry.sequence);
            return false;
        }
        self.scanned += 1;
        self.so_far.last = Some(entry.sequence);
        let bytes = size::of_event(&entry.event);
        if let Some(picked) = (self.pick)(entry) {
            found.push(picked);
            self.bytes += bytes;
        }
        true
    }
}

fn scan<T>(
    reader: &dyn Reader,
    from: Sequence,
    mut search: Search<T, impl FnMut(Entry) -> Option<T>>,
) -> Result<Walk<T>, Problem> {
    for batch in reader.read(from) {
        let entries = decode(&batch?)?.into_iter();
        let mut entries = entries.filter(|entry| entry.sequence >= from);
        if !entries.all(|entry| search.look_at(entry)) {
            break;
        }
        throttle::pause();
    }
    Ok(search.so_far)
}

/// Reads backwards window by window, each from its beginning, since the journal can only be read forwards. A window
/// begins with a whole batch, so that no batch is decoded twice.
fn scan_back<T>(
    reader: &dyn Reader,
    from: Sequence,
    mut search: Search<T, impl FnMut(Entry) -> Option<T>>,
) -> Result<Walk<T>, Problem> {
    let first = reader.first_sequence().max(1);
    let (mut width, widest) = WINDOWS;
    let mut end = from;
    while end >= first {
        let begin = end.saturating_sub(width - 1).max(first);
        let (batches, is_whole) = window(reader, begin, end)?;
        width = match is_whole {
            true => (width * 2).min(widest),
            false => (width / 4).max(1),
        };
        let before = batches.front().map_or(begin, |it| it.batch.first_sequence);
        for batch in batches.into_iter().rev() {
            let entries = decode(&batch)?.into_iter().rev();
            let mut entries = entries.filter(|entry| entry.sequence <= end);
            if !entries.all(|entry| search.look_at(entry)) {
                return Ok(search.so_far);
            }
            throttle::pause();
        }
        end = before.saturating_sub(1);
    }
    Ok(search.so_far)
}

/// The last batches of a range, as far as they exist; and whether they are all of the range.
fn window(
    reader: &dyn Reader,
    begin: Sequence,
    end: Sequence,
) -> Result<(VecDeque<StoredBatch>, bool), Problem> {
    let (mut batches, mut bytes) = (VecDeque::new(), 0);
    let mut is_whole = true;
    for batch in reader.read(begin) {
        let batch = batch?;
        if batch.batch.first_sequence > end {
            break;
        }
        bytes += batch.batch.payload.len();
        batches.push_back(batch);
        while bytes > WINDOW_BYTES && batches.len() > 1 {
            let dropped = batches.pop_front();
            bytes -= dropped.map_or(0, |it: StoredBatch| it.batch.payload.len());
            is_whole = false;
        }
        throttle::pause();
    }
    Ok((batches, is_whole))
}

/// The entries of a stored batch.
pub(super) fn decode(stored: &StoredBatch) -> Result<Vec<Entry>, Problem> {
    let batch = &stored.batch;
    codec::decode_entries(batch.first_sequence, batch.count, &batch.payload)
        .map_err(|error| Problem::internal(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use quota_core::event::{Actor, DeadLetter, Event};
    use quota_journal::{Batch, Batches, Durable, Hash};
    use quota_semantics::Timestamp;

    use super::*;

    /// A ledger in memory, which counts what is read.
    #[derive(Default)]
    struct Stored {
        batches: Vec<StoredBatch>,
        reads: AtomicUsize,
        read_bytes: std::sync::Arc<AtomicU64>,
    }

    impl Stored {
        /// Batches with this many entries each, of this many bytes each.
        fn of(batches: impl IntoIterator<Item = (u64, usize)>) -> Self {
            let mut next = 1;
            let batch = |(count, bytes): (u64, usize)| {
                let entries: Vec<Entry> =
                    (next..next + count).map(|sequence| entry(sequence, bytes)).collect();
                let batch = Batch {
                    first_sequence: next,
                    count: u32::try_from(count).unwrap(),
                    time: Timestamp::EPOCH,
                    payload: codec::encode_entries(&entries),
                };
                next += count;
                StoredBatch { batch, hash: Hash::GENESIS, previous: Hash::GENESIS }
            };
            Self { batches: batches.into_iter().map(batch).collect(), ..Self::default() }
        }

        fn last(&self) -> Sequence {
            self.batches.last().unwrap().batch.last_sequence()
        }

        fn sequences_back(&self, from: Sequence, most: impl Into<Most>) -> Walk<Sequence> {
            scan_back(self, from, Search::new(most.into(), |entry| Some(entry.sequence))).unwrap()
        }
    }

    fn entry(sequence: Sequence, bytes: usize) -> Entry {
        Entry {
            sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event: Event::MessageRejected(Box::new(DeadLetter {
                source: "s".into(),
                position: 0,
                reason: "".into(),
                payload: "x".repeat(bytes).into(),
            })),
        }
    }

    impl Reader for Stored {
        fn read(&self, from: u64) -> Batches {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let read_bytes = self.read_bytes.clone();
            let kept = self.batches.iter();
            let kept: Vec<StoredBatch> =
                kept.filter(|stored| stored.batch.last_sequence() >= from).cloned().collect();
            Box::new(kept.into_iter().map(move |stored| {
                let bytes = stored.batch.payload.len() as u64;
                read_bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(stored)
            }))
        }

        fn first_sequence(&self) -> u64 {
            1
        }

        fn durable(&self) -> Durable {
            Durable { sequence: self.last(), ..Durable::NOTHING }
        }
    }

    #[test]
    fn a_walk_ends_at_a_bound_of_bytes() {
        const MIB: usize = 1 << 20;
        let stored = Stored::of([(3, MIB), (3, MIB), (3, MIB)]);
        let found = |most: usize| {
            let search = Search::new(most.into(), |entry| Some(entry.sequence));
            scan(&stored, 2, search).unwrap()
        };
        let page = found(500);
        assert_eq!(page.found, [2, 3, 4, 5]);
        assert_eq!((page.next, page.last), (Some(6), Some(5)));
        assert_eq!(found(2).next, Some(4));
        let page = stored.sequences_back(8, 500);
        assert_eq!(page.found, [8, 7, 6, 5]);
        assert_eq!((page.next, page.last), (Some(4), Some(5)));
        // Entries that are not wanted take no room; one that is too large by itself is found.
        let search = Search::new(500.into(), |entry: Entry| (entry.sequence == 9).then_some(()));
        let page = scan(&stored, 1, search).unwrap();
        assert_eq!((page.found.len(), page.next, page.last), (1, None, Some(9)));
        let small = Most { entries: 500, bytes: 1000 };
        assert_eq!(stored.sequences_back(9, small).found, [9]);
    }

    #[test]
    fn walking_back_finds_each_entry_once_whatever_the_batches() {
        let counts = [1, 700, 1, 1, 3, 40, 16, 2, 1, 513, 1, 1, 1, 15, 4000, 2];
        let stored = Stored::of(counts.map(|count| (count, 0)));
        for from in [stored.last(), stored.last() - 1, 3000, 702, 701, 1] {
            let page = stored.sequences_back(from, usize::MAX);
            assert!(page.found.into_iter().eq((1..=from).rev()), "{from}");
            assert_eq!(page.next, None);
        }
        assert!(stored.sequences_back(0, usize::MAX).found.is_empty());
        let page = stored.sequences_back(1000, 10);
        assert_eq!((page.found.len(), page.next), (10, Some(990)));
    }

    #[test]
    fn walking_back_reads_no_large_batch_twice_and_little_at_a_time() {
        let stored = Stored::of([(4096, 0); 4]);
        stored.sequences_back(stored.last(), usize::MAX);
        assert_eq!(stored.reads.load(Ordering::Relaxed), 4);
        let all: usize = stored.batches.iter().map(|it| it.batch.payload.len()).sum();
        // Each window ends where the next batch, which is read no further, begins.
        assert!(stored.read_bytes.load(Ordering::Relaxed) <= 2 * all as u64);

        // A window that turns out to be too large is not kept whole.
        let stored = Stored::of([(1, 1 << 20); 64]);
        let (kept, is_whole) = window(&stored, 1, 64).unwrap();
        assert!(!is_whole && kept.len() == 3);
        let nothing = |_| None::<()>;
        scan_back(&stored, 64, Search::new(500.into(), nothing)).unwrap();
        assert!(stored.read_bytes.load(Ordering::Relaxed) < 256 << 20);
    }
}
