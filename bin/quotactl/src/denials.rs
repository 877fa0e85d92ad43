//! `denials`: the latest denials and their reasons.

use quota_client::http::Address;
use quota_client::wire::{CheckedQuota, Denial, Page};

use super::{
    age, client::Answer, failure::Outcome, figures::left_of, output::note, session::Session,
    table::Table,
};

/// Shows the latest denials, newest first.
pub(crate) fn run(session: &Session, limit: usize) -> Outcome {
    let filter = session.scope.filter();
    let answer = fetch(session, filter, limit)?;
    let denials = answer.content.items;
    if denials.is_empty() {
        note("No denials found");
    }
    session.output.answer(
        &answer.json,
        || {
            let name = |denial: &Denial| format!("denial/{}", denial.id);
            denials.iter().map(name).collect()
        },
        |wide| table(&denials, filter.is_none(), wide),
    )
}

/// The latest denials of a namespace, or of all.
pub(crate) fn fetch(
    session: &Session,
    namespace: Option<&str>,
    limit: usize,
) -> Outcome<Answer<Page<Denial>>> {
    let address = Address::list(namespace, "denials");
    session.client.list(&address, Some(limit))
}

/// Denials as a table.
pub(crate) fn table(denials: &[Denial], all: bool, wide: bool) -> Table {
    let mut titles = vec!["AGE", "OBJECT", "REASON", "SHORT OF"];
    if all {
        titles.insert(1, "NAMESPACE");
    }
    if wide {
        titles.extend(["ACTOR", "UID", "DETAIL"]);
    }
    let mut table = Table::new(&titles);
    let now = age::now();
    for denial in denials {
        let object = &denial.object;
        let name = match object.name.is_empty() {
            true => object.uid.to_string(),
            false => object.name.to_string(),
        };
        let mut row = vec![
            age::span(now.since(denial.time)),
            format!("{}/{name}", object.resource),
            denial.reason.to_string(),
            short_of(&denial.quotas),
        ];
        if all {
            row.insert(1, denial.namespace.to_string());
        }
        if wide {
            let actor = &denial.actor;
            row.push(actor.user.as_ref().unwrap_or(&actor.principal).to_string());
            row.push(object.uid.to_string());
            row.push(denial.detail.clone());
        }
        table.row(row);
    }
    table
}

/// The exceeded limits, as in `compute/requests.cpu: 2 wanted, 500m left`.
fn short_of(quotas: &[CheckedQuota]) -> String {
    let mut parts = Vec::new();
    for quota in quotas {
        for limit in &quota.resources {
            let left = left_of(limit);
            if !limit.requested.is_zero() && left < limit.requested {
                parts.push(format!(
                    "{}/{}: {} wanted, {} left",
                    quota.name,
                    limit.resource,
                    limit.requested.exact(),
                    left.exact()
                ));
            }
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_denial_says_what_was_short() {
        let denial: Denial = serde_json::from_value(json!({
            "id": 7, "time": "2020-01-01T00:00:00Z", "namespace": "a", "actor": {"principal": "ci"},
            "object": {"uid": "u1", "resource": "pods", "name": "web", "requested": {"pods": "1"}},
            "reason": "ExceedsHard", "detail": "exceeded quota: q, …",
            "quotas": [{"name": "q", "resources": [
                {"resource": "pods", "hard": "2", "used": "1", "reserved": "1", "requested": "1"},
                {"resource": "requests.cpu", "hard": "9", "used": "0", "reserved": "0", "requested": "1"}]}],
            "asOf": {"sequence": 3, "time": "2020-01-01T00:00:00Z"}
        }))
        .unwrap();
        let text = table(&[denial], true, true).render(false);
        assert!(text.contains("q/pods: 1 wanted, 0 left"), "{text}");
        assert!(!text.contains("requests.cpu"), "{text}");
        assert!(text.contains("pods/web") && text.contains("ci"), "{text}");
    }
}
