//! `denials`: the latest denials and their reasons.

use quota_client::http::Address;
use quota_client::table::beside;
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
    let now = age::now();
    let name = |Denial { object, .. }: &Denial| match object.name.is_empty() {
        true => format!("{}/{}", object.resource, object.uid),
        false => format!("{}/{}", object.resource, object.name),
    };
    let actor = |Denial { actor, .. }: &Denial| {
        let user = actor.user.as_ref().unwrap_or(&actor.principal);
        user.to_string()
    };
    Table::of(
        denials,
        &[
            (true, "AGE", &|it| age::span(now.since(it.time))),
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "OBJECT", &name),
            (true, "REASON", &|it| it.reason.to_string()),
            (true, "SHORT OF", &|it| short_of(&it.quotas)),
            (wide, "ACTOR", &actor),
            (wide, "UID", &|it| it.object.uid.to_string()),
            (wide, "DETAIL", &|it| it.detail.clone()),
        ],
    )
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
                    beside(Some(&limit.requested), &limit.hard),
                    beside(Some(&left), &limit.hard)
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
