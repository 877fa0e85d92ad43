//! The specific part of a program's configuration.

use serde::{Serialize, de::DeserializeOwned};

use super::Command;

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
#[must_use]
pub fn shipped<S: Schema>() -> S {
    toml::from_str(S::SHIPPED).expect("the shipped file is part of the program, and tested")
}

/// The environment variable that names the file of a program.
pub(super) fn file_variable<S: Schema>() -> String {
    format!("{}CONFIG", S::PREFIX)
}

/// The flag of a key: `--nats.create-stream` for `nats.create_stream`.
pub(super) fn flag_name(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// The environment variable of a key.
pub(super) fn environment_name<S: Schema>(key: &str) -> String {
    format!(
        "{}{}",
        S::PREFIX,
        key.replace('.', "__").to_ascii_uppercase()
    )
}
