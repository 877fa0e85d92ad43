//! The rows of a report, and the namespaces that count in each.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::{
    super::{Changes, Key, Level, Measure, Meter, Moment, Percentile, Period, Subject, Tracker},
    By, Namespaces,
};
use crate::{event::Entry, state::State};
use quota_semantics::{Name, resource::ResourceList};

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowKey {
    /// A namespace.
    Namespace(Name),
    /// A group.
    Group(Name),
    /// A value of a label of namespaces; empty: namespaces without it.
    Label {
        /// The label.
        key: Name,
        /// Its value.
        value: Name,
    },
    /// A kind of objects.
    Kind(Name),
    /// A workload.
    Workload {
        /// Its namespace.
        namespace: Name,
        /// Its kind, as in `deployments.apps`.
        kind: Name,
        /// Its name.
        name: Name,
    },
    /// The total.
    Total,
}

/// A row at the end of its period.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub key: RowKey,
    /// Its numbers, by resource.
    pub resources: BTreeMap<Name, Cell>,
}

/// One resource of a row.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What the number was. Amounts count from the beginning of the period on, be it as zero.
    pub measure: Measure,
    /// Requests for the resource that were granted.
    pub grants: u64,
    /// Requests for the resource that were denied, as far as they are known.
    pub denials: u64,
}

/// Rows that are being folded.
pub(super) struct Rows {
    period: Period,
    by_members: bool,
    label: Option<Name>,
    wanted: Namespaces,
    resources: Option<BTreeSet<Name>>,
    /// Whether each known namespace counts, and the row in which it does, if rows are made of namespaces.
    members: HashMap<Name, Option<Option<RowKey>>>,
    rows: BTreeMap<RowKey, Resources>,
    total: Resources,
    cells: Vec<Open>,
    /// Where the numbers of the tracker count, by their slots.
    places: Vec<Place>,
    /// Grows whenever a namespace counts elsewhere.
    assignment: u64,
    at: Moment,
}

/// The cells of a row, by resource.
type Resources = BTreeMap<Name, usize>;

/// The cells in which a number counts, as of an assignment.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    assignment: u64,
    row: Option<usize>,
    total: Option<usize>,
}

/// One resource of a row, before the end of the period.
pub(super) struct Open {
    meter: Meter,
    pub(super) grants: u64,
    pub(super) denials: u64,
}

impl Rows {
    pub(super) fn new(
        period: Period,
        by: &By,
        wanted: Namespaces,
        resources: Option<BTreeSet<Name>>,
    ) -> Self {
        Self {
            period,
            by_members: matches!(by, By::Namespace | By::Label(_)),
            label: match by {
                By::Label(key) => Some(key.clone()),
                _ => None,
            },
            wanted,
            resources,
            members: HashMap::default(),
            rows: BTreeMap::new(),
            total: BTreeMap::new(),
            cells: Vec::new(),
            places: Vec::new(),
            assignment: 1,
            at: Moment { time: period.from, sequence: 0 },
        }
    }

    /// What follows is caused by this entry.
    pub(super) fn at(&mut self, entry: &Entry) {
        self.at = Moment { time: entry.time, sequence: entry.sequence };
    }

    /// Decides again for all namespaces where they count. `tracker` has what they count for.
    pub(super) fn assign_all(
        &mut self,
        state: &State,
        member_of: Option<&Name>,
        tracker: Option<&Tracker>,
    ) {
        let (mut names, _) = state.all_names();
        names.extend(self.members.keys().cloned());
        names.sort_unstable();
        names.dedup();
        for name in names {
            self.assign(state, &name, member_of, tracker);
        }
    }

    /// Decides again where a namespace counts, by its labels and groups.
    pub(super) fn assign(
        &mut self,
        state: &State,
        name: &Name,
        member_of: Option<&Name>,
        tracker: Option<&Tracker>,
    ) {
        let record = state.observed_record(name);
        let is_member = member_of.is_none_or(|group| state.is_member(group, name));
        let place = (is_member && (self.wanted)(name, record)).then(|| {
            self.by_members.then(|| match &self.label {
                None => RowKey::Namespace(name.clone()),
                Some(key) => RowKey::Label {
                    key: key.clone(),
                    value: record
                        .and_then(|record| record.labels.get(key))
                        .map_or_else(Name::default, |value| Name::from(&**value)),
                },
            })
        });
        let before = self.members.insert(name.clone(), place.clone()).flatten();
        if before == place {
            return;
        }
        self.assignment += 1;
        let levels = tracker.into_iter().flat_map(|it| it.levels_of(name));
        for (resource, level) in levels {
            if self.shows(resource) {
                self.shift_member(before.as_ref(), resource, Some(level), None);
                self.shift_member(place.as_ref(), resource, None, Some(level));
            }
        }
    }

    fn shift_member(
        &mut self,
        place: Option<&Option<RowKey>>,
        resource: &Name,
        before: Option<&Level>,
        after: Option<&Level>,
    ) {
        let Some(row) = place else { return };
        let place = Place {
            row: row.as_ref().map(|key| self.cell(key, resource)),
            total: Some(self.total(resource)),
            ..Place::default()
        };
        self.shift_at(place, before, after);
    }

