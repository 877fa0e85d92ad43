//! The output of differences.

use std::collections::BTreeMap;

use quota_client::{
    http::Address,
    wire::{
        Compared, ComparedQuota, CorrectionOutcome, CorrectionRequest, CorrectionsAnswer,
        CorrectionsRequest, Difference, ExpectedObject, Object,
    },
};
use quota_semantics::quota::Spec;
use serde_json::{Value, json};

use super::{Comparison, Drifted, note_some};
use crate::{
    failure::{Failure, Outcome},
    output::{note, to_json},
    session::Session,
    table::Table,
};

impl Drifted {
    /// The name of the difference.
    fn kind(&self) -> &'static str {
        match self {
            Self::Gone(_) => "gone",
            Self::Listed { compared, .. } => match compared.difference {
                Difference::Missing => "missing",
                Difference::Recreated => "recreated",
                Difference::Changed => "changed",
                Difference::None => "none",
                Difference::Newer => "newer",
                Difference::Ignored => "ignored",
                Difference::Unreadable => "unreadable",
            },
        }
    }

    /// The listed object; if it is not listed, the object in the ledger.
    fn object(&self) -> Option<&Object<'static>> {
        match self {
            Self::Listed { compared, .. } => compared.object.as_ref(),
            Self::Gone(object) => Some(object),
        }
    }

    /// The ledger's record of the object, or of another object with its name.
    fn recorded(&self) -> Option<&Object<'static>> {
        match self {
            Self::Listed { compared, .. } => compared.known.as_ref(),
            Self::Gone(object) => Some(object),
        }
    }

    /// The difference as JSON, and the outcome of its correction.
    fn json(&self, outcome: Option<CorrectionOutcome>) -> Outcome<Value> {
        let mut json = match self {
            Self::Listed { compared, .. } => to_json(compared)?,
            Self::Gone(object) => json!({
                "difference": self.kind(),
                "uid": object.uid.to_string(),
                "namespace": object.namespace,
                "resource": object.resource,
                "name": object.name,
                "known": to_json(object)?,
            }),
        };
        if let Some(outcome) = outcome {
            json["outcome"] = outcome.as_str().into();
        }
        Ok(json)
    }

    fn name(&self) -> String {
        let object = self.object();
        let name = object.map(|object| format!("{}/{}", object.resource, object.name));
        name.unwrap_or_default()
    }
}

impl Comparison {
    /// Shows the differences, and the outcome of each correction.
    pub(super) fn show(
        &self,
        session: &Session,
        outcomes: Option<&[CorrectionOutcome]>,
    ) -> Outcome {
        self.summarize(outcomes);
        session.output.answer(
            &self.json(outcomes)?,
            || self.differences.iter().map(Drifted::name).collect(),
            |wide| self.table(outcomes, wide),
        )
    }

    fn json(&self, outcomes: Option<&[CorrectionOutcome]>) -> Outcome<Value> {
        let items = self.differences.iter().enumerate();
        let item = |(index, drifted): (usize, &Drifted)| {
            drifted.json(outcomes.and_then(|outcomes| outcomes.get(index)).copied())
        };
        let mut json = to_json(&self.counts)?;
        json["items"] = items.map(item).collect::<Outcome<_>>()?;
        Ok(json)
    }

    fn summarize(&self, outcomes: Option<&[CorrectionOutcome]>) {
        let counts = &self.counts;
        let count = |what: &str| {
            let is_it = |drifted: &&Drifted| drifted.kind() == what;
            self.differences.iter().filter(is_it).count()
        };
        let kinds = ["gone", "changed", "missing", "recreated"].map(|kind| (count(kind), kind));
        let some = kinds.iter().filter(|(count, _)| *count > 0);
        let some: Vec<_> = some.map(|(count, kind)| format!("{count} {kind}")).collect();
        let some = match some.is_empty() {
            true => "no drift".to_owned(),
            false => some.join(", "),
        };
        note(format!("{} listed, {} in the ledger: {some}", counts.listed, counts.believed));
        note_some(counts.newer, "came after the listing, and were not compared");
        note_some(counts.outside, "of the listing are outside of the scope");
        for (outcome, what) in [
            (CorrectionOutcome::Corrected, "corrected"),
            (CorrectionOutcome::Right, "were right already"),
            (
                CorrectionOutcome::Conflict,
                "have changed since they were compared, and were left as they are",
            ),
        ] {
            let is_it = |own: &&CorrectionOutcome| **own == outcome;
            let outcomes = outcomes.unwrap_or_default();
            note_some(outcomes.iter().filter(is_it).count(), what);
        }
    }

