//! What is particular to one program's configuration.

use serde::{Serialize, de::DeserializeOwned};

/// A key and what is wrong with its value.
pub type Finding = (&'static str, String);

/// The configuration of a program: its keys. The defaults are those of the shipped file.
pub trait Schema: Clone + Default + Serialize + DeserializeOwned {
    /// The program's name.
    const PROGRAM: &'static str;
    /// Its version, as `--version` shows it.
    const VERSION: &'static str;
    /// What the program is, in one line.
    const ABOUT: &'static str;
    /// Its exit codes, for the end of the long help.
    const EXIT_CODES: &'static str;
    /// What the names of its environment variables begin with, as `QUOTAD_`. The variable `CONFIG` after that names the
    /// file.
    const PREFIX: &'static str;
    /// The file that is read when none is named, if there is one.
    const DEFAULT_FILE: &'static str;
    /// The file as shipped: every key with its default, and what it means as a comment.
    const SHIPPED: &'static str;

    /// What the type of a value cannot say: ranges, and keys that need or exclude each other.
    fn validate(&self) -> Vec<Finding>;

    /// Keys whose values are allowed, and let in others than one may think. Reported at the start and by `check-config`.
    fn warnings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// The configuration as shipped: each key has its default.
#[must_use]
pub fn shipped<S: Schema>() -> S {
    toml::from_str(S::SHIPPED).expect("the shipped file is part of the program, and tested")
}

/// The variable that names the file of a program.
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
