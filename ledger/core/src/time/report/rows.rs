//! The rows of a report, and the namespaces that count in each.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use hashbrown::HashMap;

use super::{
    super::{
        Amount, Changes, Gauge, Key, Level, LimitStep, Measure, Moment, Now, Percentile, Period,
        Step, Subject,
    },
    By, Namespaces,
    kinds::PODS,
};
use crate::{
    event::Entry,
    state::{State, SumsOf},
};
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
    spaces: Vec<Space>,
    by_name: HashMap<Name, usize>,
    /// The first one is the total. Those without cells are not shown.
    rows: Vec<OpenRow>,
    by_key: HashMap<RowKey, usize>,
    /// Where the numbers of groups count, by their slots: row and cell.
    groups: Vec<Option<(usize, usize)>>,
    /// What moved between rows that are parts of namespaces, and is not in their cells yet.
    moved: Vec<Moved>,
    /// None: behind the period.
    now: Option<Now>,
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

impl Of {
    /// Whether a row is that of the rest.
    fn is_rest(&self, row: usize) -> bool {
        matches!(self, Self::Parts { rest } if *rest == row)
    }
}

/// A namespace that was decided about.
struct Space {
    name: Name,
    member: Member,
    /// Whether it exists.
    is_there: bool,
    /// What counts of it, by resource.
    figures: Vec<Figure>,
    /// The cells of these, if the namespace is a row.
    counts: Vec<Counts>,
}

/// Whether a namespace counts, and the row in which all of it does, unless it is one itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    Not,
    Counts {
        row: Option<usize>,
    },
}

/// One resource of a namespace, and the cells in which it counts.
struct Figure {
    resource: Name,
    level: Level,
    total: usize,
    /// That of the row of the namespace, or of the rest, once something counts there.
    cell: Option<usize>,
}

/// A row, its cells in the order in which they were made, and their places by resource.
struct OpenRow {
    key: RowKey,
    cells: Vec<Open>,
    places: Vec<usize>,
}

/// One resource of a row, before the end of the period.
struct Open {
    resource: Name,
    level: Level,
    counts: Counts,
}

/// What is measured and counted.
pub(super) struct Counts {
    gauge: Gauge,
    pub(super) grants: u64,
    pub(super) denials: u64,
}

/// Amounts that are added to a row.
struct Moved {
    row: usize,
    resource: Name,
    used: Quantity,
    reserved: Quantity,
}

/// The row of the total.
const TOTAL: usize = 0;

static ZERO: Quantity = Quantity::ZERO;

