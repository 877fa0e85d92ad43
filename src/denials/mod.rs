//! Denials, kept for those who ask why.
//!
//! A denial changes nothing, so it is no entry of the ledger. The latest are kept beside it, bounded by number,
//! bytes and age, with the numbers that they were made on. They survive a restart, and a kill (they are handed to the operating
//! system at once, but not synced: a power cut may take the last ones).

mod log;
mod record;
mod store;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::Path,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crossbeam_channel::{Sender, TrySendError};
use quota_core::{
    decide::{Refusal, Request},
    event::{Actor, Sequence},
    state::Head,
};
use quota_semantics::Name;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::{
    metrics,
    throttle::{Throttle, shortened},
};
use log::DenialLog;
use record::NewDenial;

/// Denials that wait to be kept; more are only counted.
const WAITING: usize = 4096;

/// How many denials are kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The latest so many.
    pub records: usize,
    /// No more bytes than this.
    pub bytes: usize,
    /// None older than this.
    pub age: Duration,
}

/// The kept denials. Cheap to clone.
#[derive(Clone)]
pub struct Denials(Sender<Message>);

/// A kept denial.
#[derive(Clone, Debug)]
pub struct StoredDenial {
    /// Its number: later ones have higher ones.
    pub id: u64,
    /// The last entry of the ledger that it was decided on.
    pub sequence: Sequence,
    /// The record, as JSON.
    pub json: Arc<RawValue>,
}

/// Which denials to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Those of this namespace; none: all.
    pub namespace: Option<Name>,
    /// Those before this one; none: from the latest on.
    pub before: Option<u64>,
    /// At most so many.
    pub limit: usize,
}

/// A denial, as the log has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denied<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
    /// Where the ledger stood.
    pub(crate) sequence: Sequence,
}

impl Denied<'_> {
    /// Logs it, if the throttle lets it pass.
    pub(crate) fn log(&self, throttle: &Throttle, refusal: &dyn fmt::Display) {
        let Some(held_back) = throttle.pass(Instant::now()) else {
            return;
        };
        let Self {
            namespace,
            resource,
            name,
            sequence,
        } = *self;
        let refusal = refusal.to_string();
        let refusal = shortened(&refusal);
        tracing::info!(
            namespace, resource, name, sequence, refusal, held_back, "denied"
        );
    }
}

enum Message {
    Note(Box<NewDenial>),
    List(Query, oneshot::Sender<Vec<StoredDenial>>),
    End,
}

/// Opens the file of kept denials, or begins it, and starts the thread that keeps it.
///
/// # Errors
/// If the file cannot be read or written.
pub fn start(file: &Path, bounds: Bounds) -> std::io::Result<(Denials, JoinHandle<()>)> {
    let (messages, inbox) = crossbeam_channel::bounded(WAITING);
    let log = DenialLog::open(file, bounds, crate::clock::now())?;
    let thread = std::thread::Builder::new()
        .name("denials".into())
        .spawn(move || log.run(&inbox))?;
    Ok((Denials(messages), thread))
}

impl Denials {
    /// Keeps a refusal, if it is a denial. Never waits.
    pub fn note(&self, actor: &Arc<Actor>, request: &Request, refusal: &Refusal, head: Head) {
        let Some(noted) = NewDenial::of(actor, request, refusal, head) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = self.0.try_send(Message::Note(Box::new(noted))) {
            metrics::denials_dropped();
        }
    }

    /// The denials that match, the latest first; those noted before are among them.
    pub async fn list(&self, query: Query) -> Vec<StoredDenial> {
        let (answer, answered) = oneshot::channel();
        let messages = self.0.clone();
        let sent = tokio::task::spawn_blocking(move || messages.send(Message::List(query, answer)));
        if !matches!(sent.await, Ok(Ok(()))) {
            return Vec::new();
        }
        answered.await.unwrap_or_default()
    }

    /// Lets the thread end, once all that was noted is kept.
    pub fn close(&self) {
        // It has ended already, if this fails.
        let _ = self.0.send(Message::End);
    }
}
