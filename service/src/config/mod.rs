//! Configuration: built-in defaults, then a file, then the environment, then flags.
//!
//! A program's [`Schema`] defines its keys, its shipped file documents them. Everything else is derived from those two:
//! flags, environment names, help, suggestions.

mod values;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::{self, Write as _},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgMatches, error::ErrorKind as ClapErrorKind, parser::ValueSource};
pub use quota_semantics::{ParsePeriodError, Period};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer},
};
use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue, ValueDeserializer},
};

pub use values::{ParseSizeError, Size, blank, redact, redact_addresses};

use crate::exit::Exit;

// Merges the layers of configuration, value by value, and reports all errors at once.

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
    fn of_key(key: String, message: &str, origin: Origin) -> Self {
        Self { key: Some(key), message: message.trim().to_owned(), origin }
    }

    fn of_file(message: &str, origin: Origin) -> Self {
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

// Reads each layer into settings: key, value, origin.

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
struct Setting {
    key: String,
    value: Value,
    origin: Origin,
}

impl Setting {
    fn problem(self, message: &str) -> Problem {
        Problem::of_key(self.key, message, self.origin)
    }
}

/// Collects the settings of all layers in order, and their errors.
struct Reader<'a> {
    defaults: &'a BTreeMap<String, Value>,
    settings: Vec<Setting>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn read<S: Schema>(defaults: &'a BTreeMap<String, Value>, sources: &Sources) -> Self {
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

// The command line of a program: one flag per key, generated from the reference.

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The command.
    pub task: Task,
    /// The file named by `--config` or the environment.
    pub file: Option<PathBuf>,
    /// Keys and values of the flags that set a key.
    pub overrides: Vec<(String, String)>,
}

/// The commands of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Serve.
    Run,
    /// Print the effective configuration.
    CheckConfig,
    /// The program's command of this name.
    Own(&'static str),
}

/// A command of a program, which takes no configuration.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Runs it, and returns the exit code.
    pub run: fn() -> Exit,
}

/// Parses the command line, with the program's name first.
///
/// # Errors
/// Wrong usage, `--help` and `--version`, each to be shown by [`clap::Error::exit`].
pub fn parse<S: Schema>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Invocation, clap::Error> {
    let mut command = command::<S>();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let own = |name| S::COMMANDS.iter().find(|command| command.name == name);
    let (task, chosen) = match matches.subcommand() {
        Some((CHECK_CONFIG, chosen)) => (Task::CheckConfig, chosen),
        Some((name, chosen)) => match own(name) {
            Some(own) => (Task::Own(own.name), chosen),
            None => (Task::Run, chosen),
        },
        None => (Task::Run, &matches),
    };
    let overrides = overrides::<S>(chosen);
    if let Task::Own(name) = task
        && (is_given(chosen, CONFIG) || !overrides.is_empty())
    {
        let message = format!("{name} takes no configuration");
        return Err(command.error(ClapErrorKind::ArgumentConflict, message));
    }
    Ok(Invocation { task, file: chosen.get_one::<PathBuf>(CONFIG).cloned(), overrides })
}

fn is_given(matches: &ArgMatches, argument: &str) -> bool {
    matches.value_source(argument) == Some(ValueSource::CommandLine)
}

const CONFIG: &str = "config";

const CHECK_CONFIG: &str = "check-config";

fn overrides<S: Schema>(matches: &ArgMatches) -> Vec<(String, String)> {
    entries::<S>()
        .into_iter()
        .filter(|entry| is_given(matches, &entry.key))
        .filter_map(|entry| {
            let text = matches.get_one::<String>(&entry.key)?.clone();
            Some((entry.key, text))
        })
        .collect()
}

fn command<S: Schema>() -> clap::Command {
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .short('c')
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .env(file_variable::<S>())
        .global(true)
        .help(format!("Configuration file [default: {} if there is one]", S::DEFAULT_FILE));
    let check = clap::Command::new(CHECK_CONFIG)
        .about("Print the configuration in force, or name each wrong key");
    let own = S::COMMANDS.iter();
    let own = own.map(|own| clap::Command::new(own.name).about(own.about));
    clap::Command::new(S::PROGRAM)
        .version(S::VERSION)
        .about(S::ABOUT)
        .disable_help_subcommand(true)
        .after_help("Every key of the configuration has a flag; --help lists them.")
        .after_long_help(S::EXIT_CODES)
        .arg(config)
        .args(entries::<S>().iter().map(key_flag::<S>))
        .subcommand(check)
        .subcommands(own)
}

fn key_flag<S: Schema>(entry: &Entry) -> Arg {
    let underscored = entry.key.clone();
    let heading = match entry.section() {
        "" => "Keys".to_owned(),
        section => format!("Keys of [{section}]"),
    };
    Arg::new(underscored.clone())
        .long(flag_name(&entry.key).split_off(2))
        .alias(underscored)
        .value_name("VALUE")
        .global(true)
        .allow_hyphen_values(true)
        .hide_short_help(true)
        .help_heading(heading)
        .help(format!("{} [env: {}]", entry.comment, environment_name::<S>(&entry.key)))
}

// The specific part of a program's configuration.

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
