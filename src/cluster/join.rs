//! A node that lacks the ledger, or entries that the stream no longer holds, copies the whole ledger from another node
//! before it opens it: a backup, and the backup's position in the stream. Later entries come from the stream.
//!
//! A copy replaces a ledger only if it contains all entries of that ledger. Where this cannot be compared, the old ledger
//! is kept beside the new one.

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
use quota_journal::{
    ANCHOR, BASE, BackedUp, DIRECTORIES, Durable, LOCK, Offline, Reader as _,
    disk::{Disk, Lock, RealDisk},
};
use quota_replication::jetstream::PositionFile;
use quota_replication::protocol::NodeName;
use quota_service::health::Check;
use tokio::sync::mpsc;

use super::{checks::can_give, peers::Peers};
use crate::{
    config::Config,
    exit::{Exit, Failure, OrExit as _},
    fatal,
};

/// The position in the stream of the replica that a backup is made of: the text of its [`PositionFile`].
pub(crate) const STREAM_POSITION: HeaderName = HeaderName::from_static("quotad-place");

/// The bytes of the ledger that a backup is made of: about the room that the copy needs.
pub(crate) const BYTES: HeaderName = HeaderName::from_static("quotad-ledger-bytes");

/// A marker file in the data directory: the next start has to copy the ledger from another node.
const WANTED: &str = "JOIN";

/// The directory, within the data directory, of a copy in progress.
const PARTIAL: &str = "joining";

/// The directory of a complete copy.
const WHOLE: &str = "joined";

/// A file in [`WHOLE`]: the name of the directory to which the replaced ledger is moved. Without the file, the copy
/// contains the replaced ledger, which is removed.
const KEEP: &str = "KEEP";

/// The directory of a replaced ledger, in the data directory.
const REPLACED: &str = "replaced";

/// The files of a ledger. The one that makes a directory a data directory is moved last.
const FILES: [&str; 3] = [PositionFile::NAME, ANCHOR, BASE];

/// Wait until the other nodes are queried again.
const RETRY: Duration = Duration::from_secs(1);

/// Longest wait after failed copies: each occupies another node, whose compaction waits meanwhile.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Longest pause of the node that sends its ledger; after that the next node is tried.
const SILENCE: Duration = Duration::from_secs(30);

/// Pieces of a backup that wait to be written.
const PIECES: usize = 16;

/// Makes the next start copy the ledger from another node.
pub(super) fn want(data_dir: &Path) -> io::Result<()> {
    fs::write(data_dir.join(WANTED), "")
}

/// This node's own ledger before a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// There is none.
    Missing,
    /// It is damaged.
    Unreadable,
    /// It ends here.
    EndsAt(Durable),
}

/// The ledger of another node does not contain this node's ledger.
#[derive(Debug, thiserror::Error)]
#[error(
    "this node's ledger has diverged: another node has other entries up to sequence {}. Nothing was changed. Keep a copy \
     of this data_dir, and start the node with an empty one to join", .0.sequence
)]
struct Diverged(Durable);

