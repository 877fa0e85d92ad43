//! The address, CA and credentials for an API server: from a URL, a kubeconfig, or the pod's service account.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http::HeaderValue;
use parking_lot::Mutex;
use quota_service::tls::unusable;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::Failure;

/// The directory of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The time for which a token from a file is cached. The kubelet renews the file long before the token expires.
const TOKEN_AGE: Duration = Duration::from_secs(10);

/// An error in the configuration of the access to an API server.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The URL is invalid.
    #[error("{0:?} is no http or https URL")]
    Url(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A kubeconfig is invalid, or uses unsupported features.
    #[error("{path}: {message}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// The error.
        message: String,
    },
    /// Neither a URL nor a kubeconfig is given, and the program does not run in a pod.
    #[error("no API server: set api or kubeconfig (this is not a pod of a cluster)")]
    Nowhere,
}

/// The access to an API server.
pub struct Access {
    /// The URL of the server.
    pub url: String,
    /// The CA certificates and the client certificate.
    pub tls: Tls,
    /// The credentials besides a client certificate.
    pub credentials: Credentials,
    /// The namespace of the pod in which the program runs; none outside of a pod.
    pub namespace: Option<String>,
}

/// PEM text, or a file that is read whenever the text is needed.
#[derive(Clone, Debug)]
pub enum Pem {
    /// The text.
    Text(String),
    /// A file.
    File(PathBuf),
}

impl Pem {
    fn read(&self) -> Result<String, SetupError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read(path),
        }
    }
}

/// The CA certificates and the client certificate.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The CA certificates to trust; none: those of the system.
    pub authorities: Option<Pem>,
    /// The client certificate and its key; none: no client certificate.
    pub identity: Option<(Pem, Pem)>,
    /// The name that the server's certificate must have; none: the host of the URL.
    pub server_name: Option<String>,
}

impl Tls {
    /// The TLS configuration, with the present content of all files.
    pub(super) fn config(&self) -> anyhow::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem.read()?.as_bytes()) {
                    roots.add(certificate?)?;
                }
            }
            None => {
                let native = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(native.certs);
            }
        }
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        Ok(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let text = certificate.read()?;
                let chain = CertificateDer::pem_slice_iter(text.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.read()?.as_bytes())?;
                builder
                    .with_client_auth_cert(chain.collect::<Result<_, _>>()?, key)
                    .map_err(|error| anyhow::anyhow!(unusable(&error)))?
            }
        })
    }
}

/// The credentials besides a client certificate: none, a token, or a token file.
#[derive(Debug, Default)]
pub struct Credentials(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    None,
    Token(String),
    TokenFile {
        path: PathBuf,
        read: Mutex<Option<(Instant, String)>>,
    },
}

impl Credentials {
    /// A bearer token.
    #[must_use]
    pub fn token(token: &str) -> Self {
        Self(Kind::Token(token.trim().to_owned()))
    }

    /// A bearer token from a file, which is read again every few seconds, since tokens are renewed.
    #[must_use]
    pub fn token_file(path: PathBuf) -> Self {
        let read = Mutex::new(None);
        Self(Kind::TokenFile { path, read })
    }

    /// The value of the `Authorization` header; none without credentials.
    pub(super) async fn authorization(&self) -> Result<Option<HeaderValue>, Failure> {
        let token = match &self.0 {
            Kind::None => return Ok(None),
            Kind::Token(token) => token.clone(),
            Kind::TokenFile { path, read } => {
                let cached = read.lock().clone();
                match cached.filter(|(at, _)| at.elapsed() < TOKEN_AGE) {
                    Some((_, token)) => token,
                    None => {
                        let text = tokio::fs::read_to_string(path).await.map_err(|error| {
                            let why = format!("cannot read {}: {error}", path.display());
                            Failure::Unreachable(why)
                        })?;
                        let token = text.trim().to_owned();
                        *read.lock() = Some((Instant::now(), token.clone()));
                        token
                    }
                }
            }
        };
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Failure::Unreachable("the token is no text for a header".to_owned()))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Discards a cached token, since the server rejected it: the file is read again.
    pub(super) fn forget(&self) {
        if let Kind::TokenFile { read, .. } = &self.0 {
            *read.lock() = None;
        }
    }
}

impl Access {
    /// An API server at this URL that needs no credentials.
    #[must_use]
    pub fn plain(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            tls: Tls::default(),
            credentials: Credentials::default(),
            namespace: None,
        }
    }

    /// A server at this URL, with a token from a file, and a CA to trust instead of those of the system.
    #[must_use]
    pub fn with_token(url: &str, token_file: Option<&Path>, ca: Option<&Path>) -> Self {
        let authorities = ca.map(|path| Pem::File(path.to_owned()));
        Self {
            tls: Tls { authorities, ..Tls::default() },
            credentials: token_file
                .map(|path| Credentials::token_file(path.to_owned()))
                .unwrap_or_default(),
            ..Self::plain(url)
        }
    }

    /// The API server of the cluster in which the program runs as a pod.
    ///
    /// # Errors
    /// [`SetupError::Nowhere`] outside of a pod.
    pub fn of_pod() -> Result<Self, SetupError> {
        let variable = |name| std::env::var(name).map_err(|_| SetupError::Nowhere);
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host,
        };
        let directory = Path::new(SERVICE_ACCOUNT);
        let namespace = read(&directory.join("namespace")).ok();
        Ok(Self {
            url: format!("https://{host}:{port}"),
            tls: Tls { authorities: Some(Pem::File(directory.join("ca.crt"))), ..Tls::default() },
            credentials: Credentials::token_file(directory.join("token")),
            namespace: namespace.map(|text| text.trim().to_owned()),
        })
    }
}

pub(super) fn read(path: &Path) -> Result<String, SetupError> {
    std::fs::read_to_string(path)
        .map_err(|source| SetupError::File { path: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_is_read_again_once_it_was_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        let credentials = Credentials::token_file(file.path().to_owned());
        let shown = async || credentials.authorization().await.unwrap().unwrap();
        assert_eq!(shown().await, "Bearer one");
        std::fs::write(file.path(), "two\n").unwrap();
        assert_eq!(shown().await, "Bearer one", "it was read just now");
        credentials.forget();
        assert_eq!(shown().await, "Bearer two");
        std::fs::write(file.path(), "a\nb").unwrap();
        credentials.forget();
        assert!(credentials.authorization().await.is_err());
    }
}
