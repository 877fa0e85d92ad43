//! Closing an unsealed epoch cleanly, and reopening it: a note of its end, beside its database.

use super::Epoch;
use crate::{
    Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::Disk,
};

/// The note in the directory of an unsealed epoch whose database was closed cleanly: its last position.
const CLOSED: &str = "CLOSED";

const CLOSED_MAGIC: [u8; 3] = *b"QLC";

impl Epoch {
    /// Closes the database cleanly, so that it can be reused.
    pub(crate) fn close_at(&self, disk: &dyn Disk, flushed: &Durable) -> Result<(), Error> {
        if flushed.sequence == self.before.sequence {
            return Ok(());
        }
        self.sync(disk)?;
        self.try_close()?;
        let record = Record::new(CLOSED_MAGIC).position(flushed).finish();
        disk.replace(&self.directory.join(CLOSED), &record)
    }

    /// The position up to which the database was filled when it was closed; none if it was not closed cleanly, or is
    /// damaged. The note is removed, since the database changes from now on.
    pub(crate) fn reopen(&self, disk: &dyn Disk) -> Result<Option<Durable>, Error> {
        let path = self.directory.join(CLOSED);
        let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES))? else {
            return Ok(None);
        };
        disk.remove_file(&path)?;
        disk.sync_directory(&self.directory)?;
        let noted = closed_at(&bytes);
        let verified = self.verify(disk, |_| {});
        // An open database takes more memory than its checked content; the next flush opens it again.
        self.close();
        match verified {
            Ok(found) => Ok(noted.filter(|noted| *noted == found)),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Positions of the write-ahead log that an unsealed epoch proves: its end when its database was closed, and the
    /// end of the frames in it. They may be behind the log, but never differ from it.
    pub(crate) fn witnessed(&self, disk: &dyn Disk) -> Result<Vec<Durable>, Error> {
        let noted = disk.read(&self.directory.join(CLOSED), record_bytes(POSITION_BYTES))?;
        let mut witnessed = Vec::from_iter(noted.and_then(|bytes| closed_at(&bytes)));
        let mut last = None;
        let verified = self.verify(disk, |frame| last = Some(frame.end()));
        self.close();
        match verified {
            // The database of a killed process may be unusable; the valid frames in it were durable in the log.
            Ok(_) | Err(Error::Damaged(_)) => witnessed.extend(last),
            Err(error) => return Err(error),
        }
        Ok(witnessed)
    }
}

/// The position in the note of a clean close.
fn closed_at(bytes: &[u8]) -> Option<Durable> {
    open_record(CLOSED_MAGIC, bytes).ok()?.position()
}
