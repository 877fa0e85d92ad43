//! `get usage`: what is used, reserved and available.

use quota_client::wire;
use quota_semantics::Timestamp;
use serde_json::Value;

use crate::{
    address::Address,
    client::read,
    failure::Outcome,
    figures::{Usage, usage_table},
    namespaces::everywhere,
    session::{Session, items, text},
};

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
    let of = |usage: &Value| {
        session.note_lag(usage);
        Ok(Usage::from(read::<wire::Usage>(usage)?))
    };
    let read: Vec<Usage> = usages.iter().map(of).collect::<Outcome<_>>()?;
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
        |wide| usage_table(&read, session.scope.all, wide),
    )
}
