//! `denials`: the latest denials and their reasons.

use quota_client::http::Address;
use quota_client::wire::{CheckedQuota, Denial, Page};
use quota_semantics::Timestamp;
use serde_json::Value;

use super::{
    age,
    args::{DenialsOf, Moment},
    client::{Answer, read},
    failure::Outcome,
    figures::limit_name,
    get::{Item, List},
    output::note,
    session::Session,
    table::Table,
    unit::beside,
};

/// Shows the latest denials, newest first.
pub(crate) fn run(session: &Session, args: &DenialsOf) -> Outcome {
    let json = args.fetch(session)?;
    let denials = read::<Page<Denial>>(&json)?.items;
    if denials.is_empty() {
        args.note_empty(session);
    }
    session.output.answer(
        &json,
        || denials.iter().map(|denial| args.name(denial)).collect(),
        |wide| args.table(session, &denials, wide),
    )
}

impl Item for Denial {
    fn identity(&self) -> String {
        self.id.to_string()
    }
}

impl List for DenialsOf {
    type Item = Denial;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let address = Address::list(session.scope.filter(), "denials");
        // Denials of a time may be behind many later ones.
        let limit = (self.since.is_none() && self.to.is_none()).then_some(self.limit);
        let mut answer = session.client.list_json(&address, limit)?;
        let [since, to] = [self.since, self.to].map(|moment| moment.map(Moment::time));
        if let Some(denials) = answer.get_mut("items").and_then(Value::as_array_mut) {
            let is_within = |denial: &Value| {
                let time = denial["time"].as_str().and_then(|time| time.parse().ok());
                let time: Timestamp = time.unwrap_or(Timestamp::EPOCH);
                since.is_none_or(|since| since <= time) && to.is_none_or(|to| time <= to)
            };
            denials.retain(is_within);
            denials.truncate(self.limit);
        }
        Ok(answer)
    }

    fn name(&self, denial: &Denial) -> String {
        format!("denial/{}", denial.id)
    }

    fn table(&self, session: &Session, denials: &[Denial], wide: bool) -> Table {
        table(denials, session.scope.filter().is_none(), wide)
    }

    fn note_empty(&self, _: &Session) {
        note("No denials found");
    }

    fn watched<'s>(&self, session: &'s Session) -> Option<&'s str> {
        session.scope.filter()
    }
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
    let name = |Denial { object, .. }: &Denial| {
        let name = match object.name.is_empty() {
            true => object.uid.to_string(),
            false => object.name.to_string(),
        };
        match object.resource.is_empty() {
            true => name,
            false => format!("{}/{name}", object.resource),
        }
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
            (true, "?REASON", &|it| it.reason.to_string()),
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
            let left = limit.left();
            if limit.is_exceeded() {
                parts.push(format!(
                    "{}/{}: {} wanted, {} left",
                    limit_name(quota.kind, &quota.name),
                    limit.resource,
                    beside(&limit.resource, &limit.requested, &limit.hard),
                    beside(&limit.resource, &left, &limit.hard)
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
