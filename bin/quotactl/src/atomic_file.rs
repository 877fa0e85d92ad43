//! Atomic replacement of files: readers, also after a crash, find either the old content or the new one.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown},
    path::Path,
};

/// Replaces a file by a new one with the owner and mode of `like`. Without `like`, only this user can access the file.
pub(crate) fn replace(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&partial)?;
    let mut write = || {
        if let Some(like) = like {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
            file.set_permissions(like.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    let replaced = write();
    if replaced.is_err() {
        // Why it was not replaced is what matters.
        let _ = fs::remove_file(&partial);
    }
    replaced
}
