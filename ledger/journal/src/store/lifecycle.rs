//! The lifecycle of an open journal.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::Error;

/// The end of a journal: its first error, or its close. Neither is ever undone.
#[derive(Default)]
pub(crate) struct Lifecycle {
    poison: OnceLock<Arc<Error>>,
    closed: AtomicBool,
}

impl Lifecycle {
    /// Ends all writing. The first error is kept.
    pub(crate) fn poison(&self, error: &Error) {
        self.poison.get_or_init(|| match error {
            Error::Poisoned { cause } => Arc::clone(cause),
            error => Arc::new(error.clone()),
        });
    }

    /// The error that ended all writing.
    pub(crate) fn poisoned(&self) -> Option<Arc<Error>> {
        self.poison.get().cloned()
    }

    /// Fails if an earlier error ended all writing.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.poisoned()
            .map_or(Ok(()), |cause| Err(Error::Poisoned { cause }))
    }

    /// Ends all reading: from now on another process may open the directory.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Fails once the journal was closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}
