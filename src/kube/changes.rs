//! Recent changes, and the versions derived from them.
//!
//! A quota changes when it is set, and when a figure of its status changes. So this module records which entry created
//! each quota and group, which one set it last, and for each namespace which entry last changed a figure. It also
//! records what was deleted, as far back as its memory bound allows; each principal has a fair share of the memory,
//! and of that each namespace.
//! Like the watch cache of Kubernetes' API server it begins empty: a client that requests changes from before its
//! beginning has to list again.
//!
//! The figures of a group change with the figures of its members. All groups may have changed with an entry that
//! changes which namespaces they count.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use quota_core::{
    bounded_memory::BoundedMemory,
    event::{Entry, Event, Sequence},
    size,
    state::State,
};
use quota_semantics::{Name, uid::Uid};
use tokio::sync::{broadcast::error::RecvError, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Failure, Result,
    resource::{Key, Kind, Record},
};
use crate::{fatal, metrics, writer::Ledger};

/// Most namespaces whose last change is recorded, and most deleted quotas and groups.
const WINDOW: usize = 1 << 16;

/// Namespaces, and groups, that are read while the state is locked once.
const NAMESPACES_AT_ONCE: usize = 100;
const GROUPS_AT_ONCE: usize = 500;

/// Changes that are read while the window is locked once: all reads of this API wait meanwhile.
const CHANGES_AT_ONCE: usize = 500;

/// Follows the ledger.
pub(super) struct Changes {
    window: Mutex<Window>,
    head: watch::Sender<Sequence>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Window {
    /// Changes up to this entry are not recorded individually.
    floor: Sequence,
    head: Sequence,
    /// The last entry that may have changed figures of all namespaces.
    everything: Sequence,
    /// By namespace, the last entry that changed a figure.
    figures: HashMap<Name, Sequence>,
    by_time: BTreeMap<Sequence, Name>,
    /// The last entry that changed a group, or the namespaces that groups count.
    groups: Sequence,
    /// What was set since the window began, by the last entry that set it.
    sets: BTreeMap<Sequence, Key>,
    /// By namespace (empty for groups) and name.
    records: HashMap<Name, BTreeMap<Name, Live>>,
    deletions: Deletions,
}

/// A quota or group that is there.
#[derive(Debug)]
struct Live {
    record: Record,
    /// The entry that created it; 0 if it was there before the window.
    created_at: Sequence,
    /// The last entry that set it; 0 if that was before the window.
    set: Sequence,
}

impl Changes {
    /// Follows the ledger from now until `stop`; keeps this many bytes of deleted quotas.
    pub(super) fn follow(ledger: &Ledger, most: usize, stop: CancellationToken) -> Arc<Self> {
        let mut batches = ledger.watch();
        let window = Window::of(ledger, most);
        let changes = Arc::new(Self {
            head: watch::Sender::new(window.head),
            window: Mutex::new(window),
            stop,
        });
        let (followed, ledger) = (changes.clone(), ledger.clone());
        let following = async move {
            loop {
                let batch = tokio::select! {
                    () = followed.stop.cancelled() => return,
                    batch = batches.recv() => batch,
                };
                match batch {
                    Ok(batch) => followed.take(&batch),
                    // Missed changes cannot be recovered, so the window begins anew.
                    Err(RecvError::Lagged(_)) => {
                        batches = ledger.watch();
                        followed.begin_anew(Window::of(&ledger, most));
                    }
                    Err(RecvError::Closed) => return,
                }
            }
        };
        fatal::spawn("the watch feed", changes.stop.clone(), following);
        changes
    }

    fn take(&self, entries: &[Entry]) {
        let mut window = self.window.lock();
        window.take_all(entries);
        let head = window.head;
        drop(window);
        self.head.send_if_modified(|current| std::mem::replace(current, head) != head);
    }

    fn begin_anew(&self, window: Window) {
        let head = window.head;
        *self.window.lock() = window;
        self.head.send_replace(head);
    }

