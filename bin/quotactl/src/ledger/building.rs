//! A data directory under construction: it appears when it is complete, or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use quota_journal::{
    BackedUp,
    disk::{Disk as _, RealDisk},
};
use serde_json::json;

use super::{owner, unread};
use crate::{
    failure::{Exit, Failure, Outcome},
    output::Output,
};

/// The suffix of a directory under construction.
const ENDING: &str = ".partial";

/// A directory under construction, beside its final path. An unfinished one is removed when it is dropped.
pub(crate) struct Building {
    path: PathBuf,
    directory: PathBuf,
    finished: bool,
}

impl Building {
    /// Begins a directory, which must not exist, or be empty.
    pub(crate) fn begin(directory: &Path) -> Outcome<Self> {
        refuse_what_is_there(directory)?;
        let named = directory.file_name();
        let mut name = named
            .ok_or_else(|| Failure::usage(format!("{}: no name", directory.display())))?
            .to_owned();
        name.push(ENDING);
        let path = directory.with_file_name(name);
        fs::create_dir(&path).map_err(|error| {
            let failure = Failure::from(error).about(path.display());
            failure.hint("an interrupted run leaves such a directory: remove it")
        })?;
        Ok(Self {
            path,
            directory: directory.to_path_buf(),
            finished: false,
        })
    }

    /// The path of the directory under construction.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As root, changes the owner to that of the directory that is replaced, or of the parent directory, so that the
    /// daemon can open it.
    pub(super) fn hand_over(&self) {
        owner::hand_over(&self.path, &[&self.directory, self.parent()]);
    }

    fn parent(&self) -> &Path {
        let parent = self.directory.parent();
        let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    /// Renames the directory to its final path, durably. The content has to be durable before.
    pub(crate) fn finish(mut self) -> Outcome {
        let named = fs::rename(&self.path, &self.directory);
        named.map_err(|error| Failure::from(error).about(self.directory.display()))?;
        self.finished = true;
        RealDisk.sync_directory(self.parent()).map_err(unread)
    }

    /// As [`finish`](Self::finish), for a copy of a ledger; prints the content of the directory.
    pub(crate) fn finish_copy(self, made: &BackedUp, output: &Output) -> Outcome {
        let directory = self.directory.clone();
        self.finish()?;
        let (last, hash) = (made.last.sequence, made.last.hash.to_string());
        if output.is_structured() {
            return output.value(&json!({
                "directory": directory,
                "firstSequence": made.first_sequence,
                "lastSequence": last,
                "head": hash,
                "snapshots": made.snapshots,
            }));
        }
        output.line(format!(
            "{}: entries {} to {last}, snapshots: {}, head: {hash}",
            directory.display(),
            made.first_sequence,
            made.snapshots,
        ))
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.finished {
            // Why it was not finished is what matters.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn refuse_what_is_there(directory: &Path) -> Outcome {
    match fs::read_dir(directory) {
        Ok(mut found) => match found.next() {
            None => Ok(()),
            Some(_) => Err(
                Failure::new(Exit::Conflict, "there is something in it already")
                    .about(directory.display())
                    .hint("a ledger is put into a directory of its own"),
            ),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).about(directory.display())),
    }
}
