//! The laws of periods: reports add up, and are what a naive integrator finds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use quota_core::{
    event::Entry,
    state::State,
    time::{
        Level, Percentile, Period,
        report::{By, Cell, Question, Report, Row, RowKey},
    },
};
use quota_semantics::{Name, Span, Timestamp, quantity::Quantity, quota::scopes::scopes_of};
use quota_testkit::histories::{steps::Step, world::World};

use super::{reread, strategy::steps};

fn all() -> Vec<By> {
    vec![By::Namespace, By::Group, By::Label("team".into()), By::Kind, By::Workload]
}

fn question(by: &By, period: Period) -> Question {
    Question {
        period,
        by: by.clone(),
        namespaces: Box::new(|_, _| true),
        groups: Box::new(|_| true),
        member_of: None,
        resources: None,
    }
}

/// The report of a period. With `snapshots`, the state is written and read again before the period and in it.
fn report(entries: &[Entry], by: &By, period: Period, snapshots: bool) -> (Vec<Row>, Row) {
    let mut state = State::default();
    let is_before = |entry: &&Entry| entry.time < period.from;
    for entry in entries.iter().take_while(is_before) {
        state.apply(entry);
    }
    if snapshots {
        state = reread(&state);
    }
    let mut report = Report::begin(question(by, period), Vec::new(), &state);
    let rest = entries.iter().skip_while(is_before);
    for entry in rest.take_while(|entry| entry.time < period.to) {
        report.before(&state, entry);
        state.apply(entry);
        report.after(&state);
        if snapshots && entry.sequence % 5 == 0 {
            state = reread(&state);
        }
    }
    report.finish(&state)
}

fn sum(a: &Quantity, b: &Quantity) -> Quantity {
    let mut sum = a.clone();
    sum.add_assign(b);
    sum
}

/// A part of the time between the first entry and a minute after the last one.
fn cut(entries: &[Entry], share: f64) -> Timestamp {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Timestamp::EPOCH;
    };
    let length = last.time.since(first.time).nanoseconds() + 60_000_000_000;
    first.time.plus(Span::from_nanoseconds((length as f64 * share) as i64))
}

/// The levels of all subjects of a kind of report, by row and resource, recounted from the state.
type Levels = BTreeMap<(RowKey, Name), Level>;

fn of_namespaces(state: &State) -> Levels {
    let mut levels = Levels::new();
    for namespace in state.namespaces("") {
        let totals = state.totals(namespace);
        let mut hard: BTreeMap<Name, Quantity> = BTreeMap::new();
        for quota in state.quotas(namespace) {
            if scopes_of(&quota.record.spec).next().is_some() {
                continue;
            }
            let (limits, _) = state.override_of(namespace, &quota.record.name);
            for (name, limit) in limits.iter() {
                let least = hard.entry(name.clone()).or_insert_with(|| limit.clone());
                *least = least.clone().min(limit.clone());
            }
        }
        let names = totals.used.names().chain(totals.reserved.names());
        for name in names.chain(hard.keys()) {
            let used = totals.used.get(name).cloned().unwrap_or_default();
            let reserved = totals.reserved.get(name).cloned().unwrap_or_default();
            let level = Level::new(used, reserved, hard.get(name).cloned());
            levels.insert((RowKey::Namespace(namespace.clone()), name.clone()), level);
        }
    }
    levels
}

fn of_groups(state: &State) -> Levels {
    let mut levels = Levels::new();
    let (page, _) = state.groups_page("", usize::MAX);
    for group in page.into_iter().map(quota_core::state::CopiedGroup::view) {
        for figure in group.figures {
            let figure = figure.figure;
            let used = figure.used.unwrap_or_default();
            let level = Level::new(used, figure.reserved, Some(figure.hard));
            let key = RowKey::Group(group.record.name.clone());
            levels.insert((key, figure.resource), level);
        }
    }
    levels
}

#[derive(Default)]
struct Naive {
    used: Quantity,
    reserved: Quantity,
    hard: Quantity,
    full: u128,
    values: BTreeMap<Quantity, u64>,
}