    fn table(&self, outcomes: Option<&[CorrectionOutcome]>, wide: bool) -> Table {
        let mut titles = vec!["DIFFERENCE", "NAMESPACE", "RESOURCE", "NAME", "LEDGER", "LISTING"];
        if outcomes.is_some() {
            titles.push("OUTCOME");
        }
        if wide {
            titles.extend(["UID", ">SEQUENCE"]);
        }
        let mut table = Table::new(&titles);
        for (index, drifted) in self.differences.iter().enumerate() {
            let object = drifted.object();
            let field = |of: fn(&Object<'static>) -> String| object.map(of).unwrap_or_default();
            let (ledger, listing) = both(drifted);
            let mut row = vec![
                drifted.kind().to_owned(),
                field(|object| object.namespace.to_string()),
                field(|object| object.resource.to_string()),
                field(|object| object.name.to_string()),
                ledger,
                listing,
            ];
            if let Some(outcomes) = outcomes {
                let outcome = outcomes.get(index);
                row.push(outcome.map_or_else(String::new, |it| it.as_str().to_owned()));
            }
            if wide {
                let sequence = drifted.recorded().and_then(|object| object.sequence);
                row.push(field(|object| object.uid.to_string()));
                row.push(sequence.map(|it| it.to_string()).unwrap_or_default());
            }
            table.row(row);
        }
        table
    }
}

/// Amounts and other compared values by name.
type Figures = BTreeMap<String, String>;

/// The amounts in the ledger and in the listing: only those that differ, if there are any.
fn both(drifted: &Drifted) -> (String, String) {
    let (ledger, listing) = match drifted {
        Drifted::Gone(object) => (Some(figures(object, None)), None),
        Drifted::Listed { compared, .. } => {
            let Compared { difference, object, known, quota, .. } = &**compared;
            let limits = |of: for<'q> fn(&'q ComparedQuota<'static>) -> Option<&'q Spec>| {
                quota.as_ref().and_then(of)
            };
            // The one whose name was taken has a row of its own.
            let recorded = known.as_ref().filter(|_| *difference != Difference::Recreated);
            (
                recorded.map(|object| figures(object, limits(|quota| quota.known.as_deref()))),
                object.as_ref().map(|object| figures(object, limits(|quota| Some(&*quota.listed)))),
            )
        }
    };
    if let (Some(ledger), Some(listing)) = (&ledger, &listing)
        && ledger != listing
    {
        let only = |own: &Figures, other: &Figures| -> Figures {
            let own = own.iter().filter(|(name, amount)| other.get(*name) != Some(*amount));
            own.map(|(name, amount)| (name.clone(), amount.clone())).collect()
        };
        return (text_of(&only(ledger, listing)), text_of(&only(listing, ledger)));
    }
    let text = |figures: Option<Figures>| figures.as_ref().map(text_of).unwrap_or_default();
    (text(ledger), text(listing))
}

fn text_of(figures: &Figures) -> String {
    let figure = |(name, amount): (&String, &String)| format!("{name}={amount}");
    figures.iter().map(figure).collect::<Vec<_>>().join(",")
}

/// The amounts of an object and the time until which it counts, and the limits of a quota.
fn figures(object: &Object<'_>, limits: Option<&Spec>) -> Figures {
    let usage = object.usage.iter();
    let mut figures: Figures =
        usage.map(|(name, amount)| (name.to_string(), amount.exact().to_string())).collect();
    if let Some(until) = object.counts_until {
        figures.insert("until".to_owned(), until.to_string());
    }
    let hard = limits.into_iter().flat_map(|spec| spec.hard.iter());
    figures.extend(hard.map(|(name, limit)| (format!("hard.{name}"), limit.exact().to_string())));
    figures
}

// Corrections, which are sent piece by piece.

/// The maximum number of corrections of a request.
const PIECE_ITEMS: usize = 1000;

/// The maximum size of the objects of a request, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// Corrects differences; returns the outcome of each.
pub(super) fn correct(
    session: &Session,
    differences: &[Drifted],
    reason: &str,
) -> Outcome<Vec<CorrectionOutcome>> {
    let mut outcomes = Vec::with_capacity(differences.len());
    let (mut piece, mut bytes) = (Vec::new(), 0_usize);
    for difference in differences {
        let length = match difference {
            Drifted::Listed { text, .. } => text.len(),
            Drifted::Gone(_) => 0,
        };
        if piece.len() == PIECE_ITEMS || bytes.saturating_add(length) > PIECE_BYTES {
            outcomes.extend(send(session, reason, std::mem::take(&mut piece), outcomes.len())?);
            bytes = 0;
        }
        bytes += length;
        piece.push(correction(difference)?);
    }
    outcomes.extend(send(session, reason, piece, outcomes.len())?);
    Ok(outcomes)
}

fn correction(drifted: &Drifted) -> Outcome<CorrectionRequest<'_>> {
    Ok(match drifted {
        Drifted::Listed { compared, text } => {
            // An object that took another's name has no record of its own.
            let is_recorded = compared.difference != Difference::Recreated;
            let recorded = compared.known.as_ref().filter(|_| is_recorded);
            CorrectionRequest {
                object: Some(serde_json::from_str(text).map_err(not_json)?),
                known: recorded.map(expected),
                quota_sequence: compared.quota.as_ref().and_then(|quota| quota.sequence),
                ..CorrectionRequest::default()
            }
        }
        Drifted::Gone(object) => CorrectionRequest {
            uid: Some((*object.uid).clone()),
            namespace: Some((&*object.namespace).into()),
            known: Some(expected(object)),
            ..CorrectionRequest::default()
        },
    })
}

