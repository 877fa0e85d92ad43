//! The events of a watch, as lines of JSON: made in the turn of the principal, from objects that differ from what the
//! client has received before.

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;
use quota_core::{
    event::{Reservation, Sequence},
    state::{Figure, QuotaView},
};
use quota_semantics::{Name, uid::Uid};
use serde_json::{Value, json};

use crate::{
    fairness::Turn,
    kube::{
        Failure, Kube, Result,
        changes::Deletion,
        derived::hide_others,
        object::{self, Attachment, Object, Shape},
        read::{Copied, Scope},
        resource::{Key, Kind, Record, View},
    },
    now, render,
};

/// Objects whose last sent version is kept. Other objects may be sent again unchanged.
const SENT_MAX: usize = 1 << 14;

/// Bytes of lines that are made at once; a single line may be longer.
const LINES_BYTES: usize = 256 << 10;

/// Which objects a watch shows, and how.
pub(super) struct WatchOptions {
    pub(super) scope: Arc<Scope>,
    pub(super) shape: Shape,
    pub(super) attachment: Attachment,
}

/// What a client has received, and the lines that are sent to it next.
#[derive(Default)]
pub(super) struct ClientState {
    sent: HashMap<Key, Sent>,
    /// Whether the columns were sent: only the first event of a table has them.
    sent_columns: bool,
    pub(super) lines: Vec<Bytes>,
}

/// The state of an object that a client knows.
struct Sent {
    uid: Uid,
    /// None if the object has to be sent again at its next change, even if it looks the same: its version was too low.
    digest: Option<blake3::Hash>,
}

/// The versions between which changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The same as `seen`, before the last round.
    pub(super) before: Sequence,
    /// The version up to which the client has received all changes.
    pub(super) seen: Sequence,
    /// The version up to which changes are sent next. Objects that are created later are sent later: the deletion
    /// of an earlier object of the same name has to come first.
    pub(super) upto: Sequence,
    /// Whether the client may have received the changes of the entry `seen` in part.
    pub(super) again: bool,
}

/// Why events about objects are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To record an object that the client has already; no event is made.
    Received,
    /// To send an object of the initial list.
    Initial,
    /// To send an object if it has changed with this entry.
    Change(Sequence),
}

/// Makes lines.
pub(super) struct EventMaker<'a> {
    pub(super) kube: &'a Kube,
    pub(super) manner: &'a WatchOptions,
    pub(super) client: &'a mut ClientState,
    pub(super) turn: &'a Turn,
    pub(super) span: Span,
}

impl ClientState {
    fn remember(&mut self, key: Key, uid: &Uid, digest: Option<blake3::Hash>) {
        if self.sent.len() < SENT_MAX || self.sent.contains_key(&key) {
            let uid = uid.clone();
            self.sent.insert(key, Sent { uid, digest });
        }
    }

    fn knows(&self, key: &Key, uid: &Uid) -> Option<&Sent> {
        self.sent.get(key).filter(|sent| sent.uid == *uid)
    }

    /// The first of the objects that the client has, by name, after a name.
    pub(super) fn known_after(&self, name: &Name, most: usize) -> Vec<Key> {
        let mut known: Vec<&Key> = self.sent.keys().filter(|key| key.name > *name).collect();
        known.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        known.into_iter().take(most).cloned().collect()
    }

    fn is_full(&self) -> bool {
        self.lines.iter().map(Bytes::len).sum::<usize>() >= LINES_BYTES
    }

    /// The columns of a table of objects of a kind, unless they were sent.
    pub(super) fn columns(&mut self, kind: Kind) -> Value {
        match std::mem::replace(&mut self.sent_columns, true) {
            true => Value::Null,
            false => object::columns(kind),
        }
    }
}

