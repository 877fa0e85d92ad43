//! Reports: what namespaces, groups, kinds or workloads consumed in a period.
//!
//! A report is a fold over the entries of its period, beginning with the state at its first moment. All numbers are
//! exact until they are shown: reports of adjacent periods add up to that of the whole, and rows to the total.

mod kinds;
mod rows;
mod shown;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

pub use rows::{Cell, Row, RowKey};
pub use shown::{Entries, shown};

use super::{Names, Period, Tracker, Wanted};
use crate::{
    event::{Entry, Event, NamespaceRecord, Reservation, Sequence},
    state::State,
};
use kinds::Kinds;
use quota_semantics::{Name, object::Footprint, resource::ResourceList};
use rows::{Open, Rows};

/// What the rows of a report are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// Namespaces.
    Namespace,
    /// Groups. They may share namespaces, so their rows may add up to more than the total.
    Group,
    /// The values of a label of namespaces.
    Label(Name),
    /// The kinds of objects.
    Kind,
    /// Workloads that are charged for their pods, and the kinds of all other objects.
    Workload,
}

impl std::str::FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "namespace" => Ok(Self::Namespace),
            "group" => Ok(Self::Group),
            "kind" => Ok(Self::Kind),
            "workload" => Ok(Self::Workload),
            _ => match text.strip_prefix("label:") {
                Some(key) if !key.is_empty() => Ok(Self::Label(key.into())),
                _ => Err("not namespace, group, label:KEY, kind or workload".to_owned()),
            },
        }
    }
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Namespace => f.write_str("namespace"),
            Self::Group => f.write_str("group"),
            Self::Kind => f.write_str("kind"),
            Self::Workload => f.write_str("workload"),
            Self::Label(key) => write!(f, "label:{key}"),
        }
    }
}

/// Selects namespaces by name, and by what sources have reported of them.
pub type Namespaces = Box<dyn Fn(&str, Option<&NamespaceRecord>) -> bool + Send>;

/// What a report is asked for.
pub struct Question {
    /// The period.
    pub period: Period,
    /// What its rows are about.
    pub by: By,
    /// The namespaces that count, as they are at each moment.
    pub namespaces: Namespaces,
    /// The groups that are shown, if the rows are groups.
    pub groups: Names,
    /// Only namespaces that this group counts, at each moment.
    pub member_of: Option<Name>,
    /// The resources that are shown; none: all.
    pub resources: Option<BTreeSet<Name>>,
}

/// A request that was denied.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The last entry at the decision.
    pub sequence: Sequence,
    /// The namespace of its object.
    pub namespace: Name,
    /// The kind of its object.
    pub resource: Name,
    /// The resources that it asked for.
    pub requested: ResourceList,
}

/// A report that is being folded. For each entry of the period call [`before`](Self::before) with the state before it,
/// and [`after`](Self::after) with the state behind it.
pub struct Report {
    by: By,
    member_of: Option<Name>,
    tracker: Tracker,
    kinds: Option<Kinds>,
    rows: Rows,
    denied: VecDeque<Denied>,
    pending: Pending,
    /// The rows in which a request counts beside that of its namespace.
    beside: Vec<usize>,
}

/// What has to be done with the state behind the last entry.
#[derive(Default)]
struct Pending {
    is_open: bool,
    /// A namespace that is new or has other labels, or all.
    relabelled: Option<Relabelled>,
    granted: Option<Granted>,
}

/// A request that an entry grants.
struct Granted {
    reservation: Arc<Reservation>,
    /// The footprint that it has from now on, if it had another one.
    grown: Option<Footprint>,
}

enum Relabelled {
    One(Name),
    All,
}

impl Report {
    /// Begins with the state at the first moment of the period: that after the last entry before it. `denied` are the
    /// known denials of the period, in the order of their sequences.
    #[must_use]
    pub fn begin(question: Question, denied: Vec<Denied>, state: &State) -> Self {
        let Question { period, by, namespaces, groups, member_of, resources } = question;
        let mut rows = Rows::new(period, &by, namespaces, resources);
        for name in rows.all(state) {
            rows.assign(state, &name, member_of.as_ref(), None);
        }
        let wanted = Wanted {
            sums: true,
            quotas: false,
            namespaces: Box::new(|_| true),
            groups: (by == By::Group).then_some(groups),
        };
        let tracker = Tracker::begin(wanted, state, &mut rows);
        let kinds = match by {
            By::Kind | By::Workload => Some(Kinds::begin(state, &mut rows, by == By::Workload)),
            By::Namespace | By::Group | By::Label(_) => None,
        };
        Self {
            by,
            member_of,
            tracker,
            kinds,
            rows,
            denied: denied.into(),
            pending: Pending::default(),
            beside: Vec::new(),
        }
    }

