//! Watches free disk space. Below a mark, grants and new events are refused, so that there is room for entries that end
//! reservations and for a clean shutdown. If the disk fills up nevertheless, a ballast file is removed, so that the
//! ledger can be opened. The same check verifies that the ledger is still in its place.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use quota_service::health::Check;
use tokio_util::sync::CancellationToken;

use crate::{config::Size, fatal, metrics, recovery::DataDirGuard, writer::Ledger};

/// Name of the ballast file in the data directory.
const BALLAST: &str = "ballast";

/// How often the disk is checked. At full speed the ledger writes some tens of MiB in this time.
const PERIOD: Duration = Duration::from_millis(100);

/// The mark is at most this fraction of the file system, so that small ones can be used.
const PART: u64 = 5;

/// The ballast is this fraction of the mark.
const BALLAST_PART: u64 = 4;

/// Bytes per write of the ballast.
const STEP_BYTES: usize = 64 * 1024;

/// The free space on the file system of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FreeSpace {
    /// Bytes that can still be written.
    free: u64,
    /// Below this number of bytes the disk is low.
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

    /// Whether the disk is low, given the previous state. The state ends only at a quarter above the mark, so that it
    /// does not flap with every file that is removed.
    const fn is_low(self, was: bool) -> bool {
        match was {
            false => self.free < self.mark,
            true => self.free < self.mark.saturating_add(self.mark / 4),
        }
    }

    const fn ballast_bytes(self) -> u64 {
        self.mark / BALLAST_PART
    }

    /// Whether a missing ballast can be written while the disk stays far from low.
    const fn has_room_for_ballast(self) -> bool {
        let needed = self.mark.saturating_mul(2);
        self.mark > 0 && self.free >= needed.saturating_add(self.ballast_bytes())
    }
}

/// Watches the disk, and reports low space to the ledger, `/readyz` and the metrics.
pub(crate) struct DiskSpaceGuard {
    directory: PathBuf,
    place: DataDirGuard,
    min_free: u64,
    ledger: Ledger,
    check: Check,
    low: bool,
    /// Whether the last check failed.
    blind: bool,
}

impl DiskSpaceGuard {
    /// Checks for the first time; nothing is granted before.
    ///
    /// # Errors
    /// The ledger is no longer in its place.
    pub(crate) fn new(
        directory: PathBuf,
        min_free: Size,
        ledger: Ledger,
        check: Check,
    ) -> io::Result<Self> {
        let mut guard = Self {
            place: DataDirGuard::of(&directory)?,
            directory,
            min_free: min_free.bytes(),
            ledger,
            check,
            low: false,
            blind: false,
        };
        guard.report(FreeSpace::of(&guard.directory, guard.min_free));
        Ok(guard)
    }

    /// Checks until `stop`, and keeps the ballast in place.
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
            let checked = tokio::task::spawn_blocking(move || {
                if !place.is_held()? {
                    fatal::ledger_removed(place.lock());
                }
                check(&directory, min_free)
            });
            match checked.await {
                Ok(space) => self.report(space),
                Err(_) => return,
            }
        }
    }

    fn report(&mut self, found: io::Result<FreeSpace>) {
        let space = match found {
            Ok(space) => space,
            Err(error) => {
                if !std::mem::replace(&mut self.blind, true) {
                    tracing::warn!(%error, "cannot determine the free disk space");
                }
                return;
            }
        };
        self.blind = false;
        let was = self.low;
        let low = space.is_low(was);
        self.low = low;
        metrics::disk(space.free, low);
        let FreeSpace { free, mark } = space;
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
                false => tracing::info!(free, mark, "disk space recovered"),
            }
        }
    }
}

fn check(directory: &Path, min_free: u64) -> io::Result<FreeSpace> {
    let space = FreeSpace::of(directory, min_free)?;
    let path = directory.join(BALLAST);
    if space.has_room_for_ballast() && !path.exists() {
        // Retried while there is room: a partly written ballast is removed.
        put_ballast(&path, space.ballast_bytes()).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
    }
    Ok(space)
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

/// Removes the ballast; answers whether there was one.
///
/// # Errors
/// The ballast cannot be removed.
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
        let space = check(directory.path(), 1000).unwrap();
        assert_eq!(space.mark, 1000);
        let length = || fs::metadata(directory.path().join(BALLAST)).map(|file| file.len());
        assert_eq!(length().unwrap(), 250);
        assert!(release_ballast(directory.path()).unwrap());
        assert!(length().is_err());
        assert!(!release_ballast(directory.path()).unwrap());
        assert_eq!(check(directory.path(), u64::MAX).unwrap().mark, {
            let space = rustix::fs::statvfs(directory.path()).unwrap();
            space.f_blocks * space.f_frsize / PART
        });
    }
}