impl EventMaker<'_> {
    /// Makes events about parts of a state at `head`, until there are enough lines. Returns the last part and object of
    /// them if more follow.
    pub(super) fn parts(
        &mut self,
        parts: Vec<(Purpose, Copied)>,
        head: Sequence,
    ) -> Result<Option<(usize, Key)>> {
        for (part, (purpose, copied)) in parts.into_iter().enumerate() {
            for view in copied.views(true, self.turn) {
                self.turn.pause();
                let key = view.key();
                match purpose {
                    Purpose::Received => self.receive(view, head)?,
                    Purpose::Initial => self.first(view, head)?,
                    Purpose::Change(sequence) => self.change(view, head, sequence)?,
                }
                if self.client.is_full() {
                    return Ok(Some((part, key)));
                }
            }
        }
        Ok(None)
    }

    /// Records an object that the client has already.
    fn receive(&mut self, view: View, head: Sequence) -> Result<()> {
        if self.kube.version(&view, head) > self.span.seen {
            return Ok(());
        }
        let digest = digest(&view);
        let (key, uid) = (view.key(), view.record().uid().clone());
        let labels = &self.manner.scope.labels;
        if labels.is_empty() || labels.matches(self.object(view, head).labels()) {
            self.client.remember(key, &uid, Some(digest));
        }
        Ok(())
    }

    /// Sends an object of the beginning. A client that has all of them goes on from any of their versions, so none is
    /// above `upto`.
    fn first(&mut self, view: View, head: Sequence) -> Result<()> {
        let upto = self.span.upto;
        let digest = Some(digest(&view)).filter(|_| view.entry() <= upto);
        let (key, uid) = (view.key(), view.record().uid().clone());
        let created_at = self.kube.0.changes.created_at(&key, &uid);
        if created_at.is_some_and(|created_at| created_at > upto) {
            return Ok(());
        }
        let version = self.kube.version(&view, head).min(upto);
        let object = self.object(view, version);
        if !self.manner.scope.labels.matches(object.labels()) {
            return Ok(());
        }
        self.client.remember(key, &uid, digest);
        self.send("ADDED", &object)
    }

    /// Sends the current state of an object that has changed with the entry `sequence`, if it differs from the last
    /// sent one. It is shown with that version, even if it has changed again since: the changes of other objects in
    /// between follow.
    fn change(&mut self, view: View, head: Sequence, sequence: Sequence) -> Result<()> {
        let Span { seen, upto, again, .. } = self.span;
        let version = self.kube.version(&view, head);
        let is_again = again && sequence == seen;
        // An entry that sets an object is sent before its other effects: so the client has the object.
        if self.comes_later(&view, head, sequence) || (is_again && view.entry() == sequence) {
            return Ok(());
        }
        let (key, uid) = (view.key(), view.record().uid().clone());
        // For an object that is gone, its deletion is sent.
        let created_at = self.kube.0.changes.created_at(&key, &uid);
        let Some(created_at) = created_at.filter(|created_at| *created_at <= upto) else {
            return Ok(());
        };
        // Most objects have not changed, so they are compared before they are read and rendered. An object that was set
        // anew differs from the sent one; so the labels of one that is the same are the same.
        let digest = digest(&view);
        let sent = self.client.knows(&key, &uid).map(|sent| sent.digest);
        if sent == Some(Some(digest)) && !is_again {
            return Ok(());
        }
        let set = view.entry();
        let object = self.object(view, sequence);
        let labels = &self.manner.scope.labels;
        if labels.matches(object.labels()) {
            let is_new =
                created_at > seen || !labels.is_empty() || self.manner.scope.is_by_members();
            let event = match sent.is_none() && is_new {
                true => "ADDED",
                false => "MODIFIED",
            };
            // A version below the entry that set the object is no use for a write. And what is sent again may have had
            // the same version before.
            let is_final = set <= sequence && (!is_again || version <= sequence);
            let digest = Some(digest).filter(|_| is_final);
            self.client.remember(key, &uid, digest);
            return self.send(event, &object);
        }
        // The entry that set it may have removed it from the selection.
        if self.client.sent.remove(&key).is_some() || (set == sequence && created_at <= seen) {
            self.send("DELETED", &object)?;
        }
        Ok(())
    }

    /// Whether an object of a state at `head` has changed again in this round: then it is sent at that change. If it has
    /// changed after this round, it is sent now, too: it may change all the time. With the entry that set it, it is
    /// always sent: this entry may have removed it from the selection. The version of a group is that of the last
    /// change of any namespace, so it says nothing.
    fn comes_later(&self, view: &View, head: Sequence, sequence: Sequence) -> bool {
        match view {
            View::Quota(quota) => {
                let changes = &self.kube.0.changes;
                let last = changes.last_recorded(&quota.record.namespace, quota.entry, head);
                quota.entry != sequence && last > sequence && last <= self.span.upto
            }
            View::Group(_) => false,
        }
    }

    /// The object of a view, with this version.
    fn object(&self, view: View, version: Sequence) -> Object {
        let mut object = Object::new(view, version, self.kube.0.ledger.enforcement());
        hide_others(&mut object.manifest, &self.manner.scope.reader);
        object
    }

    /// Sends the deletions of objects, until enough lines are made; answers the version up to which they are sent if
    /// more follow. An object that was created and deleted in between was never sent.
    pub(super) fn deletions(&mut self, deletions: &[Deletion]) -> Result<Option<Sequence>> {
        for deletion in deletions {
            self.turn.pause();
            self.deletion(deletion)?;
            if self.client.is_full() {
                return Ok(Some(deletion.sequence));
            }
        }
        Ok(None)
    }

    fn deletion(&mut self, deletion: &Deletion) -> Result<()> {
        let record = &deletion.record;
        let key = record.key();
        let was_sent = self.client.knows(&key, record.uid()).is_some();
        if was_sent {
            self.client.sent.remove(&key);
        }
        let scope = &self.manner.scope;
        if !was_sent
            && (deletion.created_at > self.span.seen
                || scope.is_by_members()
                || !scope.is_about(key.kind, &key.namespace, &key.name))
        {
            return Ok(());
        }
        let object = self.deleted(record, deletion.sequence);
        // An entry that set it may have removed it from the selection. That was not sent if the object was deleted in
        // the same round, or in the next one before it was read; and the client may have been cut off between this entry
        // and the deletion.
        let was_set = match self.span.again {
            true => deletion.set > deletion.created_at,
            false => deletion.set > self.span.before,
        };
        if was_sent || was_set || scope.labels.matches(object.labels()) {
            self.send("DELETED", &object)?;
        }
        Ok(())
    }

    fn deleted(&self, record: &Record, version: Sequence) -> Object {
        let mut object = Object::deleted(record, version);
        hide_others(&mut object.manifest, &self.manner.scope.reader);
        object
    }

    /// Sends the deletions of objects that the client has and may not see any more.
    pub(super) fn hidden(&mut self, records: &[Record], version: Sequence) -> Result<()> {
        for record in records {
            self.turn.pause();
            self.client.sent.remove(&record.key());
            let object = self.deleted(record, version);
            self.send("DELETED", &object)?;
        }
        Ok(())
    }

    fn send(&mut self, event: &str, object: &Object) -> Result<()> {
        let manner = self.manner;
        let json = manner.shape.json(object, manner.attachment)?;
        let version = &object.manifest.metadata().resource_version;
        let cells = || object::cells(object, now());
        let item = manner.shape.item(json, manner.attachment, cells);
        let columns = || self.client.columns(manner.scope.kind);
        let json = manner.shape.one(item, version, columns);
        self.turn.pause();
        let line = self.turn.to_json(&event_of(event, json), 0);
        let mut line = line.map_err(|error| Failure::internal(&error))?;
        line.push(b'\n');
        self.client.lines.push(line.into());
        Ok(())
    }
}

