//! Which daemon a command speaks to, and how.
//!
//! Flags and environment go before the context, the context before what a pod has, and that before the default. A token
//! goes only where it belongs: that of a context to the server of the context, that of a pod to the service in its
//! cluster.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use quota_client::http::Token;

use super::file::{Context, File};
use crate::{args::Global, failure::Outcome};

/// Where quotad listens unless it is configured otherwise.
const DEFAULT_SERVER: &str = "http://127.0.0.1:8480";

/// The API's Service, as the chart names it in the namespace of the rendered manifests.
const SERVICE: &str = "https://quota-ledger-quotad.quota-system.svc:8480";

/// Where Kubernetes puts a pod's own files.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A daemon, and how to speak to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The URL of its API.
    pub(crate) server: String,
    /// File of the certificates to trust; none: the system's.
    pub(crate) ca: Option<PathBuf>,
    /// File of the client's certificate.
    pub(crate) cert: Option<PathBuf>,
    /// File of its private key.
    pub(crate) key: Option<PathBuf>,
    /// The bearer token.
    pub(crate) token: Option<Token>,
    /// The namespace that commands are about.
    pub(crate) namespace: Option<String>,
}

/// The files of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    directory: PathBuf,
    namespace: Option<String>,
}

impl Pod {
    /// The pod that this program runs in, if its service account's token and CA are mounted.
    pub(crate) fn find() -> Option<Self> {
        env::var_os("KUBERNETES_SERVICE_HOST")?;
        let directory = env::var_os("QUOTACTL_SERVICE_ACCOUNT");
        Self::at(Path::new(
            &directory.unwrap_or_else(|| SERVICE_ACCOUNT.into()),
        ))
    }

    fn at(directory: &Path) -> Option<Self> {
        let is_there = |name: &str| directory.join(name).is_file();
        let namespace = fs::read_to_string(directory.join("namespace")).ok();
        let namespace = namespace.map(|text| text.trim().to_owned());
        (is_there("token") && is_there("ca.crt")).then(|| Self {
            directory: directory.to_path_buf(),
            namespace: namespace.filter(|name| !name.is_empty()),
        })
    }
}

impl Connection {
    /// Decides.
    ///
    /// # Errors
    /// If there is no such context.
    pub(crate) fn resolve(global: &Global, file: &File, pod: Option<Pod>) -> Outcome<Self> {
        let named = global.context.as_ref();
        let current = file.current_context.as_ref();
        let context = match named.or(current.filter(|name| !name.is_empty())) {
            Some(name) => Some(file.context(name)?),
            None => None,
        };
        // Another server gets nothing of a context that nobody named.
        let context = context.filter(|_| named.is_some() || global.server.is_none());
        let own = match (context, pod) {
            (Some(context), _) => Self::of_context(context),
            (None, Some(pod)) if global.server.is_none() => Self::of_pod(pod),
            _ => Self::default(),
        };
        let token = global.token_file.clone().map(Token::File);
        // A certificate and its key belong together.
        let (cert, key) = match global.cert.is_some() {
            true => (global.cert.clone(), global.key.clone()),
            false => (own.cert, own.key),
        };
        let server = [global.server.clone().unwrap_or_default(), own.server];
        let server = server.into_iter().find(|server| !server.is_empty());
        Ok(Self {
            server: server.unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
            ca: global.ca.clone().or(own.ca),
            cert,
            key,
            token: token.or(own.token),
            namespace: global.namespace.clone().or(own.namespace),
        })
    }

    fn of_context(context: &Context) -> Self {
        let token = context.token_file.clone().map(Token::File);
        Self {
            server: context.server.clone().unwrap_or_default(),
            ca: context.ca.clone(),
            cert: context.cert.clone(),
            key: context.key.clone(),
            token: token.or_else(|| context.token.clone().map(Token::Text)),
            namespace: context.namespace.clone().filter(|name| !name.is_empty()),
        }
    }

    fn of_pod(pod: Pod) -> Self {
        Self {
            server: SERVICE.to_owned(),
            ca: Some(pod.directory.join("ca.crt")),
            token: Some(Token::File(pod.directory.join("token"))),
            namespace: pod.namespace,
            ..Self::default()
        }
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

    fn resolve(flags: &str, file: &File, pod: Option<Pod>) -> Outcome<Connection> {
        let line = format!("quotactl {flags} status");
        let arguments = Arguments::try_parse_from(line.split_whitespace()).unwrap();
        Connection::resolve(&arguments.global, file, pod)
    }

    fn pod() -> Option<Pod> {
        Some(Pod {
            directory: "/pod".into(),
            namespace: Some("own".to_owned()),
        })
    }

    #[test]
    fn the_service_is_that_of_the_manifests() {
        let manifests = include_str!("../../../../deploy/manifests/quota-ledger.yaml");
        let (_, host) = SERVICE.split_once("://").unwrap();
        let mut host = host.split('.');
        let (name, namespace) = (host.next().unwrap(), host.next().unwrap());
        let metadata = format!("\n  name: {name}\n  namespace: {namespace}\n");
        let service = format!("\nkind: Service\nmetadata:{metadata}");
        assert!(manifests.contains(&service));
    }

    #[test]
    fn flags_go_before_the_context_and_that_before_the_pod() {
        let current = resolve("", &file(), pod()).unwrap();
        assert_eq!(current.server, "https://prod");
        assert_eq!(current.token, Some(Token::File("/t/prod".into())));
        assert_eq!(current.namespace.as_deref(), Some("team-a"));
        let other = resolve("--context test -n b --token-file /t/mine", &file(), None).unwrap();
        assert_eq!(other.server, "http://test");
        assert_eq!(other.token, Some(Token::File("/t/mine".into())));
        assert_eq!((other.namespace.as_deref(), other.ca), (Some("b"), None));
        let in_clear = resolve("--context test", &file(), None).unwrap();
        assert_eq!(in_clear.token, Some(Token::Text("secret".to_owned())));
        let default = resolve("", &File::default(), None).unwrap();
        assert_eq!(
            (default.server.as_str(), default.token),
            (DEFAULT_SERVER, None)
        );
        assert_eq!(
            resolve("--context no", &file(), None).unwrap_err().exit,
            Exit::NotFound
        );
    }

    #[test]
    fn a_token_goes_only_where_it_belongs() {
        let elsewhere = resolve("--server https://evil", &file(), pod()).unwrap();
        assert_eq!((elsewhere.token, elsewhere.namespace), (None, None));
        let in_pod = resolve("", &File::default(), pod()).unwrap();
        assert_eq!(in_pod.server, SERVICE);
        assert_eq!(in_pod.token, Some(Token::File("/pod/token".into())));
        assert_eq!(in_pod.ca.as_deref(), Some(Path::new("/pod/ca.crt")));
        let near = resolve("--server http://127.0.0.1:1", &File::default(), pod()).unwrap();
        assert_eq!((near.token, near.ca), (None, None));
        let forwarded = resolve("--context prod --server https://127.0.0.1:1", &file(), None);
        assert_eq!(
            forwarded.unwrap().token,
            Some(Token::File("/t/prod".into()))
        );
    }

    #[test]
    fn a_pod_is_one_that_has_token_and_ca() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Pod::at(directory.path()), None);
        for (name, text) in [("token", "t"), ("ca.crt", "c"), ("namespace", "own\n")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let pod = Pod::at(directory.path()).unwrap();
        assert_eq!(pod.namespace.as_deref(), Some("own"));
    }
}
