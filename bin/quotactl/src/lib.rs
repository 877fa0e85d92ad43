//! `quotactl`: calls a daemon, or reads a ledger without one.
//!
//! Data goes to standard output, everything else to standard error.

mod apply;
mod args;
mod config;
mod describe;
mod drift;
mod failure;
mod figures;
mod generate;
mod get;
mod group;
mod ledger;
mod manifest;
mod output;
mod push;
mod reservation;
mod session;
mod simulate;
mod status;
mod table;
mod token;
mod usage;
mod watch;

use std::{ffi::OsString, process::ExitCode};

use clap::{ArgMatches, FromArgMatches, parser::ValueSource};
use rustix::fs::Mode;

use args::{Arguments, Command, Describe, Global, Online};
use config::Connection;
pub use drift::objects_of;
use failure::{Exit, Outcome};
pub use ledger::import_from;
use output::{Output, note};
use session::{Client, Scope, Session};

/// Runs `quotactl` with these arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    match args::answered(&arguments) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(Exit::Usage.code());
        }
    }
    let exit = match parse(arguments) {
        Ok((arguments, matches)) => match act(&arguments, &matches) {
            Ok(()) => Exit::Done,
            Err(failure) => {
                if !failure.is_silent() {
                    note(failure.to_string());
                }
                failure.exit
            }
        },
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            // Help goes to standard output; a reader that went away has seen enough of it.
            let _ = error.print();
            exit
        }
    };
    ExitCode::from(exit.code())
}

fn parse(
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(Arguments, ArgMatches), clap::Error> {
    let matches = args::command().try_get_matches_from(arguments)?;
    let mut arguments = Arguments::from_arg_matches(&matches)?;
    arguments.global = arguments.global.without_empty();
    Ok((arguments, matches))
}

fn act(arguments: &Arguments, matches: &ArgMatches) -> Outcome {
    let global = &arguments.global;
    let output = Output::new(global.output, !global.no_headers, global.color);
    if arguments.command.copies_the_ledger() {
        // It holds names of users and objects: what is written is for this user alone.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    match &arguments.command {
        Command::Completions { shell } => args::script(*shell),
        Command::Config(command) => {
            config::run(command, global, &output, |name| is_flag(matches, name))
        }
        Command::Checkpoint(command) => ledger::verify_checkpoints(command, &output),
        Command::Generate(command) => {
            generate::run(command, &output, || Connection::resolve(global, &config::read(global)?))
        }
        Command::Ledger(command) => ledger::run(command, &output, &scope(global, matches)),
        Command::Token(command) => token::run(command, &output, &scope(global, matches)),
        Command::Online(command) => online(&session(global, matches, output)?, command),
    }
}

fn session(global: &Global, matches: &ArgMatches, output: Output) -> Outcome<Session> {
    let connection = Connection::resolve(global, &config::read(global)?)?;
    Ok(Session {
        client: Client::new(&connection, output.is_wide())?,
        output,
        scope: Scope { given: connection.namespace, ..scope(global, matches) },
        reason: global.reason.clone(),
    })
}

fn scope(global: &Global, matches: &ArgMatches) -> Scope {
    Scope {
        given: global.namespace.clone(),
        strict: is_flag(matches, "namespace"),
        all: global.all_namespaces,
    }
}

/// Whether an option was given by flag, before or after the name of a command.
fn is_flag(matches: &ArgMatches, name: &str) -> bool {
    matches.value_source(name) == Some(ValueSource::CommandLine)
        || matches.subcommand().is_some_and(|(_, matches)| {
            matches.ids().any(|id| id == name) && is_flag(matches, name)
        })
}

fn online(session: &Session, command: &Online) -> Outcome {
    match command {
        Online::Backup { directory } => status::backup(session, directory),
        Online::Get(args) => get::run(session, args),
        Online::Describe(Describe::Quota { name }) => describe::quotas(session, name.as_deref()),
        Online::Describe(Describe::Group { name }) => group::describe(session, name),
        Online::Describe(Describe::Reservation { uid }) => describe::reservation(session, uid),
        Online::Describe(Describe::Namespace { name }) => {
            describe::namespace(session, name.as_deref())
        }
        Online::Explain(args) => describe::run(session, args),
        Online::Denials(args) => get::lists::denials(session, args),
        Online::Top(args) => usage::top(session, args),
        Online::History(args) => usage::history(session, args),
        Online::Report { report, selector } => usage::report(session, report, selector.as_deref()),
        Online::Status => status::run(session),
        Online::Version { client } => status::version(session, *client),
        Online::Apply { files, dry_run } => apply::apply(session, &files.files, *dry_run),
        Online::Diff { files, since } => apply::diff(session, &files.files, *since),
        Online::Simulate(args) => simulate::run(session, args),
        Online::Suggest { wish, selector } => simulate::suggest(session, wish, selector.as_deref()),
        Online::Delete(what) => apply::delete(session, what),
        Online::Check(args) => reservation::check(session, args),
        Online::Reserve(args) => reservation::reserve(session, args),
        Online::Extend { uid, ttl } => reservation::extend(session, uid, *ttl),
        Online::Commit { uid, request } => reservation::commit(session, uid, request.as_ref()),
        Online::Release { uid } => reservation::release(session, uid),
        Online::Drift(args) => drift::run(session, args),
        Online::Push { file } => push::run(session, file),
        Online::Relist { resource } => push::relist(session, resource),
        Online::Cluster(command) => status::cluster(session, command),
        Online::Watch { from } => {
            let from = from.map(|from| watch::sequence_of(session, from));
            watch::run(session, from.transpose()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit code of a command without a reachable daemon.
    fn exit(line: &str) -> Exit {
        let line = format!("quotactl {line} --server http://127.0.0.1:1 --config /dev/null");
        let (arguments, matches) = parse(line.split(' ').map(OsString::from)).unwrap();
        act(&arguments, &matches).unwrap_err().exit
    }

    #[test]
    fn what_is_of_one_namespace_is_not_asked_about_all_of_them() {
        for line in [
            "explain pods",
            "history",
            "describe namespace",
            "describe namespace a",
            "describe quota q",
            "reserve --uid u --request pods=1",
            "release u",
        ] {
            assert_eq!(exit(line), Exit::Failure, "{line}");
            assert_eq!(exit(&format!("{line} -A")), Exit::Usage, "{line}");
        }
    }

    #[test]
    fn what_is_deleted_is_named_or_in_manifests() {
        for line in ["delete quota q -n a", "delete -n a group g"] {
            assert_eq!(exit(line), Exit::Failure, "{line}");
        }
        for line in ["delete -n a", "delete -f m.yaml quota q", "delete -A quota q"] {
            assert_eq!(exit(line), Exit::Usage, "{line}");
        }
    }
}
