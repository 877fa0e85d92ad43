//! Names the objects of entries that have only a uid: an object that was deleted, a reservation that ended.

use std::collections::{BTreeMap, BTreeSet};

use quota_client::wire::EntrySubject;
use quota_core::{
    event::{Entry, NamedSubject, Sequence},
    state::State,
};
use quota_semantics::{Name, uid::Uid};
use serde::Serialize;

use super::{App, history, problem::Problem, readers::Reading};

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
            let found = history::back(&app, first.saturating_sub(1), count, pick)?;
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
fn find(state: &State, sequence: Sequence, namespace: &Name, uid: &Uid) -> Option<Found> {
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
    let Some(entry) = history::entry(app, place)? else {
        return Ok(None);
    };
    let named = entry.event.named_subject();
    let named = named.filter(|named| (named.namespace, named.uid) == (namespace, uid));
    Ok(named.map(|named| subject(&named)))
}
