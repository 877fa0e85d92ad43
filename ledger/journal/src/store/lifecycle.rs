//! Whether an open journal still works.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use crate::Error;

/// How a journal ends: by its first error, or by being closed. Neither is ever taken back.
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

    /// Ends all reading: another process may open the directory from now on.
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
