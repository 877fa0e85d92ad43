//! `config`: contexts, each with the address of a daemon and the credentials for it.

mod connection;
mod file;

use std::{
    collections::BTreeMap,
    io::Read as _,
    path::{Path, PathBuf},
};

use quota_client::http::without_password;
use serde::Serialize;

pub(crate) use self::{
    connection::Connection,
    file::{Context, File, default_path},
};
use super::{
    args::{Config, Global, SetContext},
    failure::{Exit, Failure, Outcome},
    output::{Output, note, to_json},
    table::Table,
};

/// The text that is printed in place of a token.
const REDACTED: &str = "REDACTED";

/// The contexts in the file.
///
/// # Errors
/// If the file cannot be read, or a file that was named does not exist: without its contexts the command would go to another
/// server.
pub(crate) fn read(global: &Global) -> Outcome<File> {
    if let Some(path) = global.config.as_ref().filter(|path| !path.exists()) {
        return Err(Failure::usage("the file of contexts does not exist").about(path.display()));
    }
    match path_of(global) {
        Some(path) => File::read(&path),
        None => Ok(File::default()),
    }
}

fn path_of(global: &Global) -> Option<PathBuf> {
    global.config.clone().or_else(default_path)
}

/// Shows or changes the file. `given` tells whether a global option was given by flag.
pub(crate) fn run(
    command: &Config,
    global: &Global,
    output: &Output,
    given: impl Fn(&str) -> bool,
) -> Outcome {
    let path = path_of(global).ok_or_else(|| {
        Failure::general("there is no place for a file of contexts")
            .hint("--config FILE or HOME say where it is")
    })?;
    let mut file = File::read(&path)?;
    match command {
        Config::GetContexts => get(&file, output),
        Config::CurrentContext => match &file.current_context {
            Some(name) => output.line(name),
            None => Err(Failure::new(Exit::NotFound, "no context is used")
                .hint("quotactl config use-context NAME")),
        },
        Config::View { raw } => view(&file, *raw, output),
        Config::UseContext { name } => {
            file.context(name)?;
            file.current_context = Some(name.clone());
            file.write(&path)?;
            output.line(format!("context/{name} is used"))
        }
        Config::SetContext(args) => {
            let is_new = !file.contexts.contains_key(&args.name);
            let context = file.contexts.entry(args.name.clone()).or_default();
            change(context, args, global, &given)?;
            file.write(&path)?;
            let done = if is_new { "created" } else { "changed" };
            output.line(format!("context/{} {done}", args.name))
        }
        Config::DeleteContext { name } => {
            file.context(name)?;
            file.contexts.remove(name);
            if file.current_context.as_ref() == Some(name) {
                file.current_context = None;
                note("it was the one that is used: now there is none");
            }
            file.write(&path)?;
            output.line(format!("context/{name} deleted"))
        }
    }
}

/// Copies the options that were given by flag. Values from the environment are not meant for the file.
fn change(
    context: &mut Context,
    args: &SetContext,
    global: &Global,
    given: &impl Fn(&str) -> bool,
) -> Outcome {
    if given("server") {
        context.server.clone_from(&global.server);
    }
    if given("namespace") {
        context.namespace.clone_from(&global.namespace);
    }
    let files = [
        ("ca", &mut context.ca, &global.ca),
        ("cert", &mut context.cert, &global.cert),
        ("key", &mut context.key, &global.key),
        ("token_file", &mut context.token_file, &global.token_file),
    ];
    for (name, own, path) in files {
        if let Some(path) = path.as_deref().filter(|_| given(name)) {
            *own = Some(absolute(path)?);
        }
    }
    if given("token_file") {
        context.token = None;
    }
    if args.token_stdin {
        let mut token = String::new();
        std::io::stdin()
            .take(64 * 1024)
            .read_to_string(&mut token)?;
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::general("no token on standard input"));
        }
        context.token = Some(token.to_owned());
        context.token_file = None;
    }
    if context.server.is_none() {
        return Err(Failure::usage("a context needs a server").hint("--server URL"));
    }
    Ok(())
}

/// Makes a path absolute, since the file may be read from any directory.
fn absolute(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::from(error).about(path.display()))
}

/// A context in the list of all.
#[derive(Serialize)]
struct Item<'a> {
    name: &'a str,
    current: bool,
    #[serde(flatten)]
    context: Context,
}

#[derive(Serialize)]
struct List<'a> {
    items: &'a [Item<'a>],
}

fn get(file: &File, output: &Output) -> Outcome {
    let contexts = file.contexts.iter();
    let items: Vec<_> = contexts
        .map(|(name, context)| Item {
            name,
            current: file.current_context.as_ref() == Some(name),
            context: redacted(context, false),
        })
        .collect();
    if items.is_empty() {
        note("No contexts found");
    }
    output.answer(
        &to_json(&List { items: &items })?,
        || items.iter().map(|item| item.name.to_owned()).collect(),
        |wide| table(&items, wide),
    )
}

fn table(items: &[Item<'_>], wide: bool) -> Table {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let file = |file: &Option<PathBuf>| path(file).unwrap_or_default();
    let current = |it: &Item<'_>| if it.current { "*" } else { "-" }.to_owned();
    let token =
        |it: &Item<'_>| path(&it.context.token_file).unwrap_or_else(|| text(&it.context.token));
    Table::of(
        items,
        &[
            (true, "CURRENT", &current),
            (true, "NAME", &|it| it.name.to_owned()),
            (true, "SERVER", &|it| text(&it.context.server)),
            (true, "NAMESPACE", &|it| text(&it.context.namespace)),
            (wide, "CA", &|it| file(&it.context.ca)),
            (wide, "CERT", &|it| file(&it.context.cert)),
            (wide, "TOKEN", &token),
        ],
    )
}

/// The file as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct View<'a> {
    current_context: Option<&'a str>,
    contexts: BTreeMap<&'a str, Context>,
}

fn view(file: &File, raw: bool, output: &Output) -> Outcome {
    let contexts = file.contexts.iter();
    let view = to_json(&View {
        current_context: file.current_context.as_deref(),
        contexts: contexts
            .map(|(name, context)| (name.as_str(), redacted(context, raw)))
            .collect(),
    })?;
    match output.is_structured() {
        true => output.value(&view),
        false => output.line(crate::output::yaml(&view)?.trim_end()),
    }
}

/// The context with its token and the password of its server redacted, unless `raw`.
fn redacted(context: &Context, raw: bool) -> Context {
    let mut context = context.clone();
    if !raw && let Some(token) = &mut context.token {
        REDACTED.clone_into(token);
    }
    if !raw && let Some(server) = &mut context.server {
        *server = without_password(server);
    }
    context
}
