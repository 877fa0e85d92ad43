//! How the programs of Quota Ledger end: one table of exit codes, which supervisors and scripts rely on.

use std::process::{ExitCode, Termination};

/// How a program ended. A number means the same in every program; not every program uses every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, granted, fits; stopped cleanly.
    Done = 0,
    /// Could not go on: an address is taken, the daemon cannot be reached, a file cannot be read, a request is refused.
    Failure = 1,
    /// Called wrongly.
    Usage = 2,
    /// The configuration is wrong.
    Configuration = 3,
    /// The ledger on disk is damaged; starting again does not help.
    Damaged = 4,
    /// A write or fsync failed; what is durable is unknown until the ledger is recovered.
    Poisoned = 5,
    /// A quota denies it, or it does not fit.
    Denied = 10,
    /// There is no such thing.
    NotFound = 11,
    /// It contradicts what the ledger holds.
    Conflict = 12,
}

impl Exit {
    /// The number that the process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}
