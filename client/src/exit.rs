//! The exit codes of all programs: one table, on which supervisors and scripts rely.

use std::process::{ExitCode, Termination};

/// An exit code. A number means the same in every program; not every program uses every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Done, granted, fits; stopped cleanly.
    Done = 0,
    /// The program could not continue: an address is in use, the daemon cannot be reached, a file cannot be read, a
    /// request is refused.
    Failure = 1,
    /// Wrong usage.
    Usage = 2,
    /// The configuration is invalid.
    Configuration = 3,
    /// The ledger on disk is damaged; a restart does not help.
    Damaged = 4,
    /// A write or fsync failed; the durable content is unknown until the ledger is recovered.
    Poisoned = 5,
    /// A quota denies the request, or the request does not fit.
    Denied = 10,
    /// The resource does not exist.
    NotFound = 11,
    /// The request contradicts the content of the ledger.
    Conflict = 12,
}

impl Exit {
    /// The exit code of the process.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}