/// An event about an object.
fn event_of(event: &str, object: Value) -> Value {
    json!({"type": event, "object": object})
}

/// An event as a line.
pub(super) fn line(event: &str, object: Value) -> Bytes {
    let mut line = event_of(event, object).to_string();
    line.push('\n');
    line.into()
}

/// The digest of everything that an object shows, except its version: of the entry that set it, and of its numbers.
fn digest(view: &View) -> blake3::Hash {
    let mut digest = Digest(blake3::Hasher::new());
    match view {
        View::Quota(view) => of_quota(view, &mut digest),
        View::Group(seen) => of_group(seen, &mut digest),
    }
    digest.0.finalize()
}

struct Digest(blake3::Hasher);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not used: 64 bits are too few.
    fn finish(&self) -> u64 {
        0
    }
}

fn of_quota(view: &QuotaView, digest: &mut Digest) {
    let QuotaView { record: _, entry, figures, holds, holds_omitted } = view;
    (entry, figures.len(), holds.len(), holds_omitted).hash(digest);
    figures.iter().for_each(|figure| of_figure(figure, digest));
    for (reservation, amounts) in holds {
        let Reservation { uid, resource, name, api_version, kind, expiration, .. } = &**reservation;
        (uid, resource, name, api_version, kind, expiration, amounts).hash(digest);
    }
}

fn of_group(seen: &render::group::GroupWithMembers, digest: &mut Digest) {
    let render::group::GroupWithMembers { view, members, contender } = seen;
    let own = (
        view.entry,
        &view.hard,
        view.override_until,
        view.has_parent,
        &view.children,
        view.members,
    );
    (own, contender, view.figures.len(), members.len()).hash(digest);
    for limit in &view.figures {
        of_figure(&limit.figure, digest);
        limit.guaranteed_to_others.hash(digest);
    }
    for member in members {
        member.namespace.hash(digest);
        for figure in &member.figures {
            of_figure(figure, digest);
        }
    }
}

fn of_figure(figure: &Figure, digest: &mut Digest) {
    let Figure { resource, hard, used, reserved } = figure;
    (resource, hard, used, reserved).hash(digest);
}

#[cfg(test)]
mod tests {
    use quota_core::event::QuotaRecord;
    use quota_semantics::{Timestamp, quota::Spec};

    use super::*;

    #[test]
    fn a_digest_differs_with_the_entry_and_with_each_number() {
        let figure = |resource: &str, used: &str| Figure {
            resource: resource.into(),
            hard: "9".parse().unwrap(),
            used: Some(used.parse().unwrap()),
            reserved: "0".parse().unwrap(),
        };
        let view = |entry, figures: &[Figure], holds_omitted| {
            let record = QuotaRecord {
                namespace: "a".into(),
                name: "q".into(),
                uid: Uid::from_uuid([7; 16]),
                created: Timestamp::EPOCH,
                spec: Spec::default(),
                metadata: Box::default(),
            };
            View::Quota(QuotaView {
                record: Arc::new(record),
                entry,
                figures: figures.to_vec(),
                holds: Vec::new(),
                holds_omitted,
            })
        };
        let figures = [figure("pods", "1"), figure("services", "2")];
        let same = digest(&view(1, &figures, 0));
        assert_eq!(same, digest(&view(1, &figures, 0)));
        let other = [figure("pods", "1"), figure("services", "3")];
        let mut reserved = figures.clone();
        reserved[0].reserved = "1".parse().unwrap();
        for different in [
            view(2, &figures, 0),
            view(1, &figures, 1),
            view(1, &figures[..1], 0),
            view(1, &other, 0),
            view(1, &reserved, 0),
        ] {
            assert_ne!(same, digest(&different), "{different:?}");
        }
    }
}
