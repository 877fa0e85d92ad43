//! Watches of quotas and groups: lines of JSON, until the client disconnects or the time is over.
//!
//! A watch looks for changes at intervals, and makes its lines in the turn of its principal. For a client that does not
//! read it holds few lines: it goes on from its position once the client has read them.

mod events;

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, stream};
use http::{HeaderValue, header};
use quota_core::{
    event::{Actor, Sequence},
    state::{QuotasView, State},
};
use quota_semantics::Name;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, MissedTickBehavior},
};

use events::{ClientState, EventMaker, Purpose, Span, WatchOptions, line};

use super::{
    Failure, Kube, Result,
    changes::{Change, Deletion, Since},
    object::{self, Attachment, Shape},
    read::{self, Copied, Position, Scope},
    request::Params,
    resource::{CopiedView, Key, Kind, Record},
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Permit, Slot, Turn},
};

/// Default and maximum duration of a watch.
const DURATION: Duration = Duration::from_secs(30 * 60);
const DURATION_MAX: Duration = Duration::from_secs(60 * 60);
/// Interval between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Pauses between two searches for changes: each object is sent at most once per pause.
const QUOTAS: Duration = Duration::from_millis(250);
const GROUPS: Duration = Duration::from_secs(1);

/// Most changes of one round; the next round goes on behind them.
const CHANGES_OF_ROUND: usize = 1 << 16;

/// Groups whose members are looked at while the state is locked once.
const GROUPS_AT_ONCE: usize = 100;