/// Sums up levels over all intervals between the times of entries.
fn integrate(
    entries: &[Entry],
    period: Period,
    levels_of: fn(&State) -> Levels,
) -> BTreeMap<(RowKey, Name), Naive> {
    let mut found: BTreeMap<(RowKey, Name), Naive> = BTreeMap::new();
    let mut state = State::default();
    let mut entries = entries.iter().peekable();
    let mut now = Timestamp::EPOCH;
    while now < period.to {
        while let Some(entry) = entries.next_if(|entry| entry.time <= now) {
            state.apply(entry);
        }
        let next = entries.peek().map_or(period.to, |entry| entry.time);
        let (from, to) = (now.max(period.from), next.min(period.to));
        if from < to {
            let time = to.since(from).nanoseconds() as u64;
            for (key, level) in levels_of(&state) {
                let naive = found.entry(key).or_default();
                naive.used.add_assign(&level.used.times(time));
                naive.reserved.add_assign(&level.reserved.times(time));
                naive.hard.add_assign(&level.hard.times(time));
                naive.full += u128::from(level.full) * u128::from(time);
                *naive.values.entry(level.demand()).or_default() += time;
            }
        }
        now = next;
    }
    let length = period.nanoseconds();
    for naive in found.values_mut() {
        let known: u64 = naive.values.values().sum();
        // While there was nothing, there was no amount.
        *naive.values.entry(Quantity::ZERO).or_default() += length - known;
    }
    found
}

fn p95(values: &BTreeMap<Quantity, u64>) -> Quantity {
    let length: u64 = values.values().sum();
    let mut below = 0;
    for (value, time) in values {
        below += time;
        if u128::from(length - below) * 100 <= u128::from(length) * 5 {
            return value.clone();
        }
    }
    Quantity::ZERO
}

fn check(cell: &Cell, naive: &Naive, key: &(RowKey, Name)) {
    let Naive { used, reserved, hard, full, values } = naive;
    let measure = &cell.measure;
    assert_eq!((&measure.used, &measure.reserved), (used, reserved), "{key:?}");
    assert_eq!((&measure.hard, measure.full), (hard, *full), "{key:?}");
    let largest = values.iter().rfind(|(_, time)| **time > 0);
    let peak = measure.peak.as_ref().map(|peak| &peak.value);
    assert_eq!(peak, largest.map(|(value, _)| value), "{key:?}");
    assert_eq!(measure.percentile(Percentile::P95), Some(&p95(values)), "{key:?}");
}

/// The rows of each kind of report add up to its total, which is that of namespaces.
fn rows_add_up(entries: &[Entry], period: Period) {
    let (_, expected) = report(entries, &By::Namespace, period, false);
    for by in all() {
        let (rows, total) = report(entries, &by, period, false);
        assert_eq!(total.resources.len(), expected.resources.len());
        for (resource, cell) in &total.resources {
            assert_eq!(&cell.measure.used, &expected.resources[resource].measure.used);
            assert_eq!(cell.grants, expected.resources[resource].grants);
            // Groups share namespaces.
            if by == By::Group {
                continue;
            }
            let cells: Vec<&Cell> =
                rows.iter().filter_map(|row| row.resources.get(resource)).collect();
            let add = |of: fn(&Cell) -> &Quantity| {
                cells.iter().fold(Quantity::ZERO, |all, cell| sum(&all, of(cell)))
            };
            let used = add(|cell| &cell.measure.used);
            assert_eq!(cell.measure.used, used, "{resource} by {by:?}");
            let reserved = add(|cell| &cell.measure.reserved);
            assert_eq!(cell.measure.reserved, reserved, "{resource} by {by:?}");
            assert_eq!(cell.grants, cells.iter().map(|cell| cell.grants).sum::<u64>());
            if matches!(by, By::Namespace | By::Label(_)) {
                assert_eq!(&cell.measure.hard, &add(|cell| &cell.measure.hard));
                let full: u128 = cells.iter().map(|cell| cell.measure.full).sum();
                assert_eq!(cell.measure.full, full);
            }
        }
    }
}

