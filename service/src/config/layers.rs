//! Merges the layers of configuration, value by value, and reports all errors at once.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::de::IntoDeserializer;
use toml::{Table, Value};

use super::{
    Origin, Problem, Problems, Schema, Sources, reference,
    sources::{Reader, Setting},
    text::{redact, redact_addresses},
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
    #[must_use]
    pub fn to_toml(&self) -> String {
        let defaults = leaves_of_defaults::<S>();
        let mut text = String::new();
        let mut section = String::new();
        for entry in reference::entries::<S>() {
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
    #[must_use]
    pub fn overridden(&self) -> Vec<String> {
        let defaults = leaves_of_defaults::<S>();
        let differing = self
            .settings
            .values()
            .filter(|set| Some(&set.value) != defaults.get(&set.key));
        differing
            .map(|set| {
                format!(
                    "{} = {} ({})",
                    set.key,
                    shown(&set.key, &set.value),
                    set.origin
                )
            })
            .collect()
    }
}

/// Reads all layers.
///
/// # Errors
/// All errors in any of them: unknown keys, values of the wrong form, contradictory values, an unreadable file.
pub fn load<S: Schema>(sources: &Sources) -> Result<Effective<S>, Problems> {
    let defaults = leaves_of_defaults::<S>();
    let Reader {
        settings,
        mut problems,
        ..
    } = Reader::read::<S>(&defaults, sources);
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
                let origin = in_force
                    .get(key)
                    .map_or(Origin::Default, |set| set.origin.clone());
                Problem {
                    key: Some(key.to_owned()),
                    message,
                    origin,
                }
            }));
            if problems.is_empty() {
                return Ok(Effective {
                    config,
                    settings: in_force,
                });
            }
        }
        Err(error) => problems.push(Problem::of_file(error.message(), Origin::Default)),
    }
    Err(Problems(problems))
}

/// The defaults by dotted key.
#[must_use]
pub fn leaves_of_defaults<S: Schema>() -> BTreeMap<String, Value> {
    let table = Table::try_from(S::default()).expect("the defaults are plain TOML");
    let mut leaves = BTreeMap::new();
    for (name, value) in table {
        match value {
            // A table without keys is not a section, but a map that the operator fills.
            Value::Table(section) if !section.is_empty() => {
                leaves.extend(
                    section
                        .into_iter()
                        .map(|(key, value)| (format!("{name}.{key}"), value)),
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
    leaves.extend(
        settings
            .into_iter()
            .map(|set| (set.key.clone(), set.value.clone())),
    );
    let mut table = Table::new();
    for (key, value) in leaves {
        match key.split_once('.') {
            None => drop(table.insert(key, value)),
            Some((section, name)) => {
                let section = table
                    .entry(section)
                    .or_insert_with(|| Value::Table(Table::new()));
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
            Value::Table(
                pairs
                    .map(|(name, value)| (redact(name), shown(key, value)))
                    .collect(),
            )
        }
        value => value.clone(),
    }
}
