//! Puts the layers on top of each other, value by value, and finds everything that is wrong at once.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, de::IntoDeserializer};
use toml::{Table, Value};

use super::{
    Config, Origin, Problem, Problems, Sources, reference,
    sources::{Reader, Setting},
    text::redact,
    validate::validate,
};

/// A configuration in force, and where each of its values comes from.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The values.
    pub config: Config,
    settings: BTreeMap<String, Setting>,
}

impl Effective {
    /// The configuration as TOML, with the origin of each value that is not the default as a comment.
    /// Passwords in URLs are left out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let defaults = leaves_of_defaults();
        let mut text = String::new();
        let mut section = String::new();
        for entry in reference::entries() {
            if entry.section() != section {
                section = entry.section().to_owned();
                let _ = writeln!(text, "\n[{section}]");
            }
            let default = defaults.get(&entry.key);
            let setting = self.settings.get(&entry.key);
            let Some(value) = setting.map(|setting| &setting.value).or(default) else {
                continue;
            };
            let _ = write!(text, "{} = {}", entry.name(), without_passwords(value));
            if let Some(setting) = setting.filter(|setting| Some(&setting.value) != default) {
                let _ = write!(text, " # {}", setting.origin);
            }
            text.push('\n');
        }
        text
    }

    /// Every value that is not the default, as `key = value (origin)`. Passwords in URLs are left out.
    #[must_use]
    pub fn overridden(&self) -> Vec<String> {
        let defaults = leaves_of_defaults();
        let differing = self
            .settings
            .values()
            .filter(|set| Some(&set.value) != defaults.get(&set.key));
        differing
            .map(|set| {
                format!(
                    "{} = {} ({})",
                    set.key,
                    without_passwords(&set.value),
                    set.origin
                )
            })
            .collect()
    }
}

/// Reads all layers.
///
/// # Errors
/// Everything that is wrong with any of them: unknown keys, values of the wrong form, values that
/// contradict each other, a file that cannot be read.
pub fn load(sources: &Sources) -> Result<Effective, Problems> {
    let defaults = leaves_of_defaults();
    let Reader {
        settings,
        mut problems,
        ..
    } = Reader::read(&defaults, sources);
    let mut in_force = BTreeMap::new();
    for setting in settings {
        match with(&defaults, [&setting]) {
            Err(error) => problems.push(setting.problem(error.message())),
            Ok(_) => drop(in_force.insert(setting.key.clone(), setting)),
        }
    }
    match with(&defaults, in_force.values()) {
        Ok(config) => {
            problems.extend(validate(&config).into_iter().map(|(key, message)| {
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
pub(super) fn leaves_of_defaults() -> BTreeMap<String, Value> {
    let table = Table::try_from(Config::default()).expect("the defaults are plain TOML");
    let mut leaves = BTreeMap::new();
    for (name, value) in table {
        match value {
            // A table without keys is no section but a map that the operator fills.
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

/// The configuration with these settings in place of the defaults.
fn with<'a>(
    defaults: &BTreeMap<String, Value>,
    settings: impl IntoIterator<Item = &'a Setting>,
) -> Result<Config, toml::de::Error> {
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
    Config::deserialize(table.into_deserializer())
}

fn without_passwords(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        value => value.clone(),
    }
}
