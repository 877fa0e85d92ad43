//! Reports: what was consumed in a period.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Name, Timestamp, csv::line, quantity::Quantity};

/// What was consumed in a period: `GET /v1/report`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The first moment of the period.
    pub from: Timestamp,
    /// The first moment behind the period.
    pub to: Timestamp,
    /// The first entry of the period; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sequence: Option<u64>,
    /// The last entry of the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_sequence: Option<u64>,
    /// The chain hash of the batch with the first entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_hash: Option<String>,
    /// The chain hash of the batch with the last entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hash: Option<String>,
    /// The time of the oldest recorded denial; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials_since: Option<Timestamp>,
    /// The rows, sorted by key.
    pub rows: Vec<ReportRow>,
    /// The sum of all namespaces that count, by resource.
    pub total: BTreeMap<Name, ReportFigures>,
}

/// A row of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ReportRow {
    /// The subject of the row, under the name that `by` gives: `{"namespace": "team-a"}`, `{"label:team": "a"}`. A
    /// workload has `namespace`, `kind` and `name`.
    pub key: BTreeMap<String, Name>,
    /// The numbers, by resource.
    pub resources: BTreeMap<Name, ReportFigures>,
}

/// One resource of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportFigures {
    /// The used amount times its time, in unit-hours, as a decimal.
    pub consumed: String,
    /// The reserved amount times its time, in unit-hours, as a decimal.
    pub reserved_consumed: String,
    /// The mean of used and reserved over the period, as a decimal.
    pub mean: String,
    /// The largest value of used and reserved.
    pub peak: Quantity,
    /// The time at which the peak was first reached; absent if it is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_time: Option<Timestamp>,
    /// The entry with which the peak was first reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_sequence: Option<u64>,
    /// The least value that used and reserved did not exceed for more than 5 % of the time.
    pub p95: Quantity,
    /// The limit at the end; of several namespaces, the sum of their limits; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    /// The limit times its time, in unit-hours, as a decimal; absent if there never was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_hours: Option<String>,
    /// The time in which used and reserved reached the limit, in seconds (`90.5s`); of several namespaces, the sum of
    /// their times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_full: Option<String>,
    /// The number of granted requests for the resource.
    pub grants: u64,
    /// The number of denied requests for the resource, as far as they are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denials: Option<u64>,
}

/// The columns of a resource in CSV, behind those of the key.
const COLUMNS: [&str; 14] = [
    "resource",
    "consumed",
    "reservedConsumed",
    "mean",
    "peak",
    "peakTime",
    "peakSequence",
    "p95",
    "hard",
    "limitHours",
    "timeFullSeconds",
    "grants",
    "denials",
    "from",
];

/// The columns that are the same in all lines, behind `from`.
const OF_PERIOD: [&str; 5] = ["to", "firstSequence", "lastSequence", "firstHash", "lastHash"];

impl Report {
    /// The rows as CSV (RFC 4180): a line for each row and resource, without the total. Amounts are plain decimals.
    /// `each` is called after each line.
    pub fn to_csv(&self, mut each: impl FnMut()) -> String {
        let keys: BTreeSet<&str> =
            self.rows.iter().flat_map(|row| row.key.keys()).map(String::as_str).collect();
        let mut text = String::new();
        let names = keys.iter().chain(&COLUMNS).chain(&OF_PERIOD);
        line(&mut text, names.map(|name| (*name).to_owned()));
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let amount = |amount: &Quantity| Some(amount.decimal());
        for row in &self.rows {
            for (resource, it) in &row.resources {
                let key = keys.iter().map(|key| row.key.get(*key));
                let key = key.map(|value| value.map(|value| value.as_str().to_owned()));
                let seconds = it.time_full.as_ref();
                let fields = [
                    Some(resource.as_str().to_owned()),
                    Some(it.consumed.clone()),
                    Some(it.reserved_consumed.clone()),
                    Some(it.mean.clone()),
                    amount(&it.peak),
                    it.peak_time.map(|time| time.to_string()),
                    number(it.peak_sequence),
                    amount(&it.p95),
                    it.hard.as_ref().and_then(amount),
                    it.limit_hours.clone(),
                    seconds.map(|seconds| seconds.trim_end_matches('s').to_owned()),
                    number(Some(it.grants)),
                    number(it.denials),
                    Some(self.from.to_string()),
                    Some(self.to.to_string()),
                    number(self.first_sequence),
                    number(self.last_sequence),
                    self.first_hash.clone(),
                    self.last_hash.clone(),
                ];
                line(&mut text, key.chain(fields).map(Option::unwrap_or_default));
                each();
            }
        }
        text
    }
}
