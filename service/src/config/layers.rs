//! Merges the layers of configuration, value by value, and reports all errors at once.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::PathBuf,
};

use serde::de::IntoDeserializer as _;
use toml::{Table, Value};

use super::{
    Schema, Sources, entries,
    keys::{Reader, Setting},
    redact, redact_addresses,
};

/// The effective configuration, with the origin of each value.
#[derive(Clone, Debug)]
pub struct Effective<S> {
    /// The values.
    pub config: S,
    settings: BTreeMap<String, Setting>,
}

impl<S: Schema> Effective<S> {
    /// The configuration as TOML, with the origin of each value that is not the default as a comment.
    /// Secrets in URLs are left out.
    pub fn to_toml(&self) -> String {
        let defaults = leaves_of_defaults::<S>();
        let mut text = String::new();
        let mut section = String::new();
        for entry in entries::<S>() {
            if entry.section() != section {
                section = entry.section().to_owned();
                let _ = writeln!(text, "\n[{section}]");
            }
            let default = defaults.get(&entry.key);
            let setting = self.settings.get(&entry.key);
            let Some(value) = setting.map(|setting| &setting.value).or(default) else {
                continue;
            };
            let _ = write!(text, "{} = {}", entry.name(), shown(&entry.key, value));
            if let Some(setting) = setting.filter(|setting| Some(&setting.value) != default) {
                let _ = write!(text, " # {}", setting.origin);
            }
            text.push('\n');
        }
        text
    }

    /// Every value that is not the default, as `key = value (origin)`. Secrets in URLs are left out.
    pub fn overridden(&self) -> Vec<String> {
        let defaults = leaves_of_defaults::<S>();
        let differing =
            self.settings.values().filter(|set| Some(&set.value) != defaults.get(&set.key));
        differing
            .map(|set| format!("{} = {} ({})", set.key, shown(&set.key, &set.value), set.origin))
            .collect()
    }
}

/// Reads all layers.
///
/// # Errors
/// All errors in any of them: unknown keys, values of the wrong form, contradictory values, an unreadable file.
pub fn load<S: Schema>(sources: &Sources) -> Result<Effective<S>, Problems> {
    let defaults = leaves_of_defaults::<S>();
    let Reader { settings, mut problems, .. } = Reader::read::<S>(&defaults, sources);
    let mut in_force = BTreeMap::new();
    for setting in settings {
        match with::<S>(&defaults, [&setting]) {
            Err(error) => problems.push(setting.problem(error.message())),
            Ok(_) => drop(in_force.insert(setting.key.clone(), setting)),
        }
    }
    match with::<S>(&defaults, in_force.values()) {
        Ok(config) => {
            problems.extend(config.validate().into_iter().map(|(key, message)| {
                let origin = in_force.get(key).map_or(Origin::Default, |set| set.origin.clone());
                Problem { key: Some(key.to_owned()), message, origin }
            }));
            if problems.is_empty() {
                return Ok(Effective { config, settings: in_force });
            }
        }
        Err(error) => problems.push(Problem::of_file(error.message(), Origin::Default)),
    }
    Err(Problems(problems))
}

/// The defaults by dotted key.
pub fn leaves_of_defaults<S: Schema>() -> BTreeMap<String, Value> {
    let table = Table::try_from(S::default()).expect("the defaults are plain TOML");
    let mut leaves = BTreeMap::new();
    for (name, value) in table {
        match value {
            // A table without keys is not a section, but a map that the operator fills.
            Value::Table(section) if !section.is_empty() => {
                leaves.extend(
                    section.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)),
                );
            }
            value => drop(leaves.insert(name, value)),
        }
    }
    leaves
}

/// The configuration with these settings instead of the defaults.
fn with<'a, S: Schema>(
    defaults: &BTreeMap<String, Value>,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Result<S, toml::de::Error> {
    let mut leaves = defaults.clone();
    leaves.extend(settings.into_iter().map(|set| (set.key.clone(), set.value.clone())));
    let mut table = Table::new();
    for (key, value) in leaves {
        match key.split_once('.') {
            None => drop(table.insert(key, value)),
            Some((section, name)) => {
                let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
                if let Value::Table(section) = section {
                    section.insert(name.to_owned(), value);
                }
            }
        }
    }
    S::deserialize(table.into_deserializer())
}

/// The value without the secrets of URLs in it.
fn shown(key: &str, value: &Value) -> Value {
    match value {
        // The address of a NATS server may lack a scheme.
        Value::String(text) if key.ends_with("url") => Value::String(redact_addresses(text)),
        Value::String(text) => Value::String(redact(text)),
        Value::Array(items) => Value::Array(items.iter().map(|item| shown(key, item)).collect()),
        Value::Table(table) => {
            let pairs = table.iter();
            Value::Table(pairs.map(|(name, value)| (redact(name), shown(key, value))).collect())
        }
        value => value.clone(),
    }
}

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
        Self { key: Some(key), message: message.trim().to_owned(), origin }
    }

    pub(super) fn of_file(message: &str, origin: Origin) -> Self {
        Self { key: None, message: message.trim().to_owned(), origin }
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
