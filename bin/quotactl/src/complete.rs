//! Completion in shells: of commands and options, and of names that the daemon knows.

use std::{collections::BTreeSet, ffi::OsString, io};

use clap::{CommandFactory as _, FromArgMatches as _};
use clap_complete::{CompleteEnv, CompletionCandidate, Shell, env::Shells};
use quota_client::http::Address;
use quota_semantics::Period;
use serde_json::Value;

use super::{
    args::{Arguments, Global},
    client::Client,
    config::{self, Connection, Pod},
    failure::{Failure, Outcome},
    output::written,
    session::{items, text},
};

/// The environment variable by which a shell asks.
const VARIABLE: &str = "QUOTACTL_COMPLETE";

/// How long a shell waits for names, in seconds.
const PATIENCE_SECONDS: u32 = 1;

/// Most names that are offered.
const NAMES_MAX: usize = 200;

/// Answers a shell that asks for completions; false: none does.
pub(crate) fn answered(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(Arguments::command)
        .var(VARIABLE)
        .bin("quotactl")
        .completer("quotactl")
        .try_complete(arguments.iter().cloned(), directory.as_deref())
}

/// Prints what a shell has to read once.
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
        let found = client.list(&Address::of(["v1", "usage"]), Some(NAMES_MAX))?;
        Ok(fields(&found, "/namespace"))
    })
}

/// The quotas of the namespace.
pub(crate) fn quotas() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["quotas"]);
        let found = client.list(&address, Some(NAMES_MAX))?;
        Ok(fields(&found, "/metadata/name"))
    })
}

/// The uids of the namespace's pending reservations.
pub(crate) fn reservations() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["reservations"]);
        let found = client.list(&address, Some(NAMES_MAX))?;
        Ok(fields(&found, "/reservedBy/uid"))
    })
}

/// What is limited or counted in the namespace.
pub(crate) fn resources() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let usage = client.get(&Address::in_namespace(namespace, ["usage"]))?;
        let quotas = usage["quotas"].as_array().into_iter().flatten();
        let limits = quotas.filter_map(|quota| quota["resources"].as_array());
        let sums = usage["resources"].as_array();
        let all = limits.chain(sums).flatten();
        let names: BTreeSet<_> = all.map(|of| text(of, "/resource").to_owned()).collect();
        Ok(names.into_iter().take(NAMES_MAX).collect())
    })
}

/// The contexts of the file.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let found = global().and_then(|global| config::read(&global).ok());
    let contexts = found.map(|file| file.contexts).unwrap_or_default();
    contexts.into_keys().map(CompletionCandidate::new).collect()
}

/// The forms of output.
pub(crate) fn forms() -> Vec<CompletionCandidate> {
    let forms = crate::output::FORMS.split('|');
    let begin = |form: &str| match form.split_once('=') {
        Some((name, _)) => format!("{name}="),
        None => form.to_owned(),
    };
    forms.map(begin).map(CompletionCandidate::new).collect()
}

fn fields(answer: &Value, pointer: &str) -> Vec<String> {
    let names = items(answer)
        .iter()
        .map(|item| text(item, pointer).to_owned());
    names.collect()
}

/// Asks the daemon that the command line speaks of. Nothing is offered if that does not work: a shell has no place for
/// errors.
fn names(ask: impl FnOnce(&Client, &str) -> Outcome<Vec<String>>) -> Vec<CompletionCandidate> {
    let found = || -> Option<Vec<String>> {
        let mut global = global()?;
        global.timeout = Period::from_secs(PATIENCE_SECONDS);
        let file = config::read(&global).ok()?;
        let connection = Connection::resolve(&global, &file, Pod::find()).ok()?;
        let client = Client::new(&connection, &global).ok()?;
        let namespace = connection.namespace.as_deref().unwrap_or("default");
        ask(&client, namespace).ok()
    };
    // What would steer the terminal, or is no word, is not offered.
    let plain = |name: &String| {
        !name.is_empty() && !name.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    let found = found().unwrap_or_default().into_iter().filter(plain);
    found.map(CompletionCandidate::new).collect()
}

/// The global options of the line that is completed, as far as it is written. It stands behind `--`.
fn global() -> Option<Global> {
    let line = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let command = Arguments::command().ignore_errors(true);
    let matches = command.try_get_matches_from(line).ok()?;
    Global::from_arg_matches(&matches).ok()
}