/// A pod that a workload's charge is set against counts as used, and as less than nothing among what is reserved.
#[test]
fn rows_add_up_beside_a_charge_that_is_reserved() {
    let pod = Step::Observe {
        namespace: 1,
        uid: 0,
        version: 0,
        amount: 1,
        pod: false,
        replica: true,
        terminating: false,
        lapse: None,
    };
    let workload =
        Step::AdmitWorkload { namespace: 1, uid: 10, amount: 1, replicas: 1, scales: false };
    let quota = Step::Adopt { namespace: 1, quota: 0, uid: 20, version: 0, hard: 2 };
    let world = World::run(&[quota, pod, workload]);
    let (from, to) = (cut(&world.entries, 0.5), cut(&world.entries, 1.0));
    rows_add_up(&world.entries, Period { from, to });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn an_integral_is_what_a_naive_integrator_finds(steps in steps(), from in 0.0..1.0_f64, to in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (from, to) = (cut(&world.entries, from.min(to)), cut(&world.entries, from.max(to)));
        prop_assume!(from < to);
        let period = Period { from, to };
        for (by, levels_of) in [
            (By::Namespace, of_namespaces as fn(&State) -> Levels),
            (By::Group, of_groups),
        ] {
            let (rows, _) = report(&world.entries, &by, period, false);
            let mut naive = integrate(&world.entries, period, levels_of);
            for row in rows {
                for (resource, cell) in row.resources {
                    let key = (row.key.clone(), resource);
                    let nothing = || Naive {
                        values: BTreeMap::from([(Quantity::ZERO, period.nanoseconds())]),
                        ..Naive::default()
                    };
                    let expected = naive.remove(&key).unwrap_or_else(nothing);
                    check(&cell, &expected, &key);
                }
            }
            prop_assert!(naive.is_empty(), "{:?}", naive.keys());
        }
    }

    #[test]
    fn reports_of_adjacent_periods_add_up(steps in steps(), cuts in prop::array::uniform3(0.0..1.0_f64)) {
        let world = World::run(&steps);
        let mut cuts = cuts.map(|share| cut(&world.entries, share));
        cuts.sort();
        let [from, middle, to] = cuts;
        prop_assume!(from < middle && middle < to);
        let [whole, first, second] = [(from, to), (from, middle), (middle, to)]
            .map(|(from, to)| Period { from, to });
        for by in all() {
            let whole = report(&world.entries, &by, whole, false);
            let parts = [first, second].map(|part| report(&world.entries, &by, part, false));
            let find = |part: &(Vec<Row>, Row), key: &RowKey, resource: &Name| -> Option<Cell> {
                let mut rows = part.0.iter().chain([&part.1]);
                let row = rows.find(|row| row.key == *key)?;
                row.resources.get(resource).cloned()
            };
            for row in whole.0.iter().chain([&whole.1]) {
                for (resource, cell) in &row.resources {
                    let parts = parts.each_ref().map(|part| find(part, &row.key, resource));
                    let mut parts: Vec<Cell> = parts.into_iter().flatten().collect();
                    let last = parts.pop().unwrap();
                    let first = parts.pop();
                    let add = |of: fn(&Cell) -> Quantity| match &first {
                        Some(first) => sum(&of(first), &of(&last)),
                        None => of(&last),
                    };
                    prop_assert_eq!(&cell.measure.used, &add(|cell| cell.measure.used.clone()));
                    prop_assert_eq!(&cell.measure.reserved, &add(|cell| cell.measure.reserved.clone()));
                    prop_assert_eq!(&cell.measure.hard, &add(|cell| cell.measure.hard.clone()));
                    let counted = first.as_ref().map_or((0, 0), |cell| (cell.measure.full, cell.grants));
                    prop_assert_eq!(cell.measure.full, counted.0 + last.measure.full);
                    prop_assert_eq!(cell.grants, counted.1 + last.grants);
                }
            }
        }
    }

    #[test]
    fn rows_add_up_to_the_total(steps in steps(), from in 0.0..1.0_f64, to in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (from, to) = (cut(&world.entries, from.min(to)), cut(&world.entries, from.max(to)));
        prop_assume!(from < to);
        rows_add_up(&world.entries, Period { from, to });
    }

    #[test]
    fn a_report_does_not_depend_on_snapshots(steps in steps(), from in 0.0..1.0_f64, to in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (from, to) = (cut(&world.entries, from.min(to)), cut(&world.entries, from.max(to)));
        prop_assume!(from < to);
        let period = Period { from, to };
        for by in all() {
            let plain = report(&world.entries, &by, period, false);
            let resumed = report(&world.entries, &by, period, true);
            prop_assert_eq!(format!("{plain:?}"), format!("{resumed:?}"));
        }
    }
}
