//! `config`: contexts, each with the address of a daemon and the credentials for it.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
    },
    path::{Path, PathBuf},
};

use quota_client::http::{Options, Retry, Token, without_password};
use serde::{Deserialize, Serialize};

use crate::{
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
        Failure::general("no place for the file of contexts").hint("set --config FILE or HOME")
    })?;
    let mut file = File::read(&path)?;
    match command {
        Config::GetContexts => get(&file, output),
        Config::CurrentContext => match &file.current_context {
            Some(name) => output.line(name),
            None => Err(Failure::new(Exit::NotFound, "there is no current context")
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
                note("it was the current context: no context is current now");
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
        std::io::stdin().take(64 * 1024).read_to_string(&mut token)?;
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
        contexts: contexts.map(|(name, context)| (name.as_str(), redacted(context, raw))).collect(),
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

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct File {
    /// The name of the current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_context: Option<String>,
    /// The contexts by name.
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A context: the address of a daemon, and the credentials for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Context {
    /// The URL of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// The namespace that commands apply to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// The file with the CA certificates to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    /// The file with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<PathBuf>,
    /// The file with the private key of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    /// The file with the bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The bearer token itself. `token_file` is better, since that file can be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl File {
    /// Reads a file; a missing file has no contexts.
    ///
    /// # Errors
    /// If the file cannot be read, or contains a token and is accessible to others.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let about = |failure: Failure| failure.about(path.display());
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(about(error.into())),
        };
        if metadata.len() > MAX_BYTES {
            return Err(about(Failure::general("too large for a file of contexts")));
        }
        let text = fs::read_to_string(path).map_err(|error| about(error.into()))?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let file: Self = quota_semantics::yaml::read(text.as_bytes())
            .map_err(|error| about(Failure::general(error.to_string())))?;
        let open_to_others = metadata.permissions().mode() & 0o077 != 0;
        let has_token = file.contexts.values().any(|context| context.token.is_some());
        if open_to_others && has_token {
            return Err(about(Failure::general("it holds a token, and others may read it"))
                .hint(format!("chmod 600 {}", path.display())));
        }
        Ok(file)
    }

    /// Replaces the file atomically. Only this user can access it.
    pub(crate) fn write(&self, path: &Path) -> Outcome {
        let write = || -> Outcome {
            let text = crate::output::yaml(self)?;
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(directory) = directory {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            }
            Ok(replace(path, &text, None)?)
        };
        write().map_err(|failure| failure.about(path.display()))
    }

    /// A context by name.
    ///
    /// # Errors
    /// [`Exit::NotFound`], with the names of the existing contexts.
    pub(crate) fn context(&self, name: &str) -> Outcome<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let failure = Failure::new(Exit::NotFound, format!("there is no context {name:?}"));
            failure.hint(match names.is_empty() {
                true => format!("quotactl config set-context {name} --server URL makes it"),
                false => format!("there are: {}", names.join(", ")),
            })
        })
    }
}

/// The default path of the file: `quotactl/config.yaml` below `XDG_CONFIG_HOME`, or below `~/.config`.
pub(crate) fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("quotactl").join("config.yaml"))
}

/// The default address of quotad.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8480";

/// The daemon that a command calls, and how.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The URL of the API.
    pub(crate) server: String,
    /// The credentials for it, and the client's other options.
    pub(crate) options: Options,
    /// The namespace that commands apply to.
    pub(crate) namespace: Option<String>,
}

