//! Destinations of checkpoints besides the file: out of reach of anybody who can change the ledger.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_nats::{HeaderMap, jetstream};

use crate::metrics::CheckpointPlace;

/// The timeout of one attempt.
pub(super) const ATTEMPT: Duration = Duration::from_secs(10);

/// The file name suffix of a copy.
const SUFFIX: &str = ".checkpoint";

/// A signed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub(super) sequence: u64,
    /// Its note.
    pub(super) note: Arc<str>,
}

/// A destination of checkpoints. To deliver a checkpoint twice does no harm.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are two at most")]
pub(crate) enum Destination {
    /// A subject that a JetStream stream stores.
    Nats {
        /// The connection.
        context: jetstream::Context,
        /// The subject.
        subject: String,
    },
    /// A directory, in which each checkpoint becomes a file of its own that is never written again.
    Directory(PathBuf),
}

impl Destination {
    /// A subject on this connection.
    #[must_use]
    pub(crate) fn nats(client: async_nats::Client, subject: String) -> Self {
        let context = jetstream::new(client);
        Self::Nats { context, subject }
    }

    /// The kind of the destination, for metrics.
    pub(super) const fn kind(&self) -> CheckpointPlace {
        match self {
            Self::Nats { .. } => CheckpointPlace::Nats,
            Self::Directory(_) => CheckpointPlace::Directory,
        }
    }

    /// The name of the destination, for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Nats { subject, .. } => subject.clone(),
            Self::Directory(directory) => directory.display().to_string(),
        }
    }

    /// Delivers a checkpoint.
    ///
    /// # Errors
    /// Says why the delivery is not confirmed.
    pub(super) async fn deliver(&self, signed: &Signed) -> Result<(), String> {
        let delivering = async {
            match self.clone() {
                Self::Nats { context, subject } => publish(&context, subject, signed).await,
                Self::Directory(directory) => {
                    let signed = signed.clone();
                    let stored = tokio::task::spawn_blocking(move || store(&directory, &signed));
                    let stored = stored.await.map_err(|error| error.to_string())?;
                    stored.map_err(|error| error.to_string())
                }
            }
        };
        let timeout = tokio::time::timeout(ATTEMPT, delivering);
        timeout
            .await
            .unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// The stream drops a message that it has stored already, in case an acknowledgement was lost.
async fn publish(
    context: &jetstream::Context,
    subject: String,
    signed: &Signed,
) -> Result<(), String> {
    let mut headers = HeaderMap::new();
    let id = blake3::hash(signed.note.as_bytes()).to_hex();
    headers.insert(async_nats::header::NATS_MESSAGE_ID, id.as_str());
    let note = signed.note.to_string().into();
    let sent = context.publish_with_headers(subject, headers, note).await;
    let stored = sent.map_err(|error| error.to_string())?.await;
    stored.map(drop).map_err(|error| error.to_string())
}

/// Stores a checkpoint durably in a file of its own. Completes a file that a kill has cut off; changes no other file.
fn store(directory: &Path, signed: &Signed) -> io::Result<()> {
    let path = directory.join(format!("{:020}{SUFFIX}", signed.sequence));
    let note = signed.note.as_bytes();
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(&path)?;
    let mut there = Vec::new();
    file.read_to_end(&mut there)?;
    let Some(rest) = note.strip_prefix(there.as_slice()) else {
        let why = format!("{}: another checkpoint is there", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    };
    file.write_all(rest)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_copy_is_completed_and_never_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("00000000000000000007.checkpoint");
        let signed = |note: &str| Signed {
            sequence: 7,
            note: note.into(),
        };
        store(directory.path(), &signed("a note\n")).unwrap();
        store(directory.path(), &signed("a note\n")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        fs::write(&path, "a n").unwrap();
        store(directory.path(), &signed("a note\n")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        for other in ["b note\n", "a"] {
            let error = store(directory.path(), &signed(other)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a note\n");
        assert!(store(Path::new("/nonexistent"), &signed("x")).is_err());
    }
}