    /// Waits until all changes up to a version are recorded here, or the daemon stops.
    pub(super) async fn reach(&self, version: Sequence) {
        let mut head = self.head.subscribe();
        tokio::select! {
            () = self.stop.cancelled() => {}
            // The sender is `self`, so there is no error.
            _ = head.wait_for(|head| *head >= version) => {}
        }
    }

    /// Waits until a change after a version is recorded here; forever, once the daemon stops.
    pub(super) async fn beyond(&self, version: Sequence) {
        let mut head = self.head.subscribe();
        // The sender is `self`, so there is no error.
        let _ = head.wait_for(|head| *head > version).await;
    }

    /// The version of a quota that `entry` set, in a state at `head`.
    pub(super) fn version(&self, namespace: &str, entry: Sequence, head: Sequence) -> Sequence {
        let window = self.window.lock();
        let changed = window.last_change(namespace, window.floor);
        entry.max(changed.min(head))
    }

    /// As [`Changes::version`], of recorded changes only: there may be later ones that are not recorded any more.
    pub(super) fn last_recorded(
        &self,
        namespace: &str,
        entry: Sequence,
        head: Sequence,
    ) -> Sequence {
        let changed = self.window.lock().last_change(namespace, 0);
        entry.max(changed.min(head))
    }

    /// The version of a group that `entry` set, in a state at `head`: no figure of any namespace has changed since.
    pub(super) fn version_of_group(&self, entry: Sequence, head: Sequence) -> Sequence {
        let window = self.window.lock();
        let figures = window.by_time.last_key_value().map_or(0, |(last, _)| *last);
        let all = window.last_of_all(Kind::Group).max(window.floor);
        entry.max(figures.max(all).min(head))
    }

    /// The entry that created an object; none if it is not there, or another one has its name.
    pub(super) fn created_at(&self, key: &Key, uid: &Uid) -> Option<Sequence> {
        let window = self.window.lock();
        let live = window.records.get(&key.namespace)?.get(&key.name)?;
        (live.record.uid() == uid).then_some(live.created_at)
    }

    /// Checks that the changes of a kind since a version are recorded, in one namespace or in all.
    ///
    /// # Errors
    /// `Expired` if they no longer are.
    pub(super) fn check(
        &self,
        kind: Kind,
        version: Sequence,
        namespace: Option<&Name>,
    ) -> Result<()> {
        self.window.lock().check(kind, version, namespace)
    }

    /// Checks that groups count the same namespaces as at a version. Else a client that sees groups by their members
    /// cannot go on from there: it may have had groups that it may not see any more.
    ///
    /// # Errors
    /// `Expired` if they may count others.
    pub(super) fn check_members(&self, version: Sequence) -> Result<()> {
        let last = self.window.lock().last_of_all(Kind::Group);
        match version < last {
            true => Err(Failure::expired(version, last)),
            false => Ok(()),
        }
    }

    /// The changes of a kind since a version, in one namespace or in all: the first ones of them, in order.
    ///
    /// # Errors
    /// `Expired` if they are no longer recorded.
    pub(super) fn next(
        &self,
        kind: Kind,
        since: Since,
        namespace: Option<&Name>,
    ) -> Result<Portion> {
        let window = self.window.lock();
        window.check(kind, since.version, namespace)?;
        Ok(window.next(kind, since, namespace))
    }

