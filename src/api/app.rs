//! What handlers share: the ledger, its readers, and limits.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use quota_core::state::Head;
use quota_journal::{FileReader, Reader};
use tokio_util::sync::CancellationToken;

use super::{
    Backups, Sources, answer,
    page::Page,
    problem::{Problem, Reason},
    readers::Readers,
};
use crate::{
    cluster::Cluster,
    config::Config,
    history::History,
    intake::payload,
    watch_slots::{WatchLimits, Watches},
    writer::Ledger,
};

/// Requests that read the journal at the same time, at most half of them of one principal; others wait.
const JOURNAL_READERS: usize = 8;

/// The components of the API.
pub struct Parts {
    /// The writer, and the state that it has written.
    pub ledger: Ledger,
    /// Reads the stored entries.
    pub reader: Arc<dyn Reader>,
    /// Makes backups of the ledger.
    pub backups: Backups,
    /// States of the past.
    pub past: History,
    /// The status of the event sources.
    pub sources: Arc<dyn Sources>,
    /// Most items on a page of a list.
    pub page: usize,
    /// The open watches.
    pub watches: Arc<Watches>,
    /// Plural names of kinds that the built-in rules would get wrong, by `Kind.group` (`Kind` in the core group).
    pub kinds: BTreeMap<String, String>,
    /// Parses events.
    pub events: Arc<payload::Reader>,
    /// Most entries of one batch.
    pub max_batch_entries: usize,
    /// Ends the watches when the daemon stops.
    pub stop: CancellationToken,
    /// The cluster of this node; none if the node is alone.
    pub cluster: Option<Cluster>,
    /// The turns to read the journal.
    pub(super) readers: Readers,
}

impl Parts {
    /// The components, with the configured limits.
    #[must_use]
    pub fn new(
        config: &Config,
        ledger: Ledger,
        reader: FileReader,
        sources: Arc<dyn Sources>,
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
            page: config.limits.page.get(),
            watches: Watches::new(WatchLimits {
                all: config.limits.watch_streams.get(),
                of_principal: config.limits.watch_streams_per_principal.get(),
            }),
            kinds: config.kinds.clone(),
            events,
            max_batch_entries: config.journal.max_batch_entries.get(),
            stop,
            cluster: None,
            readers: Readers::new(JOURNAL_READERS),
        }
    }
}

/// The state of the API. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

impl App {
    /// Assembles the components.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// A page of a list, of the state at this head.
    pub(super) fn page_of<T>(&self, items: Vec<T>, next: Option<String>, head: Head) -> Page<T> {
        Page { items, next, as_of: answer::as_of(head), lagging: self.lags() }
    }

    /// Whether an answer may lag behind the event sources.
    #[must_use]
    pub fn lags(&self) -> bool {
        self.sources.lag() || !self.sources.are_caught_up()
    }

    /// Refuses grants until the ledger has caught up with the sources: before that, usage is not reliable.
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
        &self.0
    }
}
