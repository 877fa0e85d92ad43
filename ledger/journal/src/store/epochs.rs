//! The epochs of an open ledger: the sealed ones, and the current one, which is being filled.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use crate::{
    Durable,
    epoch::{Epoch, Seal},
};

/// Most databases of sealed epochs that are open at once; each has a small cache. As many as there are readers: opening
/// one reads all its files, and readers must not close each other's.
const OPEN_EPOCHS: usize = 8;

/// A sealed epoch.
#[derive(Clone)]
pub(crate) struct Sealed {
    pub(crate) seal: Seal,
    pub(crate) epoch: Arc<Epoch>,
}

/// The epoch that is being filled.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) epoch: Arc<Epoch>,
    /// The position up to which it holds the entries of the write-ahead log.
    pub(crate) flushed: Durable,
}

/// All epochs, oldest first. Each lock guards one list or value, and no two are held at once.
pub(crate) struct Epochs {
    directory: PathBuf,
    sealed: RwLock<Vec<Sealed>>,
    current: RwLock<Current>,
    /// The sealed ones with an open database, most recently used first.
    recent: Mutex<VecDeque<Arc<Epoch>>>,
    /// Closed segments up to this sequence are to be sealed, whatever their size.
    seal_through: AtomicU64,
}

impl Epochs {
    pub(crate) fn new(directory: PathBuf, sealed: Vec<Sealed>, current: Current) -> Self {
        Self {
            directory,
            sealed: RwLock::new(sealed),
            current: RwLock::new(current),
            recent: Mutex::default(),
            seal_through: AtomicU64::new(0),
        }
    }

    /// The one that is being filled.
    pub(crate) fn current(&self) -> Current {
        self.current.read().clone()
    }

    pub(crate) fn set_current(&self, current: Current) {
        *self.current.write() = current;
    }

    /// The sealed ones.
    pub(crate) fn sealed(&self) -> Vec<Sealed> {
        self.sealed.read().clone()
    }

    /// The sealed epoch that holds a sequence. Its database becomes the most recently used one.
    pub(crate) fn sealed_with(&self, sequence: u64) -> Option<Sealed> {
        let found = {
            let sealed = self.sealed.read();
            let at = sealed.partition_point(|sealed| sealed.seal.last.sequence < sequence);
            sealed.get(at).filter(|sealed| sealed.seal.before.sequence < sequence).cloned()
        };
        found.inspect(|sealed| self.touch(&sealed.epoch))
    }

    /// Moves the current epoch, now sealed, to the sealed ones, and begins the next.
    pub(crate) fn push_sealed(&self, sealed: Sealed) {
        let last = sealed.seal.last;
        self.touch(&sealed.epoch);
        self.sealed.write().push(sealed);
        self.set_current(Current {
            epoch: Arc::new(Epoch::new(&self.directory, last)),
            flushed: last,
        });
    }

    /// Removes the sealed ones that end at a sequence or before from the list.
    pub(crate) fn take_through(&self, sequence: u64) -> Vec<Sealed> {
        let mut sealed = self.sealed.write();
        let kept = sealed.partition_point(|sealed| sealed.seal.last.sequence <= sequence);
        sealed.drain(..kept).collect()
    }

    /// Requests that the segments up to `last` are sealed at the next end of a segment.
    pub(crate) fn request_seal(&self, last: u64) {
        self.seal_through.fetch_max(last, Ordering::AcqRel);
    }

    /// Whether sealing was requested for the epoch that begins behind `before`.
    pub(crate) fn seal_requested(&self, before: &Durable) -> bool {
        before.sequence < self.seal_through.load(Ordering::Acquire)
    }

    /// Closes every database.
    pub(crate) fn close(&self) {
        for sealed in self.sealed() {
            sealed.epoch.close();
        }
        self.current().epoch.close();
    }

    /// Limits the number of open databases to the most recently used ones.
    fn touch(&self, epoch: &Arc<Epoch>) {
        let mut recent = self.recent.lock();
        if recent.front().is_some_and(|front| Arc::ptr_eq(front, epoch)) {
            return;
        }
        recent.retain(|other| !Arc::ptr_eq(other, epoch));
        recent.push_front(Arc::clone(epoch));
        let kept = recent.len().min(OPEN_EPOCHS);
        let surplus = recent.split_off(kept);
        drop(recent);
        for epoch in surplus {
            epoch.close();
        }
    }
}
