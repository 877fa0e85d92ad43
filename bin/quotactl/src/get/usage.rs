//! `get usage`: what is used, reserved and available.

use quota_semantics::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    address::Address,
    failure::{Failure, Outcome},
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
        |_| usage_table(&read, session.scope.all),
    )
}