    /// The deleted objects of a kind after one version and up to another, in one namespace or in all: the first ones of
    /// them, in order; and the version up to which they are complete.
    ///
    /// # Errors
    /// `Expired` if the deletions since that version are no longer recorded.
    pub(super) fn deleted(
        &self,
        kind: Kind,
        (after, upto): (Sequence, Sequence),
        namespace: Option<&Name>,
    ) -> Result<(Vec<Deletion>, Sequence)> {
        let window = self.window.lock();
        window.check(kind, after, namespace)?;
        Ok(window.deletions.of(kind, (after, upto), namespace))
    }
}

/// The namespace in which an event changes figures.
fn place(event: &Event) -> Option<&Name> {
    match event {
        Event::QuotaSet(_)
        | Event::QuotaDeleted { .. }
        | Event::ObjectRefreshed { ends_reservation: false, .. } => None,
        event => event.namespace(),
    }
}

/// Whether an event may change figures of all namespaces.
const fn changes_everything(event: &Event) -> bool {
    matches!(event, Event::WorkloadsCharged { .. })
}

/// Whether an event may change any group, regardless of its members: it changes a group itself, or which namespaces
/// groups count.
const fn changes_groups(event: &Event) -> bool {
    matches!(
        event,
        Event::GroupSet(_)
            | Event::GroupDeleted { .. }
            | Event::OverrideEnded { .. }
            | Event::NamespaceObserved(_)
            | Event::NamespaceDeleted { .. }
    )
}

/// The namespace whose figures change with an entry, if the entry changes nothing else.
fn figures_of(entry: &Entry) -> Option<&Name> {
    match &entry.event {
        event if changes_groups(event) => None,
        event => place(event),
    }
}

/// Whether the next entry's change covers that of this entry: both change figures of the same namespace.
fn covers(next: &Entry, entry: &Entry) -> bool {
    let here = figures_of(entry);
    here.is_some() && figures_of(next) == here
}

impl Window {
    /// Records the present quotas and groups. The state is locked for a few namespaces at a time, so that no job waits
    /// for long. Entries made meanwhile are applied a second time, but sent to no watch.
    fn of(ledger: &Ledger, most: usize) -> Self {
        let mut window = Self::default();
        window.deletions.most = most;
        window.head = ledger.peek(|state| state.head().sequence);
        for some in [some_quotas_of, some_groups_of] {
            let mut after = Some(Name::default());
            while let Some(name) = after {
                let (records, last, head) = ledger.peek(|state| some(state, &name));
                for record in records {
                    window.remember(record, 0);
                }
                window.floor = head;
                after = last;
            }
        }
        window
    }

    /// The last entry that changed a figure of a namespace; `otherwise` if none is recorded.
    fn last_change(&self, namespace: &str, otherwise: Sequence) -> Sequence {
        let figures = self.figures.get(namespace).copied();
        figures.unwrap_or(otherwise).max(self.everything)
    }

    /// Checks that the changes of a kind since a version are recorded.
    fn check(&self, kind: Kind, version: Sequence, namespace: Option<&Name>) -> Result<()> {
        let of_groups = Name::default();
        let forgotten = match kind {
            Kind::Quota => self.deletions.forgotten(namespace),
            Kind::Group => self.deletions.forgotten(Some(&of_groups)),
        };
        let floor = self.floor.max(forgotten);
        match version < floor {
            true => Err(Failure::expired(version, floor)),
            false => Ok(()),
        }
    }

    /// Records an object that an entry has set; what has its name already, was not created by that entry.
    fn remember(&mut self, record: Record, entry: Sequence) {
        let key = record.key();
        if entry > 0 {
            self.sets.insert(entry, key.clone());
        }
        let records = self.records.entry(key.namespace).or_default();
        match records.get_mut(&key.name) {
            Some(live) => {
                self.sets.remove(&live.set);
                live.record = record;
                live.set = entry;
            }
            None => {
                let live = Live { record, created_at: entry, set: entry };
                records.insert(key.name, live);
            }
        }
    }

    fn forget(&mut self, namespace: &Name, name: &Name) -> Option<Live> {
        let records = self.records.get_mut(namespace)?;
        let gone = records.remove(name);
        if records.is_empty() {
            self.records.remove(namespace);
        }
        if let Some(gone) = &gone {
            self.sets.remove(&gone.set);
        }
        gone
    }

    /// Applies the entries that were not applied yet.
    fn take_all(&mut self, entries: &[Entry]) {
        for (index, entry) in entries.iter().enumerate() {
            if entry.sequence <= self.head {
                continue;
            }
            match entries.get(index + 1) {
                Some(next) if covers(next, entry) => self.head = entry.sequence,
                _ => self.take(entry),
            }
        }
    }