impl Rows {
    /// `at`: the last entry before the period.
    pub(super) fn new(
        period: Period,
        by: &By,
        wanted: Namespaces,
        resources: Option<BTreeSet<Name>>,
        at: Moment,
    ) -> Self {
        let mut rows = Self {
            period,
            of: Of::Groups,
            wanted,
            resources,
            spaces: Vec::new(),
            by_name: HashMap::default(),
            rows: Vec::new(),
            by_key: HashMap::default(),
            groups: Vec::new(),
            moved: Vec::new(),
            now: Now::in_period(period, at),
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
        let at = Moment { time: entry.time, sequence: entry.sequence };
        self.now = Now::in_period(self.period, at);
    }

    /// The number of a namespace, and whether it was not decided about before.
    pub(super) fn space(&mut self, name: &Name) -> (usize, bool) {
        if let Some(&space) = self.by_name.get(name) {
            return (space, false);
        }
        let space = self.spaces.len();
        self.by_name.insert(name.clone(), space);
        self.spaces.push(Space {
            name: name.clone(),
            member: Member::Not,
            is_there: false,
            figures: Vec::new(),
            counts: Vec::new(),
        });
        (space, true)
    }

    /// All namespaces that were or may be decided about.
    pub(super) fn all(&mut self, state: &State) -> Range<usize> {
        for name in &state.all_names().0 {
            self.space(name);
        }
        0..self.spaces.len()
    }

    /// The namespaces that count.
    pub(super) fn counting(&self) -> Vec<Name> {
        let counting = self.spaces.iter().filter(|space| space.counts());
        counting.map(|space| space.name.clone()).collect()
    }

    /// The name of a namespace.
    pub(super) fn name(&self, space: usize) -> &Name {
        &self.spaces[space].name
    }

    /// Whether a namespace counts.
    pub(super) fn counts(&self, space: usize) -> bool {
        self.spaces[space].counts()
    }

    /// Decides again where a namespace counts, by its labels and groups. Returns whether it counts, if that has changed.
    pub(super) fn assign(
        &mut self,
        state: &State,
        number: usize,
        member_of: Option<&Name>,
    ) -> Option<bool> {
        let Space { name, member: before, .. } = &self.spaces[number];
        let before = *before;
        let record = state.observed_record(name);
        let is_member = member_of.is_none_or(|group| state.is_member(group, name));
        let now = match is_member && (self.wanted)(name, record) {
            false => Member::Not,
            true => {
                let key = match &self.of {
                    Of::Labels(key) => Some(RowKey::Label {
                        key: key.clone(),
                        value: record
                            .and_then(|record| record.labels.get(key))
                            .map_or_else(Name::default, |value| Name::from(&**value)),
                    }),
                    Of::Namespaces | Of::Groups | Of::Parts { .. } => None,
                };
                Member::Counts { row: key.map(|key| self.row(key)) }
            }
        };
        if before == now {
            return None;
        }
        self.clear(number);
        self.spaces[number].member = now;
        if matches!(self.of, Of::Labels(_)) {
            self.spaces[number].figures.iter_mut().for_each(|figure| figure.cell = None);
        }
        self.renew(state, number, true);
        let counted = [before, now].map(|member| member != Member::Not);
        (counted[0] != counted[1]).then_some(counted[1])
    }

    /// Takes the present amounts of a namespace, and its limits if they may be others.
    pub(super) fn renew(&mut self, state: &State, number: usize, limits: bool) {
        let space = &mut self.spaces[number];
        if !space.counts() {
            return;
        }
        let found = state.sums_of(&space.name);
        let was_there = std::mem::replace(&mut space.is_there, found.is_some());
        match found {
            Some(sums) if limits || !was_there => self.set(number, sums),
            Some(sums) => self.set_amounts(number, sums),
            None => self.clear(number),
        }
    }

    /// There is nothing.
    fn clear(&mut self, number: usize) {
        let Some((figures, mut cells)) = self.figures(number) else { return };
        for (at, figure) in figures.iter_mut().enumerate() {
            cells.set(at, figure, &Level::ZERO);
        }
    }

    /// Limits are the same.
    fn set_amounts(&mut self, number: usize, sums: SumsOf<'_>) {
        loop {
            let Some((figures, mut cells)) = self.figures(number) else { return };
            let (mut used, mut reserved) = (Cursor::of(sums.used()), Cursor::of(sums.reserved()));
            for (at, figure) in figures.iter_mut().enumerate() {
                let used = used.find(&figure.resource).unwrap_or(&ZERO);
                let reserved = reserved.find(&figure.resource).unwrap_or(&ZERO);
                if let Some(step) = Step::to(&figure.level, used, reserved) {
                    if step.is_any() {
                        cells.shift(at, figure, &step);
                        cells.fill(at, figure);
                    }
                } else {
                    let hard = figure.level.limit().cloned();
                    let after = Level::new(used.clone(), reserved.clone(), hard);
                    cells.set(at, figure, &after);
                }
            }
            let is_new = (used.is_behind() && self.complete(number, sums.used()))
                | (reserved.is_behind() && self.complete(number, sums.reserved()));
            if !is_new {
                break;
            }
        }
    }

    fn set(&mut self, number: usize, sums: SumsOf<'_>) {
        let (used, reserved, hard) = (sums.used(), sums.reserved(), sums.hard());
        for list in [used, reserved, &*hard] {
            self.complete(number, list);
        }
        let Some((figures, mut cells)) = self.figures(number) else { return };
        for (at, figure) in figures.iter_mut().enumerate() {
            let of = |list: &ResourceList| list.get(&figure.resource).cloned();
            let used = of(used).unwrap_or_default();
            let after = Level::new(used, of(reserved).unwrap_or_default(), of(&hard));
            cells.set(at, figure, &after);
        }
    }

    /// The figures of a namespace, and the cells in which they count; none behind the period.
    fn figures(&mut self, number: usize) -> Option<(&mut [Figure], Cells<'_>)> {
        let Space { member, figures, counts, .. } = &mut self.spaces[number];
        let row = match member {
            Member::Counts { row } => *row,
            Member::Not => None,
        };
        let (rows, moved) = (&mut *self.rows, &mut self.moved);
        let cells = Cells {
            of: &self.of,
            period: self.period,
            now: self.now?,
            row,
            own: counts,
            rows,
            moved,
        };
        Some((figures, cells))
    }

    /// Makes figures of resources that are new in a namespace. Returns whether any is.
    fn complete(&mut self, number: usize, list: &ResourceList) -> bool {
        let (mut at, mut is_new) = (0, false);
        for resource in list.names() {
            let is_known = self.spaces[number].finds(resource, &mut at);
            if !is_known {
                if !self.shows(resource) {
                    continue;
                }
                self.insert(number, at, resource);
                is_new = true;
            }
            at += 1;
        }
        is_new
    }

    fn insert(&mut self, number: usize, at: usize, resource: &Name) {
        let total = self.rows[TOTAL].cell(self.period, resource);
        let space = &mut self.spaces[number];
        let figure = Figure { resource: resource.clone(), level: Level::ZERO, total, cell: None };
        space.figures.reserve_exact(1);
        space.figures.insert(at, figure);
        if matches!(self.of, Of::Namespaces) {
            space.counts.reserve_exact(1);
            space.counts.insert(at, Counts::new(self.period));
        }
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
                let (used, reserved) = match is_pending {
                    true => (Quantity::ZERO, amount),
                    false => (amount, Quantity::ZERO),
                };
                self.moved.push(Moved { row, resource: resource.clone(), used, reserved });
            }
        }
    }

    /// Puts what moved between parts into their cells.
    pub(super) fn settle(&mut self) {
        let (false, Some(now)) = (self.moved.is_empty(), self.now) else {
            return;
        };
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort_by(|a, b| (a.row, &a.resource).cmp(&(b.row, &b.resource)));
        let mut sums = moved.drain(..).peekable();
        while let Some(Moved { row, resource, mut used, mut reserved }) = sums.next() {
            while let Some(more) = sums.next_if(|it| (it.row, &it.resource) == (row, &resource)) {
                used.add_assign(&more.used);
                reserved.add_assign(&more.reserved);
            }
            let by = Step::of(used, reserved);
            if by.is_any() {
                let row = &mut self.rows[row];
                let cell = row.cell(self.period, &resource);
                row.cells[cell].shift(now, &by);
            }
        }
        drop(sums);
        self.moved = moved;
    }

    /// The number of a row.
    pub(super) fn row(&mut self, key: RowKey) -> usize {
        if let Some(&number) = self.by_key.get(&key) {
            return number;
        }
        self.rows.push(OpenRow { key: key.clone(), cells: Vec::new(), places: Vec::new() });
        self.by_key.insert(key, self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// Counts a request that asked for these resources in the row of its namespace, in the given ones, and in the
    /// total.
    pub(super) fn count(
        &mut self,
        namespace: &Name,
        beside: &[usize],
        requested: &ResourceList,
        counter: fn(&mut Counts) -> &mut u64,
    ) {
        let Some(&number) = self.by_name.get(namespace) else { return };
        let Member::Counts { row } = self.spaces[number].member else { return };
        let mut at = 0;
        for (resource, amount) in requested.iter() {
            if !amount.is_positive() || !self.shows(resource) {
                continue;
            }
            if !self.spaces[number].finds(resource, &mut at) {
                self.insert(number, at, resource);
            }
            let Space { figures, counts, .. } = &mut self.spaces[number];
            let figure = &mut figures[at];
            *counter(&mut self.rows[TOTAL].cells[figure.total].counts) += 1;
            if let Some(counts) = counts.get_mut(at) {
                *counter(counts) += 1;
            }
            if let Some(row) = row {
                *counter(&mut figure.cell_in(&mut self.rows[row], self.period).counts) += 1;
            }
            for &row in beside {
                let is_rest = self.of.is_rest(row);
                let row = &mut self.rows[row];
                let is_group = matches!(row.key, RowKey::Group(_));
                let cell = match is_rest {
                    true => figure.cell_in(row, self.period),
                    // Groups show what they limit.
                    false if is_group && row.find(resource).is_err() => continue,
                    false => {
                        let cell = row.cell(self.period, resource);
                        &mut row.cells[cell]
                    }
                };
                *counter(&mut cell.counts) += 1;
            }
        }
    }

    /// The rows, by key, and the total. Each row takes the place of what it is made of.
    pub(super) fn finish(mut self) -> (impl Iterator<Item = Row>, Row) {
        if !matches!(self.of, Of::Groups) {
            self.add_up();
        }
        let Self { period, mut spaces, rows, of, .. } = self;
        spaces.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut rows = rows.into_iter().map(move |row| row.finish(period));
        let nothing = || Row { key: RowKey::Total, resources: BTreeMap::new() };
        let total = rows.next().unwrap_or_else(nothing);
        let mut rows: Vec<Row> = rows.collect();
        if matches!(of, Of::Parts { .. }) {
            // What went on to other rows at once was never there.
            for rest in rows.iter_mut().filter(|row| row.key == RowKey::Kind(PODS.into())) {
                rest.resources.retain(|_, cell| !cell.is_nothing());
            }
        }
        rows.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let spaces = spaces.into_iter().map(move |space| space.finish(period));
        let all = rows.into_iter().chain(spaces);
        (all.filter(|row| !row.resources.is_empty()), total)
    }
}

/// The cells in which the figures of a namespace count.
struct Cells<'r> {
    of: &'r Of,
    period: Period,
    now: Now,
    row: Option<usize>,
    own: &'r mut [Counts],
    rows: &'r mut [OpenRow],
    moved: &'r mut Vec<Moved>,
}

