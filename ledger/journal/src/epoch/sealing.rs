//! Sealing an epoch: from then on its database may be the only copy of its entries.

use super::{DATABASE, Epoch, Seal, manifest::Manifest, seal, stored_bytes};
use crate::{
    Durable, Error,
    disk::{Disk, parent},
    throttle::Throttle,
};

impl Epoch {
    /// Closes the database, opens it again, verifies that it holds everything up to `last`, syncs and closes it, and
    /// writes the seal with hashes of the files: reads do not change them any more.
    pub(crate) fn seal(
        &self,
        disk: &dyn Disk,
        last: &Durable,
        throttle: &Throttle,
    ) -> Result<Seal, Error> {
        self.sync(disk)?;
        self.try_close()?;
        let mut seal = Seal {
            before: self.before,
            last: *last,
            first_time: last.time,
            batches: 0,
            frame_bytes: 0,
            stored_bytes: 0,
        };
        let found = self.verify(disk, |frame| {
            if seal.batches == 0 {
                seal.first_time = frame.time;
            }
            seal.batches = seal.batches.saturating_add(1);
            seal.frame_bytes = seal.frame_bytes.saturating_add(frame.bytes.len() as u64);
            throttle.pause();
        })?;
        if found != *last {
            let why = format!(
                "it ends at sequence {} instead of {}",
                found.sequence, last.sequence
            );
            return Err(self.damaged(&found, why));
        }
        self.sync(disk)?;
        self.try_close()?;
        seal.stored_bytes = stored_bytes(disk, &self.directory)?;
        let manifest = Manifest::take(disk, &self.directory.join(DATABASE), throttle)?;
        seal.write(disk, &self.directory, &manifest)?;
        disk.sync_directory(parent(&self.directory))?;
        let _ = self.sealed.set(last.sequence);
        Ok(seal)
    }

    /// Makes the seal durable as it was read, before the log removes the entries that it covers.
    pub(crate) fn sync_seal(&self, disk: &dyn Disk) -> Result<(), Error> {
        disk.open(&self.directory.join(seal::FILE))?.sync()?;
        disk.sync_directory(&self.directory)?;
        disk.sync_directory(parent(&self.directory))
    }
}
