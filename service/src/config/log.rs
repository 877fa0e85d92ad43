//! `log.*`: logging.

use serde::{Deserialize, Serialize};

/// `log.*`: logging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// A level, or a filter such as `info,quotad::intake=debug`; `RUST_LOG` takes precedence.
    pub level: String,
    /// The format of lines.
    pub format: LogFormat,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line.
    Json,
    /// Readable text.
    Pretty,
}
