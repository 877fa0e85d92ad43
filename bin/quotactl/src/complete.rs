//! Shell completion of commands and options, and of names from the daemon.

use std::{collections::BTreeSet, ffi::OsString, io};

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell, env::Shells};
use quota_client::{
    http::Address,
    wire::{NamespaceUsage, Page, Quota, Reservation, Usage},
};
use quota_semantics::Period;

use super::{
    args::{Arguments, Global},
    client::Client,
    config::{self, Connection},
    failure::{Failure, Outcome},
    output::written,
    terminal_text::misleads,
};

/// The environment variable by which a shell requests completions.
const VARIABLE: &str = "QUOTACTL_COMPLETE";

/// The timeout for names from the daemon, in seconds.
const PATIENCE_SECONDS: u32 = 1;

/// The maximum number of offered names.
const NAMES_MAX: usize = 200;

/// The completions of an argument.
type Candidates = fn() -> Vec<CompletionCandidate>;

/// The completions by command name and argument name.
const CANDIDATES: [(&str, &str, Candidates); 16] = [
    ("quotactl", "context", contexts),
    ("quotactl", "namespace", namespaces),
    ("quotactl", "output", forms),
    ("use-context", "name", contexts),
    ("set-context", "name", contexts),
    ("delete-context", "name", contexts),
    ("namespace", "name", namespaces),
    ("quota", "name", quotas),
    ("quota", "names", quotas),
    ("explain", "quota", quotas),
    ("explain", "resource", resources),
    ("reservation", "uid", reservations),
    ("reservations", "uid", reservations),
    ("extend", "uid", reservations),
    ("commit", "uid", reservations),
    ("release", "uid", reservations),
];

/// The command line with the completions of its arguments.
fn with_candidates(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let of = |id: &str| {
        let mut all = CANDIDATES.iter();
        all.find(|(command, argument, _)| *command == name && *argument == id)
    };
    let add = |argument: Arg| match of(argument.get_id().as_str()) {
        Some((_, _, candidates)) => argument.add(ArgValueCandidates::new(*candidates)),
        None => argument,
    };
    command.mut_args(add).mut_subcommands(with_candidates)
}

/// Answers a shell's request for completions. Returns false if there is no such request.
pub(crate) fn answered(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(|| with_candidates(Arguments::command()))
        .var(VARIABLE)
        .bin("quotactl")
        .completer("quotactl")
        .try_complete(arguments.iter().cloned(), directory.as_deref())
}

/// Prints the script that a shell sources once.
pub(crate) fn script(shell: Shell) -> Outcome {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Failure::usage("no completion for this shell"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "quotactl", "quotactl", "quotactl", &mut script)?;
    written(io::Write::write_all(&mut io::stdout(), &script))
}

/// The namespaces that have quotas, the fullest first.
pub(crate) fn namespaces() -> Vec<CompletionCandidate> {
    names(|client, _| {
        let address = Address::of(["v1", "usage"]);
        let found = client.list::<Page<NamespaceUsage>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|usage| usage.namespace.to_string()).collect())
    })
}

/// The quotas of the namespace.
pub(crate) fn quotas() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["quotas"]);
        let found = client.list::<Page<Quota<'static>>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|quota| quota.metadata.name.to_string()).collect())
    })
}

/// The uids of the namespace's pending reservations.
pub(crate) fn reservations() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["reservations"]);
        let found = client.list::<Page<Reservation<'static>>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|it| it.reserved_by.uid.to_string()).collect())
    })
}

/// The resources that are limited or counted in the namespace.
pub(crate) fn resources() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["usage"]);
        let usage = client.get::<Usage>(&address)?.content;
        let limits = usage.quotas.iter().flat_map(|quota| &quota.resources);
        let limits = limits.map(|limit| limit.resource.to_string());
        let sums = usage.resources.iter().map(|sum| sum.resource.to_string());
        let names: BTreeSet<_> = limits.chain(sums).collect();
        Ok(names.into_iter().take(NAMES_MAX).collect())
    })
}

/// The contexts in the file.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let found = global().and_then(|global| config::read(&global).ok());
    let contexts = found.map(|file| file.contexts).unwrap_or_default();
    contexts.into_keys().map(CompletionCandidate::new).collect()
}

/// The forms of output.
pub(crate) fn forms() -> Vec<CompletionCandidate> {
    let forms = crate::output::FORMS.split('|');
    forms.map(CompletionCandidate::new).collect()
}

/// Names from the daemon of the command line. There are none if the query fails: a shell has no place for errors.
fn names(ask: impl FnOnce(&Client, &str) -> Outcome<Vec<String>>) -> Vec<CompletionCandidate> {
    let found = || -> Option<Vec<String>> {
        let mut global = global()?;
        global.timeout = Period::from_secs(PATIENCE_SECONDS);
        let file = config::read(&global).ok()?;
        let connection = Connection::resolve(&global, &file).ok()?;
        let client = Client::new(&connection, false).ok()?;
        let namespace = connection.namespace.as_deref().unwrap_or("default");
        ask(&client, namespace).ok()
    };
    // What would steer the terminal, or is no word, is not offered.
    let plain = |name: &String| {
        !name.is_empty() && !name.contains(|c: char| misleads(c) || c.is_whitespace())
    };
    let found = found().unwrap_or_default().into_iter().filter(plain);
    found.map(CompletionCandidate::new).collect()
}

/// The global options of the line to be completed, which follows `--`, as far as the line is written.
fn global() -> Option<Global> {
    let line = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let command = Arguments::command().ignore_errors(true);
    let matches = command.try_get_matches_from(line).ok()?;
    let global = Global::from_arg_matches(&matches).ok()?;
    Some(global.without_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(command: &Command) -> usize {
        let own = command.get_arguments();
        let own = own.filter(|it| it.get::<ArgValueCandidates>().is_some());
        own.count() + command.get_subcommands().map(count).sum::<usize>()
    }

    #[test]
    fn candidates_are_offered_for_arguments_that_exist() {
        let command = with_candidates(Arguments::command());
        // `get quota` and `describe quota` have the same argument.
        assert_eq!(count(&command), CANDIDATES.len() + 1);
    }
}
