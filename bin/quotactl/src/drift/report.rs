//! What is told of the differences.

use quota_client::wire::CorrectionOutcome;
use serde_json::{Map, Value, json};

use super::{Difference, note_some};
use crate::{
    failure::Outcome,
    output::note,
    reservation,
    session::{Session, text},
    table::Table,
};

/// What has come of a comparison.
pub(super) struct Report {
    pub(super) differences: Vec<Difference>,
    /// How many listed objects were compared.
    pub(super) listed: usize,
    /// How many objects the ledger believes in, where the listing speaks of them.
    pub(super) believed: usize,
    pub(super) newer: usize,
    pub(super) awaited: usize,
    pub(super) outside: usize,
    pub(super) ignored: usize,
    pub(super) as_of: Value,
}

impl Report {
    /// Shows the differences, and what became of each if they were to be put right.
    pub(super) fn show(
        &self,
        session: &Session,
        outcomes: Option<&[CorrectionOutcome]>,
    ) -> Outcome {
        self.summarize(outcomes);
        let items: Vec<_> = self.items(outcomes);
        let answer = json!({
            "items": items, "listed": self.listed, "believed": self.believed, "newer": self.newer,
            "awaited": self.awaited, "outside": self.outside, "ignored": self.ignored, "asOf": self.as_of,
        });
        let name = |item: &Value| format!("{}/{}", text(item, "/resource"), text(item, "/name"));
        session.output.answer(
            &answer,
            || items.iter().map(name).collect(),
            |wide| table(&items, outcomes.is_some(), wide),
        )
    }

    fn items(&self, outcomes: Option<&[CorrectionOutcome]>) -> Vec<Value> {
        let shown = self
            .differences
            .iter()
            .map(|difference| difference.shown.clone());
        let with_outcome = |(index, mut item): (usize, Value)| {
            if let Some(outcome) = outcomes.and_then(|outcomes| outcomes.get(index)) {
                item["outcome"] = outcome.as_str().into();
            }
            item
        };
        shown.enumerate().map(with_outcome).collect()
    }

    fn summarize(&self, outcomes: Option<&[CorrectionOutcome]>) {
        let count = |what: &str| {
            let is_it = |difference: &&Difference| text(&difference.shown, "/difference") == what;
            self.differences.iter().filter(is_it).count()
        };
        let kinds = ["gone", "changed", "missing", "recreated"].map(|kind| (count(kind), kind));
        let some = kinds.iter().filter(|(count, _)| *count > 0);
        let some: Vec<_> = some
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        let some = match some.is_empty() {
            true => "no drift".to_owned(),
            false => some.join(", "),
        };
        note(format!(
            "{} listed, {} in the ledger: {some}",
            self.listed, self.believed
        ));
        note_some(self.newer, "came after the listing, and were not compared");
        note_some(
            self.awaited,
            "were committed just now, and not seen yet; they were not compared",
        );
        note_some(self.outside, "of the listing were not asked for");
        for (outcome, what) in [
            (CorrectionOutcome::Corrected, "corrected"),
            (CorrectionOutcome::Right, "were right already"),
            (
                CorrectionOutcome::Conflict,
                "have changed since they were compared, and were left as they are",
            ),
            (
                CorrectionOutcome::Awaited,
                "were committed just now, and were left as they are",
            ),
        ] {
            let is_it = |own: &&CorrectionOutcome| **own == outcome;
            let outcomes = outcomes.unwrap_or_default();
            note_some(outcomes.iter().filter(is_it).count(), what);
        }
    }
}

fn table(items: &[Value], corrected: bool, wide: bool) -> Table {
    let mut titles = vec![
        "DIFFERENCE",
        "NAMESPACE",
        "RESOURCE",
        "NAME",
        "LEDGER",
        "LISTING",
    ];
    if corrected {
        titles.push("OUTCOME");
    }
    if wide {
        titles.extend(["UID", ">SEQUENCE"]);
    }
    let mut table = Table::new(&titles);
    for item in items {
        let field = |name| text(item, name).to_owned();
        let (ledger, listing) = both(item);
        let mut row = vec![
            field("/difference"),
            field("/namespace"),
            field("/resource"),
            field("/name"),
            ledger,
            listing,
        ];
        if corrected {
            row.push(field("/outcome"));
        }
        if wide {
            let sequence = item.pointer("/known/sequence").and_then(Value::as_u64);
            row.push(field("/uid"));
            row.push(
                sequence
                    .map(|sequence| sequence.to_string())
                    .unwrap_or_default(),
            );
        }
        table.row(row);
    }
    table
}