    fn take(&mut self, entry: &Entry) {
        self.head = entry.sequence;
        let set = match &entry.event {
            Event::QuotaSet(record) => Some(Record::Quota(record.clone())),
            Event::GroupSet(record) => Some(Record::Group(record.clone())),
            _ => None,
        };
        let namespace = match &entry.event {
            Event::QuotaSet(quota) => Some(&quota.namespace),
            Event::QuotaDeleted { namespace, .. } => Some(namespace),
            _ => None,
        };
        let has_quotas = |window: &Self| namespace.map(|name| window.records.contains_key(name));
        let had_quotas = has_quotas(self);
        let gone = match &entry.event {
            Event::QuotaDeleted { namespace, name } => self.forget(namespace, name),
            Event::GroupDeleted { name } => self.forget(&Name::default(), name),
            _ => None,
        };
        if let Some(record) = set {
            self.remember(record, entry.sequence);
        }
        if let Some(Live { record, created_at, set }) = gone {
            self.delete(Deletion {
                sequence: entry.sequence,
                principal: entry.actor.principal.clone(),
                record,
                created_at,
                set,
            });
        }
        // A namespace may be a member of groups for as long as it has a quota.
        if changes_groups(&entry.event) || has_quotas(self) != had_quotas {
            self.groups = entry.sequence;
        }
        if changes_everything(&entry.event) {
            self.everything = entry.sequence;
        }
        if let Some(namespace) = place(&entry.event) {
            self.touch(entry.sequence, namespace);
        }
    }

    fn delete(&mut self, deletion: Deletion) {
        self.deletions.add(deletion);
        if let Some(dropped) = self.deletions.forget_namespaces() {
            self.floor = self.floor.max(dropped);
        }
    }

    fn touch(&mut self, sequence: Sequence, namespace: &Name) {
        if let Some(before) = self.figures.insert(namespace.clone(), sequence) {
            self.by_time.remove(&before);
        }
        self.by_time.insert(sequence, namespace.clone());
        if self.by_time.len() > WINDOW
            && let Some((oldest, namespace)) = self.by_time.pop_first()
        {
            self.figures.remove(&namespace);
            self.floor = self.floor.max(oldest);
        }
    }
}

/// The quotas of the namespaces after one; the last of these namespaces if more may follow; and the head of the state.
fn some_quotas_of(state: &State, after: &str) -> (Vec<Record>, Option<Name>, Sequence) {
    let namespaces: Vec<_> = state.namespaces(after).take(NAMESPACES_AT_ONCE).collect();
    let records = namespaces.iter().flat_map(|namespace| state.quota_records(namespace));
    let records = records.cloned().map(Record::Quota).collect();
    let last = namespaces.get(NAMESPACES_AT_ONCE - 1).map(|last| (*last).clone());
    (records, last, state.head().sequence)
}

/// The groups after one; the last of these groups if more may follow; and the head of the state.
fn some_groups_of(state: &State, after: &str) -> (Vec<Record>, Option<Name>, Sequence) {
    let (views, more) = state.groups_page(after, GROUPS_AT_ONCE);
    let last = views.last().filter(|_| more);
    let last = last.map(|view| view.record.name.clone());
    let records = views.into_iter().map(|view| Record::Group(view.record));
    (records.collect(), last, state.head().sequence)
}

/// Bytes of the metadata of deleted quotas and groups that are read at once.
const DELETED_BYTES: usize = 1 << 20;

/// The deletion of a quota or group.
#[derive(Clone, Debug)]
pub(in crate::kube) struct Deletion {
    pub(in crate::kube) sequence: Sequence,
    /// The principal that deleted it.
    pub(in crate::kube) principal: Name,
    /// What was deleted.
    pub(in crate::kube) record: Record,
    /// The entry that created it; 0 if it was there before the window.
    pub(in crate::kube) created_at: Sequence,
    /// The last entry that set it; 0 if that was before the window.
    pub(in crate::kube) set: Sequence,
}

/// The quotas and groups that were deleted, as far back as their memory bound allows.
#[derive(Default)]
struct Deletions {
    by_time: BTreeMap<Sequence, Deletion>,
    shares: BoundedMemory<Sequence>,
    /// Most bytes of them.
    most: usize,
    /// The last dropped entry, by namespace, and of any namespace.
    forgotten: HashMap<Name, Sequence>,
    forgotten_anywhere: Sequence,
}

impl Deletions {
    /// The deletions of a kind after one version and up to another, in one namespace or in all: the first ones of them,
    /// in order; and the version up to which they are complete.
    fn of(
        &self,
        kind: Kind,
        (after, upto): (Sequence, Sequence),
        namespace: Option<&Name>,
    ) -> (Vec<Deletion>, Sequence) {
        let some = self.after(after, kind, namespace);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let some = some.take_while(|deletion| deletion.sequence <= upto);
        for (looked, deletion) in some.enumerate() {
            bytes += deletion.record.metadata_bytes();
            let is_much = looked >= CHANGES_AT_ONCE || bytes > DELETED_BYTES;
            if is_much && looked > 0 {
                return (found, deletion.sequence - 1);
            }
            if deletion.record.kind() == kind {
                found.push(deletion.clone());
            }
        }
        (found, upto)
    }

