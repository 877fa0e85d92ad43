//! `quotad demo`: the daemon with a made-up past, for a first look.
//!
//! Nothing is read or changed outside a temporary directory, and only this machine reaches the daemon.

mod past;
mod world;

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    path::Path,
};

use quota_core::decide::Consumed;
use quota_journal::{FileJournal, Throttle};
use quota_ledger::group_commit::GroupCommit;
use quota_service::{config::Period, exit::Exit, program};
use tempfile::TempDir;

use crate::{
    clock,
    config::Config,
    denials,
    exit::OrExit as _,
    recovery::{Recovered, recover},
    run,
};
use past::Past;
use world::World;

/// Entries of a batch.
const BATCH_ENTRIES: usize = 512;

/// Connections at a time.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(127);

/// Runs the demo, and returns the exit code.
pub(crate) fn main() -> Exit {
    let directory = match TempDir::with_prefix("quotad-demo-") {
        Ok(directory) => directory,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "no temporary directory: {error}");
            return Exit::Failure;
        }
    };
    let config = config(directory.path());
    program::run_with(run::telemetry, config, "", |config| {
        let last = record(&config).or_exit(Exit::Failure)?;
        run::run(config, |api| introduce(api, last))
    })
}

/// The defaults, on loopback, with a free port if another program has that of the API.
fn config(directory: &Path) -> Config {
    let mut config = Config { data_dir: directory.join("data"), ..Config::default() };
    if TcpListener::bind(config.listen).is_err() {
        config.listen.set_port(0);
    }
    config.admin.listen.set_port(0);
    // Few come, and the usual number needs more file descriptors than most shells give.
    config.limits.connections = CONNECTIONS;
    // Whoever tries it may change its quotas and groups.
    config.quotas.adopt = false;
    config.shutdown.drain = Period::from_secs(0);
    config.log.level = "warn".to_owned();
    config
}

/// Writes the ledger of the past, and the denials. Returns the last entry.
fn record(config: &Config) -> anyhow::Result<u64> {
    let mut past = Past::until(clock::now(), World::load()?);
    let Recovered { mut state, mut journal, .. } = recover(config, Throttle::default())?;
    let mut commit = GroupCommit::<()>::new(BATCH_ENTRIES);
    let mut denied = Vec::new();
    while let Some(time) = past.next() {
        let consumed = Consumed { watermark: time, publisher: None };
        commit.record_due(&mut state, time, consumed, past.policy());
        let refused = past.play(&mut commit.transaction(&mut state, time));
        denied.extend(refused.and_then(|refused| {
            let (actor, request) = (&refused.actor, &refused.request);
            denials::denial(actor, request, &refused.refusal, state.head(), time)
        }));
        if commit.is_full() {
            store(&mut commit, &mut journal)?;
        }
    }
    store(&mut commit, &mut journal)?;
    let file = config.data_dir.join("denials.ndjson");
    denials::store(&file, denials::Bounds::of(config), denied)?;
    Ok(journal.close()?.sequence)
}

fn store(commit: &mut GroupCommit<()>, journal: &mut FileJournal) -> anyhow::Result<()> {
    if let Some(sealed) = commit.close() {
        sealed.append(journal)?.sync(journal)?;
        commit.synced();
    }
    Ok(())
}

/// Says where the page is, and what can be tried.
fn introduce(api: SocketAddr, last: u64) {
    let quotactl = format!("quotactl --server http://{api}");
    let text = format!(
        "A company of eight namespaces and its last eight days, in {last} entries. All of it is made up.

  http://{api}/ui

In a second terminal (in a clone: alias quotactl='cargo run -q --release --bin quotactl --'):

  {quotactl} top
  {quotactl} -n shop-checkout describe namespace
  {quotactl} -n analytics explain requests.memory
  {quotactl} report --last 7d --by label:team --resource requests.cpu
  {quotactl} suggest -A --since 7d

Ctrl-C ends it. Its ledger was in a temporary directory then."
    );
    // The reader of standard output may be gone.
    let _ = writeln!(std::io::stdout(), "{text}");
}