/// What the ledger has, and what is listed: only what differs, if anything that can be shown does.
fn both(item: &Value) -> (String, String) {
    // The one whose name was taken stands in a row of its own.
    let has_known = text(item, "/difference") != "recreated";
    let ledger = item.get("known").filter(|_| has_known);
    let ledger = ledger.map(|known| figures(known, item.pointer("/quota/known")));
    let is_listed = text(item, "/difference") != "gone";
    let listing = is_listed.then(|| figures(item, item.pointer("/quota/listed")));
    match (ledger, listing) {
        (Some(ledger), Some(listing)) => {
            let differs = |name: &String| ledger.get(name) != listing.get(name);
            let only = |figures: &Map<String, Value>| -> Map<String, Value> {
                let own = figures.iter().filter(|(name, _)| differs(name));
                own.map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            };
            let (fewer, more) = (only(&ledger), only(&listing));
            match fewer.is_empty() && more.is_empty() {
                true => (told(&ledger), told(&listing)),
                false => (told(&fewer), told(&more)),
            }
        }
        (ledger, listing) => {
            let told = |figures: Option<Map<String, Value>>| figures.as_ref().map(told);
            (
                told(ledger).unwrap_or_default(),
                told(listing).unwrap_or_default(),
            )
        }
    }
}

fn told(figures: &Map<String, Value>) -> String {
    reservation::list(Some(figures))
}

/// What an object counts for and until when, and what it limits if it is a quota.
fn figures(object: &Value, quota: Option<&Value>) -> Map<String, Value> {
    let mut figures = Map::new();
    let usage = object.get("usage").and_then(Value::as_object);
    figures.extend(
        usage
            .into_iter()
            .flatten()
            .map(|(name, amount)| (name.clone(), amount.clone())),
    );
    if let Some(until) = object.get("countsUntil") {
        figures.insert("until".to_owned(), until.clone());
    }
    let hard = quota.and_then(|quota| quota.get("hard")?.as_object());
    for (name, limit) in hard.into_iter().flatten() {
        figures.insert(format!("hard.{name}"), limit.clone());
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(item: &Value) -> (String, String) {
        both(item)
    }

    fn pair(ledger: &str, listing: &str) -> (String, String) {
        (ledger.to_owned(), listing.to_owned())
    }

    #[test]
    fn both_sides_are_told_by_what_differs() {
        let known = json!({"usage": {"pods": "1", "requests.cpu": "2"}});
        let changed = json!({"difference": "changed", "usage": {"pods": "1", "requests.cpu": "1"}, "known": known});
        assert_eq!(cells(&changed), pair("requests.cpu=2", "requests.cpu=1"));
        let gone = json!({"difference": "gone", "known": known});
        assert_eq!(cells(&gone), pair("pods=1,requests.cpu=2", ""));
        let recreated = json!({"difference": "recreated", "usage": {"pods": "1"}, "known": known});
        assert_eq!(cells(&recreated), pair("", "pods=1"));
        let otherwise = json!({"difference": "changed", "usage": {"pods": "1"}, "known": {"usage": {"pods": "1"}}});
        assert_eq!(cells(&otherwise), pair("pods=1", "pods=1"));
        let limits = json!({
            "difference": "changed", "usage": {"count/resourcequotas": "1"},
            "known": {"usage": {"count/resourcequotas": "1"}},
            "quota": {"listed": {"hard": {"pods": "5"}}, "known": {"hard": {"pods": "9", "services": "1"}}},
        });
        assert_eq!(
            cells(&limits),
            pair("hard.pods=9,hard.services=1", "hard.pods=5")
        );
    }
}
