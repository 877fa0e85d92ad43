//! A node that lacks the ledger, or entries that the stream no longer holds, copies the whole ledger from another node
//! before it opens it: a backup, and the backup's position in the stream. Later entries come from the stream.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use bytes::{Buf as _, Bytes};
use futures::future::join_all;
use http::HeaderName;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use quota_cluster::BookmarkFile;
use quota_journal::{
    BackedUp, LOCK,
    disk::{Disk as _, RealDisk},
};
use quota_replication::NodeName;
use tokio::sync::mpsc;

use super::peers::Peers;
use crate::{
    config::Config,
    exit::{Exit, Failure, OrExit as _},
};

/// The position in the stream of the replica that a backup is made of: the text of its [`BookmarkFile`].
pub(crate) const BOOKMARK: HeaderName = HeaderName::from_static("quotad-place");

/// A marker file in the data directory: the next start has to copy the ledger from another node.
const WANTED: &str = "JOIN";

/// The directory, within the data directory, of a copy in progress.
const PARTIAL: &str = "joining";

/// The directory of a complete copy.
const WHOLE: &str = "joined";

/// The directories and files of a ledger.
const DIRECTORIES: [&str; 3] = ["log", "epochs", "snapshots"];
const FILES: [&str; 3] = ["replica.json", "anchor", "LEDGER"];

/// Wait until the other nodes are tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Longest pause of the node that sends its ledger; after that the next node is tried.
const SILENCE: Duration = Duration::from_secs(30);

/// Pieces of a backup that wait to be written.
const PIECES: usize = 16;

/// Makes the next start copy the ledger from another node.
pub(super) fn want(data_dir: &Path) -> io::Result<()> {
    fs::write(data_dir.join(WANTED), "")
}

/// Copies the ledger from another node if this node has none, or has to join again. If no other node has the ledger, a
/// node without one begins empty.
///
/// # Errors
/// The configuration cannot be used; the data directory is in use, or cannot be written.
pub(crate) async fn before_opening(config: &Config) -> Result<(), Failure> {
    if !config.cluster.is_on() {
        return Ok(());
    }
    let directory = &config.data_dir;
    fs::create_dir_all(directory).context("data_dir")?;
    let _lock = RealDisk.lock(&directory.join(LOCK)).map_err(|error| {
        let exit = crate::fatal::exit_at_start(&error);
        let error = error.into();
        Failure { exit, error }
    })?;
    put_in_place(directory).context("putting the received ledger in place")?;
    let is_wanted = directory.join(WANTED).exists();
    if !is_wanted && directory.join("anchor").exists() {
        return Ok(());
    }
    let peers = Peers::load(&config.cluster).or_exit(Exit::Configuration)?;
    let own = config.cluster.node();
    loop {
        let nodes: Vec<_> = peers
            .names()
            .filter(|node| Some(*node) != own.as_ref())
            .collect();
        for node in &able(&peers, &nodes).await {
            match receive(&peers, node, directory).await {
                Ok(made) => {
                    put_in_place(directory).context("putting the received ledger in place")?;
                    tracing::info!(%node, sequence = made.last.sequence, "joined: the ledger was taken from another node");
                    return Ok(());
                }
                Err(error) => tracing::warn!(%node, "joining: {error:#}"),
            }
        }
        if !is_wanted {
            return Ok(());
        }
        tracing::warn!(
            "this node has to join again, and no other node can give it the ledger: waiting"
        );
        tokio::time::sleep(RETRY).await;
    }
}

/// The nodes that can provide the ledger, followers first.
async fn able(peers: &Peers, nodes: &[&NodeName]) -> Vec<NodeName> {
    let stand = join_all(nodes.iter().map(|node| peers.status(node))).await;
    let has_ledger = |node: &&quota_client::wire::ClusterNode| {
        node.durable_stream_sequence > 0 && node.problem.is_none()
    };
    let mut able: Vec<_> = stand.iter().filter(has_ledger).collect();
    able.sort_by_key(|node| node.role == "leader");
    able.iter()
        .filter_map(|node| node.name.parse().ok())
        .collect()
}