/// The annotation of the bookmark after the initial objects.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Begins a watch.
///
/// # Errors
/// Too many watches are open, or the request cannot be served.
pub(super) async fn watch(
    kube: Kube,
    actor: &Actor,
    scope: Scope,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    params.check_watch()?;
    let attachment = Attachment::parse(&params.include_object)?;
    let slot = kube.0.watches.open(actor);
    let slot = slot.map_err(|full| Failure::too_many(full.to_string()))?;
    let ((), head) = kube.read(|_| ()).await?;
    let from = params.version()?;
    if let Some(version) = from.filter(|version| *version > head) {
        return Err(Failure::not_yet(version, head));
    }
    let from = from.filter(|_| !params.send_initial_events);
    if let Some(version) = from {
        let namespace = scope.namespace.as_ref();
        kube.0.changes.check(scope.kind, version, namespace)?;
        if scope.is_by_members() {
            kube.0.changes.check_members(version)?;
        }
    }
    let requested = params.timeout_seconds.filter(|seconds| *seconds > 0);
    let lasts = requested.map_or(DURATION, Duration::from_secs).min(DURATION_MAX);
    let (lines, body) = channel();
    let seen = from.unwrap_or(head);
    let manner = WatchOptions { scope: Arc::new(scope), shape, attachment };
    let watch = Watch {
        kube,
        manner: Arc::new(manner),
        permit: Permit::to_watch(&actor.principal),
        bookmarks: params.allow_watch_bookmarks,
        marks_beginning: params.send_initial_events && params.allow_watch_bookmarks,
        lines,
        client: ClientState::default(),
        span: Span { before: seen, seen, upto: seen, again: from.is_some() },
    };
    tokio::spawn(watch.run(from.is_none(), Instant::now() + lasts, slot));
    let body = Body::from_stream(body);
    let mut response = body.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

struct Watch {
    kube: Kube,
    manner: Arc<WatchOptions>,
    permit: Permit,
    bookmarks: bool,
    marks_beginning: bool,
    lines: Sender,
    client: ClientState,
    span: Span,
}

impl Watch {
    async fn run(mut self, from_the_beginning: bool, end: Instant, _slot: Slot) {
        let (stop, closed) = (self.kube.0.stop.clone(), self.lines.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = closed.closed() => {}
            () = tokio::time::sleep_until(end) => {}
            ended = self.follow(from_the_beginning) => if let Err(failure) = ended {
                closed.send(line("ERROR", failure.to_json())).await;
            },
        }
    }

    async fn follow(&mut self, from_the_beginning: bool) -> Result<()> {
        let scope = self.manner.scope.clone();
        let pause = match scope.kind {
            Kind::Quota => QUOTAS,
            Kind::Group => GROUPS,
        };
        if from_the_beginning {
            self.send_all().await?;
        } else {
            if scope.kind == Kind::Group || scope.namespace.is_some() || !scope.labels.is_empty() {
                // With a selector, a later change may remove an object from the selection. And many entries that may
                // have changed a group leave it unchanged.
                self.send_objects(Purpose::Received).await?;
            }
            self.send_changes().await?;
            tokio::time::sleep(pause).await;
        }
        let mut ticks = tokio::time::interval_at(Instant::now() + BOOKMARKS, BOOKMARKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (kube, seen) = (self.kube.clone(), self.span.seen);
            tokio::select! {
                () = kube.0.changes.beyond(seen) => {
                    self.send_changes().await?;
                    tokio::time::sleep(pause).await;
                }
                _ = ticks.tick() => if self.bookmarks { self.bookmark(json!({})).await; },
            }
        }
    }

    /// Sends all objects.
    async fn send_all(&mut self) -> Result<()> {
        let ((), head) = self.kube.read(|_| ()).await?;
        self.span = Span { before: head, seen: head, upto: head, again: false };
        self.send_objects(Purpose::Initial).await?;
        if self.marks_beginning {
            self.bookmark(json!({INITIAL_EVENTS_END: "true"})).await;
        }
        Ok(())
    }

    /// Sends events about all objects of the scope.
    async fn send_objects(&mut self, purpose: Purpose) -> Result<()> {
        let scope = self.manner.scope.clone();
        let mut after = Some(Position::default());
        while let Some(position) = after {
            let some = |state: &State| read::some_of(state, &scope, &position, self.kube.chunk());
            let ((copied, next), head) = self.kube.read(some).await?;
            let last = self.send_copied(vec![(purpose, copied)], head).await?;
            after = last.map(|(_, last)| Position::from(last)).or(next);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends events about parts of a state at `head`. If enough lines were made before the end, returns the last part
    /// and object of them. Then the rest is copied again, since the client may take long to read the lines.
    async fn send_copied(
        &mut self,
        parts: Vec<(Purpose, Copied)>,
        head: Sequence,
    ) -> Result<Option<(usize, Key)>> {
        let scope = &self.manner.scope;
        let within = parts.into_iter();
        let within = within.map(|(purpose, copied)| (purpose, copied.within(scope)));
        let parts: Vec<_> = within.collect();
        let amounts = parts.iter().map(|(_, copied)| copied.size(true).1).sum();
        self.make(amounts, move |maker| maker.parts(parts, head)).await
    }

    /// Makes lines, in the turn of the principal if they are about many amounts, and sends them.
    async fn make<R: Send + 'static>(
        &mut self,
        amounts: usize,
        work: impl FnOnce(&mut EventMaker<'_>) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let mut client = std::mem::take(&mut self.client);
        let (kube, manner, span) = (self.kube.clone(), self.manner.clone(), self.span);
        let make = move |turn: &Turn| {
            let made = work(&mut EventMaker {
                kube: &kube,
                manner: &manner,
                client: &mut client,
                turn,
                span,
            });
            (made, client)
        };
        let (made, client) = self.permit.make(amounts, make).await;
        self.client = client;
        for line in std::mem::take(&mut self.client.lines) {
            self.lines.send(line).await;
        }
        made
    }

    /// Sends the changes that the client has not received yet, in their order.
    async fn send_changes(&mut self) -> Result<()> {
        let mut changes = self.changes().await?;
        if self.manner.scope.kind == Kind::Group {
            changes = of_groups(&self.kube, changes).await?;
        }
        if self.manner.scope.is_by_members() {
            self.send_hidden(&changes).await?;
        }
        let (mut rest, mut after, mut deleted) = (&changes[..], Name::default(), self.span.seen);
        while let Some((sequence, change)) = rest.first() {
            match change {
                Change::Deleted => {
                    self.send_deletions((deleted, *sequence)).await?;
                    (rest, deleted) = (&rest[1..], *sequence);
                }
                Change::All => {
                    self.send_objects(Purpose::Change(*sequence)).await?;
                    rest = &rest[1..];
                }
                Change::Object(_) | Change::Figures(_) => {
                    (rest, after) = self.send_some(rest, &after).await?;
                }
            }
            tokio::task::yield_now().await;
        }
        self.span.before = self.span.seen;
        self.span.seen = self.span.upto;
        self.span.again = false;
        Ok(())
    }

    /// The changes of this round. They are looked up without waiting for the client: otherwise what changes all the
    /// time might never be among them.
    async fn changes(&mut self) -> Result<Vec<(Sequence, Change)>> {
        let scope = self.manner.scope.clone();
        let mut since = Since { version: self.span.seen, again: self.span.again };
        let mut all = Vec::new();
        loop {
            let changes = &self.kube.0.changes;
            let portion = changes.next(scope.kind, since, scope.namespace.as_ref())?;
            let is_wanted = |change: &Change| match change {
                Change::Object(key) => scope.is_about(key.kind, &key.namespace, &key.name),
                // Those of a group are numbers of all its members.
                Change::Figures(namespace) => {
                    scope.kind == Kind::Group || scope.reader.reads(namespace)
                }
                Change::Deleted | Change::All => true,
            };
            let changes = portion.changes.into_iter();
            all.extend(changes.filter(|(_, change)| is_wanted(change)));
            if portion.is_all || all.len() >= CHANGES_OF_ROUND {
                self.span.upto = portion.upto;
                return Ok(all);
            }
            since = Since { version: portion.upto, again: false };
            tokio::task::yield_now().await;
        }
    }

    /// Sends the deletions of groups that are still there, but have no member any more that the caller may read. That
    /// changes only where any group may have changed.
    async fn send_hidden(&mut self, changes: &[(Sequence, Change)]) -> Result<()> {
        let all = changes.iter().rev().find(|(_, change)| *change == Change::All);
        let Some(&(sequence, _)) = all else {
            return Ok(());
        };
        let scope = self.manner.scope.clone();
        let mut after = Some(Name::default());
        while let Some(name) = after {
            let known = self.client.known_after(&name, GROUPS_AT_ONCE);
            after = known.get(GROUPS_AT_ONCE - 1).map(|key| key.name.clone());
            let hidden = |state: &State| hidden(state, &known, &scope.reader);
            let (hidden, _) = self.kube.read(hidden).await?;
            let make = move |maker: &mut EventMaker<'_>| maker.hidden(&hidden, sequence);
            self.make(known.len(), make).await?;
        }
        Ok(())
    }

    /// Sends the deletions after one version and up to another.
    async fn send_deletions(&mut self, (mut after, upto): (Sequence, Sequence)) -> Result<()> {
        let scope = self.manner.scope.clone();
        while after < upto {
            let changes = &self.kube.0.changes;
            let (deletions, until) =
                changes.deleted(scope.kind, (after, upto), scope.namespace.as_ref())?;
            let bytes = |it: &Deletion| it.record.metadata_bytes();
            let bytes: usize = deletions.iter().map(bytes).sum();
            let amounts = deletions.len() + bytes / BYTES_PER_AMOUNT;
            let make = move |maker: &mut EventMaker<'_>| maker.deletions(&deletions);
            after = self.make(amounts, make).await?.unwrap_or(until);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends what has changed with the first of these changes, of the first one what comes after a name. Returns the
    /// changes and the name to go on with.
    async fn send_some<'c>(
        &mut self,
        changes: &'c [(Sequence, Change)],
        after: &Name,
    ) -> Result<(&'c [(Sequence, Change)], Name)> {
        let reader = &self.manner.scope.reader;
        let some = |state: &State| some_of(state, changes, after, self.kube.chunk(), reader);
        let (copied, head) = self.kube.read(some).await?;
        let CopiedChanges { parts, count, last } = copied;
        Ok(match self.send_copied(parts, head).await? {
            None => (&changes[count..], last),
            Some((part, key)) => match &changes[part].1 {
                Change::Figures(_) => (&changes[part..], key.name),
                _ => (&changes[part + 1..], Name::default()),
            },
        })
    }

    async fn bookmark(&mut self, annotations: Value) {
        let seen = self.span.seen.to_string();
        let mut metadata = json!({"resourceVersion": seen, "creationTimestamp": null});
        if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
            metadata["annotations"] = annotations;
        }
        let kind = self.manner.scope.kind;
        let (kind, api_version) = (kind.name(), kind.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": {}, "status": {}});
        let json = match self.manner.shape {
            Shape::Table(version) => {
                let columns = self.client.columns(self.manner.scope.kind);
                object::table(version, &json!({"resourceVersion": seen}), columns, Vec::new())
            }
            shape => shape.item(object, Attachment::Nothing, || Value::Null),
        };
        self.lines.send(line("BOOKMARK", json)).await;
    }
}

// Copies from the state what changes are about, a little at a time: the state is locked meanwhile.

/// Changes, and amounts, that are read while the state is locked once.
const CHANGES_AT_ONCE: usize = 100;
const AMOUNTS: usize = 10_000;

/// The sums of the namespace of a single quota are copied for it alone.
const SUMS: usize = 500;

/// A member of a group costs as much as this many amounts to copy.
const MEMBER: usize = 5;

/// What some changes are about.
struct CopiedChanges {
    /// One part for each change, in the same order.
    parts: Vec<(Purpose, Copied)>,
    /// How many of the changes are complete.
    count: usize,
    /// The last copied object of the next change, if it has objects among the parts.
    last: Name,
}

/// The objects of the first of these changes, of the first one those after a name; at most `limit` of one change.
fn some_of(
    state: &State,
    changes: &[(Sequence, Change)],
    after: &Name,
    limit: usize,
    reader: &Reader,
) -> CopiedChanges {
    let (mut parts, mut amounts) = (Vec::new(), 0);
    for (count, (sequence, change)) in changes.iter().enumerate() {
        if count >= CHANGES_AT_ONCE || amounts > AMOUNTS {
            break;
        }
        let purpose = Purpose::Change(*sequence);
        match change {
            Change::Figures(namespace) => {
                let from = if count == 0 { &**after } else { "" };
                let after = Some((&**namespace, from));
                let (quotas, more) = state.quotas_page(Some(namespace), after, limit);
                amounts += 1 + quotas.amounts() + quotas.metadata_bytes() / BYTES_PER_AMOUNT;
                let last = quotas.records().next_back().filter(|_| more);
                let last = last.map(|quota| quota.name.clone());
                parts.push((purpose, Copied::Quotas(quotas)));
                if let Some(last) = last {
                    return CopiedChanges { parts, count, last };
                }
            }
            Change::Object(key) => {
                let (copied, work) = one(state, key, reader);
                amounts += work;
                parts.push((purpose, copied));
            }
            Change::Deleted | Change::All => break,
        }
    }
    CopiedChanges { count: parts.len(), parts, last: Name::default() }
}

/// An object, if it is there and the caller may read it, and as many amounts as it costs to copy it.
fn one(state: &State, key: &Key, reader: &Reader) -> (Copied, usize) {
    match key.readable(state, reader) {
        None => (Copied::Quotas(QuotasView::default()), 1),
        Some(CopiedView::Quota(quota)) => {
            let quotas = QuotasView::from(quota);
            let work = SUMS + quotas.amounts() + quotas.metadata_bytes() / BYTES_PER_AMOUNT;
            (Copied::Quotas(quotas), work)
        }
        Some(CopiedView::Group(group)) => {
            let work = group.amounts().max(MEMBER * group.places());
            (Copied::Groups(vec![group]), work)
        }
    }
}

/// Those of these groups that are there, but have no member that the caller may read.
fn hidden(state: &State, groups: &[Key], reader: &Reader) -> Vec<Record> {
    let is_hidden = |key: &&Key| {
        let members = state.wanted_members(&key.name, |name| reader.reads(name), 1);
        members.is_some_and(|members| members.is_empty())
    };
    let records = groups.iter().filter(is_hidden);
    let records = records.filter_map(|key| Some(state.group_record(&key.name)?.0.clone()));
    records.map(Record::Group).collect()
}

/// The changes of groups that follow from these changes: instead of figures of namespaces, the groups that count them,
/// each with the last of its changes.
async fn of_groups(
    kube: &Kube,
    changes: Vec<(Sequence, Change)>,
) -> Result<Vec<(Sequence, Change)>> {
    let (mut found, mut figures) = (Vec::new(), Vec::new());
    for (sequence, change) in changes {
        match change {
            Change::Figures(namespace) => figures.push((sequence, namespace)),
            change => found.push((sequence, change)),
        }
    }
    let mut last: BTreeMap<Name, Sequence> = BTreeMap::new();
    for some in figures.chunks(CHANGES_AT_ONCE) {
        let groups = |state: &State| -> Vec<(Name, Sequence)> {
            let of = |(sequence, namespace): &(Sequence, Name)| {
                let groups = state.groups_of(namespace).into_iter();
                groups.map(|group| (group, *sequence)).collect::<Vec<_>>()
            };
            some.iter().flat_map(of).collect()
        };
        last.extend(kube.read(groups).await?.0);
    }
    found.extend(last.into_iter().map(|(name, sequence)| {
        let key = Key { kind: Kind::Group, namespace: Name::default(), name };
        (sequence, Change::Object(key))
    }));
    found.sort_by_key(|(sequence, _)| *sequence);
    Ok(found)
}

// The lines of a watch that wait for its client: so many, and so many bytes.

/// Lines that wait for a slow client. When there are so many, the watch waits, and later sends only the newest state of
/// each object.
const WAITING: usize = 64;

/// Bytes of the lines that wait. A longer line waits alone.
const WAITING_BYTES: u32 = 256 << 10;

/// A line, and its share of the bytes that may wait.
type Waiting = (Bytes, OwnedSemaphorePermit);

/// The sending end.
#[derive(Clone)]
struct Sender {
    lines: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// A channel for lines. Its receiving end is the body of the response.
fn channel() -> (Sender, impl Stream<Item = std::result::Result<Bytes, Infallible>>) {
    let (lines, waiting) = mpsc::channel::<Waiting>(WAITING);
    let room = Arc::new(Semaphore::new(WAITING_BYTES as usize));
    let body = stream::unfold(waiting, async |mut waiting| {
        let (line, _) = waiting.recv().await?;
        Some((Ok(line), waiting))
    });
    (Sender { lines, room }, body)
}

impl Sender {
    /// Sends a line, once there is room for it. When the client disconnects, the waiting lines are dropped, so there is
    /// room, and this line is dropped, too.
    async fn send(&self, line: Bytes) {
        let bytes = u32::try_from(line.len()).map_or(WAITING_BYTES, |len| len.min(WAITING_BYTES));
        if let Ok(room) = self.room.clone().acquire_many_owned(bytes).await {
            let _ = self.lines.send((line, room)).await;
        }
    }

    /// Waits until the client has disconnected.
    async fn closed(&self) {
        self.lines.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn line(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    #[tokio::test]
    async fn the_lines_that_wait_for_a_client_are_few_bytes() {
        let (sender, lines) = channel();
        let mut lines = Box::pin(lines);
        let half = WAITING_BYTES as usize / 2;
        for _ in 0..2 {
            assert!(sender.send(line(half)).now_or_never().is_some());
        }
        let third = sender.send(line(1)).now_or_never();
        assert!(third.is_none(), "there is no room");
        assert_eq!(lines.next().await.unwrap().unwrap().len(), half);
        assert!(sender.send(line(half)).now_or_never().is_some());

        // A line that is longer than all of the room waits for all of it.
        let longest = || line(10 * WAITING_BYTES as usize);
        assert!(sender.send(longest()).now_or_never().is_none());
        for _ in 0..2 {
            lines.next().await.unwrap().unwrap();
        }
        assert!(sender.send(longest()).now_or_never().is_some());
        assert!(sender.send(line(1)).now_or_never().is_none());
        drop(lines);
        sender.closed().await;
        assert!(sender.send(line(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_lines_that_wait_for_a_client_are_few() {
        let (sender, _lines) = channel();
        for _ in 0..WAITING {
            assert!(sender.send(line(1)).now_or_never().is_some());
        }
        assert!(sender.send(line(1)).now_or_never().is_none());
    }
}
