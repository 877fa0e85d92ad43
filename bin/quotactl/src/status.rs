//! `status` and `version`.

use quota_client::http::Address;
use quota_client::wire::{Source, Status};
use serde::Serialize;

use super::{
    age, failure::Outcome, output::Format, session::Session, table::Table, terminal_text::one_line,
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
    let now = age::now();
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
                age::ago(status.as_of.time, now)
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
    let now = age::now();
    for source in sources {
        let watermark = |kind: &quota_client::wire::KindWatermark| {
            let age = kind.watermark.map(|time| age::span(now.since(time)));
            format!("{}: {}", kind.resource, age.as_deref().unwrap_or("unknown"))
        };
        table.row([
            source.name.to_string(),
            source.position.map_or_else(|| "-".to_owned(), |position| position.to_string()),
            source.time.map_or_else(|| "-".to_owned(), |time| age::ago(time, now)),
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
