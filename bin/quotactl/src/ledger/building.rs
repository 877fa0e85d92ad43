//! A data directory under construction: it appears when it is complete, or not at all.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use quota_journal::{
    BackedUp,
    disk::{Disk as _, RealDisk},
};
use rustix::{
    fd::{AsFd, BorrowedFd},
    fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, chownat, fchown, openat},
    io::Errno,
    process::geteuid,
};
use serde_json::json;

use super::unread;
use crate::{
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
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
        Ok(Self { path, directory: directory.to_path_buf(), finished: false })
    }

    /// The path of the directory under construction.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// As root, changes the owner to that of the directory that is replaced, or of the parent directory, so that the
    /// daemon can open it.
    pub(super) fn hand_over(&self) {
        hand_over(&self.path, &[&self.directory, self.parent()]);
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
            Some(_) => Err(Failure::new(Exit::Conflict, "the directory is not empty")
                .about(directory.display())
                .hint("a ledger needs a directory of its own")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).about(directory.display())),
    }
}

/// As root, gives a directory and its content to the owner of the first of these places that is not root's. The content
/// is complete in any case, so a failure is only a warning.
pub(super) fn hand_over(directory: &Path, places: &[&Path]) {
    if !geteuid().is_root() {
        return;
    }
    let mut owners = places.iter().filter_map(|place| fs::metadata(place).ok());
    let Some(owner) = owners.find(|owner| owner.uid() != 0) else {
        return;
    };
    let owner = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
    let given = openat(CWD, directory, OPENED, Mode::empty())
        .and_then(|directory| give(directory.as_fd(), owner));
    if let Err(error) = given {
        let (user, group) = (owner.0.as_raw(), owner.1.as_raw());
        note(format!(
            "warning: {}: not given to user {user} and group {group}: {error}",
            directory.display()
        ));
    }
}

/// The flags for opening directories. The owner may replace the content meanwhile, so no link is followed, and no path
/// is looked up twice.
const OPENED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn give(directory: BorrowedFd<'_>, owner: (Uid, Gid)) -> rustix::io::Result<()> {
    let (user, group) = (Some(owner.0), Some(owner.1));
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let flags = OPENED | OFlags::NOFOLLOW;
        match openat(directory, name, flags, Mode::empty()) {
            Ok(below) => give(below.as_fd(), owner)?,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                chownat(directory, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Err(error) => return Err(error),
        }
    }
    fchown(directory, user, group)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    const NOBODY: u32 = 65534;

    fn owner(path: &Path) -> (u32, u32) {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    }

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_directory_above() {
        let home = tempfile::tempdir().unwrap();
        let [above, outside] = ["above", "outside"].map(|name| home.path().join(name));
        let ledger = above.join("ledger");
        fs::create_dir_all(ledger.join("epochs/1")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(ledger.join("epochs/1/SEAL"), "").unwrap();
        fs::write(outside.join("file"), "").unwrap();
        symlink(&outside, ledger.join("link")).unwrap();
        if !geteuid().is_root() {
            let before = owner(&ledger);
            hand_over(&ledger, &[home.path()]);
            assert_eq!(owner(&ledger), before);
            return;
        }
        let before = owner(&outside);
        chown(&above, Some(NOBODY), Some(NOBODY)).unwrap();
        hand_over(&ledger, &[&ledger, &above]);
        for path in ["", "epochs", "epochs/1", "epochs/1/SEAL", "link"] {
            assert_eq!(owner(&ledger.join(path)), (NOBODY, NOBODY), "{path}");
        }
        for path in ["", "file"] {
            assert_eq!(owner(&outside.join(path)), before, "{path}");
        }
    }
}
