//! The command line of a program: one flag per key, generated from the reference.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgMatches, error::ErrorKind, parser::ValueSource};

use super::{Entry, Schema, entries, environment_name, file_variable, flag_name};
use crate::exit::Exit;

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
        return Err(command.error(ErrorKind::ArgumentConflict, message));
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
