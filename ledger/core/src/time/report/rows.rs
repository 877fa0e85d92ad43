//! The rows of a report, and the namespaces that count in each.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::{
    super::{
        Changes, Key, Level, Measure, Meter, Moment, Percentile, Period, Step, Subject, Tracker,
    },
    By, Namespaces,
    kinds::PODS,
};
use crate::{event::Entry, state::State};
use quota_semantics::{Name, quantity::Quantity, resource::ResourceList};

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

impl Cell {
    /// Whether there never was anything. A demand of zero is not enough: amounts that are used may be set against what
    /// a workload's reservation holds for them.
    fn is_nothing(&self) -> bool {
        let Self { measure, grants: 0, denials: 0 } = self else { return false };
        measure.used.is_zero()
            && measure.reserved.is_zero()
            && measure.peak.as_ref().is_none_or(|peak| peak.value.is_zero())
    }
}

/// Rows that are being folded.
pub(super) struct Rows {
    period: Period,
    of: Of,
    wanted: Namespaces,
    resources: Option<BTreeSet<Name>>,
    members: HashMap<Name, Member>,
    /// The first one is the total. Those without cells are not shown.
    rows: Vec<OpenRow>,
    numbers: HashMap<RowKey, usize>,
    #[expect(clippy::vec_box, reason = "a list of this many large cells would grow by copies")]
    cells: Vec<Box<Open>>,
    /// Where the numbers of the tracker count, by their slots.
    places: Vec<Place>,
    /// Grows whenever a namespace counts elsewhere.
    assignment: u64,
    /// What moved between rows that are parts of namespaces, and is not in their cells yet.
    moved: Vec<Moved>,
    at: Moment,
}

/// What the rows are made of.
enum Of {
    Namespaces,
    /// Namespaces with equal values of a label.
    Labels(Name),
    Groups,
    /// Parts of namespaces: what is in no other one counts in this row.
    Parts {
        rest: usize,
    },
}

/// Whether a namespace counts, and the row in which all of it does, if rows are made of namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    Not,
    Counts {
        row: Option<usize>,
    },
}

/// A row, and its cells by resource.
struct OpenRow {
    key: RowKey,
    cells: Vec<(Name, usize)>,
}

/// The cells in which a number counts, as of an assignment.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    assignment: u64,
    row: Option<usize>,
    total: Option<usize>,
    /// The cell of the rest, once something counts there.
    rest: Option<usize>,
}

/// Amounts that are added to a row.
struct Moved {
    row: usize,
    resource: Name,
    by: Step,
}

/// One resource of a row, before the end of the period.
pub(super) struct Open {
    meter: Meter,
    pub(super) grants: u64,
    pub(super) denials: u64,
}

/// The row of the total.
const TOTAL: usize = 0;

/// No amounts and no limits.
const NOTHING: &Level = &Level::ZERO;

impl Rows {
    pub(super) fn new(
        period: Period,
        by: &By,
        wanted: Namespaces,
        resources: Option<BTreeSet<Name>>,
    ) -> Self {
        let mut rows = Self {
            period,
            of: Of::Groups,
            wanted,
            resources,
            members: HashMap::default(),
            rows: Vec::new(),
            numbers: HashMap::default(),
            cells: Vec::new(),
            places: Vec::new(),
            assignment: 1,
            moved: Vec::new(),
            at: Moment { time: period.from, sequence: 0 },
        };
        rows.row(RowKey::Total);
        rows.of = match by {
            By::Namespace => Of::Namespaces,
            By::Label(key) => Of::Labels(key.clone()),
            By::Group => Of::Groups,
            By::Kind | By::Workload => Of::Parts { rest: rows.row(RowKey::Kind(PODS.into())) },
        };
        rows
    }

    /// What follows is caused by this entry.
    pub(super) fn at(&mut self, entry: &Entry) {
        self.at = Moment { time: entry.time, sequence: entry.sequence };
    }

