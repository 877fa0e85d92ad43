//! Reads stored entries, off the threads that serve requests.

use std::sync::Arc;

use quota_core::{
    codec,
    event::{Entry, Sequence},
};
use quota_journal::{Reader, StoredBatch};
use quota_semantics::Name;

use super::{App, problem::Problem};

/// Most entries that one request reads; matching entries may lie further on.
pub(super) const SCANNED_MAX: usize = 20_000;

/// Entries that are read at a time when walking back.
const WINDOW: Sequence = 512;

/// The result of a walk over entries.
pub(super) struct Walk<T> {
    pub(super) found: Vec<T>,
    /// Where to continue; none if the durable end was reached.
    pub(super) next: Option<Sequence>,
}

/// Walks over entries from `from` on, in the turn of the principal. Keeps the results of `pick`: at most `limit`.
pub(super) async fn walk<T: Send + 'static>(
    app: &App,
    principal: &Name,
    from: Sequence,
    limit: usize,
    pick: impl FnMut(Entry) -> Option<T> + Send + 'static,
) -> Result<Walk<T>, Problem> {
    let turn = app.readers().turn(principal).await?;
    let reader = app.reader.clone();
    let walked = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        scan(&reader, from.max(1), limit, pick)
    });
    walked.await.map_err(|error| Problem::internal(&error))?
}

fn scan<T>(
    reader: &Arc<dyn Reader>,
    from: Sequence,
    limit: usize,
    mut pick: impl FnMut(Entry) -> Option<T>,
) -> Result<Walk<T>, Problem> {
    let mut found = Vec::new();
    let mut scanned = 0;
    for batch in reader.read(from) {
        for entry in decode(&batch?)?
            .into_iter()
            .filter(|entry| entry.sequence >= from)
        {
            if found.len() == limit || scanned == SCANNED_MAX {
                return Ok(Walk {
                    found,
                    next: Some(entry.sequence),
                });
            }
            scanned += 1;
            found.extend(pick(entry));
        }
    }
    Ok(Walk { found, next: None })
}

/// Walks back over entries from `from` on, the newest first.
pub(super) async fn walk_back<T: Send + 'static>(
    app: &App,
    principal: &Name,
    from: Sequence,
    limit: usize,
    pick: impl FnMut(Entry) -> Option<T> + Send + 'static,
) -> Result<Walk<T>, Problem> {
    let turn = app.readers().turn(principal).await?;
    let reader = app.reader.clone();
    let walked = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        scan_back(&reader, from, limit, pick)
    });
    walked.await.map_err(|error| Problem::internal(&error))?
}

/// Reads backwards window by window, each from its beginning, since the journal can only be read forwards.
fn scan_back<T>(
    reader: &Arc<dyn Reader>,
    from: Sequence,
    limit: usize,
    mut pick: impl FnMut(Entry) -> Option<T>,
) -> Result<Walk<T>, Problem> {
    let first = reader.first_sequence().max(1);
    let mut found = Vec::new();
    let mut scanned = 0;
    let mut end = from;
    while end >= first {
        let begin = end.saturating_sub(WINDOW - 1).max(first);
        for entry in window(reader, begin, end)?.into_iter().rev() {
            if found.len() == limit || scanned == SCANNED_MAX {
                let next = Some(entry.sequence);
                return Ok(Walk { found, next });
            }
            scanned += 1;
            found.extend(pick(entry));
        }
        end = begin - 1;
    }
    Ok(Walk { found, next: None })
}

/// The entries of a range, as far as they exist.
fn window(reader: &Arc<dyn Reader>, begin: Sequence, end: Sequence) -> Result<Vec<Entry>, Problem> {
    let mut entries = Vec::new();
    for batch in reader.read(begin) {
        let batch = batch?;
        if batch.batch.first_sequence > end {
            break;
        }
        entries.extend(decode(&batch)?);
    }
    entries.retain(|entry| (begin..=end).contains(&entry.sequence));
    Ok(entries)
}

/// The entries of a stored batch.
pub(super) fn decode(stored: &StoredBatch) -> Result<Vec<Entry>, Problem> {
    let batch = &stored.batch;
    codec::decode_entries(batch.first_sequence, batch.count, &batch.payload)
        .map_err(|error| Problem::internal(&error))
}
