//! `get usage`: what is used, reserved and available.

use quota_ledger::{Timestamp, quantity::Quantity};
use serde::Deserialize;
use serde_json::Value;

use crate::cli::{
    address::Address,
    failure::{Failure, Outcome},
    figures::Figures,
    namespaces::everywhere,
    session::{Session, items, text},
    table::Table,
};

/// Usage of a namespace.
#[derive(Debug, Deserialize)]
struct Usage {
    namespace: String,
    /// Sums over the namespace, whatever its quotas.
    resources: Vec<Sum>,
    quotas: Vec<Figures>,
}

#[derive(Debug, Deserialize)]
struct Sum {
    resource: String,
    #[serde(default)]
    used: Quantity,
    #[serde(default)]
    reserved: Quantity,
}

/// Shows usage as it is, or as it was.
pub(super) fn get(session: &Session, at: Option<Timestamp>, sequence: Option<u64>) -> Outcome {
    let ask = |namespace: &str| {
        let address = Address::in_namespace(namespace, ["usage"]);
        session
            .client
            .get(&address.with_some("at", at).with_some("sequence", sequence))
    };
    let (answer, usages) = if session.scope.all {
        let answer = everywhere(session, |namespace| Ok(vec![ask(namespace)?]))?;
        let usages = items(&answer).to_vec();
        (answer, usages)
    } else {
        let answer = ask(session.scope.namespace())?;
        (answer.clone(), vec![answer])
    };
    let read = |usage: &Value| {
        session.note_lag(usage);
        Usage::deserialize(usage)
            .map_err(|error| Failure::general(format!("an answer of another form: {error}")))
    };
    let read: Vec<Usage> = usages.iter().map(read).collect::<Outcome<_>>()?;
    if read
        .iter()
        .all(|usage| usage.resources.is_empty() && usage.quotas.is_empty())
    {
        session.note_empty();
    }
    session.output.answer(
        &answer,
        || {
            usages
                .iter()
                .map(|usage| format!("usage/{}", text(usage, "/namespace")))
                .collect()
        },
        |_| table(&read, session.scope.all),
    )
}

/// The figures of each quota, then the sums of the namespace, which no quota limits.
fn table(usages: &[Usage], all: bool) -> Table {
    let mut titles = vec![
        "QUOTA",
        "RESOURCE",
        ">HARD",
        ">USED",
        ">RESERVED",
        ">AVAILABLE",
        ">USE%",
    ];
    if all {
        titles.insert(0, "NAMESPACE");
    }
    let mut table = Table::new(&titles);
    for usage in usages {
        let mut add = |cells: [String; 7]| {
            let namespace = all.then(|| usage.namespace.clone());
            table.row(namespace.into_iter().chain(cells));
        };
        for quota in &usage.quotas {
            for figure in &quota.resources {
                add([
                    quota.name.clone(),
                    figure.resource.clone(),
                    figure.hard.to_string(),
                    figure.used.to_string(),
                    figure.reserved.to_string(),
                    figure.available().to_string(),
                    figure.share(),
                ]);
            }
        }
        for sum in &usage.resources {
            let (used, reserved) = (sum.used.to_string(), sum.reserved.to_string());
            let none = || "-".to_owned();
            add([
                none(),
                sum.resource.clone(),
                none(),
                used,
                reserved,
                none(),
                none(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn usage_shows_quotas_and_totals() {
        let usage = Usage::deserialize(json!({
            "namespace": "a",
            "resources": [{"resource": "pods", "used": "3", "reserved": "1"}],
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "2", "used": "3", "reserved": "1", "available": "-2"}]}]
        }))
        .unwrap();
        assert_eq!(
            table(&[usage], true).render(true),
            "NAMESPACE   QUOTA   RESOURCE   HARD   USED   RESERVED   AVAILABLE   USE%\n\
             a           q       pods          2      3          1          -2   200%\n\
             a           -       pods          -      3          1           -      -"
        );
    }
}