impl Cells<'_> {
    /// A number of the namespace has other amounts.
    #[inline]
    fn shift(&mut self, at: usize, figure: &mut Figure, step: &Step<impl Amount>) {
        let now = self.now;
        match (self.own.get_mut(at), self.row) {
            (Some(counts), _) => counts.gauge.shift(&mut figure.level, now, step),
            (None, Some(row)) => {
                figure.level.take(step);
                figure.cell_in(&mut self.rows[row], self.period).shift(now, step);
            }
            (None, None) => figure.level.take(step),
        }
        let total = &mut self.rows[TOTAL].cells[figure.total];
        if matches!(self.of, Of::Groups) {
            return total.shift(now, step);
        }
        total.counts.gauge.shift_demand(now, &step.demand);
        let Of::Parts { rest } = *self.of else { return };
        if self.moved.is_empty() {
            // No part goes to another row.
            figure.cell_in(&mut self.rows[rest], self.period).shift(now, step);
        } else {
            let [mut used, mut reserved] = [Quantity::ZERO, Quantity::ZERO];
            step.used.add_to(&mut used);
            step.reserved.add_to(&mut reserved);
            self.moved.push(Moved { row: rest, resource: figure.resource.clone(), used, reserved });
        }
    }

    /// It has another limit.
    fn shift_limit(&mut self, at: usize, figure: &mut Figure, step: &LimitStep) {
        let now = self.now;
        match (self.own.get_mut(at), self.row) {
            (Some(counts), _) => counts.gauge.shift_limit(&mut figure.level, now, step),
            (None, Some(row)) => {
                figure.level.take_limit(step);
                figure.cell_in(&mut self.rows[row], self.period).shift_limit(now, step);
            }
            (None, None) => figure.level.take_limit(step),
        }
        self.rows[TOTAL].cells[figure.total].shift_limit(now, step);
    }

    /// Notes whether it has reached its limit.
    #[inline]
    fn fill(&mut self, at: usize, figure: &mut Figure) {
        let level = &figure.level;
        let is_full = level.limits > 0 && level.demand() >= level.hard;
        let full = i64::from(is_full) - level.full.cast_signed();
        if full != 0 {
            self.shift_limit(at, figure, &LimitStep { hard: Quantity::ZERO, limits: 0, full });
        }
    }

    fn set(&mut self, at: usize, figure: &mut Figure, after: &Level) {
        let level = &figure.level;
        let (step, limit) = (Step::between(level, after), LimitStep::between(level, after));
        if step.is_any() {
            self.shift(at, figure, &step);
        }
        if let Some(limit) = limit {
            self.shift_limit(at, figure, &limit);
        }
    }
}

