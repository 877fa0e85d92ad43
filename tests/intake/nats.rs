//! The intake against a real nats-server: every message counts once, whatever crashes when.

mod asking;
mod charging;
mod connections;
mod messages;
mod relists;
mod silence;
mod streams;

use crate::daemon::Daemon;
use crate::support::nats::Server;
use async_nats::jetstream;
use quota_core::{
    event::{DeadLetter, Event},
    state::State,
};
use quota_semantics::{Name, uid::Uid};
use quotad::config::Config;
use tempfile::TempDir;

const STREAM: &str = "OBJECTS";

/// A server, a place for a ledger, and what connects them.
struct Scene {
    server: Server,
    directory: TempDir,
    config: Config,
}

impl Scene {
    fn new() -> Self {
        Self::at(Server::start())
    }

    fn at(server: Server) -> Self {
        let mut config = Config::default();
        config.nats.url = Some(server.url());
        config.nats.poll_interval = "50ms".parse().unwrap();
        config.nats.connection.max_backoff = "200ms".parse().unwrap();
        Self { server, directory: TempDir::new().unwrap(), config }
    }

    /// The stream is created, and recorded in the ledger.
    async fn first_contact(&self) {
        let daemon = self.daemon().await;
        daemon.caught_up().await;
        daemon.stop().await;
    }

    async fn daemon(&self) -> Daemon {
        Daemon::start(self.directory.path(), &self.config).await
    }
}

/// Publishes without waiting for each acknowledgement, but for all in the end.
async fn publish(context: &jetstream::Context, payloads: impl IntoIterator<Item = String>) {
    let mut acknowledgements = Vec::new();
    for payload in payloads {
        let sent = context.publish("quota.objects.here", payload.into()).await.unwrap();
        acknowledgements.push(sent);
    }
    for acknowledgement in acknowledgements {
        acknowledgement.await.unwrap();
    }
}

/// A plain event about the object of this number.
fn widget(change: &str, number: usize, version: u64) -> String {
    format!(
        r#"{{"type":"{change}","namespace":"team-a","resource":"widgets.example.com","name":"w{number}",
            "uid":"u-{number}","resourceVersion":"{version}","usage":{{"requests.example.com/units":"2"}}}}"#
    )
    .replace('\n', "")
}

fn widgets(numbers: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(|number| widget("ADDED", number, 1))
}

fn units(state: &State) -> i64 {
    let used = state.totals("team-a").used;
    used.get("requests.example.com/units").map_or(0, quota_semantics::quantity::Quantity::value)
}

fn position(state: &State) -> u64 {
    state.sources().get(STREAM).map_or(0, |cursor| cursor.position)
}

fn is_alive(state: &State, number: usize) -> bool {
    state.object("team-a", &Uid::new(&format!("u-{number}")).unwrap()).is_some()
}

fn dead_letter(event: &Event) -> Option<DeadLetter> {
    event.dead_letter().cloned()
}

fn gap(event: &Event) -> Option<(u64, u64)> {
    match event {
        Event::SourceGapped { source, first, last } if *source == STREAM => Some((*first, *last)),
        _ => None,
    }
}

fn reset(event: &Event) -> Option<Name> {
    match event {
        Event::SourceReset { incarnation, .. } => Some(incarnation.clone()),
        _ => None,
    }
}
