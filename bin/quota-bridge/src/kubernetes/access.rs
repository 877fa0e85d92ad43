//! The address, CA and credentials for an API server: from a URL, a kubeconfig, or the pod's service account. `kube` reads
//! them and signs in.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use http::{HeaderValue, Uri, header};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{
    Cluster, Config, ExecInteractiveMode, InClusterError, Kubeconfig, KubeconfigError,
};
use quota_service::config::redact;

use super::CONNECT_TIMEOUT;

/// An error in the configuration of the access to an API server.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The URL is invalid.
    #[error("{0:?} is no http or https URL")]
    Url(String),
    /// A kubeconfig is invalid, or uses unsupported features.
    #[error("{}: {error}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error.
        error: KubeconfigError,
    },
    /// A kubeconfig does what the bridge refuses.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do instead.
        message: &'static str,
    },
    /// The files of the pod's service account cannot be read.
    #[error("the service account of the pod: {0}")]
    Pod(InClusterError),
    /// Neither a URL nor a kubeconfig is given, and the program does not run in a pod.
    #[error("no API server: set api or kubeconfig (this is not a pod of a cluster)")]
    Nowhere,
}

/// The access to an API server.
#[derive(Clone, Debug)]
pub enum Access {
    /// A server at a URL.
    Url {
        /// The URL.
        url: String,
        /// The file with a token; none: no credentials.
        token_file: Option<PathBuf>,
        /// The file with the CA certificates to trust (PEM); none: those of the system.
        ca: Option<PathBuf>,
    },
    /// The cluster and user of a context of a kubeconfig.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The name of the context; none: the current context.
        context: Option<String>,
    },
    /// The API server of the cluster in which the program runs as a pod, with the pod's service account.
    Pod,
}

/// The configuration of an access, as its files hold it now.
pub(super) struct Present {
    pub(super) config: Config,
    /// The files whose changes make another configuration.
    pub(super) files: Vec<PathBuf>,
}

impl Present {
    /// A client that has these credentials; may run a program to get them.
    ///
    /// # Errors
    /// The credentials cannot be read, or their program failed.
    pub(super) fn sign_in(self) -> anyhow::Result<kube::Client> {
        let mut config = self.config;
        // kube keeps a token from a file for a minute, also after a 401, and refuses one that ends with a newline.
        if let Some(path) = config.auth_info.token_file.take() {
            config.auth_info.token = None;
            let token = std::fs::read_to_string(&path).with_context(|| path.clone())?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .with_context(|| format!("{path} holds no token"))?;
            value.set_sensitive(true);
            config.headers.push((header::AUTHORIZATION, value));
        }
        kube::Client::try_from(config).map_err(|error| match error {
            kube::Error::Auth(error) => error.into(),
            error => error.into(),
        })
    }
}

impl Access {
    /// An API server at this URL that needs no credentials.
    #[must_use]
    pub fn plain(url: &str) -> Self {
        Self::Url { url: url.to_owned(), token_file: None, ca: None }
    }

    /// Reads the configuration, with the present content of all files.
    ///
    /// # Errors
    /// The URL is invalid, or a file cannot be read, is invalid, or uses unsupported features.
    pub(super) fn read(&self) -> Result<Present, SetupError> {
        let mut present = match self {
            Self::Url { url, token_file, ca } => of_url(url, token_file.as_deref(), ca.as_deref())?,
            Self::Kubeconfig { path, context } => of_kubeconfig(path, context.as_deref())?,
            Self::Pod => Present { config: of_pod()?, files: Vec::new() },
        };
        let config = &mut present.config;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The task of a kind retries itself, after `Retry-After`, and counts its retries.
        config.default_retry = false;
        let user = &mut config.auth_info;
        for file in [&user.client_certificate, &user.client_key, &user.token_file] {
            present.files.extend(file.as_ref().map(PathBuf::from));
        }
        Ok(present)
    }
}

fn of_url(url: &str, token_file: Option<&Path>, ca: Option<&Path>) -> Result<Present, SetupError> {
    let uri: Uri = url.parse().map_err(|_| SetupError::Url(redact(url)))?;
    let is_tls = uri.scheme_str() == Some("https");
    if !is_tls && uri.scheme_str() != Some("http") || uri.authority().is_none() {
        return Err(SetupError::Url(redact(url)));
    }
    let mut config = Config::new(uri);
    config.auth_info.token_file = token_file.map(|path| path.to_string_lossy().into_owned());
    config.root_cert_file = ca.map(Path::to_owned);
    // The system may have none.
    if ca.is_some() || !is_tls {
        config.root_cert = Some(Vec::new());
    }
    Ok(Present { config, files: Vec::new() })
}

fn of_pod() -> Result<Config, SetupError> {
    Config::incluster_env().map_err(|error| match error {
        InClusterError::ReadEnvironmentVariable(_) => SetupError::Nowhere,
        error => SetupError::Pod(error),
    })
}

fn of_kubeconfig(path: &Path, context: Option<&str>) -> Result<Present, SetupError> {
    let failed = |error| SetupError::Kubeconfig { path: path.to_owned(), error };
    let refused = |message| SetupError::Refused { path: path.to_owned(), message };
    let mut kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    if let Some(context) = context {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let cluster = cluster(&kubeconfig).unwrap_or_default();
    let mut config = Config::try_from(kubeconfig).map_err(failed)?;
    // kube compares NO_PROXY with the proxy, not with the API server.
    config.proxy_url = match &cluster.proxy_url {
        Some(url) if !url.is_empty() => {
            Some(url.parse().map_err(|error| failed(KubeconfigError::ParseProxyUrl(error)))?)
        }
        _ => config
            .proxy_url
            .filter(|_| Matcher::from_env().intercept(&config.cluster_url).is_some()),
    };
    if config.accept_invalid_certs {
        return Err(refused("insecure-skip-tls-verify is not supported: name the CA"));
    }
    if let Some(exec) = &mut config.auth_info.exec {
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(refused(
                "a program that asks its user (interactiveMode: Always) is not supported: use a service account",
            ));
        }
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    let mut files = vec![path.to_owned()];
    files.extend(cluster.certificate_authority.map(PathBuf::from));
    Ok(Present { config, files })
}

/// The cluster of the current context.
fn cluster(kubeconfig: &Kubeconfig) -> Option<Cluster> {
    let name = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|it| it.name == *name)?.context.as_ref()?;
    let named = kubeconfig.clusters.iter().find(|it| it.name == context.cluster)?;
    named.cluster.clone()
}