    /// All namespaces that were or may be decided about.
    pub(super) fn all(&self, state: &State) -> Vec<Name> {
        let (mut names, _) = state.all_names();
        names.extend(self.members.keys().cloned());
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Decides again where a namespace counts, by its labels and groups. `tracker` has what it counts for. Returns
    /// whether it counts, if that has changed.
    pub(super) fn assign(
        &mut self,
        state: &State,
        name: &Name,
        member_of: Option<&Name>,
        tracker: Option<&Tracker>,
    ) -> Option<bool> {
        let record = state.observed_record(name);
        let is_member = member_of.is_none_or(|group| state.is_member(group, name));
        let now = match is_member && (self.wanted)(name, record) {
            false => Member::Not,
            true => {
                let key = match &self.of {
                    Of::Namespaces => Some(RowKey::Namespace(name.clone())),
                    Of::Labels(key) => Some(RowKey::Label {
                        key: key.clone(),
                        value: record
                            .and_then(|record| record.labels.get(key))
                            .map_or_else(Name::default, |value| Name::from(&**value)),
                    }),
                    Of::Groups | Of::Parts { .. } => None,
                };
                Member::Counts { row: key.map(|key| self.row(key)) }
            }
        };
        let before = self.members.insert(name.clone(), now).unwrap_or_default();
        if before == now {
            return None;
        }
        self.assignment += 1;
        let levels = tracker.into_iter().flat_map(|it| it.levels_of(name));
        for (resource, level) in levels {
            let mut place = self.place_of(before, resource);
            self.shift_at(&mut place, resource, level, NOTHING);
            let mut place = self.place_of(now, resource);
            self.shift_at(&mut place, resource, NOTHING, level);
        }
        let counted = [before, now].map(|member| member != Member::Not);
        (counted[0] != counted[1]).then_some(counted[1])
    }

    /// Where a namespace counts with a resource.
    fn place_of(&mut self, member: Member, resource: &Name) -> Place {
        let mut place = Place { assignment: self.assignment, ..Place::default() };
        if let Member::Counts { row } = member
            && self.shows(resource)
        {
            place.row = row.map(|row| self.cell(row, resource));
            place.total = Some(self.cell(TOTAL, resource));
        }
        place
    }

    fn shift_at(&mut self, place: &mut Place, resource: &Name, before: &Level, after: &Level) {
        let step = Step::between(before, after);
        for cell in place.row.into_iter().chain(place.total) {
            self.cells[cell].meter.shift(self.at, &step);
        }
        let Of::Parts { rest } = self.of else { return };
        if place.total.is_none() || step.used.is_zero() && step.reserved.is_zero() {
            return;
        }
        let by = Step::of_amounts(step.used, step.reserved);
        if self.moved.is_empty() {
            // No part goes to another row.
            let cell = *place.rest.get_or_insert_with(|| self.cell(rest, resource));
            self.cells[cell].meter.shift(self.at, &by);
            return;
        }
        self.moved.push(Moved { row: rest, resource: resource.clone(), by });
    }

    /// Whether it was decided where a namespace counts.
    pub(super) fn knows(&self, namespace: &str) -> bool {
        self.members.contains_key(namespace)
    }

    /// Whether a namespace counts.
    pub(super) fn counts(&self, namespace: &str) -> bool {
        self.members.get(namespace).is_some_and(|member| *member != Member::Not)
    }

    fn shows(&self, resource: &Name) -> bool {
        self.resources.as_ref().is_none_or(|some| some.contains(resource))
    }

    /// Moves amounts from the row of the rest to another one, or back.
    pub(super) fn part(
        &mut self,
        key: RowKey,
        amounts: &ResourceList,
        is_pending: bool,
        is_added: bool,
    ) {
        let Of::Parts { rest } = self.of else { return };
        let row = self.row(key);
        for (resource, amount) in amounts.iter() {
            if !self.shows(resource) {
                continue;
            }
            let negated = amount.negated();
            let (more, less) = match is_added {
                true => (amount.clone(), negated),
                false => (negated, amount.clone()),
            };
            for (row, amount) in [(row, more), (rest, less)] {
                let by = match is_pending {
                    true => Step::of_amounts(Quantity::ZERO, amount),
                    false => Step::of_amounts(amount, Quantity::ZERO),
                };
                self.moved.push(Moved { row, resource: resource.clone(), by });
            }
        }
    }

    /// Puts what moved between parts into their cells.
    pub(super) fn settle(&mut self) {
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort_by(|a, b| (a.row, &a.resource).cmp(&(b.row, &b.resource)));
        let mut sums = moved.drain(..).peekable();
        while let Some(Moved { row, resource, mut by }) = sums.next() {
            while let Some(more) = sums.next_if(|it| (it.row, &it.resource) == (row, &resource)) {
                by.used.add_assign(&more.by.used);
                by.reserved.add_assign(&more.by.reserved);
            }
            if !(by.used.is_zero() && by.reserved.is_zero()) {
                let cell = self.cell(row, &resource);
                self.cells[cell].meter.shift(self.at, &by);
            }
        }
        drop(sums);
        self.moved = moved;
    }

    /// The number of a row.
    pub(super) fn row(&mut self, key: RowKey) -> usize {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        self.rows.push(OpenRow { key: key.clone(), cells: Vec::new() });
        self.numbers.insert(key, self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// A cell of a row.
    fn cell(&mut self, row: usize, resource: &Name) -> usize {
        let row = &mut self.rows[row];
        match row.find(resource) {
            Ok(place) => row.cells[place].1,
            Err(place) => {
                self.cells.push(Box::new(Open::new(self.period)));
                row.cells.insert(place, (resource.clone(), self.cells.len() - 1));
                self.cells.len() - 1
            }
        }
    }

    /// Counts a request that asked for these resources in the row of its namespace, in the given ones, and in the
    /// total.
    pub(super) fn count(
        &mut self,
        namespace: &Name,
        beside: &[usize],
        requested: &ResourceList,
        counter: fn(&mut Open) -> &mut u64,
    ) {
        let Some(&Member::Counts { row }) = self.members.get(namespace) else {
            return;
        };
        for (resource, amount) in requested.iter() {
            if !amount.is_positive() || !self.shows(resource) {
                continue;
            }
            for row in [TOTAL].into_iter().chain(beside.iter().copied()).chain(row) {
                // Groups show what they limit.
                let open = &self.rows[row];
                if matches!(open.key, RowKey::Group(_)) && open.find(resource).is_err() {
                    continue;
                }
                let cell = self.cell(row, resource);
                *counter(&mut self.cells[cell]) += 1;
            }
        }
    }

    pub(super) fn finish(self) -> (Vec<Row>, Row) {
        let mut cells: Vec<_> = self.cells.into_iter().map(Some).collect();
        let finish = |OpenRow { key, cells: row }: OpenRow| {
            let close = |(name, cell): (Name, usize)| Some((name, cells[cell].take()?.finish()));
            Row { key, resources: row.into_iter().filter_map(close).collect() }
        };
        let mut rows: Vec<Row> = self.rows.into_iter().map(finish).collect();
        if let Of::Parts { rest } = self.of {
            // What went on to other rows at once was never there.
            rows[rest].resources.retain(|_, cell| !cell.is_nothing());
        }
        let total = rows.remove(TOTAL);
        rows.retain(|row| !row.resources.is_empty());
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        (rows, total)
    }
}

impl OpenRow {
    /// The place of a cell, or the one where it belongs.
    fn find(&self, resource: &Name) -> Result<usize, usize> {
        self.cells.binary_search_by(|(name, _)| name.cmp(resource))
    }
}

impl Open {
    fn new(period: Period) -> Self {
        let mut meter = Meter::new(period, Percentile::P95);
        let begin = Moment { time: period.from, sequence: 0 };
        meter.set(begin, Some(Level::default()));
        Self { meter, grants: 0, denials: 0 }
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
        }
        let (before, after) = (before.unwrap_or(NOTHING), after.unwrap_or(NOTHING));
        self.shift_at(&mut place, &key.resource, before, after);
        self.places[slot] = place;
    }
}

impl Rows {
    /// Where a number counts now.
    fn place(&mut self, Key { subject, resource }: &Key) -> Place {
        match subject {
            Subject::Namespace(name) => {
                let member = self.members.get(name).copied().unwrap_or_default();
                self.place_of(member, resource)
            }
            Subject::Group(name) => {
                let row = self.row(RowKey::Group(name.clone()));
                let row = self.shows(resource).then(|| self.cell(row, resource));
                Place { assignment: self.assignment, row, ..Place::default() }
            }
            Subject::Quota { .. } => Place { assignment: self.assignment, ..Place::default() },
        }
    }
}
