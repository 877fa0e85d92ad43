//! Reports: what namespaces, groups, kinds or workloads consumed in a period.
//!
//! A report is a fold over the entries of its period, beginning with the state at its first moment. All numbers are
//! exact until they are shown: reports of adjacent periods add up to that of the whole, and rows to the total.

mod kinds;
mod rows;
mod shown;

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

pub use rows::{Cell, Row, RowKey};
pub use shown::{Entries, shown};

use super::{Moment, Names, Period, Tracker, Wanted};
use crate::{
    event::{Entry, Event, NamespaceRecord, Reservation, Sequence},
    state::State,
};
use kinds::Kinds;
use quota_semantics::{Name, object::Footprint, resource::ResourceList};
use rows::{Counts, Rows};

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
    groups: Option<Tracker>,
    kinds: Option<Kinds>,
    rows: Rows,
    denied: VecDeque<Denied>,
    pending: Option<Pending>,
    /// The rows in which a request counts beside that of its namespace.
    beside: Vec<usize>,
}

/// What has to be done with the state behind the last entry.
struct Pending {
    /// The namespaces whose amounts may have changed.
    touched: Namespace,
    /// Whether limits may have changed, too.
    limits: bool,
    /// Those that are new or have other labels.
    relabelled: Namespace,
    granted: Option<Granted>,
}

/// Namespaces, by their numbers in the rows.
#[derive(Clone, Copy)]
enum Namespace {
    None,
    One(usize),
    All,
}

/// A request that an entry grants.
struct Granted {
    reservation: Arc<Reservation>,
    /// The footprint that it has from now on, if it had another one.
    grown: Option<Footprint>,
}

impl Report {
    /// Begins with the state at the first moment of the period: that after the last entry before it. `denied` are the
    /// known denials of the period, in the order of their sequences.
    #[must_use]
    pub fn begin(question: Question, denied: Vec<Denied>, state: &State) -> Self {
        let Question { period, by, namespaces, groups, member_of, resources } = question;
        let head = state.head();
        let at = Moment { time: head.time, sequence: head.sequence };
        let mut rows = Rows::new(period, &by, namespaces, resources, at);
        for space in rows.all(state) {
            rows.assign(state, space, member_of.as_ref());
        }
        let groups = (by == By::Group).then(|| {
            let wanted = Wanted {
                sums: false,
                quotas: false,
                namespaces: Box::new(|_| false),
                groups: Some(groups),
            };
            Tracker::begin(wanted, state, &mut rows)
        });
        let kinds = match by {
            By::Kind | By::Workload => Some(Kinds::begin(state, &mut rows, by == By::Workload)),
            By::Namespace | By::Group | By::Label(_) => None,
        };
        let (denied, beside) = (denied.into(), Vec::new());
        Self { by, member_of, groups, kinds, rows, denied, pending: None, beside }
    }

    /// Notes the next entry, given the state before it.
    pub fn before(&mut self, state: &State, entry: &Entry) {
        self.count_denied(state, entry.sequence);
        self.rows.at(entry);
        if let Some(groups) = &mut self.groups {
            groups.before(state, entry);
        }
        let event = &entry.event;
        let touched = state.touched(event);
        let named = event.namespace().map(|name| self.rows.space(name));
        if let Some(kinds) = &mut self.kinds {
            let counts = named.is_some_and(|(space, _)| self.rows.counts(space));
            kinds.before(state, entry, &mut self.rows, counts);
        }
        let one = |space: Option<usize>| space.map_or(Namespace::None, Namespace::One);
        let namespace = named.map(|(space, _)| space);
        self.pending = Some(Pending {
            touched: match touched.all_namespaces {
                true => Namespace::All,
                false => one(namespace.filter(|_| touched.namespace.is_some())),
            },
            limits: touched.limits || touched.all_namespaces,
            relabelled: match event {
                Event::NamespaceObserved(_) | Event::NamespaceDeleted { .. } => one(namespace),
                Event::GroupSet(_) | Event::GroupDeleted { .. } if self.member_of.is_some() => {
                    Namespace::All
                }
                _ => one(named.filter(|(_, is_new)| *is_new).map(|(space, _)| space)),
            },
            granted: match event {
                Event::ReservationGranted(it) => {
                    Some(Granted { reservation: it.clone(), grown: None })
                }
                Event::ReservationGrown { uid, namespace, footprint, .. } => {
                    state.tracked(namespace, uid).map(|(_, tracked)| Granted {
                        reservation: tracked.reservation.clone(),
                        grown: Some((**footprint).clone()),
                    })
                }
                _ => None,
            },
        });
    }

    /// Notes what the entry has changed, given the state behind it. Only the first call after
    /// [`before`](Self::before) has an effect.
    pub fn after(&mut self, state: &State) {
        let Some(Pending { touched, limits, relabelled, granted }) = self.pending.take() else {
            return;
        };
        for space in self.numbers(state, relabelled) {
            let is_counted = self.rows.assign(state, space, self.member_of.as_ref());
            if let (Some(kinds), Some(is_counted)) = (&self.kinds, is_counted) {
                let name = self.rows.name(space).clone();
                kinds.all_of(state, &name, &mut self.rows, is_counted);
            }
        }
        if let Some(kinds) = &mut self.kinds {
            kinds.after(state, &mut self.rows);
        }
        for space in self.numbers(state, touched) {
            self.rows.renew(state, space, limits);
        }
        if let Some(groups) = &mut self.groups {
            groups.after(state, &mut self.rows);
        }
        self.rows.settle();
        if let Some(Granted { reservation, grown }) = granted {
            let Reservation { namespace, resource, name, footprint, .. } = &*reservation;
            let footprint = grown.as_ref().unwrap_or(footprint);
            let request = (namespace, resource, &**name, footprint);
            self.count(state, request, |cell| &mut cell.grants);
        }
    }

    fn numbers(&mut self, state: &State, of: Namespace) -> Range<usize> {
        match of {
            Namespace::None => 0..0,
            Namespace::One(space) => space..space + 1,
            Namespace::All => self.rows.all(state),
        }
    }

    /// The rows at the end of the period, by key, and the total, given the state behind the last entry.
    #[must_use]
    pub fn finish(self, state: &State) -> (Vec<Row>, Row) {
        let (rows, total) = self.rows(state);
        (rows.collect(), total)
    }

    /// The same one by one, which takes less memory.
    pub fn rows(mut self, state: &State) -> (impl Iterator<Item = Row> + use<>, Row) {
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
        counter: fn(&mut Counts) -> &mut u64,
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
