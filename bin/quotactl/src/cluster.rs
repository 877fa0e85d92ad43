//! `cluster`: several nodes that keep one ledger.

use http::Method;
use quota_client::http::Address;
use quota_client::wire::{
    Cluster, ClusterNode, HealRequest, RemoveRequest, ReplicatedLedger, TransferRequest,
};
use serde::Serialize;

use super::{age, args, failure::Outcome, session::Session, table::Table, terminal_text::one_line};

/// Runs a `cluster` command.
pub(crate) fn run(session: &Session, command: &args::Cluster) -> Outcome {
    match command {
        args::Cluster::Init => init(session),
        args::Cluster::Status => status(session),
        args::Cluster::Transfer { to } => {
            let done = format!("{to} leads");
            post(session, "transfer", &TransferRequest { to: to.clone() }, &done)
        }
        args::Cluster::Remove { node } => {
            let done = format!("{node} is removed");
            let body = RemoveRequest { node: node.clone() };
            post(session, "remove", &body, &done)
        }
        args::Cluster::Heal { ledger, lost } => {
            let done = format!("the stream of the ledger {ledger} is made anew");
            let body = HealRequest { ledger: ledger.clone(), lost: lost.clone() };
            post(session, "heal", &body, &done)
        }
    }
}

fn init(session: &Session) -> Outcome {
    let address = Address::of(["v1", "cluster", "init"]);
    let reply = session.client.call(Method::POST, &address)?;
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    let ReplicatedLedger { ledger } = reply.read()?;
    let line = format!("the ledger {ledger} has begun");
    session.output.line(one_line(&line))
}

fn status(session: &Session) -> Outcome {
    let answer = session.client.get::<Cluster>(&Address::of(["v1", "cluster"]))?;
    let cluster = answer.content;
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    let ledger = cluster.ledger.as_deref().unwrap_or("none yet");
    session.output.line(one_line(&format!("Ledger: {ledger}")))?;
    for server in &cluster.servers {
        if let Some(problem) = &server.problem {
            let line = format!("Server {}: {problem}", server.name);
            session.output.line(one_line(&line))?;
        }
    }
    session.output.table(&table(&cluster.nodes))
}

fn post(session: &Session, what: &str, body: &impl Serialize, done: &str) -> Outcome {
    let address = Address::of(["v1", "cluster", what]);
    let reply = session.client.send_json(Method::POST, &address, body)?;
    match session.output.is_structured() {
        true => session.output.value(&reply.json),
        false => session.output.line(one_line(done)),
    }
}

fn table(nodes: &[ClusterNode]) -> Table {
    let mut table = Table::new(&["NODE", "ROLE", ">TERM", ">SEQUENCE", "TIME", "AGE", "PROBLEM"]);
    let now = age::now();
    for node in nodes {
        let replica = node.replica.as_ref();
        let dash = || "-".to_owned();
        table.row([
            node.name.clone(),
            node.role.clone(),
            node.term.to_string(),
            replica.map_or_else(dash, |replica| replica.sequence.to_string()),
            replica.map_or_else(dash, |replica| age::ago(replica.time, now)),
            replica
                .and_then(|replica| replica.age_seconds)
                .map_or_else(dash, |seconds| format!("{seconds:.1}s")),
            node.problem.clone().unwrap_or_default(),
        ]);
    }
    table
}