async fn receive(peers: &Peers, node: &NodeName, directory: &Path) -> anyhow::Result<BackedUp> {
    let response = peers.open(node, "/v1/backup").await;
    let response = response.context("it does not answer")?;
    anyhow::ensure!(
        response.status().is_success(),
        "it answers {}",
        response.status()
    );
    let bookmark = response.headers().get(BOOKMARK);
    let bookmark = bookmark
        .context("it has not written down yet how far it is")?
        .to_str()?
        .to_owned();
    let partial = directory.join(PARTIAL);
    let whole = directory.join(WHOLE);
    let (pieces, received) = mpsc::channel(PIECES);
    let name = PathBuf::from(format!("backup of {node}"));
    let restoring =
        tokio::task::spawn_blocking(move || restore(received, &name, &partial, &bookmark, &whole));
    pass_on(response.into_body(), pieces).await;
    restoring.await?
}

/// Passes the body on. A backup that is cut off or stalls is detected by its reader: its end is missing.
async fn pass_on(mut body: Incoming, pieces: mpsc::Sender<Bytes>) {
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await {
        if let Ok(piece) = frame.into_data()
            && pieces.send(piece).await.is_err()
        {
            return;
        }
    }
}

fn restore(
    received: mpsc::Receiver<Bytes>,
    name: &Path,
    partial: &Path,
    bookmark: &str,
    whole: &Path,
) -> anyhow::Result<BackedUp> {
    if partial.exists() {
        fs::remove_dir_all(partial)?;
    }
    let mut input = Pieces {
        received,
        piece: Bytes::new(),
    };
    let made = quota_journal::read_backup(&mut input, name, Arc::new(RealDisk), partial)?;
    let position = BookmarkFile::of(partial).write_text(bookmark)?;
    anyhow::ensure!(
        position.end.sequence <= made.last.sequence,
        "its position in the stream is ahead of its ledger"
    );
    for directory in DIRECTORIES {
        fs::create_dir_all(partial.join(directory))?;
    }
    RealDisk.sync_directory(partial)?;
    fs::rename(partial, whole)?;
    RealDisk.sync_directory(whole.parent().unwrap_or(Path::new(".")))?;
    Ok(made)
}

/// Replaces the present ledger by a completely received one. Resumes after a crash.
fn put_in_place(directory: &Path) -> anyhow::Result<()> {
    let whole = directory.join(WHOLE);
    if !whole.exists() {
        return Ok(());
    }
    for name in DIRECTORIES.into_iter().chain(FILES) {
        let (from, to) = (whole.join(name), directory.join(name));
        if !from.exists() {
            continue;
        }
        if to.is_dir() {
            fs::remove_dir_all(&to)?;
        }
        fs::rename(&from, &to)?;
    }
    RealDisk.sync_directory(directory)?;
    match fs::remove_file(directory.join(WANTED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::remove_dir_all(&whole)?;
    RealDisk.sync_directory(directory)?;
    Ok(())
}

/// Reads the pieces as they arrive; ends after the last one.
struct Pieces {
    received: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl io::Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.received.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let length = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_takes_the_place_of_what_is_there_also_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        for path in [
            "log",
            "epochs",
            "joined/log",
            "joined/epochs",
            "joined/snapshots",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        for path in ["log/old", "epochs/old", "anchor", "denials.ndjson", "JOIN"] {
            fs::write(at(path), "old").unwrap();
        }
        for path in [
            "joined/log/new",
            "joined/anchor",
            "joined/LEDGER",
            "joined/replica.json",
            "joined/LOCK",
        ] {
            fs::write(at(path), "new").unwrap();
        }
        // The first move was made before a crash.
        fs::remove_dir_all(at("log")).unwrap();
        fs::rename(at("joined/log"), at("log")).unwrap();
        put_in_place(directory.path()).unwrap();
        let read = |path: &str| fs::read_to_string(at(path)).ok();
        for path in ["log/new", "anchor", "LEDGER", "replica.json"] {
            assert_eq!(read(path).as_deref(), Some("new"), "{path}");
        }
        for path in ["log/old", "epochs/old", "JOIN", "joined/LOCK"] {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(read("denials.ndjson").as_deref(), Some("old"));
        assert!(!at("joined").exists() && at("snapshots").is_dir());
        put_in_place(directory.path()).unwrap();
    }
}