impl Connection {
    /// Resolves the connection from flags, environment and file.
    ///
    /// # Errors
    /// If the context does not exist.
    pub(crate) fn resolve(global: &Global, file: &File) -> Outcome<Self> {
        let named = global.context.as_ref();
        let current = file.current_context.as_ref();
        let context = match named.or(current.filter(|name| !name.is_empty())) {
            Some(name) => Some(file.context(name)?),
            None => None,
        };
        // Another server gets nothing of a context that nobody named.
        let context = context.filter(|_| named.is_some() || global.server.is_none());
        let own = context.cloned().unwrap_or_default();
        let token_file = global.token_file.clone().or(own.token_file);
        // A certificate and its key belong together.
        let (cert, key) = match global.cert.is_some() {
            true => (global.cert.clone(), global.key.clone()),
            false => (own.cert, own.key),
        };
        let servers = [global.server.clone(), own.server];
        let server = servers.into_iter().flatten().find(|server| !server.is_empty());
        let options = Options {
            token: token_file.map(Token::File).or(own.token.map(Token::Text)),
            ca: global.ca.clone().or(own.ca),
            identity: cert.zip(key),
            timeout: global.timeout.get(),
            retry: Retry::NEVER,
            change_reason: global.reason.clone(),
            user_agent: concat!("quotactl/", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let own_namespace = own.namespace.filter(|name| !name.is_empty());
        Ok(Self {
            server: server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            options,
            namespace: global.namespace.clone().or(own_namespace),
        })
    }
}

// Atomic replacement of files: readers, also after a crash, find either the old content or the new one.

/// Replaces a file by a new one with the owner and mode of `like`. Without `like`, only this user can access the file.
pub(crate) fn replace(path: &Path, text: &str, like: Option<&fs::Metadata>) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&partial)?;
    let mut write = || {
        if let Some(like) = like {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
            file.set_permissions(like.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    let replaced = write();
    if replaced.is_err() {
        // Why it was not replaced is what matters.
        let _ = fs::remove_file(&partial);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{args::Arguments, failure::Exit};

    #[test]
    fn what_was_written_is_read_and_for_this_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/config.yaml");
        assert_eq!(File::read(&path).unwrap(), File::default());
        let mut file = File::default();
        let context = Context {
            server: Some("https://quota.example.com".to_owned()),
            token: Some("secret".to_owned()),
            ..Context::default()
        };
        file.contexts.insert("on".to_owned(), context);
        file.current_context = Some("on".to_owned());
        file.write(&path).unwrap();
        file.write(&path).unwrap();
        assert_eq!(File::read(&path).unwrap(), file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let failure = File::read(&path).unwrap_err();
        assert!(failure.message.contains("others may read it"), "{failure}");
        assert!(!failure.to_string().contains("secret"));
        fs::write(&path, "contexts: {a: {sever: x}}").unwrap();
        assert!(File::read(&path).unwrap_err().message.contains("sever"));
    }

    #[test]
    fn a_context_that_is_not_there_is_answered_with_those_that_are() {
        let mut file = File::default();
        assert_eq!(file.context("a").unwrap_err().exit, Exit::NotFound);
        file.contexts.insert("b".to_owned(), Context::default());
        let failure = file.context("a").unwrap_err();
        assert!(failure.to_string().contains("there are: b"), "{failure}");
    }

    fn contexts() -> File {
        let text = "
current-context: prod
contexts:
  prod: {server: 'https://prod', namespace: team-a, token-file: /t/prod, ca: /t/ca}
  test: {server: 'http://test', token: secret, cert: /t/cert, key: /t/key}
";
        serde_saphyr::from_str(text).unwrap()
    }

    fn resolve(flags: &str, file: &File) -> Outcome<Connection> {
        let line = format!("quotactl {flags} status");
        let arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
        Connection::resolve(&arguments.global, file)
    }

    #[test]
    fn flags_go_before_the_context_and_that_before_the_default() {
        let current = resolve("", &contexts()).unwrap();
        assert_eq!(current.server, "https://prod");
        assert_eq!(current.options.token, Some(Token::File("/t/prod".into())));
        assert_eq!(current.namespace.as_deref(), Some("team-a"));
        let other = resolve("--context test -n b --token-file /t/mine", &contexts()).unwrap();
        assert_eq!(other.server, "http://test");
        assert_eq!(other.options.token, Some(Token::File("/t/mine".into())));
        assert_eq!((other.namespace.as_deref(), other.options.ca), (Some("b"), None));
        let in_clear = resolve("--context test", &contexts()).unwrap();
        assert_eq!(in_clear.options.token, Some(Token::Text("secret".to_owned())));
        let default = resolve("", &File::default()).unwrap();
        assert_eq!((default.server.as_str(), default.options.token), (DEFAULT_SERVER, None));
        assert_eq!(resolve("--context no", &contexts()).unwrap_err().exit, Exit::NotFound);
    }

    #[test]
    fn a_token_goes_only_where_it_belongs() {
        let elsewhere = resolve("--server https://evil", &contexts()).unwrap();
        assert_eq!((elsewhere.options.token, elsewhere.namespace), (None, None));
        let forwarded = resolve("--context prod --server https://127.0.0.1:1", &contexts());
        assert_eq!(forwarded.unwrap().options.token, Some(Token::File("/t/prod".into())));
    }
}
