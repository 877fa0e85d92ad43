//! Reads stored entries, off the threads that serve requests: the entries, the dead letters among them, the denials, and
//! the names of objects.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use axum::{extract::State, response::Response};
use parking_lot::Mutex;
use quota_client::wire::{DeadLetter, EntrySubject};
use quota_core::{
    codec,
    event::{Entry, Event, NamedSubject, Sequence},
    size,
    state::State as LedgerState,
};
use quota_journal::{Reader as JournalReader, StoredBatch};
use quota_semantics::{Name, uid::Uid};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{App, Caller, PageQuery, Params, Target, cut, problem::Problem, token};
use crate::{
    auth::{self, Principal, Reader, Role},
    denials::{Query, StoredDenial},
    fairness::{self, BYTES_PER_AMOUNT, Permit, Turn},
};

#[derive(Debug, Default, Deserialize)]
pub(super) struct EntriesQuery {
    from: Option<Sequence>,
    limit: Option<usize>,
    namespace: Option<String>,
    #[serde(default)]
    order: Order,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/entries`: in order, from `from` on; with `order=desc` the newest first, from `from` back. A page
/// may be shorter than requested, and even empty, while there is more.
pub(super) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    caller: Principal,
    Params(query): Params<EntriesQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let limit = super::limit(query.limit, app.page)?;
    let token_from: Option<Sequence> = super::after(query.after.as_deref())?;
    let from = token_from.or(query.from);
    let head = app.ledger.read(quota_core::state::State::head).await?;
    let wanted = Namespaced::new(query.namespace, &caller);
    let pick = move |entry| wanted.keeps(&entry).then(|| wanted.shown(entry));
    let from = match query.order {
        Order::Asc => from.unwrap_or_else(|| app.reader.first_sequence()),
        Order::Desc => from.unwrap_or(head.sequence).min(head.sequence),
    };
    let walked = walk(&app, &actor.principal, (from, query.order), limit, pick);
    let (Walk { found, next, .. }, turn) = walked.await?;
    let next = next.map(|next| token(&next)).transpose()?;
    let bytes: usize = found.iter().map(|entry| size::of_event(&entry.event)).sum();
    let (found, turn) = match are_unnamed(found.iter()) {
        true => named(&app, found, true, turn).await?,
        false => (found.into_iter().map(Shown::plain).collect(), turn),
    };
    let make = move |turn: &Turn| super::large(turn, &app.page_of(found, next, head));
    let answer = permit.make(bytes / BYTES_PER_AMOUNT, make).await;
    // Until here the entries are in memory: the bound on readers is also a bound on them.
    drop(turn);
    Ok(answer)
}

/// `GET /v1/dead-letters`: newest first.
pub(super) async fn dead_letters(
    State(app): State<App>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let limit = query.limit(app.page)?;
    let before: Option<Sequence> = query.after()?;
    let read = app.ledger.read(|state| {
        let older = state.dead_letters().rev();
        let older = older.filter(|sequence| before.is_none_or(|before| *sequence < before));
        (older.take(limit + 1).collect::<Vec<_>>(), state.head())
    });
    let (mut sequences, head) = read.await?;
    let next = super::cut(&mut sequences, limit, token)?;
    let mut items: Vec<DeadLetter> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        // Compacted entries are no longer available.
        if sequence >= app.reader.first_sequence() {
            let place = (sequence, Order::Asc);
            let (read, _) = walk(&app, &actor.principal, place, 1, letter).await?;
            items.extend(read.found);
        }
    }
    let bytes: usize = items.iter().map(|letter| letter.payload.len()).sum();
    let make = move |turn: &Turn| super::large(turn, &app.page_of(items, next, head));
    Ok(permit.make(bytes / BYTES_PER_AMOUNT, make).await)
}

fn letter(entry: Entry) -> Option<DeadLetter> {
    let letter = entry.event.dead_letter()?.clone();
    Some(DeadLetter {
        sequence: entry.sequence,
        time: entry.time,
        source: letter.source.to_string(),
        position: letter.position,
        reason: letter.reason.into(),
        payload: letter.payload.into(),
    })
}

// Bounds the concurrent reads of the journal: a principal gets at most half of the turns, so that a flood of requests
// delays only its own principal.

/// Turns to read the journal.
pub(super) struct Readers {
    most: usize,
    all: Arc<Semaphore>,
    /// The turns of the principals that read or wait.
    of_principal: Mutex<BTreeMap<Name, Arc<Semaphore>>>,
}

/// A turn to read; it ends on drop.
pub(super) struct Reading {
    /// Declared first, so that it is returned before the principal's turn: a waiter of the same principal then finds a
    /// free one.
    _one_of_all: OwnedSemaphorePermit,
    _one_of_principal: OwnedSemaphorePermit,
}

impl Readers {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: Arc::new(Semaphore::new(most)), of_principal: Mutex::default() }
    }

    /// Waits for a turn: first for one of the principal's own, so that a principal never has more waiters in the common
    /// queue than it may have readers.
    pub(super) async fn turn(&self, principal: &Name) -> Result<Reading, Problem> {
        let own = self.own(principal).acquire_owned().await;
        let own = own.map_err(|error| Problem::internal(&error))?;
        let one = self.all.clone().acquire_owned().await;
        Ok(Reading {
            _one_of_all: one.map_err(|error| Problem::internal(&error))?,
            _one_of_principal: own,
        })
    }

    /// The turns of a principal: half of all. `anonymous`, the principal of callers without tokens, may use all.
    fn own(&self, principal: &Name) -> Arc<Semaphore> {
        let mut own = self.of_principal.lock();
        // Turns in use are kept alive by their holders.
        own.retain(|_, turns| Arc::strong_count(turns) > 1);
        let most = match Principal::anonymous().name() == principal {
            true => self.most,
            false => self.most.div_ceil(2),
        };
        let turns = own.entry(principal.clone());
        let turns = turns.or_insert_with(|| Arc::new(Semaphore::new(most)));
        turns.clone()
    }
}

/// `GET /v1/namespaces/{namespace}/denials`: the latest first.
pub(super) async fn list_denials(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page_of_denials(app, &actor.principal, Some(namespace), Reader::default(), &query).await
}

/// `GET /v1/denials`: of all namespaces that the caller may read.
pub(super) async fn list_all(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    page_of_denials(app, &actor.principal, None, reader, &query).await
}

async fn page_of_denials(
    app: App,
    principal: &Name,
    namespace: Option<Name>,
    reader: Reader,
    query: &PageQuery,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(principal)?;
    let limit = query.limit(app.page)?;
    let query = Query { namespace, reader, before: query.after()?, limit: limit + 1 };
    let mut kept = match app.ledger.denials() {
        Some(denials) => denials.list(query).await,
        None => Vec::new(),
    };
    let next = cut(&mut kept, limit, |denial| token(&denial.id))?;
    // A denial that was decided on entries that are not durable yet could still be lost with them.
    let durable = app.ledger.durable().sequence;
    kept.retain(|denial| denial.sequence <= durable);
    let head = app.ledger.read(quota_core::state::State::head).await?;
    let bytes: usize = kept.iter().map(|denial| denial.json.get().len()).sum();
    let make = move |turn: &Turn| {
        let items = kept.iter().map(|StoredDenial { json, .. }| &**json);
        super::large(turn, &app.page_of::<&RawValue>(items.collect(), next, head))
    };
    Ok(permit.make(bytes / BYTES_PER_AMOUNT, make).await)
}

// Names the objects of entries that have only a uid: an object that was deleted, a reservation that ended.

/// Most entries that are read one by one to name the objects of one answer.
const READ_MAX: usize = 200;

/// An entry with the object that it is about.
#[derive(Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub(super) entry: Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<EntrySubject>,
}

/// How an object is found.
enum Found {
    Subject(EntrySubject),
    /// In this entry.
    In(Sequence),
}

fn subject(named: &NamedSubject<'_>) -> EntrySubject {
    EntrySubject {
        resource: named.resource.clone(),
        name: named.name.into(),
        amounts: named.footprint.resources.clone(),
    }
}

/// Adds the objects. `thorough`: entries before the first one are searched for objects that the state does not remember.
/// The turn of the reader is returned.
pub(super) async fn named(
    app: &App,
    entries: Vec<Entry>,
    thorough: bool,
    turn: Reading,
) -> Result<(Vec<Shown>, Reading), Problem> {
    let app = app.clone();
    let named = tokio::task::spawn_blocking(move || {
        let mut subjects = of_page(&entries);
        let wanted = |subjects: &Subjects| -> Vec<(Sequence, Name, Uid)> {
            let open = entries.iter().filter(|entry| !subjects.contains_key(&entry.sequence));
            let unnamed = open.filter_map(|entry| {
                let (namespace, uid) = entry.event.unnamed_subject()?;
                Some((entry.sequence, namespace.clone(), uid.clone()))
            });
            unnamed.collect()
        };
        let mut reads = 0;
        for (sequence, namespace, uid) in wanted(&subjects) {
            let found = app.ledger.peek(|state| find(state, sequence, &namespace, &uid));
            let found = match found {
                Some(Found::In(place)) if reads < READ_MAX => {
                    reads += 1;
                    in_entry(&app, place, &namespace, &uid)?
                }
                Some(Found::Subject(subject)) => Some(subject),
                Some(Found::In(_)) | None => None,
            };
            subjects.extend(found.map(|found| (sequence, found)));
        }
        if thorough {
            let wanted = wanted(&subjects);
            let first = wanted.first().map_or(0, |(sequence, ..)| *sequence);
            let mut open: BTreeSet<(Name, Uid)> =
                wanted.iter().map(|(_, namespace, uid)| (namespace.clone(), uid.clone())).collect();
            let pick = move |entry: Entry| {
                let named = entry.event.named_subject()?;
                let key = (named.namespace.clone(), named.uid.clone());
                open.remove(&key).then(|| (key, subject(&named)))
            };
            let count = wanted.len();
            let found = back(&app, first.saturating_sub(1), count, pick)?;
            let found: BTreeMap<(Name, Uid), EntrySubject> = found.into_iter().collect();
            for (sequence, namespace, uid) in wanted {
                let subject = found.get(&(namespace, uid)).cloned();
                subjects.extend(subject.map(|subject| (sequence, subject)));
            }
        }
        let shown = entries
            .into_iter()
            .map(|entry| Shown { subject: subjects.remove(&entry.sequence), entry });
        Ok((shown.collect(), turn))
    });
    named.await.map_err(|error| Problem::internal(&error))?
}

/// Whether any of these entries has only the uid of its object.
pub(super) fn are_unnamed<'a>(mut entries: impl Iterator<Item = &'a Entry>) -> bool {
    entries.any(|entry| entry.event.unnamed_subject().is_some())
}

impl Shown {
    /// An entry without the object.
    pub(super) const fn plain(entry: Entry) -> Self {
        Self { entry, subject: None }
    }
}

type Subjects = BTreeMap<Sequence, EntrySubject>;

/// The objects that other entries of the page name, by the sequence of the entry that does not.
fn of_page(entries: &[Entry]) -> Subjects {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_unstable_by_key(|entry| entry.sequence);
    let mut known: BTreeMap<(&Name, &Uid), EntrySubject> = BTreeMap::new();
    let mut subjects = Subjects::new();
    for entry in order {
        if let Some(named) = entry.event.named_subject() {
            known.insert((named.namespace, named.uid), subject(&named));
        } else if let Some(key) = entry.event.unnamed_subject()
            && let Some(subject) = known.get(&key)
        {
            subjects.insert(entry.sequence, subject.clone());
        }
    }
    subjects
}

/// What the state remembers of an object, as of an entry.
fn find(state: &LedgerState, sequence: Sequence, namespace: &Name, uid: &Uid) -> Option<Found> {
    let object = state.object(namespace, uid);
    if let Some(object) = object.filter(|object| object.entry < sequence) {
        return Some(Found::Subject(EntrySubject {
            resource: object.resource,
            name: object.name,
            amounts: object.footprint.resources.clone(),
        }));
    }
    let reservation = state.reservation(namespace, uid);
    if let Some(view) = reservation.filter(|view| view.entry < sequence) {
        return Some(Found::Subject(EntrySubject {
            resource: view.reservation.resource.clone(),
            name: view.reservation.name.clone(),
            amounts: view.reservation.footprint.resources.clone(),
        }));
    }
    let last = state.last_entry_of_deleted(namespace, uid)?;
    (last < sequence).then_some(Found::In(last))
}

/// The object as an entry names it.
fn in_entry(
    app: &App,
    place: Sequence,
    namespace: &Name,
    uid: &Uid,
) -> Result<Option<EntrySubject>, Problem> {
    let Some(entry) = entry(app, place)? else {
        return Ok(None);
    };
    let named = entry.event.named_subject();
    let named = named.filter(|named| (named.namespace, named.uid) == (namespace, uid));
    Ok(named.map(|named| subject(&named)))
}

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
    reader: &dyn JournalReader,
    from: Sequence,
    mut search: Search<T, impl FnMut(Entry) -> Option<T>>,
) -> Result<Walk<T>, Problem> {
    for batch in reader.read(from) {
        let entries = decode(&batch?)?.into_iter();
        let mut entries = entries.filter(|entry| entry.sequence >= from);
        if !entries.all(|entry| search.look_at(entry)) {
            break;
        }
        fairness::pause();
    }
    Ok(search.so_far)
}

/// Reads backwards window by window, each from its beginning, since the journal can only be read forwards. A window
/// begins with a whole batch, so that no batch is decoded twice.
fn scan_back<T>(
    reader: &dyn JournalReader,
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
            fairness::pause();
        }
        end = before.saturating_sub(1);
    }
    Ok(search.so_far)
}

/// The last batches of a range, as far as they exist; and whether they are all of the range.
fn window(
    reader: &dyn JournalReader,
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
        fairness::pause();
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

    use futures::FutureExt as _;
    use quota_core::event::{Actor, DeadLetter, Event};
    use quota_journal::{Batch, Batches, Durable, Hash};
    use quota_semantics::Timestamp;

    use super::*;

    /// A turn, if one is free.
    fn try_turn(readers: &Readers, principal: &Name) -> Option<Reading> {
        let turn = readers.turn(principal).now_or_never()?;
        Some(turn.unwrap())
    }

    #[tokio::test]
    async fn a_flood_of_readers_waits_for_itself() {
        let readers = Readers::new(4);
        let [flood, other] = ["flood", "other"].map(Name::from);
        let reading: Vec<_> = (0..2).map(|_| try_turn(&readers, &flood).unwrap()).collect();
        let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(readers.turn(&flood))).collect();
        for turn in &mut waiting {
            assert!(turn.now_or_never().is_none());
        }
        let of_other = try_turn(&readers, &other).unwrap();
        drop(reading);
        let mut at_once = 0;
        for turn in &mut waiting {
            at_once += usize::from(turn.now_or_never().is_some());
        }
        assert_eq!(at_once, 9, "each that has ended makes room for the next");
        drop((waiting, of_other));
        let anonymous = Principal::anonymous().name().clone();
        let all: Vec<_> = (0..4).map(|_| try_turn(&readers, &anonymous)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(try_turn(&readers, &other).is_none());
        drop(all);
        // A principal without readers is not kept.
        assert!(try_turn(&readers, &other).is_some());
        assert_eq!(readers.of_principal.lock().len(), 1);
    }

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

    impl JournalReader for Stored {
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
