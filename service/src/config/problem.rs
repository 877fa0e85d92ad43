//! Errors in a configuration, and their origins.

use std::{fmt, path::PathBuf};

use super::text::redact;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A file, with the line (from 1).
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{} line {line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// An error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The wrong key; none if the file as a whole is wrong.
    pub key: Option<String>,
    /// The error.
    pub message: String,
    /// The origin of the value.
    pub origin: Origin,
}

impl Problem {
    pub(super) fn of_key(key: String, message: &str, origin: Origin) -> Self {
        Self {
            key: Some(key),
            message: message.trim().to_owned(),
            origin,
        }
    }

    pub(super) fn of_file(message: &str, origin: Origin) -> Self {
        Self {
            key: None,
            message: message.trim().to_owned(),
            origin,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        // A message may repeat a value.
        write!(f, "{} ({})", redact(&self.message), self.origin)
    }
}

/// All errors in a configuration, one line each. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
