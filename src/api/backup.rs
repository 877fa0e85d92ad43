//! A backup as one stream of bytes; `quota_journal` describes its content.

use std::{
    io::{self, BufWriter, Write},
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, header};
use quota_journal::{BackedUp, FileReader};
use tokio::sync::{Semaphore, mpsc};

use super::{
    App,
    problem::{Problem, Reason},
};
use crate::{
    cluster::{BYTES, Cluster, FromNode, STREAM_POSITION},
    log_limiter::LogLimiter,
    metrics,
};

/// Longest time that a backup may take: nothing is compacted while a backup runs.
const LONGEST: Duration = Duration::from_secs(4 * 3600);

/// Bytes per piece of the stream.
const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that wait to be sent.
const PIECES: usize = 4;

/// Makes backups, one at a time. Cheap to clone.
#[derive(Clone)]
pub struct Backups {
    reader: FileReader,
    turn: Arc<Semaphore>,
}

impl Backups {
    /// Backups of this ledger.
    pub(super) fn new(reader: FileReader) -> Self {
        Self { reader, turn: Arc::new(Semaphore::new(1)) }
    }
}

/// `GET /v1/backup`: all entries that are durable now, while grants go on. A stream that is cut off is not a valid
/// backup.
///
/// A node that joins the cluster with this backup also reads from it the replica's position in the log.
pub(super) async fn backup(
    State(app): State<App>,
    asker: Option<Extension<FromNode>>,
) -> Result<Response, Problem> {
    let cluster = app.cluster.as_ref().filter(|_| asker.is_some());
    let position = cluster.and_then(Cluster::position_text);
    let Backups { reader, turn } = app.backups.clone();
    let stats = cluster.and_then(|_| reader.stats().ok());
    let Ok(turn) = turn.try_acquire_owned() else {
        let detail = "another backup is being made";
        return Err(Problem::new(Reason::Overloaded, detail));
    };
    let (sender, mut receiver) = mpsc::channel(PIECES);
    tokio::task::spawn_blocking(move || {
        let mut output = BufWriter::with_capacity(PIECE_BYTES, Pieces(sender));
        log(quota_journal::write_backup(&reader, &mut output));
        drop(turn);
    });
    let stop = app.stop.clone();
    let ended = async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    };
    let pieces = stream::poll_fn(move |cx| receiver.poll_recv(cx))
        .map(Ok::<Bytes, io::Error>)
        .take_until(Box::pin(ended));
    let content_type = [(header::CONTENT_TYPE, "application/octet-stream")];
    let mut response = (content_type, Body::from_stream(pieces)).into_response();
    if let Some(position) = position.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(STREAM_POSITION, position);
    }
    if let Some(stats) = stats {
        let bytes = stats.epochs_bytes.saturating_add(stats.snapshot_bytes);
        response.headers_mut().insert(BYTES, bytes.into());
    }
    Ok(response)
}

/// Backups that are logged per second.
static LINES: LogLimiter = LogLimiter::new(1);

fn log(made: Result<BackedUp, quota_journal::Error>) {
    match made {
        Ok(made) => {
            metrics::backup_done(made.last.sequence);
            if let Some(held_back) = LINES.pass() {
                tracing::info!(sequence = made.last.sequence, held_back, "backup made");
            }
        }
        Err(error) => {
            metrics::backup_failed();
            if let Some(held_back) = LINES.pass() {
                tracing::error!(%error, held_back, "no backup");
            }
        }
    }
}

/// Sends the bytes that are written to it; fails when the receiver is gone.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .blocking_send(Bytes::copy_from_slice(bytes))
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
