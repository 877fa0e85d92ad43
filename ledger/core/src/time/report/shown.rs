//! A report as it is shown: rounded, in texts.

use std::collections::BTreeMap;

use super::{
    super::{HOUR, Percentile, Period, unit_hours},
    Cell, Row, RowKey,
};
use crate::event::Sequence;
use quota_semantics::{
    Name, Timestamp,
    report::{Report, ReportFigures, ReportRow},
};

/// The entries of a period.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// The first one and the last one; none: there are none.
    pub sequences: Option<(Sequence, Sequence)>,
    /// The chain hashes of their batches.
    pub hashes: Option<(String, String)>,
}

/// The report of a period. `denials_since`: the time from which on denials are known, if any are.
#[must_use]
pub fn shown(
    period: Period,
    entries: Entries,
    denials_since: Option<Timestamp>,
    (rows, total): (impl IntoIterator<Item = Row>, Row),
) -> Report {
    let has_denials = denials_since.is_some();
    let Entries { sequences, hashes } = entries;
    let (first_hash, last_hash) = hashes.unzip();
    Report {
        from: period.from,
        to: period.to,
        first_sequence: sequences.map(|(first, _)| first),
        last_sequence: sequences.map(|(_, last)| last),
        first_hash,
        last_hash,
        denials_since,
        rows: rows
            .into_iter()
            .map(|row| ReportRow {
                key: key(&row.key),
                resources: resources(&row, period, has_denials),
            })
            .collect(),
        total: resources(&total, period, has_denials),
    }
}

/// The key of a row: its name is that by which the rows are made.
fn key(key: &RowKey) -> BTreeMap<String, Name> {
    let one = |name: &str, value: &Name| BTreeMap::from([(name.to_owned(), value.clone())]);
    match key {
        RowKey::Namespace(name) => one("namespace", name),
        RowKey::Group(name) => one("group", name),
        RowKey::Label { key, value } => one(&format!("label:{key}"), value),
        RowKey::Kind(kind) => one("kind", kind),
        RowKey::Workload { namespace, kind, name } => BTreeMap::from([
            ("kind".to_owned(), kind.clone()),
            ("name".to_owned(), name.clone()),
            ("namespace".to_owned(), namespace.clone()),
        ]),
        RowKey::Total => BTreeMap::new(),
    }
}

fn resources(row: &Row, period: Period, has_denials: bool) -> BTreeMap<Name, ReportFigures> {
    let show = |(name, cell): (&Name, &Cell)| (name.clone(), resource(cell, period, has_denials));
    row.resources.iter().map(show).collect()
}

fn resource(cell: &Cell, period: Period, has_denials: bool) -> ReportFigures {
    let Cell { measure, grants, denials } = cell;
    let peak = measure.peak.as_ref();
    let reached = peak.filter(|peak| !peak.value.is_zero());
    let is_limited = measure.limited > 0;
    let last = measure.last.as_ref();
    ReportFigures {
        consumed: unit_hours(&measure.used).decimal(),
        reserved_consumed: unit_hours(&measure.reserved).decimal(),
        mean: measure.mean(period.nanoseconds()).decimal(),
        peak: peak.map(|peak| peak.value.clone()).unwrap_or_default(),
        peak_time: reached.map(|peak| peak.at.time),
        peak_sequence: reached.map(|peak| peak.at.sequence),
        p95: measure.percentile(Percentile::P95).cloned().unwrap_or_default(),
        hard: last.and_then(|last| last.limit().cloned()),
        limit_hours: is_limited.then(|| unit_hours(&measure.hard).decimal()),
        time_full: is_limited.then(|| seconds(measure.full)),
        grants: *grants,
        denials: has_denials.then_some(*denials),
    }
}

/// Nanoseconds as seconds: `90.5s`.
fn seconds(nanoseconds: u128) -> String {
    const SECOND: u128 = (HOUR / 3600) as u128;
    let (whole, fraction) = (nanoseconds / SECOND, nanoseconds % SECOND);
    let fraction = format!("{fraction:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}s"),
        fraction => format!("{whole}.{fraction}s"),
    }
}