    /// The deletions after a version, in order, in one namespace or in all. Those in all may be of other kinds, too.
    fn after<'a>(
        &'a self,
        version: Sequence,
        kind: Kind,
        namespace: Option<&'a Name>,
    ) -> Box<dyn Iterator<Item = &'a Deletion> + 'a> {
        let within = match kind {
            Kind::Quota => namespace.map(|name| &**name),
            Kind::Group => Some(""),
        };
        match within {
            Some(name) => {
                let places = self.shares.of(name, version);
                Box::new(places.filter_map(|place| self.by_time.get(&place)))
            }
            None => {
                let range = self.by_time.range(version.saturating_add(1)..);
                Box::new(range.map(|(_, deletion)| deletion))
            }
        }
    }

    /// The last dropped entry, in one namespace or in any.
    fn forgotten(&self, namespace: Option<&Name>) -> Sequence {
        match namespace {
            Some(name) => self.forgotten.get(name).copied().unwrap_or_default(),
            None => self.forgotten_anywhere,
        }
    }

    /// If entries of very many namespaces were dropped, forgets of which ones, and returns the last dropped entry.
    fn forget_namespaces(&mut self) -> Option<Sequence> {
        let is_much = self.forgotten.len() > WINDOW;
        is_much.then(|| {
            self.forgotten.clear();
            self.forgotten_anywhere
        })
    }

    /// Adds a deletion; if there are too many, drops the oldest of the principal, and of its namespace, that takes the
    /// most room.
    fn add(&mut self, deletion: Deletion) {
        let bytes = size::ENTRY
            + match &deletion.record {
                Record::Quota(record) => size::of_quota(record),
                Record::Group(record) => record.metadata.len() + size::of_group(&record.spec),
            };
        let (namespace, sequence) = (deletion.record.key().namespace, deletion.sequence);
        self.shares.add(&deletion.principal, &namespace, sequence, bytes);
        self.by_time.insert(sequence, deletion);
        while (self.shares.len() > WINDOW || self.shares.bytes() > self.most)
            && let Some(oldest) = self.shares.first_to_go()
            && let Some(dropped) = self.by_time.remove(&oldest)
        {
            metrics::limit_reached(metrics::Limit::QuotaChangesBytes);
            let namespace = dropped.record.key().namespace;
            self.shares.remove(&dropped.principal, &namespace, oldest);
            // Another principal may have lost a later one.
            let forgotten = self.forgotten.entry(namespace).or_default();
            *forgotten = oldest.max(*forgotten);
            self.forgotten_anywhere = self.forgotten_anywhere.max(oldest);
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kube) enum Change {
    /// Objects were deleted, the last of them with this entry.
    Deleted,
    /// An object was set, or has changed.
    Object(Key),
    /// Any object may have changed.
    All,
    /// Figures of a namespace have changed.
    Figures(Name),
}

/// The version since which changes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kube) struct Since {
    pub(in crate::kube) version: Sequence,
    /// Whether the changes of this very entry are wanted, too, if there may be several.
    pub(in crate::kube) again: bool,
}

/// Some changes since a version, in order.
///
/// A watch sends them in this order, and each object with the sequence of its change as version. So a client that has
/// received a version has received all changes before it; what it has not received yet has a higher version. Only the
/// last entry may have reached the client in part, if it changed several objects: so a client that goes on from its
/// sequence gets the changes of this entry again.
#[derive(Debug)]
pub(in crate::kube) struct Portion {
    pub(in crate::kube) changes: Vec<(Sequence, Change)>,
    /// The version up to which they are complete.
    pub(in crate::kube) upto: Sequence,
    /// Whether there are no more of them.
    pub(in crate::kube) is_all: bool,
}

impl Portion {
    /// Adds changes, which come in order. Not all of them may be wanted, but all are looked at.
    fn add(&mut self, changes: impl Iterator<Item = (Sequence, Option<Change>)>) {
        for (looked, (sequence, change)) in changes.enumerate() {
            if looked >= CHANGES_AT_ONCE {
                self.upto = self.upto.min(sequence - 1);
                self.is_all = false;
                return;
            }
            let change = change.map(|change| (sequence, change));
            self.changes.extend(change);
        }
    }