/// The ledger's record of an object at the time of the comparison.
fn expected(object: &Object<'_>) -> ExpectedObject {
    ExpectedObject {
        sequence: object.sequence.unwrap_or_default(),
        resource_version: object.resource_version.clone(),
    }
}

fn not_json(error: serde_json::Error) -> Failure {
    Failure::general(error.to_string())
}

fn send(
    session: &Session,
    reason: &str,
    items: Vec<CorrectionRequest<'_>>,
    done: usize,
) -> Outcome<Vec<CorrectionOutcome>> {
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let count = items.len();
    let body = CorrectionsRequest { reason: Some(reason.to_owned()), items };
    let body = serde_json::to_vec(&body).map_err(not_json)?;
    let address = Address::of(["v1", "corrections"]);
    let client = &session.client;
    let sent = client.send_patiently(&address, "application/json", body);
    let reply = sent.map_err(|failure| match done {
        0 => failure,
        _ => failure
            .hint(format!("{done} corrections were made; to compare and correct again is safe")),
    })?;
    let answer: CorrectionsAnswer = reply.read()?;
    let outcomes: Vec<_> = answer.items.iter().map(|item| item.outcome).collect();
    match outcomes.len() == count {
        true => Ok(outcomes),
        false => Err(Failure::general("the response does not match the request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_names(mut value: Value) -> Value {
        for (field, text) in
            [("uid", "u"), ("namespace", "a"), ("resource", "pods"), ("name", "web")]
        {
            value[field] = text.into();
        }
        value
    }

    fn listed(value: Value) -> Drifted {
        let mut value = with_names(value);
        if let Some(known) = value.get_mut("known").map(Value::take) {
            value["known"] = with_names(known);
        }
        Drifted::Listed { compared: serde_json::from_value(value).unwrap(), text: "{}".into() }
    }

    fn pair(ledger: &str, listing: &str) -> (String, String) {
        (ledger.to_owned(), listing.to_owned())
    }

    #[test]
    fn both_sides_show_what_differs() {
        let known = json!({"usage": {"pods": "1", "requests.cpu": "2"}});
        let changed = listed(
            json!({"difference": "changed", "usage": {"pods": "1", "requests.cpu": "1"}, "known": known}),
        );
        assert_eq!(both(&changed), pair("requests.cpu=2", "requests.cpu=1"));
        let gone = Drifted::Gone(serde_json::from_value(with_names(known.clone())).unwrap());
        assert_eq!(both(&gone), pair("pods=1,requests.cpu=2", ""));
        let recreated =
            listed(json!({"difference": "recreated", "usage": {"pods": "1"}, "known": known}));
        assert_eq!(both(&recreated), pair("", "pods=1"));
        let otherwise = listed(
            json!({"difference": "changed", "usage": {"pods": "1"}, "known": {"usage": {"pods": "1"}}}),
        );
        assert_eq!(both(&otherwise), pair("pods=1", "pods=1"));
        let limits = listed(json!({
            "difference": "changed", "usage": {"count/resourcequotas": "1"},
            "known": {"usage": {"count/resourcequotas": "1"}},
            "quota": {"listed": {"hard": {"pods": "5"}}, "known": {"hard": {"pods": "9", "services": "1"}}},
        }));
        assert_eq!(both(&limits), pair("hard.pods=9,hard.services=1", "hard.pods=5"));
    }

    #[test]
    fn what_is_gone_is_an_item_with_what_the_ledger_has() {
        let object = with_names(json!({"usage": {"pods": "1"}, "sequence": 7}));
        let gone = Drifted::Gone(serde_json::from_value(object.clone()).unwrap());
        assert_eq!(
            gone.json(Some(CorrectionOutcome::Corrected)).unwrap(),
            with_names(json!({"difference": "gone", "known": object, "outcome": "corrected"}))
        );
    }
}
