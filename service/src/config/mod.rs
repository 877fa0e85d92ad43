//! Configuration: built-in defaults, then a file, then the environment, then flags.
//!
//! A program's [`Schema`] defines its keys, its shipped file documents them. Everything else is derived from those two:
//! flags, environment names, help, suggestions.

mod command_line;
mod keys;
mod layers;
mod values;

pub use quota_semantics::{ParsePeriodError, Period};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use command_line::{Command, Invocation, Task, parse};
pub use keys::Sources;
pub use layers::{Effective, Origin, Problem, Problems, leaves_of_defaults, load};
pub use values::{ParseSizeError, Size, blank, redact, redact_addresses};

/// A key and the error of its value.
pub type Finding = (&'static str, String);

/// Adds a finding for each rule that is broken: `rules! { findings; "key": condition => message; … }`. The message is a
/// text that begins after the key, as in `"must be longer than 0s"`, and is evaluated only if it is needed.
#[macro_export]
macro_rules! rules {
    ($findings:expr; $($key:tt: $holds:expr => $message:expr;)*) => {$(
        if !$holds {
            $findings.push(($key, $message.into()));
        }
    )*};
}

/// The configuration of a program: its keys. The defaults are those of the shipped file.
pub trait Schema: Clone + Default + Serialize + DeserializeOwned {
    /// The program's name.
    const PROGRAM: &'static str;
    /// Its version, for `--version`.
    const VERSION: &'static str;
    /// A description of the program in one line.
    const ABOUT: &'static str;
    /// Its exit codes, for the end of the long help.
    const EXIT_CODES: &'static str;
    /// The prefix of its environment variables, as in `QUOTAD_`. The variable with this prefix and `CONFIG` names the
    /// file.
    const PREFIX: &'static str;
    /// The file that is read if none is named, and if it exists.
    const DEFAULT_FILE: &'static str;
    /// The file as shipped: every key with its default, documented by a comment.
    const SHIPPED: &'static str;

    /// Its commands, besides those that every program has.
    const COMMANDS: &'static [Command] = &[];

    /// Checks rules that the types of values do not express: ranges, and keys that need or exclude each other.
    fn validate(&self) -> Vec<Finding>;

    /// Valid values that may admit more callers than expected. Reported at the start and by `check-config`.
    fn warnings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// The configuration as shipped: each key has its default.
pub fn shipped<S: Schema>() -> S {
    // By way of a table, as all layers are read: a second way of deserializing would be compiled for each key.
    let table = S::SHIPPED.parse::<toml::Table>();
    table.and_then(S::deserialize).expect("the shipped file is part of the program, and tested")
}

/// The environment variable that names the file of a program.
fn file_variable<S: Schema>() -> String {
    format!("{}CONFIG", S::PREFIX)
}

/// The flag of a key: `--nats.create-stream` for `nats.create_stream`.
fn flag_name(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// The environment variable of a key.
fn environment_name<S: Schema>(key: &str) -> String {
    format!("{}{}", S::PREFIX, key.replace('.', "__").to_ascii_uppercase())
}

/// A key and the comment above it.
pub struct Entry {
    /// The dotted key, as in `nats.url`.
    pub key: String,
    /// The documentation.
    pub comment: String,
}

impl Entry {
    /// The section; empty for a key above all sections.
    fn section(&self) -> &str {
        self.key.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The key within its section.
    fn name(&self) -> &str {
        self.key.rsplit_once('.').map_or(self.key.as_str(), |(_, name)| name)
    }
}

/// Every key in the order of the file.
pub fn entries<S: Schema>() -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut section = String::new();
    let mut comment = String::new();
    for line in S::SHIPPED.lines() {
        if let Some(text) = line.strip_prefix('#') {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(text.trim());
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = format!("{name}.");
            comment.clear();
        } else if let Some((name, _)) = line.split_once(" = ") {
            let key = format!("{section}{name}");
            entries.push(Entry { key, comment: std::mem::take(&mut comment) });
        } else {
            comment.clear();
        }
    }
    entries
}

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

/// `traces.*`: the receiver of spans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traces {
    /// Address of an OTLP receiver over HTTP, as in `http://collector:4318/v1/traces`. None: tracing is off.
    #[serde(with = "blank")]
    pub otlp_url: Option<String>,
    /// Fraction of the traces that begin here that are sampled, from 0 to 1. A caller's decision in `traceparent` takes
    /// precedence.
    pub sample_ratio: f64,
}