/// Copies the ledger from another node if this node has none, or has to join again. If no other node has the ledger, a
/// node without one begins empty. `check` tells why this takes long.
///
/// # Errors
/// The configuration cannot be used; the data directory is in use, or cannot be written; this node's ledger has diverged
/// from that of the other nodes.
pub(crate) async fn before_opening(config: &Config, check: &Check) -> Result<(), Failure> {
    if !config.cluster.is_on() {
        return Ok(());
    }
    let directory = &config.data_dir;
    fs::create_dir_all(directory).context("data_dir")?;
    let locked = lock(directory)?;
    put_in_place(directory).context("putting the received ledger in place")?;
    remove(&directory.join(PARTIAL)).context("removing an incomplete copy")?;
    let is_wanted = directory.join(WANTED).exists();
    if !is_wanted && directory.join(ANCHOR).exists() {
        return Ok(());
    }
    // Reading the ledger takes the lock itself.
    drop(locked);
    let own = own_ledger(directory).map_err(fatal::at_start)?;
    let _lock = lock(directory)?;
    let peers = Peers::load(&config.cluster).or_exit(Exit::Configuration)?;
    let own_name = config.cluster.node();
    let mut wait = RETRY;
    loop {
        let nodes: Vec<_> = peers.names().filter(|node| Some(*node) != own_name.as_ref()).collect();
        let mut failed = None;
        for node in &able(&peers, &nodes).await {
            match receive(&peers, node, config, own).await {
                Ok(made) => {
                    put_in_place(directory).context("putting the received ledger in place")?;
                    tracing::info!(%node, sequence = made.last.sequence, "joined: the ledger was taken from another node");
                    return Ok(());
                }
                Err(error) => {
                    // It would take the room that the next attempt needs.
                    remove(&directory.join(PARTIAL)).context("removing an incomplete copy")?;
                    if error.is::<Diverged>() {
                        let exit = Exit::Damaged;
                        return Err(Failure { exit, error });
                    }
                    tracing::warn!(%node, "joining: {error:#}");
                    failed = Some(format!("joining from {node}: {error:#}"));
                }
            }
        }
        if !is_wanted {
            return Ok(());
        }
        wait = match failed {
            Some(_) => (wait * 2).min(RETRY_MAX),
            None => RETRY,
        };
        let why = failed.unwrap_or_else(|| "no other node can give it the ledger".to_owned());
        check.fail(&format!("this node has to join again, and waits: {why}"));
        tracing::warn!("this node has to join again: next attempt in {wait:?}: {why}");
        tokio::time::sleep(wait).await;
    }
}