    /// Puts the changes in order.
    fn in_order(mut self) -> Self {
        let Self { changes, upto, .. } = &mut self;
        changes.retain(|(sequence, _)| sequence <= upto);
        // Of those with the same sequence, the ones that change a single object come first: they were added first.
        changes.sort_by_key(|(sequence, _)| *sequence);
        changes.dedup_by(|(sequence, next), (last, change)| {
            let is_same = *change == Change::Deleted && *next == Change::Deleted;
            if is_same {
                *last = *sequence;
            }
            is_same
        });
        self
    }
}

impl Window {
    /// The last entry with which any object of a kind may have changed.
    fn last_of_all(&self, kind: Kind) -> Sequence {
        match kind {
            Kind::Quota => self.everything,
            Kind::Group => self.everything.max(self.groups),
        }
    }

    /// The changes of a kind since a version, in one namespace or in all: the first ones of them.
    fn next(&self, kind: Kind, since: Since, namespace: Option<&Name>) -> Portion {
        let Since { version, again } = since;
        let mut portion =
            Portion { changes: Vec::new(), upto: self.head.max(version), is_all: true };
        let deletions = self.deletions.after(version, kind, namespace);
        portion.add(deletions.map(|deletion| {
            let is_of_kind = deletion.record.kind() == kind;
            (deletion.sequence, is_of_kind.then_some(Change::Deleted))
        }));
        let sets = self.sets.range(version.saturating_add(1)..);
        portion.add(sets.map(|(sequence, key)| {
            let is_there = namespace.is_none_or(|own| *own == key.namespace);
            let is_wanted = key.kind == kind && is_there;
            (*sequence, is_wanted.then(|| Change::Object(key.clone())))
        }));
        let first = if again { version } else { version.saturating_add(1) };
        let all = Some(self.last_of_all(kind)).filter(|all| *all >= first);
        // What the entry at the floor has changed is not recorded.
        let floor = Some(version).filter(|version| again && *version == self.floor);
        let all = all.max(floor);
        portion.add(all.map(|all| (all, Some(Change::All))).into_iter());
        // Changes of figures before that are covered by it.
        let first = all.map_or(first, |all| first.max(all + 1));
        match namespace {
            Some(name) => {
                let changed = self.figures.get(name).filter(|changed| **changed >= first);
                let changed = changed.map(|changed| (*changed, name));
                portion.add(changed.into_iter().map(figures));
            }
            None => {
                let changed = self.by_time.range(first..);
                let changed = changed.map(|(changed, name)| (*changed, name));
                portion.add(changed.map(figures));
            }
        }
        portion.in_order()
    }
}

fn figures((sequence, namespace): (Sequence, &Name)) -> (Sequence, Option<Change>) {
    (sequence, Some(Change::Figures(namespace.clone())))
}