    fn shift_at(&mut self, place: Place, before: Option<&Level>, after: Option<&Level>) {
        for cell in place.row.into_iter().chain(place.total) {
            self.cells[cell].shift(self.at, before, after);
        }
    }

    /// Whether it was decided where a namespace counts.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.members.contains_key(namespace)
    }

    /// Whether a namespace counts.
    pub(super) fn counts(&self, namespace: &str) -> bool {
        self.members.get(namespace).is_some_and(Option::is_some)
    }

    fn shows(&self, resource: &Name) -> bool {
        self.resources.as_ref().is_none_or(|some| some.contains(resource))
    }

    /// Replaces a part of a row.
    pub(super) fn shift(
        &mut self,
        key: &RowKey,
        resource: &Name,
        before: Option<&Level>,
        after: Option<&Level>,
    ) {
        if !self.shows(resource) {
            return;
        }
        let cell = self.cell(key, resource);
        self.cells[cell].shift(self.at, before, after);
    }

    /// The cell of a row.
    fn cell(&mut self, key: &RowKey, resource: &Name) -> usize {
        if !self.rows.contains_key(key) {
            self.rows.insert(key.clone(), BTreeMap::new());
        }
        let row = self.rows.get_mut(key).expect("it was inserted");
        cell(row, &mut self.cells, resource, self.period)
    }

    /// The cell of the total.
    fn total(&mut self, resource: &Name) -> usize {
        cell(&mut self.total, &mut self.cells, resource, self.period)
    }

    /// Counts a request that asked for these resources in the row of its namespace, in the given ones, and in the
    /// total.
    pub(super) fn count(
        &mut self,
        namespace: &Name,
        keys: Vec<RowKey>,
        requested: &ResourceList,
        counter: fn(&mut Open) -> &mut u64,
    ) {
        let Some(Some(place)) = self.members.get(namespace).cloned() else {
            return;
        };
        let asked = requested.iter().filter(|(_, amount)| amount.is_positive());
        let asked: Vec<Name> =
            asked.map(|(name, _)| name).filter(|name| self.shows(name)).cloned().collect();
        for resource in &asked {
            let total = self.total(resource);
            *counter(&mut self.cells[total]) += 1;
            for key in keys.iter().chain(&place) {
                // Groups show what they limit.
                let row = self.rows.get(key);
                let is_new = row.is_none_or(|row| !row.contains_key(resource));
                if is_new && matches!(key, RowKey::Group(_)) {
                    continue;
                }
                let cell = self.cell(key, resource);
                *counter(&mut self.cells[cell]) += 1;
            }
        }
    }

    pub(super) fn finish(self) -> (Vec<Row>, Row) {
        let mut cells: Vec<_> = self.cells.into_iter().map(Some).collect();
        let mut finish = |(key, row): (RowKey, Resources)| {
            let close = |(name, cell): (Name, usize)| Some((name, cells[cell].take()?.finish()));
            Row { key, resources: row.into_iter().filter_map(close).collect() }
        };
        let rows = self.rows.into_iter().map(&mut finish).collect();
        (rows, finish((RowKey::Total, self.total)))
    }
}

fn cell(row: &mut Resources, cells: &mut Vec<Open>, resource: &Name, period: Period) -> usize {
    if let Some(&cell) = row.get(resource) {
        return cell;
    }
    cells.push(Open::new(period));
    row.insert(resource.clone(), cells.len() - 1);
    cells.len() - 1
}

impl Open {
    fn new(period: Period) -> Self {
        let mut meter = Meter::new(period, Percentile::P95);
        let begin = Moment { time: period.from, sequence: 0 };
        meter.set(begin, Some(Level::default()));
        Self { meter, grants: 0, denials: 0 }
    }

    fn shift(&mut self, at: Moment, before: Option<&Level>, after: Option<&Level>) {
        let mut level = self.meter.level().cloned().unwrap_or_default();
        if let Some(before) = before {
            level.subtract(before);
        }
        if let Some(after) = after {
            level.add(after);
        }
        self.meter.set(at, Some(level));
    }

    fn finish(self) -> Cell {
        Cell { measure: self.meter.finish(), grants: self.grants, denials: self.denials }
    }
}

impl Changes for Rows {
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        at: Moment,
        before: Option<&Level>,
        after: Option<&Level>,
    ) {
        self.at = at;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, Place::default());
        }
        let mut place = self.places[slot];
        if place.assignment != self.assignment {
            place = self.place(key);
            self.places[slot] = place;
        }
        self.shift_at(place, before, after);
    }
}

impl Rows {
    /// Where a number counts now.
    fn place(&mut self, Key { subject, resource }: &Key) -> Place {
        let mut place = Place { assignment: self.assignment, ..Place::default() };
        if !self.shows(resource) {
            return place;
        }
        match subject {
            Subject::Namespace(name) => {
                if let Some(row) = self.members.get(name).cloned().flatten() {
                    place.row = row.map(|key| self.cell(&key, resource));
                    place.total = Some(self.total(resource));
                }
            }
            Subject::Group(name) => {
                place.row = Some(self.cell(&RowKey::Group(name.clone()), resource));
            }
            Subject::Quota { .. } => {}
        }
        place
    }
}