fn lock(directory: &Path) -> Result<Box<dyn Lock>, Failure> {
    RealDisk.lock(&directory.join(LOCK)).map_err(fatal::at_start)
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads where the ledger of a data directory ends, without changing it.
fn own_ledger(directory: &Path) -> Result<Own, quota_journal::Error> {
    match Offline::open(Arc::new(RealDisk), directory, None) {
        Ok(Offline::Data(data)) => Ok(Own::EndsAt(data.reader().durable())),
        Ok(Offline::Archive(_)) => Ok(Own::Missing),
        Err(error) if error.is_damage() => Ok(Own::Unreadable),
        Err(quota_journal::Error::Io { source, .. })
            if source.kind() == io::ErrorKind::NotFound =>
        {
            Ok(Own::Missing)
        }
        Err(error) => Err(error),
    }
}

/// Whether a copy contains this node's ledger, which can then be removed. False: unknown, since the ledger is damaged, or
/// the copy no longer holds its end.
fn contains(copy: &Path, own: Own) -> anyhow::Result<bool> {
    let end = match own {
        Own::Missing => return Ok(true),
        Own::Unreadable => return Ok(false),
        Own::EndsAt(end) => end,
    };
    let Offline::Data(copy) = Offline::open(Arc::new(RealDisk), copy, None)? else {
        anyhow::bail!("the copy is no data directory");
    };
    let last = copy.reader().durable().sequence;
    anyhow::ensure!(
        last >= end.sequence,
        "it has entries up to {last}, and this node up to {}",
        end.sequence
    );
    match copy.reader().has(&end) {
        Ok(true) => Ok(true),
        Ok(false) => Err(Diverged(end).into()),
        Err(quota_journal::Error::Compacted { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A name in the data directory for the ledger that is replaced.
fn free_name(directory: &Path) -> String {
    let names = (0_u32..).map(|number| match number {
        0 => REPLACED.to_owned(),
        number => format!("{REPLACED}.{number}"),
    });
    let mut free = names.filter(|name| !directory.join(name).exists());
    free.next().unwrap_or_default()
}

/// The nodes that can provide the ledger, followers first, and those with a low disk last: a backup holds up compaction.
async fn able(peers: &Peers, nodes: &[&NodeName]) -> Vec<NodeName> {
    let statuses = join_all(nodes.iter().map(|node| peers.status(node))).await;
    let has_ledger = |node: &&quota_client::wire::ClusterNode| {
        node.durable_stream_sequence > 0 && can_give(node)
    };
    let mut able: Vec<_> = statuses.iter().filter(has_ledger).collect();
    able.sort_by_key(|node| (node.disk_low, node.role == "leader"));
    able.iter().filter_map(|node| node.name.parse().ok()).collect()
}

async fn receive(
    peers: &Peers,
    node: &NodeName,
    config: &Config,
    own: Own,
) -> anyhow::Result<BackedUp> {
    let response = peers.open(node, "/v1/backup").await;
    let response = response.context("it does not answer")?;
    anyhow::ensure!(response.status().is_success(), "it answers {}", response.status());
    let position = response.headers().get(STREAM_POSITION);
    let position =
        position.context("it has not written down yet how far it is")?.to_str()?.to_owned();
    let bytes = response.headers().get(BYTES);
    if let Some(needed) = bytes.and_then(|bytes| bytes.to_str().ok()?.parse::<u64>().ok()) {
        let free = RealDisk.free_space(&config.data_dir)?;
        anyhow::ensure!(
            free > needed,
            "the copy needs about {needed} bytes beside the present data, and {free} are free"
        );
    }
    let (pieces, received) = mpsc::channel(PIECES);
    let name = PathBuf::from(format!("backup of {node}"));
    let into = Destination {
        directory: config.data_dir.clone(),
        archive: config.retention.archive_dir.clone(),
        own,
    };
    let restoring = tokio::task::spawn_blocking(move || restore(received, &name, &into, &position));
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

/// Where a copy is put.
struct Destination {
    directory: PathBuf,
    archive: Option<PathBuf>,
    own: Own,
}

fn restore(
    received: mpsc::Receiver<Bytes>,
    name: &Path,
    into: &Destination,
    position: &str,
) -> anyhow::Result<BackedUp> {
    let directory = &into.directory;
    let partial = &directory.join(PARTIAL);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut input = Pieces { received, piece: Bytes::new() };
    let made = quota_journal::read_backup(&mut input, name, Arc::clone(&disk), partial)?;
    // Each node has its own archive.
    quota_journal::refer_to_archive(&disk, partial, into.archive.as_deref())?;
    let position = PositionFile::new(partial).write_text(position)?;
    anyhow::ensure!(
        position.end.sequence <= made.last.sequence,
        "its position in the stream is ahead of its ledger"
    );
    for part in DIRECTORIES {
        fs::create_dir_all(partial.join(part))?;
    }
    if !contains(partial, into.own)? {
        let mut file = fs::File::create(partial.join(KEEP))?;
        io::Write::write_all(&mut file, free_name(directory).as_bytes())?;
        file.sync_all()?;
    }
    RealDisk.sync_directory(partial)?;
    fs::rename(partial, directory.join(WHOLE))?;
    RealDisk.sync_directory(directory)?;
    Ok(made)
}

/// Replaces the present ledger by a completely received one, which contains it; otherwise the present one is moved aside.
/// Resumes after a crash.
fn put_in_place(directory: &Path) -> anyhow::Result<()> {
    let whole = directory.join(WHOLE);
    if !whole.exists() {
        return Ok(());
    }
    let aside = match fs::read_to_string(whole.join(KEEP)) {
        Ok(name) => Some(directory.join(name)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(aside) = &aside {
        fs::create_dir_all(aside)?;
        tracing::warn!(aside = %aside.display(), "the copy cannot be compared with the ledger that it replaces, which is moved aside");
    }
    for name in DIRECTORIES.into_iter().chain(FILES) {
        let (from, to) = (whole.join(name), directory.join(name));
        if !from.exists() {
            continue;
        }
        match &aside {
            Some(aside) if to.exists() => {
                fs::rename(&to, aside.join(name))?;
                RealDisk.sync_directory(aside)?;
            }
            None if to.is_dir() => fs::remove_dir_all(&to)?,
            _ => {}
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
        for path in ["log", "epochs", "joined/log", "joined/epochs", "joined/snapshots"] {
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

    /// A ledger in a directory with one entry for each payload.
    fn ledger(directory: &Path, payloads: &[&str]) {
        use quota_journal::{Batch, FileJournal, Journal as _, Options};
        let options = Options { background: false, ..Options::default() };
        let (mut journal, _, _) =
            FileJournal::open(Arc::new(RealDisk), directory, options).unwrap();
        for (payload, first_sequence) in payloads.iter().zip(1..) {
            let batch = Batch {
                first_sequence,
                count: 1,
                time: quota_semantics::Timestamp::EPOCH,
                payload: payload.as_bytes().to_vec(),
            };
            journal.append(batch).unwrap();
        }
        journal.sync().unwrap();
        journal.close().unwrap();
    }

    #[test]
    fn a_copy_replaces_only_a_ledger_that_it_contains() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        ledger(&at("copy"), &["a", "b", "c"]);
        fs::create_dir(at("empty")).unwrap();
        assert_eq!(own_ledger(&at("empty")).unwrap(), Own::Missing);
        assert!(contains(&at("copy"), Own::Missing).unwrap());
        for (name, payloads) in [("same", &["a", "b", "c"][..]), ("before", &["a", "b"])] {
            ledger(&at(name), payloads);
            let own = own_ledger(&at(name)).unwrap();
            assert!(matches!(own, Own::EndsAt(_)), "{own:?}");
            assert!(contains(&at("copy"), own).unwrap(), "{name}");
        }
        ledger(&at("other"), &["a", "x"]);
        let error = contains(&at("copy"), own_ledger(&at("other")).unwrap()).unwrap_err();
        assert!(error.is::<Diverged>(), "{error:#}");
        // Another node may have more: this is no divergence yet.
        ledger(&at("behind"), &["a", "b", "c", "d"]);
        let error = contains(&at("copy"), own_ledger(&at("behind")).unwrap()).unwrap_err();
        assert!(!error.is::<Diverged>(), "{error:#}");
        fs::write(at("same/LEDGER"), "damaged").unwrap();
        let own = own_ledger(&at("same")).unwrap();
        assert_eq!(own, Own::Unreadable);
        assert!(!contains(&at("copy"), own).unwrap());
    }

    #[test]
    fn a_ledger_that_cannot_be_compared_is_moved_aside_also_after_a_crash() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        fs::create_dir(at("replaced")).unwrap();
        assert_eq!(free_name(directory.path()), "replaced.1");
        for path in ["epochs", "joined/epochs", "log", "replaced.1/log"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        for (path, text) in [
            // Moved before a crash.
            ("replaced.1/log/old", "old"),
            ("log/new", "new"),
            ("epochs/old", "old"),
            ("anchor", "old"),
            ("LEDGER", "old"),
            ("joined/epochs/new", "new"),
            ("joined/anchor", "new"),
            ("joined/LEDGER", "new"),
            ("joined/KEEP", "replaced.1"),
        ] {
            fs::write(at(path), text).unwrap();
        }
        put_in_place(directory.path()).unwrap();
        let read = |path: &str| fs::read_to_string(at(path)).ok();
        for path in ["log/new", "epochs/new", "anchor", "LEDGER"] {
            assert_eq!(read(path).as_deref(), Some("new"), "{path}");
        }
        for path in ["log/old", "epochs/old", "anchor", "LEDGER"] {
            let path = format!("replaced.1/{path}");
            assert_eq!(read(&path).as_deref(), Some("old"), "{path}");
        }
        assert!(!at("joined").exists() && read("log/old").is_none());
    }
}
