//! Reads the keys of each layer into settings: key, value, origin. Of an unknown key it says which one was meant.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use serde::Deserialize as _;
use toml::{
    Spanned, Value,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{Origin, Problem, Schema, environment_name, file_variable, flag_name};

/// The sources of values besides the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The named file; none: [`Schema::DEFAULT_FILE`], if it exists.
    pub file: Option<PathBuf>,
    /// All environment variables; only those with the prefix [`Schema::PREFIX`] are used.
    pub environment: Vec<(OsString, OsString)>,
    /// Keys and values of flags.
    pub flags: Vec<(String, String)>,
}

/// One value of one layer.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl Setting {
    pub(super) fn problem(self, message: &str) -> Problem {
        Problem::of_key(self.key, message, self.origin)
    }
}

/// Collects the settings of all layers in order, and their errors.
pub(super) struct Reader<'a> {
    defaults: &'a BTreeMap<String, Value>,
    pub(super) settings: Vec<Setting>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn read<S: Schema>(
        defaults: &'a BTreeMap<String, Value>,
        sources: &Sources,
    ) -> Self {
        let mut reader = Self { defaults, settings: Vec::new(), problems: Vec::new() };
        reader.file::<S>(sources.file.as_deref());
        reader.environment::<S>(&sources.environment);
        for (key, text) in &sources.flags {
            reader.text(key, text, Origin::Flag(flag_name(key)), flag_name);
        }
        reader
    }

    fn file<S: Schema>(&mut self, explicit: Option<&Path>) {
        let path = explicit.unwrap_or(Path::new(S::DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if explicit.is_none() && error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                let origin = Origin::File(path.into(), 1);
                self.problems.push(Problem::of_file(&format!("cannot be read: {error}"), origin));
                return;
            }
        };
        let origin = |offset: usize| {
            let newlines = text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
            Origin::File(path.into(), 1 + newlines)
        };
        match DeTable::parse(&text) {
            Ok(table) => self.table("", table.into_inner(), &origin),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start);
                self.problems.push(Problem::of_file(error.message(), origin(start)));
            }
        }
    }

    /// Reads a table of the file; the parser bounds the depth of nesting.
    fn table(&mut self, prefix: &str, table: DeTable<'_>, origin: &impl Fn(usize) -> Origin) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let origin_of_key = origin(name.span().start);
            let section = format!("{key}.");
            let is_section = self.defaults.keys().any(|key| key.starts_with(&section));
            let span = value.span();
            match value.into_inner() {
                DeValue::Table(table) if is_section => self.table(&section, table, origin),
                _ if is_section => {
                    let message = "is a section, not a value";
                    self.problems.push(Problem::of_key(key, message, origin_of_key));
                }
                value if self.defaults.contains_key(&key) => {
                    let deserializer = ValueDeserializer::from(Spanned::new(span, value));
                    match Value::deserialize(deserializer) {
                        Ok(value) => {
                            self.settings.push(Setting { key, value, origin: origin_of_key });
                        }
                        Err(error) => {
                            let problem = Problem::of_key(key, error.message(), origin_of_key);
                            self.problems.push(problem);
                        }
                    }
                }
                _ => self.unknown(key, origin_of_key, str::to_owned),
            }
        }
    }

    fn environment<S: Schema>(&mut self, variables: &[(OsString, OsString)]) {
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with(S::PREFIX)) else {
                continue;
            };
            // This variable names the file, so it is not a key.
            if name == file_variable::<S>() {
                continue;
            }
            let key = name[S::PREFIX.len()..].to_ascii_lowercase().replace("__", ".");
            let origin = Origin::Environment(name.to_owned());
            match value.to_str() {
                Some(text) => self.text(&key, text, origin, environment_name::<S>),
                None => self.problems.push(Problem::of_key(key, "is not UTF-8", origin)),
            }
        }
    }

    /// Reads a value from the environment or a flag: plain text for a key that holds text, otherwise TOML. A list may
    /// also be written without brackets and quotes.
    fn text(&mut self, key: &str, text: &str, origin: Origin, spelling: fn(&str) -> String) {
        let value = match self.defaults.get(key) {
            None => return self.unknown(key.to_owned(), origin, spelling),
            Some(Value::String(_)) => Value::String(text.to_owned()),
            Some(Value::Array(_)) if !text.trim_start().starts_with('[') => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
            }
            Some(_) => text.trim().parse().unwrap_or_else(|_| Value::String(text.to_owned())),
        };
        self.settings.push(Setting { key: key.to_owned(), value, origin });
    }

    fn unknown(&mut self, key: String, origin: Origin, spelling: fn(&str) -> String) {
        let message = match nearest(&key, self.defaults.keys()) {
            Some(candidate) => format!("unknown key; did you mean {}?", spelling(candidate)),
            None => "unknown key".to_owned(),
        };
        self.problems.push(Problem::of_key(key, &message, origin));
    }
}

/// The key that was probably meant: one that differs by few letters, or has the same last part.
fn nearest<'a>(key: &str, keys: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    keys.filter_map(|candidate| {
        let distance = strsim::damerau_levenshtein(key, candidate);
        let near = distance <= (key.len() / 4).max(2);
        (near || last(key) == last(candidate)).then_some((distance, candidate.as_str()))
    })
    .min()
    .map(|(_, candidate)| candidate)
}
