//! The tables.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Floor, Outages, etcd,
    outages::Fault,
    rates::{CONNECTIONS, Case, System},
    support::{
        document::{Table, met, ms, ratio, whole},
        machine,
        measured::Measured,
    },
};

type Medians = BTreeMap<(Case, System), Measured>;

/// All of it.
pub fn text(
    medians: &Medians,
    floor: &Floor,
    outages: &Outages,
    (rounds, seconds): (usize, f64),
) -> String {
    let etcd = match etcd::version() {
        Some(version) => format!(
            " {version}; etcd is measured with puts of one key over its JSON API, an upper bound for grants."
        ),
        None => String::new(),
    };
    format!(
        "{}. Nodes, servers, etcds and clients share this machine.{etcd} Medians of {rounds} rounds of {seconds} s after the \
         warm-up, all in turn.\n\nOperations per second, and latency p50 / p99 in milliseconds:\n\n{}\n\
         The servers alone: one client, connected to the stream's leader, appends messages of the ledger's leader, one at \
         a time. Writing 4 KiB and fdatasync takes this disk {} ms (p50).\n\n{}\n\
         Time without grants in seconds, of clients that ask another node after one second:\n\n{}\nTargets:\n\n{}",
        machine::description(env!("BUILD_PROFILE")),
        rates(medians),
        ms(floor.sync_us),
        servers(medians, floor),
        times(outages),
        targets(medians, outages)
    )
}

fn rates(medians: &Medians) -> String {
    let granting = || {
        let systems = System::all().into_iter();
        systems.filter(|system| *system != System::Append)
    };
    let mut header = vec![""];
    header.extend(granting().map(System::name));
    let mut table = Table::new(&header);
    for case in Case::all() {
        let shown = |system| match medians.get(&(case, system)) {
            Some(of) => format!("{}, {} / {}", whole(of.rate), ms(of.p50), ms(of.p99)),
            None => "-".to_owned(),
        };
        let mut cells = vec![case.name()];
        cells.extend(granting().map(shown));
        table.row(cells);
    }
    table.text().to_owned()
}

/// What is left to a node that has one append on its way at a time.
fn servers(medians: &Medians, floor: &Floor) -> String {
    let mut table = Table::new(&[
        "",
        "grants of the largest message (median)",
        "bytes",
        "messages per second, p50 / p99",
        "grants per second",
        "/ one node",
        "including one node's time per grant",
        "/ one node",
    ]);
    for (connections, batches) in &floor.sent {
        let case = Case::Grants(*connections);
        let of = |system| medians.get(&(case, system)).copied().unwrap_or_default();
        let (append, single) = (of(System::Append), of(System::Single).rate);
        let most = append.rate * batches.most as f64;
        let in_turn = 1.0 / (1.0 / most + 1.0 / single);
        table.row([
            case.name(),
            format!("{} ({})", batches.most, batches.median),
            whole(batches.fullest.len() as f64),
            format!("{}, {} / {}", whole(append.rate), ms(append.p50), ms(append.p99)),
            whole(most),
            ratio(most, single),
            whole(in_turn),
            ratio(in_turn, single),
        ]);
    }
    table.text().to_owned()
}

fn times(outages: &Outages) -> String {
    let mut table = Table::new(&["", "p50", "longest", "times"]);
    for fault in Fault::ALL {
        let Some((median, longest)) = figures(outages, &[fault]) else {
            continue;
        };
        let count = outages.get(&fault).map_or(0, Vec::len);
        table.row([
            fault.name().to_owned(),
            format!("{median:.2}"),
            format!("{longest:.2}"),
            count.to_string(),
        ]);
    }
    table.text().to_owned()
}

/// Median and longest, in seconds.
fn figures(outages: &Outages, faults: &[Fault]) -> Option<(f64, f64)> {
    let mut all: Vec<_> = faults
        .iter()
        .filter_map(|fault| outages.get(fault))
        .flatten()
        .map(Duration::as_secs_f64)
        .collect();
    all.sort_by(f64::total_cmp);
    Some((*all.get(all.len() / 2)?, *all.last()?))
}

fn targets(medians: &Medians, outages: &Outages) -> String {
    let mut table = Table::new(&["", "target", "measured", "met"]);
    let of = |case, system| medians.get(&(case, system)).copied().unwrap_or_default();
    for (system, least) in [(System::Leader, 0.5), (System::Follower, 0.3)] {
        for case in CONNECTIONS.into_iter().skip(1).map(Case::Grants) {
            let (ours, single) = (of(case, system).rate, of(case, System::Single).rate);
            if single == 0.0 {
                continue;
            }
            table.row([
                format!("{}: {} / one node", case.name(), system.name()),
                format!("at least {least}"),
                ratio(ours, single),
                met(ours >= least * single).to_owned(),
            ]);
        }
    }
    let lone = Case::Grants(1);
    let (ours, single) = (of(lone, System::Leader).p50, of(lone, System::Single).p50);
    table.row([
        "p50 of a lone grant at the leader / one node".to_owned(),
        "at most 3".to_owned(),
        ratio(ours, single),
        met(ours <= 3.0 * single).to_owned(),
    ]);
    let append = of(lone, System::Append).p50;
    for (what, of, beside) in [
        ("p50 of an append alone / of a lone grant, one node", append, single),
        ("p50 of a lone grant at the leader / of an append alone", ours, append),
    ] {
        let cells = [what, "-", &ratio(of, beside), "-"];
        table.row(cells);
    }
    let of_leader = [Fault::KillLeader, Fault::StopLeader, Fault::CutLeader];
    let of_server = Fault::ALL.into_iter().filter(|fault| fault.is_of_server());
    let of_server: Vec<_> = of_server.collect();
    let mut bound = |what: &str, most: f64, measured: Option<f64>| {
        let Some(measured) = measured else { return };
        table.row([
            what.to_owned(),
            format!("below {most} s"),
            format!("{measured:.2} s"),
            met(measured < most).to_owned(),
        ]);
    };
    let leader = figures(outages, &of_leader);
    bound("without grants, leader lost, p50", 2.5, leader.map(|of| of.0));
    bound("without grants, leader lost, longest", 4.0, leader.map(|of| of.1));
    let server = figures(outages, &of_server);
    bound("without grants, the stream's leader lost, longest", 10.0, server.map(|of| of.1));
    let hand_over = figures(outages, &[Fault::HandOver]);
    bound("without grants, planned handover, longest", 0.5, hand_over.map(|of| of.1));
    table.text().to_owned()
}
