//! The daemon that a command calls, and the connection to it.
//!
//! Flags and environment override the context, and the context overrides the default. The token of a context is sent
//! only to the server of the context.

use quota_client::http::{Options, Retry, Token};

use super::file::File;
use crate::{args::Global, failure::Outcome};

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
        let server = servers
            .into_iter()
            .flatten()
            .find(|server| !server.is_empty());
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::{args::Arguments, failure::Exit};

    fn file() -> File {
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
        let current = resolve("", &file()).unwrap();
        assert_eq!(current.server, "https://prod");
        assert_eq!(current.options.token, Some(Token::File("/t/prod".into())));
        assert_eq!(current.namespace.as_deref(), Some("team-a"));
        let other = resolve("--context test -n b --token-file /t/mine", &file()).unwrap();
        assert_eq!(other.server, "http://test");
        assert_eq!(other.options.token, Some(Token::File("/t/mine".into())));
        assert_eq!(
            (other.namespace.as_deref(), other.options.ca),
            (Some("b"), None)
        );
        let in_clear = resolve("--context test", &file()).unwrap();
        assert_eq!(
            in_clear.options.token,
            Some(Token::Text("secret".to_owned()))
        );
        let default = resolve("", &File::default()).unwrap();
        assert_eq!(
            (default.server.as_str(), default.options.token),
            (DEFAULT_SERVER, None)
        );
        assert_eq!(
            resolve("--context no", &file()).unwrap_err().exit,
            Exit::NotFound
        );
    }

    #[test]
    fn a_token_goes_only_where_it_belongs() {
        let elsewhere = resolve("--server https://evil", &file()).unwrap();
        assert_eq!((elsewhere.options.token, elsewhere.namespace), (None, None));
        let forwarded = resolve("--context prod --server https://127.0.0.1:1", &file());
        assert_eq!(
            forwarded.unwrap().options.token,
            Some(Token::File("/t/prod".into()))
        );
    }
}