    /// Notes the next entry, given the state before it.
    pub fn before(&mut self, state: &State, entry: &Entry) {
        self.count_denied(state, entry.sequence);
        self.tracker.before(state, entry);
        self.rows.at(entry);
        if let Some(kinds) = &mut self.kinds {
            kinds.before(state, entry, &mut self.rows);
        }
        self.pending.is_open = true;
        self.pending.relabelled = match &entry.event {
            Event::NamespaceObserved(record) => Some(Relabelled::One(record.name.clone())),
            Event::NamespaceDeleted { name, .. } => Some(Relabelled::One(name.clone())),
            Event::GroupSet(_) | Event::GroupDeleted { .. } if self.member_of.is_some() => {
                Some(Relabelled::All)
            }
            event => {
                let named = event.namespace().filter(|name| !self.rows.knows(name));
                named.cloned().map(Relabelled::One)
            }
        };
        self.pending.granted = match &entry.event {
            Event::ReservationGranted(it) => Some(Granted { reservation: it.clone(), grown: None }),
            Event::ReservationGrown { uid, namespace, footprint, .. } => {
                state.tracked(namespace, uid).map(|(_, tracked)| Granted {
                    reservation: tracked.reservation.clone(),
                    grown: Some(footprint.clone()),
                })
            }
            _ => None,
        };
    }

    /// Notes what the entry has changed, given the state behind it. Only the first call after
    /// [`before`](Self::before) has an effect.
    pub fn after(&mut self, state: &State) {
        if !std::mem::take(&mut self.pending.is_open) {
            return;
        }
        match self.pending.relabelled.take() {
            Some(Relabelled::One(namespace)) => self.assign(state, &namespace),
            Some(Relabelled::All) => {
                for namespace in self.rows.all(state) {
                    self.assign(state, &namespace);
                }
            }
            None => {}
        }
        if let Some(kinds) = &mut self.kinds {
            kinds.after(state, &mut self.rows);
        }
        self.tracker.after(state, &mut self.rows);
        self.rows.settle();
        if let Some(Granted { reservation, grown }) = self.pending.granted.take() {
            let Reservation { namespace, resource, name, footprint, .. } = &*reservation;
            let footprint = grown.as_ref().unwrap_or(footprint);
            let request = (namespace, resource, &**name, footprint);
            self.count(state, request, |cell| &mut cell.grants);
        }
    }

    /// Decides again where a namespace counts.
    fn assign(&mut self, state: &State, namespace: &Name) {
        let (member_of, tracker) = (self.member_of.as_ref(), Some(&self.tracker));
        let is_counted = self.rows.assign(state, namespace, member_of, tracker);
        if let (Some(kinds), Some(is_counted)) = (&self.kinds, is_counted) {
            kinds.all_of(state, namespace, &mut self.rows, is_counted);
        }
    }

    /// The rows at the end of the period, by key, and the total, given the state behind the last entry.
    #[must_use]
    pub fn finish(mut self, state: &State) -> (Vec<Row>, Row) {
        self.after(state);
        self.count_denied(state, Sequence::MAX);
        self.rows.finish()
    }

    fn count_denied(&mut self, state: &State, before: Sequence) {
        while let Some(denied) = self.denied.front()
            && denied.sequence < before
            && let Some(denied) = self.denied.pop_front()
        {
            let footprint = Footprint { resources: denied.requested, ..Footprint::default() };
            let request = (&denied.namespace, &denied.resource, "", &footprint);
            self.count(state, request, |cell| &mut cell.denials);
        }
    }

    /// Counts a request by namespace, kind, name and footprint.
    fn count(
        &mut self,
        state: &State,
        (namespace, resource, name, footprint): (&Name, &Name, &str, &Footprint),
        counter: fn(&mut Open) -> &mut u64,
    ) {
        let (rows, beside) = (&mut self.rows, &mut self.beside);
        beside.clear();
        match &self.by {
            By::Namespace | By::Label(_) => {}
            By::Group => {
                let groups = state.groups_counting(namespace, footprint).into_iter();
                beside.extend(groups.map(|group| rows.row(RowKey::Group(group.clone()))));
            }
            By::Kind => beside.push(rows.row(RowKey::Kind(resource.clone()))),
            By::Workload => {
                beside.push(rows.row(kinds::workload(namespace, resource, name, footprint)));
            }
        }
        rows.count(namespace, beside, &footprint.resources, counter);
    }
}
