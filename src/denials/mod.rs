//! Keeps denials, so that callers can ask for the reasons later.
//!
//! A denial changes nothing, so it is not an entry of the ledger. The latest denials are kept beside the ledger, with
//! the numbers on which they were decided; their number, bytes and age are bounded. They survive a restart, and a kill:
//! they are handed to the operating system at once, but not synced, so a power cut may lose the last ones.

mod log;
mod record;
mod store;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use quota_client::wire::Denial;
use quota_core::{
    decide::{Refusal, Request},
    event::{Actor, Sequence},
    state::Head,
};
use quota_semantics::{Name, Timestamp, admission::LimitKind};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    auth::Reader,
    config::Config,
    log_limiter::{LogLimiter, shortened},
    metrics,
};
use log::DenialLog;
use store::Counts;

/// Denials that wait to be kept; further ones are only counted.
const WAITING: usize = 4096;

/// How many denials are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most denials.
    pub records: usize,
    /// Most bytes.
    pub bytes: usize,
    /// Maximum age.
    pub age: Duration,
}

impl Bounds {
    /// The configured bounds.
    pub(crate) fn of(config: &Config) -> Self {
        let denials = &config.denials;
        Self {
            records: denials.max_records.get(),
            bytes: denials.max_bytes.as_usize(),
            age: denials.max_age.get(),
        }
    }
}

/// The kept denials. Cheap to clone.
#[derive(Clone)]
pub struct Denials {
    messages: SyncSender<Message>,
    counts: Arc<Mutex<Counts>>,
}

/// A kept denial.
#[derive(Clone, Debug)]
pub struct StoredDenial {
    /// The denial's number; later denials have higher numbers.
    pub id: u64,
    /// The last entry of the ledger at the decision.
    pub sequence: Sequence,
    /// The principal that made the request.
    pub principal: Name,
    /// The namespace of the request.
    pub namespace: Name,
    /// When the denial was kept.
    pub time: Timestamp,
    /// The record, as JSON.
    pub json: Arc<RawValue>,
}

/// Which denials to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only this namespace; none for all.
    pub namespace: Option<Name>,
    /// Only namespaces that this caller may read.
    pub reader: Reader,
    /// Only denials before this one; none to start at the latest.
    pub before: Option<u64>,
    /// Most denials to list.
    pub limit: usize,
}

/// A denial for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
    /// The position of the ledger at the decision.
    pub(crate) sequence: Sequence,
}

impl Denied<'_> {
    /// Logs the denial, if the limiter lets it pass.
    pub(crate) fn log(&self, limiter: &LogLimiter, refusal: &dyn fmt::Display) {
        let Some(held_back) = limiter.pass() else {
            return;
        };
        let Self { namespace, resource, name, sequence } = *self;
        let refusal = refusal.to_string();
        let refusal = shortened(&refusal);
        tracing::info!(namespace, resource, name, sequence, refusal, held_back, "denied");
    }
}

enum Message {
    Note(Box<Denial>),
    List(Query, oneshot::Sender<Vec<StoredDenial>>),
    End,
}

/// Opens the file of kept denials, or creates it, and starts the thread that keeps it.
///
/// # Errors
/// If the file cannot be read or written.
pub(crate) fn start(file: &Path, bounds: Bounds) -> std::io::Result<(Denials, JoinHandle<()>)> {
    let (messages, inbox) = mpsc::sync_channel(WAITING);
    let log = DenialLog::open(file, bounds, crate::clock::now())?;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let counted = Arc::clone(&counts);
    let thread = std::thread::Builder::new().name("denials".into()).spawn(move || {
        let _guard = crate::fatal::EndOnPanic;
        log.run(&inbox, &counted);
    })?;
    Ok((Denials { messages, counts }, thread))
}

/// The record of a refusal at this time; none if it is not a denial.
pub(crate) fn denial(
    actor: &Arc<Actor>,
    request: &Request,
    refusal: &Refusal,
    head: Head,
    time: Timestamp,
) -> Option<Denial> {
    let denial = record::new(actor, request, refusal, head)?;
    Some(Denial { time, ..denial })
}

/// Adds denials of the past, the oldest first, to a file that nobody has open.
///
/// # Errors
/// If the file cannot be read or written.
pub(crate) fn store(file: &Path, bounds: Bounds, denials: Vec<Denial>) -> std::io::Result<()> {
    let mut log = DenialLog::open(file, bounds, Timestamp::EPOCH)?;
    for denial in denials {
        log.keep(&denial, denial.time);
    }
    Ok(())
}

impl Denials {
    /// Keeps a refusal if it is a denial. Never blocks.
    pub fn note(&self, actor: &Arc<Actor>, request: &Request, refusal: &Refusal, head: Head) {
        let Some(noted) = record::new(actor, request, refusal, head) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = self.messages.try_send(Message::Note(Box::new(noted))) {
            metrics::denials_dropped();
        }
    }

    /// The matching denials, the latest first, including all that were noted before this call.
    pub async fn list(&self, query: Query) -> Vec<StoredDenial> {
        let (answer, answered) = oneshot::channel();
        let messages = self.messages.clone();
        let sent = tokio::task::spawn_blocking(move || messages.send(Message::List(query, answer)));
        if !matches!(sent.await, Ok(Ok(()))) {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }

    /// How many requests a limit has denied since the start: of a quota of a namespace, or of a group in any namespace.
    pub fn count(&self, kind: LimitKind, namespace: &Name, name: &Name) -> u64 {
        let place = store::place(kind, namespace, name);
        self.counts.lock().get(&place)
    }

    /// Lets the thread end once all noted denials are kept.
    pub fn close(&self) {
        // A failure means that the thread has ended already.
        let _ = self.messages.send(Message::End);
    }
}