impl Rows {
    /// The amounts of the total are those of all rows.
    fn add_up(&mut self) {
        let Some((total, rows)) = self.rows.split_first_mut() else {
            return;
        };
        for row in rows {
            for Open { resource, level, counts } in &row.cells {
                if let Ok(place) = total.find(resource) {
                    total.cells[total.places[place]].add(level, counts);
                }
            }
        }
        for space in &self.spaces {
            for (figure, counts) in space.figures.iter().zip(&space.counts) {
                total.cells[figure.total].add(&figure.level, counts);
            }
        }
    }
}

impl Figure {
    /// Its cell in a row, which is made if there is none.
    #[inline]
    fn cell_in<'r>(&mut self, row: &'r mut OpenRow, period: Period) -> &'r mut Open {
        let cell = *self.cell.get_or_insert_with(|| row.cell(period, &self.resource));
        &mut row.cells[cell]
    }
}

impl Space {
    fn counts(&self) -> bool {
        self.member != Member::Not
    }

    /// Whether there is a figure of a resource. `at` advances to its place, or to the one where it belongs.
    fn finds(&self, resource: &Name, at: &mut usize) -> bool {
        for figure in &self.figures[*at..] {
            if figure.resource == *resource {
                return true;
            }
            if figure.resource > *resource {
                break;
            }
            *at += 1;
        }
        false
    }

