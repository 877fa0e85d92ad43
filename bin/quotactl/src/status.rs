//! `status`, `version`, `cluster` and `backup`.

use std::{path::Path, sync::Arc};

use http::Method;
use quota_client::{
    http::Address,
    wire::{
        Cluster, ClusterNode, HealRequest, RemoveRequest, ReplicatedLedger, Source, Status,
        TransferRequest,
    },
};
use quota_journal::disk::RealDisk;
use serde::Serialize;

use crate::{
    args,
    failure::{Failure, Outcome},
    ledger::{Building, unread},
    output::{Format, Progress},
    session::Session,
    table::{self, Table, one_line},
};

/// This program's version, with its commit.
const VERSION: &str = env!("BUILD_VERSION");

/// Shows the status of the daemon.
pub(crate) fn run(session: &Session) -> Outcome {
    let answer = session.client.get::<Status>(&Address::of(["v1", "status"]))?;
    let status = answer.content;
    match &session.output.format {
        format if format.is_structured() => session.output.value(&answer.json),
        Format::Name => {
            let mut names = status.sources.iter();
            names.try_for_each(|source| session.output.line(format!("source/{}", source.name)))
        }
        _ => {
            for line in summary(session.client.server(), &status) {
                session.output.line(one_line(&line))?;
            }
            let table = sources(&status.sources);
            if !table.is_empty() {
                session.output.line("")?;
            }
            session.output.table(&table)
        }
    }
}

fn summary(server: &str, status: &Status) -> Vec<String> {
    let now = table::now();
    let caller = &status.caller;
    let reads = caller.roles.iter().any(|role| role == "read");
    let namespaces = caller.namespaces.join(", ");
    let place = match (caller.reads_all_namespaces, reads) {
        (true, _) => "reads all namespaces".to_owned(),
        (_, true) if !namespaces.is_empty() => format!("reads the namespaces {namespaces}"),
        (_, true) => "reads some namespaces".to_owned(),
        (..) => "reads nothing".to_owned(),
    };
    let no_grants = status.no_grants.as_ref().map(|why| format!("no: {why}"));
    let grants = match (status.caught_up, status.disk_low, status.lagging) {
        _ if no_grants.is_some() => no_grants.as_deref().unwrap_or_default(),
        (false, ..) => "no: the sources have not been read to their ends since the start",
        (_, true, _) => "no: the disk is low",
        (_, _, true) => "yes, but a source of events is behind",
        _ => "yes",
    };
    let first = status.oldest.map_or(1, |oldest| oldest.sequence);
    let mut lines = vec![
        format!("Server:   {server}, quotad {}", status.version),
        format!("Caller:   {} ({}; {place})", caller.principal, caller.roles.join(", ")),
        format!("Grants:   {grants}"),
        match status.as_of.sequence {
            0 => "Entries:  none yet".to_owned(),
            last => format!(
                "Entries:  {first} to {last}, the last {}",
                table::ago(status.as_of.time, now)
            ),
        },
    ];
    let kinds = status.sources.iter().flat_map(|source| &source.watermarks);
    lines.extend(kinds.filter_map(|kind| {
        let reason = kind.not_reported.as_ref()?;
        Some(format!("NotReported: {}: {reason}", kind.resource))
    }));
    lines
}

fn sources(sources: &[Source]) -> Table {
    let mut table = Table::new(&["SOURCE", ">POSITION", "RECEIVED", "WATERMARKS"]);
    let now = table::now();
    for source in sources {
        let watermark = |kind: &quota_client::wire::KindWatermark| {
            let age = kind.watermark.map(|time| table::span(now.since(time)));
            format!("{}: {}", kind.resource, age.as_deref().unwrap_or("unknown"))
        };
        table.row([
            source.name.to_string(),
            source.position.map_or_else(|| "-".to_owned(), |position| position.to_string()),
            source.time.map_or_else(|| "-".to_owned(), |time| table::ago(time, now)),
            source.watermarks.iter().map(watermark).collect::<Vec<_>>().join(", "),
        ]);
    }
    table
}

/// The versions of quotactl and of the daemon.
#[derive(Serialize)]
struct Versions<'a> {
    client: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
}

/// Shows the versions of quotactl and of the daemon.
pub(crate) fn version(session: &Session, client_only: bool) -> Outcome {
    let server = match client_only {
        true => None,
        false => {
            let answer = session.client.get::<Status>(&Address::of(["v1", "status"]));
            Some(answer.map(|answer| answer.content.version))
        }
    };
    let output = &session.output;
    let version = server.as_ref().and_then(|server| server.as_ref().ok());
    if output.is_structured() {
        output.value(&Versions { client: VERSION, server: version.map(String::as_str) })?;
    } else {
        output.line(format!("Client: {VERSION}"))?;
        if let Some(server) = version {
            output.line(format!("Server: {}", one_line(server)))?;
        }
    }
    // The available lines are shown even if the daemon does not answer.
    server.transpose().map(drop)
}

/// Runs a `cluster` command.
pub(crate) fn cluster(session: &Session, command: &args::Cluster) -> Outcome {
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
    let now = table::now();
    for node in nodes {
        let replica = node.replica.as_ref();
        let dash = || "-".to_owned();
        table.row([
            node.name.clone(),
            node.role.clone(),
            node.term.to_string(),
            replica.map_or_else(dash, |replica| replica.sequence.to_string()),
            replica.map_or_else(dash, |replica| table::ago(replica.time, now)),
            replica
                .and_then(|replica| replica.age_seconds)
                .map_or_else(dash, |seconds| format!("{seconds:.1}s")),
            node.problem.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Takes a consistent copy of the ledger while the daemon serves. The directory appears when the copy is complete,
/// checked and durable.
pub(crate) fn backup(session: &Session, directory: &Path) -> Outcome {
    let building = Building::begin(directory)?;
    let input = session.client.download(&Address::of(["v1", "backup"]))?;
    let progress = Progress::counting_bytes("backing up");
    let mut input = progress.read(input);
    let name = Path::new("the backup that the daemon sends");
    let made = quota_journal::read_backup(&mut input, name, Arc::new(RealDisk), building.path());
    let made = made.map_err(|error| match error {
        // The ledger is not damaged: the connection was cut.
        quota_journal::Error::Damaged(damage) => Failure::general(damage.to_string())
            .hint("the connection was cut; the daemon's log may say why. Try again"),
        error => unread(error),
    })?;
    drop(progress);
    building.finish_copy(&made, &session.output)
}
