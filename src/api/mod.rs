//! The HTTP API, `/v1`: reservations, quotas, usage, entries.
//!
//! A handler reads the request into plain data, hands a decision to the writer or a question to the state, and
//! shapes the answer. Every refusal leaves as a [`problem`].

mod answer;
mod backup;
mod batch;
mod body;
mod caller;
mod check;
mod cluster;
mod corrections;
mod denials;
mod drift;
mod entries;
mod events;
mod explain;
pub mod groups;
mod history;
mod lifecycle;
mod manifest;
mod measure;
mod objects;
mod openapi;
mod overview;
mod page;
mod past;
mod precondition;
mod quotas;
mod readers;
mod relist;
pub mod render;
mod replacing;
mod reservations;
mod reserve_request;
mod routes;
mod series;
mod status;
mod usage;
mod watch;

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use quota_core::decide::Policy;
use quota_journal::{FileReader, Reader};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Cluster,
    config::Config,
    history::History,
    intake::payload,
    watches::{WatchLimits, Watches},
    writer::Ledger,
};

pub use crate::{
    intake::sources::{NoSources, Sources},
    problem,
};
pub use backup::Backups;
pub use caller::{Caller, actor};
#[doc(hidden)]
pub use reserve_request::ReserveRequest;
pub use routes::{document, routes};

use problem::{Problem, Reason};
use readers::Readers;

/// What the API is made of.
pub struct Parts {
    /// The writer, and what it has written.
    pub ledger: Ledger,
    /// The entries.
    pub reader: Arc<dyn Reader>,
    /// Copies of the ledger.
    pub backups: Backups,
    /// The states of the past.
    pub past: History,
    /// What is known of the sources.
    pub sources: Arc<dyn Sources>,
    /// The rules of all decisions: the same that the writer has.
    pub policy: Policy,
    /// Items of a page of a list.
    pub page: usize,
    /// Open watches.
    pub watch_streams: WatchLimits,
    /// Plural names of kinds that the built-in rules would get wrong, by `Kind.group` (`Kind` in the core group).
    pub kinds: BTreeMap<String, String>,
    /// How events are read.
    pub events: Arc<payload::Reader>,
    /// Entries of one batch at most.
    pub max_batch_entries: usize,
    /// Ends the watches.
    pub stop: CancellationToken,
    /// The cluster that this node is part of; none: it is alone.
    pub cluster: Option<Cluster>,
}

impl Parts {
    /// The parts, with the limits that are configured.
    #[must_use]
    pub fn new(
        config: &Config,
        ledger: Ledger,
        reader: FileReader,
        sources: Arc<dyn Sources>,
        policy: Policy,
        events: Arc<payload::Reader>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            ledger,
            backups: Backups::new(reader.clone()),
            past: History::new(
                reader.clone(),
                config.limits.replay_entries.get(),
                config.limits.past_questions.get(),
            ),
            reader: Arc::new(reader),
            sources,
            policy,
            page: config.limits.page.get(),
            watch_streams: WatchLimits {
                all: config.limits.watch_streams.get(),
                of_principal: config.limits.watch_streams_per_principal.get(),
            },
            kinds: config.kinds.clone(),
            events,
            max_batch_entries: config.journal.max_batch_entries.get(),
            stop,
            cluster: None,
        }
    }
}

/// The state of the API. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

struct Shared {
    parts: Parts,
    watches: Arc<Watches>,
    readers: Readers,
}

/// Requests that read the journal at the same time, half of them of one principal; more wait.
const JOURNAL_READERS: usize = 8;

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let watches = Watches::new(parts.watch_streams);
        Self(Arc::new(Shared {
            parts,
            watches,
            readers: Readers::new(JOURNAL_READERS),
        }))
    }

    fn watches(&self) -> &Arc<Watches> {
        &self.0.watches
    }

    /// The turns to read the journal.
    fn readers(&self) -> &Readers {
        &self.0.readers
    }

    /// Whether an answer may be behind the sources.
    #[must_use]
    pub fn lags(&self) -> bool {
        self.sources.lag() || !self.sources.are_caught_up()
    }

    /// Before the sources have been caught up with, usage is not known well enough to grant anything.
    ///
    /// # Errors
    /// `NotReady`.
    pub(crate) fn may_grant(&self) -> Result<(), Problem> {
        if self.sources.are_caught_up() {
            return Ok(());
        }
        let detail = "nothing is granted until the sources of events have been caught up with";
        Err(Problem::new(Reason::NotReady, detail))
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}
