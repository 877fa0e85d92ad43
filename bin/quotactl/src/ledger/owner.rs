//! The owner of a ledger. Files that root creates have to belong to the user of the daemon, or the daemon cannot open
//! them.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use rustix::{
    fd::{AsFd, BorrowedFd},
    fs::{AtFlags, CWD, Dir, Gid, Mode, OFlags, Uid, chownat, fchown, openat},
    io::{self, Errno},
    process::geteuid,
};

use crate::output::note;

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
const OPENED: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

fn give(directory: BorrowedFd<'_>, owner: (Uid, Gid)) -> io::Result<()> {
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
