//! `config`: the contexts, each a daemon and how to speak to it.

mod connection;
mod file;

use std::{
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

pub(crate) use self::{
    connection::{Connection, Pod},
    file::{Context, File, default_path},
};
use super::{
    args::{Config, Global, SetContext},
    failure::{Exit, Failure, Outcome},
    output::{Output, note},
    table::Table,
};

/// What stands in place of a token.
const REDACTED: &str = "REDACTED";

/// The contexts that there are.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn read(global: &Global) -> Outcome<File> {
    match path_of(global) {
        Some(path) => File::read(&path),
        None => Ok(File::default()),
    }
}

fn path_of(global: &Global) -> Option<PathBuf> {
    global.config.clone().or_else(default_path)
}

/// Shows or changes the file. `given` says which global options were given by flag.
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

/// Takes over what was given by flag. What comes from the environment is not meant for the file.
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

/// The file is read from anywhere.
fn absolute(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::from(error).about(path.display()))
}

fn get(file: &File, output: &Output) -> Outcome {
    let items: Vec<_> = file
        .contexts
        .iter()
        .map(|(name, context)| {
            let mut item = shown(context, false);
            item["name"] = name.as_str().into();
            item["current"] = (file.current_context.as_ref() == Some(name)).into();
            item
        })
        .collect();
    if items.is_empty() {
        note("No contexts found");
    }
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    output.answer(
        &json!({ "items": items }),
        || items.iter().map(|item| text(item, "name")).collect(),
        |wide| {
            let mut titles = vec!["CURRENT", "NAME", "SERVER", "NAMESPACE"];
            if wide {
                titles.extend(["CA", "CERT", "TOKEN"]);
            }
            let mut table = Table::new(&titles);
            for item in &items {
                let current = if item["current"] == true { "*" } else { "-" };
                let mut row = vec![current.to_owned()];
                row.extend(["name", "server", "namespace"].map(|field| text(item, field)));
                if wide {
                    row.extend(["ca", "cert"].map(|field| text(item, field)));
                    let file = text(item, "token-file");
                    row.push(if file.is_empty() {
                        text(item, "token")
                    } else {
                        file
                    });
                }
                table.row(row);
            }
            table
        },
    )
}

fn view(file: &File, raw: bool, output: &Output) -> Outcome {
    let mut value = json!({ "current-context": file.current_context, "contexts": {} });
    for (name, context) in &file.contexts {
        value["contexts"][name] = shown(context, raw);
    }
    match output.is_structured() {
        true => output.value(&value),
        false => output.line(crate::output::yaml(&value)?.trim_end()),
    }
}

fn shown(context: &Context, raw: bool) -> Value {
    let mut value = serde_json::to_value(context).unwrap_or_default();
    if context.token.is_some() && !raw {
        value["token"] = REDACTED.into();
    }
    value
}