    /// It as a row, if it is one.
    fn finish(self, period: Period) -> Row {
        let cells = self.figures.into_iter().zip(self.counts);
        let cells = cells.map(|(it, counts)| (it.resource, counts.finish(period, it.level)));
        Row { key: RowKey::Namespace(self.name), resources: cells.collect() }
    }
}

impl OpenRow {
    /// The place of a cell, or the one where it belongs.
    fn find(&self, resource: &Name) -> Result<usize, usize> {
        self.places.binary_search_by(|&cell| self.cells[cell].resource.cmp(resource))
    }

    /// The cell of a resource, which is made if there is none.
    fn cell(&mut self, period: Period, resource: &Name) -> usize {
        match self.find(resource) {
            Ok(place) => self.places[place],
            Err(place) => {
                self.places.insert(place, self.cells.len());
                self.cells.push(Open {
                    resource: resource.clone(),
                    level: Level::ZERO,
                    counts: Counts::new(period),
                });
                self.cells.len() - 1
            }
        }
    }

    fn finish(self, period: Period) -> Row {
        let cells = self.cells.into_iter();
        let cells = cells.map(|it| (it.resource, it.counts.finish(period, it.level)));
        Row { key: self.key, resources: cells.collect() }
    }
}

impl Open {
    /// Adds the amounts of a part.
    fn add(&mut self, level: &Level, counts: &Counts) {
        self.level.used.add_assign(&level.used);
        self.level.reserved.add_assign(&level.reserved);
        self.counts.gauge.add(&counts.gauge);
    }

    #[inline]
    fn shift(&mut self, now: Now, step: &Step<impl Amount>) {
        self.counts.gauge.shift(&mut self.level, now, step);
    }

    fn shift_limit(&mut self, now: Now, step: &LimitStep) {
        self.counts.gauge.shift_limit(&mut self.level, now, step);
    }
}

impl Counts {
    fn new(period: Period) -> Self {
        let gauge = Gauge::of_nothing(period, Percentile::P95);
        Self { gauge, grants: 0, denials: 0 }
    }

    fn finish(self, period: Period, level: Level) -> Cell {
        let measure = self.gauge.finish(period, Some(level));
        Cell { measure, grants: self.grants, denials: self.denials }
    }
}

/// A list whose names are looked for in order.
struct Cursor<'l, I> {
    next: Option<(&'l Name, &'l Quantity)>,
    rest: I,
    /// Whether a name was not looked for.
    is_behind: bool,
}

impl<'l> Cursor<'l, ()> {
    fn of(list: &'l ResourceList) -> Cursor<'l, impl Iterator<Item = (&'l Name, &'l Quantity)>> {
        let mut rest = list.iter();
        Cursor { next: rest.next(), rest, is_behind: false }
    }
}

impl<'l, I: Iterator<Item = (&'l Name, &'l Quantity)>> Cursor<'l, I> {
    #[inline]
    fn find(&mut self, resource: &Name) -> Option<&'l Quantity> {
        while let Some((name, amount)) = self.next {
            if *name == *resource {
                self.next = self.rest.next();
                return Some(amount);
            }
            if *name > *resource {
                break;
            }
            self.is_behind = true;
            self.next = self.rest.next();
        }
        None
    }

    const fn is_behind(&self) -> bool {
        self.is_behind || self.next.is_some()
    }
}

impl Changes for Rows {
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        _: Moment,
        before: Option<&Level>,
        after: Option<&Level>,
    ) {
        let (Subject::Group(name), Some(now)) = (&key.subject, self.now) else {
            return;
        };
        if self.groups.len() <= slot {
            let row = self.row(RowKey::Group(name.clone()));
            let is_shown = self.shows(&key.resource);
            let cell = is_shown.then(|| self.rows[row].cell(self.period, &key.resource));
            self.groups.push(cell.map(|cell| (row, cell)));
        }
        if let Some((row, cell)) = self.groups[slot] {
            let [before, after] = [before, after].map(|level| level.unwrap_or(&Level::ZERO));
            let cell = &mut self.rows[row].cells[cell];
            if let Some(step) = LimitStep::between(before, after) {
                cell.shift_limit(now, &step);
            }
            match Step::to(before, &after.used, &after.reserved) {
                Some(step) => cell.shift(now, &step),
                None => cell.shift(now, &Step::between(before, after)),
            }
        }
    }
}
