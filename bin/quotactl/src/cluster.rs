//! `cluster`: several nodes that keep one ledger.

use http::Method;
use quota_client::http::Address;
use quota_client::wire::{Cluster, ClusterNode};
use serde_json::{Value, json};

use super::{age, args, failure::Outcome, output::one_line, session::Session, table::Table};

/// Begins, shows or changes a cluster.
pub(crate) fn run(session: &Session, command: &args::Cluster) -> Outcome {
    match command {
        args::Cluster::Init => init(session),
        args::Cluster::Status => status(session),
        args::Cluster::Transfer { to } => {
            let done = format!("{to} leads");
            post(session, "transfer", &json!({ "to": to }), &done)
        }
        args::Cluster::Remove { node } => {
            let done = format!("{node} is removed");
            post(session, "remove", &json!({ "node": node }), &done)
        }
        args::Cluster::Heal { ledger, lost } => {
            let done = format!("the stream of the ledger {ledger} is made anew");
            let body = json!({ "ledger": ledger, "lost": lost });
            post(session, "heal", &body, &done)
        }
    }
}

fn init(session: &Session) -> Outcome {
    let address = Address::of(["v1", "cluster", "init"]);
    let answer = session.client.send_json(Method::POST, &address, None)?.body;
    if session.output.is_structured() {
        return session.output.value(&answer);
    }
    let ledger = answer.get("ledger").and_then(Value::as_str);
    let line = format!("the ledger {} has begun", ledger.unwrap_or_default());
    session.output.line(one_line(&line))
}

fn status(session: &Session) -> Outcome {
    let (answer, cluster): (_, Cluster) = session.client.get_as(&Address::of(["v1", "cluster"]))?;
    if session.output.is_structured() {
        return session.output.value(&answer);
    }
    let ledger = cluster.ledger.as_deref().unwrap_or("none yet");
    session
        .output
        .line(one_line(&format!("Ledger: {ledger}")))?;
    session.output.table(&table(&cluster.nodes))
}

fn post(session: &Session, what: &str, body: &Value, done: &str) -> Outcome {
    let address = Address::of(["v1", "cluster", what]);
    let answer = session
        .client
        .send_json(Method::POST, &address, Some(body))?
        .body;
    match session.output.is_structured() {
        true => session.output.value(&answer),
        false => session.output.line(one_line(done)),
    }
}

fn table(nodes: &[ClusterNode]) -> Table {
    let mut table = Table::new(&[
        "NODE",
        "ROLE",
        ">TERM",
        ">SEQUENCE",
        "TIME",
        "AGE",
        "PROBLEM",
    ]);
    let now = age::now();
    for node in nodes {
        let replica = node.replica.as_ref();
        let dash = || "-".to_owned();
        table.row([
            node.name.clone(),
            node.role.clone(),
            node.term.to_string(),
            replica.map_or_else(dash, |replica| replica.sequence.to_string()),
            replica.map_or_else(dash, |replica| {
                format!("{} ago", age::span(now.since(replica.time)))
            }),
            replica
                .and_then(|replica| replica.age_seconds)
                .map_or_else(dash, |seconds| format!("{seconds:.1}s")),
            node.problem.clone().unwrap_or_default(),
        ]);
    }
    table
}
