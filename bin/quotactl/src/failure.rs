//! The failure of a command: its message and its exit code.

use std::{fmt, time::Duration};

pub(crate) use quota_client::exit::Exit;

use super::terminal_text::blank_controls;

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// The message, one line.
    pub(crate) message: String,
    /// Hints, one line each.
    pub(crate) hints: Vec<String>,
    /// Lines to print after the message: the figures of a denial.
    pub(crate) figures: Option<String>,
    /// The lines for `-o wide`, if there are more.
    pub(crate) wide: Option<String>,
    /// The reason why the same request may succeed later; none if it will not.
    pub(crate) transient: Option<Transient>,
}

/// The reason why the same request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transient {
    /// The daemon could not be reached, or the connection broke: the request may have been carried out.
    Unreachable,
    /// The daemon is busy, and requests this delay before the next attempt.
    Busy(Duration),
}

/// The result of a command.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure with its exit code.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hints: Vec::new(),
            figures: None,
            wide: None,
            transient: None,
        }
    }

    /// A failure without a message: it was printed already, or standard output is closed.
    pub(crate) fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// Whether there is nothing to print.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// A failure that has no exit code of its own.
    pub(crate) fn general(message: impl Into<String>) -> Self {
        Self::new(Exit::Failure, message)
    }

    /// An invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The same failure with a further hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The same failure with all figures.
    pub(crate) fn widened(mut self) -> Self {
        self.figures = self.wide.take().or(self.figures);
        self
    }

    /// The same failure with a prefix that names its subject.
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        if !self.is_silent() {
            self.message = format!("{what}: {}", self.message);
        }
        self
    }
}

/// Messages may contain text from elsewhere, so line ends and other misleading characters are blanked.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", blank_controls(self.message.trim_end()))?;
        for hint in &self.hints {
            write!(f, "\nhint: {}", blank_controls(hint.trim_end()))?;
        }
        if let Some(figures) = &self.figures {
            write!(f, "\n{figures}")?;
        }
        Ok(())
    }
}

/// A closed pipe (`| head`) is no failure, but ends the output. No other writer here is a pipe.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::silent(Exit::Done),
            _ => Self::general(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let gone = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let failure = Failure::from(gone).about("standard output");
        assert!(failure.exit == Exit::Done && failure.is_silent());
    }

    #[test]
    fn a_failure_is_one_line_and_a_hint() {
        let failure = Failure::general("no\nroom\u{1b}[31m\u{202e}x").hint("wait");
        assert_eq!(
            failure.about("x.yaml").to_string(),
            "error: x.yaml: no room [31m x\nhint: wait"
        );
        assert!(Failure::silent(Exit::Denied).about("x.yaml").is_silent());
    }
}
