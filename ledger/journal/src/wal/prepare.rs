//! The next segment, filled with zeros before it is needed. `fallocate` is not enough: the first write to each part of
//! it changes metadata, which costs every fdatasync milliseconds.

use std::{path::Path, sync::Arc};

use crate::{
    Error,
    disk::{Disk, File, temporary},
};

/// Bytes written and synced at a time, so that a sync on the ack path never waits for a whole segment.
const STEP_BYTES: u64 = 1024 * 1024;

/// A file full of durable zeros.
pub(crate) struct Prepared {
    pub(super) file: Arc<dyn File>,
    pub(super) size: u64,
}

/// Prepares a segment of `size` bytes under a temporary name.
pub(crate) fn prepare(disk: &dyn Disk, directory: &Path, size: u64) -> Result<Prepared, Error> {
    let path = temporary(&directory.join("next"));
    let file = disk.create(&path)?;
    match fill(file.as_ref(), size) {
        Ok(()) => Ok(Prepared { file, size }),
        Err(error) => {
            // Without enough space it should not take the rest.
            disk.remove_file(&path)?;
            Err(error)
        }
    }
}

fn fill(file: &dyn File, size: u64) -> Result<(), Error> {
    let mut offset = 0;
    while offset < size {
        let left = size.saturating_sub(offset).min(STEP_BYTES);
        let step = usize::try_from(left).unwrap_or(0);
        file.zero_at(step, offset)?;
        file.sync()?;
        offset = offset.saturating_add(left);
    }
    Ok(())
}
