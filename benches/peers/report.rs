//! The tables.

use std::collections::BTreeMap;

use super::{
    plan::{Bench, CONNECTIONS, Case, HOT, SPREAD, System},
    postgres,
    support::{
        document::{Table, met, ms, ratio, whole},
        machine,
        measured::Measured,
    },
};

type Medians = BTreeMap<(Case, System), Measured>;

/// All of it.
pub fn text(medians: &Medians, fdatasync_us: f64, bench: &Bench) -> String {
    let rounds = format!(
        "{}. {}. {}. Medians of {} rounds of {} s after the warm-up, all systems in turn.",
        machine::description(env!("BUILD_PROFILE")),
        machine::said("redis-server", &["--version"]).unwrap_or_default(),
        postgres_version(),
        bench.rounds,
        bench.seconds
    );
    let text = format!(
        "{rounds}\n\nOperations per second:\n\n{}\nLatency p50 / p99 in milliseconds:\n\n{}\n\
         One fdatasync of 4 KiB into a file of zeros: p50 {} ms.\n",
        rates(medians, &bench.cases),
        latencies(medians, &bench.cases),
        ms(fdatasync_us)
    );
    match bench.is_whole() {
        true => format!("{text}\nTargets:\n\n{}", targets(medians, fdatasync_us)),
        false => text,
    }
}

fn postgres_version() -> String {
    let program = postgres::programs().map(|programs| programs.join("postgres"));
    let program = program.and_then(|program| program.to_str().map(str::to_owned));
    let version = program.and_then(|program| machine::said(&program, &["--version"]));
    version.unwrap_or_default()
}

fn rate(medians: &Medians, case: Case, system: System) -> f64 {
    medians.get(&(case, system)).map_or(0.0, |measured| measured.rate)
}

fn rates(medians: &Medians, cases: &[Case]) -> String {
    let others = System::ALL.into_iter().filter(|system| *system != System::Quotad);
    let ratios: Vec<_> =
        others.clone().map(|system| format!("quotad / {}", system.name())).collect();
    let mut header = vec![""];
    header.extend(System::ALL.map(System::name));
    header.extend(ratios.iter().map(String::as_str));
    let mut table = Table::new(&header);
    for &case in cases {
        let of = |system| rate(medians, case, system);
        let shown = |system| match of(system) {
            0.0 => "-".to_owned(),
            rate => whole(rate),
        };
        let ours = of(System::Quotad);
        let mut cells = vec![case.name()];
        cells.extend(System::ALL.map(shown));
        cells.extend(others.clone().map(|other| ratio(ours, of(other))));
        table.row(cells);
    }
    table.text().to_owned()
}

fn latencies(medians: &Medians, cases: &[Case]) -> String {
    let mut header = vec![""];
    header.extend(System::ALL.map(System::name));
    let mut table = Table::new(&header);
    for &case in cases {
        let shown = |system| match medians.get(&(case, system)) {
            Some(measured) => format!("{} / {}", ms(measured.p50), ms(measured.p99)),
            None => "-".to_owned(),
        };
        let mut cells = vec![case.name()];
        cells.extend(System::ALL.map(shown));
        table.row(cells);
    }
    table.text().to_owned()
}

/// A target: what is compared, and the least (or most) that it has to be.
struct Targets {
    table: Table,
}

impl Targets {
    fn at_least(&mut self, what: &str, ours: f64, theirs: f64, least: f64) {
        let is_met = ours >= least * theirs;
        self.table.row([what, &format!("at least {least}"), &ratio(ours, theirs), met(is_met)]);
    }

    fn at_most(&mut self, what: &str, ours: f64, theirs: f64, most: f64) {
        let is_met = ours <= most * theirs;
        self.table.row([what, &format!("at most {most}"), &ratio(ours, theirs), met(is_met)]);
    }
}

/// What TigerBeetle reached of what Redis reached, hot, on a machine of this kind (see the text).
const TIGERBEETLE_OF_REDIS: [(usize, f64); 2] =
    [(64, 17_800.0 / 34_900.0), (256, 29_200.0 / 49_800.0)];

fn targets(medians: &Medians, fdatasync_us: f64) -> String {
    let mut targets = Targets { table: Table::new(&["ratio", "target", "measured", "met"]) };
    let of = |case, system| medians.get(&(case, system)).copied().unwrap_or_default();
    for connections in CONNECTIONS.into_iter().filter(|connections| *connections >= 64) {
        for namespaces in [HOT, SPREAD] {
            let case = Case::single(namespaces, connections);
            let [floor, _, ours, redis, postgres] = System::ALL.map(|system| of(case, system));
            let about = |what: &str| format!("{what}: {}", case.name());
            targets.at_least(&about("rate / Redis"), ours.rate, redis.rate, 1.0);
            targets.at_most(&about("p99 / Redis"), ours.p99, redis.p99, 1.0);
            targets.at_least(&about("rate / HTTP floor"), ours.rate, floor.rate, 0.7);
            let times = if namespaces == HOT { 50.0 } else { 5.0 };
            targets.at_least(&about("rate / PostgreSQL"), ours.rate, postgres.rate, times);
        }
    }
    for connections in CONNECTIONS.into_iter().filter(|connections| *connections >= 16) {
        for namespaces in [HOT, SPREAD] {
            let case = Case::single(namespaces, connections);
            let [durable, ours] =
                [System::DurableFloor, System::Quotad].map(|system| rate(medians, case, system));
            let what = format!("rate / durable floor: {}", case.name());
            targets.at_least(&what, ours, durable, 0.9);
        }
    }
    for (connections, share) in TIGERBEETLE_OF_REDIS {
        let case = Case::single(HOT, connections);
        let theirs = rate(medians, case, System::Redis) * share;
        let what = format!("rate / TigerBeetle, by way of Redis: {}", case.name());
        targets.at_least(&what, rate(medians, case, System::Quotad), theirs, 1.5);
    }
    for namespaces in [HOT, SPREAD] {
        let case = Case::batch(namespaces);
        let what = format!("rate / HTTP floor: {}", case.name());
        let [floor, ours] =
            [System::Floor, System::Quotad].map(|system| rate(medians, case, system));
        targets.at_least(&what, ours, floor, 0.5);
    }
    let alone = Case::single(HOT, 1);
    let floor = of(alone, System::Floor).p50 + fdatasync_us;
    let what = "p50 / (fdatasync + floor): one connection";
    targets.at_most(what, of(alone, System::Quotad).p50, floor, 1.5);
    targets.table.text().to_owned()
}
