//! The end of the daemon, as supervisors and scripts see it.

pub use quota_client::exit::Exit;

/// Why the daemon cannot continue, and the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{error:#}")]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    /// The reason, with its causes.
    pub error: anyhow::Error,
}

impl From<anyhow::Error> for Failure {
    /// An error without a specific exit code.
    fn from(error: anyhow::Error) -> Self {
        Self { exit: Exit::Failure, error }
    }
}

/// Assigns an exit code to an error.
pub trait OrExit<T> {
    /// The value, or a [`Failure`] with this exit code.
    ///
    /// # Errors
    /// The original error.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit, error: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_failure_tells_its_causes_and_its_code() {
        let denied = std::io::Error::other("read-only file system");
        let result: Result<(), _> = Err(denied).context("cannot open data").or_exit(Exit::Poisoned);
        let failure = result.unwrap_err();
        assert_eq!(failure.to_string(), "cannot open data: read-only file system");
        assert_eq!(failure.exit.code(), 5);
    }
}
