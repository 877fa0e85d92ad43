//! Room on the disk. Below a mark nothing more is granted and no more events are taken in, so that there is room for
//! what ends reservations and for putting the ledger to rest. Should the disk fill up all the same, a ballast file
//! is given up, so that the ledger can be opened. Whoever looks also sees whether the ledger is still there at all.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use quota_service::health::Check;

use crate::{config::Size, data_dir_guard::DataDirGuard, fatal, metrics, writer::Ledger};

/// Name of the ballast file in the data directory.
pub(crate) const BALLAST: &str = "ballast";

/// How often is looked. At full speed the ledger writes some tens of MiB in this time.
const PERIOD: Duration = Duration::from_millis(100);

/// The mark is at most this part of the file system, so that small ones can be used.
const PART: u64 = 5;

/// The ballast is this part of the mark.
const BALLAST_PART: u64 = 4;

/// Bytes written at a time.
const STEP_BYTES: usize = 64 * 1024;

/// The room on the file system of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeSpace {
    /// Bytes that can still be written.
    free: u64,
    /// Below so many bytes the disk is said to be low.
    mark: u64,
}

impl FreeSpace {
    fn of(directory: &Path, min_free: u64) -> io::Result<Self> {
        let space = rustix::fs::statvfs(directory)?;
        Ok(Self {
            free: space.f_bavail.saturating_mul(space.f_frsize),
            mark: min_free.min(space.f_blocks.saturating_mul(space.f_frsize) / PART),
        })
    }

    /// Whether there is too little, given whether there was. A quarter more than the mark ends it, so that it does
    /// not come and go with every file that is removed.
    const fn is_low(self, was: bool) -> bool {
        match was {
            false => self.free < self.mark,
            true => self.free < self.mark.saturating_add(self.mark / 4),
        }
    }

    const fn ballast_bytes(self) -> u64 {
        self.mark / BALLAST_PART
    }

    /// Whether the ballast can be put where it is missing, and the disk be far from low.
    const fn has_room_for_ballast(self) -> bool {
        let needed = self.mark.saturating_mul(2);
        self.mark > 0 && self.free >= needed.saturating_add(self.ballast_bytes())
    }
}

/// Watches the disk, and reports too little room to the ledger, `/readyz` and the metrics.
pub(crate) struct DiskSpaceGuard {
    directory: PathBuf,
    place: DataDirGuard,
    min_free: u64,
    ledger: Ledger,
    check: Check,
    low: bool,
    /// The last look at the disk failed.
    blind: bool,
}

impl DiskSpaceGuard {
    /// Looks for the first time: nothing is to be granted before.
    ///
    /// # Errors
    /// The ledger is not there any more.
    pub(crate) fn new(
        directory: PathBuf,
        min_free: Size,
        ledger: Ledger,
        check: Check,
    ) -> io::Result<Self> {
        let mut lookout = Self {
            place: DataDirGuard::of(&directory)?,
            directory,
            min_free: min_free.bytes(),
            ledger,
            check,
            low: false,
            blind: false,
        };
        lookout.tell(FreeSpace::of(&lookout.directory, lookout.min_free));
        Ok(lookout)
    }

    /// Looks on until `stop`, and keeps the ballast in place.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let (place, directory) = (self.place.clone(), self.directory.clone());
            let min_free = self.min_free;
            let looked = tokio::task::spawn_blocking(move || {
                if !place.is_held()? {
                    fatal::ledger_removed(place.lock());
                }
                look(&directory, min_free)
            });
            match looked.await {
                Ok(standing) => self.tell(standing),
                Err(_) => return,
            }
        }
    }

    fn tell(&mut self, looked: io::Result<FreeSpace>) {
        let standing = match looked {
            Ok(standing) => standing,
            Err(error) => {
                if !std::mem::replace(&mut self.blind, true) {
                    tracing::warn!(%error, "cannot tell how much room is left on the disk");
                }
                return;
            }
        };
        self.blind = false;
        let was = self.low;
        let low = standing.is_low(was);
        self.low = low;
        metrics::disk(standing.free, low);
        let FreeSpace { free, mark } = standing;
        match low {
            true => self.check.fail(&format!(
                "the disk is low: {free} bytes are free, {mark} are to be kept free; nothing is granted"
            )),
            false => self.check.pass(),
        }
        if was != low {
            self.ledger.set_disk_low(low);
            match low {
                true => tracing::error!(free, mark, "the disk is low: nothing is granted"),
                false => tracing::info!(free, mark, "there is room on the disk again"),
            }
        }
    }
}

fn look(directory: &Path, min_free: u64) -> io::Result<FreeSpace> {
    let standing = FreeSpace::of(directory, min_free)?;
    let path = directory.join(BALLAST);
    if standing.has_room_for_ballast() && !path.exists() {
        // It is tried again as long as there is room: what was written of it is removed.
        put_ballast(&path, standing.ballast_bytes()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
    }
    Ok(standing)
}

fn put_ballast(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut left = bytes;
    while left > 0 {
        let step = usize::try_from(left).unwrap_or(STEP_BYTES).min(STEP_BYTES);
        file.write_all(&[0; STEP_BYTES][..step])?;
        left = left.saturating_sub(step as u64);
    }
    file.sync_all()
}

/// Gives the ballast up; whether there was any.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn release_ballast(directory: &Path) -> io::Result<bool> {
    match fs::remove_file(directory.join(BALLAST)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_is_below_the_mark_and_ends_a_quarter_above_it() {
        let at = |free| FreeSpace { free, mark: 100 };
        assert!(at(99).is_low(false) && !at(100).is_low(false));
        assert!(at(124).is_low(true) && !at(125).is_low(true));
        assert!(at(225).has_room_for_ballast() && !at(224).has_room_for_ballast());
        let without = FreeSpace { free: 0, mark: 0 };
        assert!(!without.is_low(false) && !without.is_low(true));
        assert!(!without.has_room_for_ballast());
    }

    #[test]
    fn the_ballast_is_put_in_place_and_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let standing = look(directory.path(), 1000).unwrap();
        assert_eq!(standing.mark, 1000);
        let length = || fs::metadata(directory.path().join(BALLAST)).map(|file| file.len());
        assert_eq!(length().unwrap(), 250);
        assert!(release_ballast(directory.path()).unwrap());
        assert!(length().is_err());
        assert!(!release_ballast(directory.path()).unwrap());
        assert_eq!(look(directory.path(), u64::MAX).unwrap().mark, {
            let space = rustix::fs::statvfs(directory.path()).unwrap();
            space.f_blocks * space.f_frsize / PART
        });
    }
}
