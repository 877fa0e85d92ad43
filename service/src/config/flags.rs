//! The command line of a program: one flag per key, generated from the reference.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgMatches, Command, parser::ValueSource};

use super::{
    Schema, reference,
    schema::{environment_name, file_variable, flag_name},
};

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
}

/// Parses the command line, with the program's name first.
///
/// # Errors
/// Wrong usage, `--help` and `--version`, each to be shown by [`clap::Error::exit`].
pub fn parse<S: Schema>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Invocation, clap::Error> {
    let matches = command::<S>().try_get_matches_from(arguments)?;
    let (task, chosen) = match matches.subcommand() {
        Some((CHECK_CONFIG, chosen)) => (Task::CheckConfig, chosen),
        _ => (Task::Run, &matches),
    };
    Ok(Invocation {
        task,
        file: chosen.get_one::<PathBuf>("config").cloned(),
        overrides: overrides::<S>(chosen),
    })
}

const CHECK_CONFIG: &str = "check-config";

fn overrides<S: Schema>(matches: &ArgMatches) -> Vec<(String, String)> {
    reference::entries::<S>()
        .into_iter()
        .filter(|entry| matches.value_source(&entry.key) == Some(ValueSource::CommandLine))
        .filter_map(|entry| {
            let text = matches.get_one::<String>(&entry.key)?.clone();
            Some((entry.key, text))
        })
        .collect()
}

fn command<S: Schema>() -> Command {
    let config = Arg::new("config")
        .long("config")
        .short('c')
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .env(file_variable::<S>())
        .global(true)
        .help(format!(
            "Configuration file [default: {} if there is one]",
            S::DEFAULT_FILE
        ));
    Command::new(S::PROGRAM)
        .version(S::VERSION)
        .about(S::ABOUT)
        .after_help("Every key of the configuration has a flag; --help lists them.")
        .after_long_help(S::EXIT_CODES)
        .arg(config)
        .args(reference::entries::<S>().iter().map(key_flag::<S>))
        .subcommand(
            Command::new(CHECK_CONFIG)
                .about("Print the configuration in force, or name each wrong key"),
        )
}

fn key_flag<S: Schema>(entry: &reference::Entry) -> Arg {
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
        .help(format!(
            "{} [env: {}]",
            entry.comment,
            environment_name::<S>(&entry.key)
        ))
}
