//! Where the API server is, whom to trust, and who we are: from a URL, a kubeconfig, or the pod's service account.

use std::{
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use http::HeaderValue;
use parking_lot::Mutex;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::Failure;

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How long a token that was read from a file is used. The kubelet renews it long before it ends.
const TOKEN_AGE: Duration = Duration::from_secs(10);

/// Why an API server cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not a URL.
    #[error("{0:?} is no http or https URL")]
    Url(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A kubeconfig does not say what it has to.
    #[error("{path}: {message}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// There is neither a URL nor a kubeconfig, and this is no pod.
    #[error("no API server: set api or kubeconfig (this is not a pod of a cluster)")]
    Nowhere,
}

/// How to reach an API server.
pub struct Access {
    /// Its URL.
    pub url: String,
    /// Whom to trust, and the client's certificate.
    pub tls: Tls,
    /// Who we are.
    pub credentials: Credentials,
    /// The namespace of the pod that this is.
    pub namespace: Option<String>,
}

/// PEM text, or where it is read from each time that it is needed.
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

/// Whom to trust, and the client's certificate.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// CA certificates to trust; none: the system's.
    pub authorities: Option<Pem>,
    /// The client's certificate and its key.
    pub identity: Option<(Pem, Pem)>,
    /// The name that the server's certificate must bear; none: that of the URL.
    pub server_name: Option<String>,
}

impl Tls {
    /// The configuration, with all files as they are now.
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
                builder.with_client_auth_cert(chain.collect::<Result<_, _>>()?, key)?
            }
        })
    }
}

/// Who we are, besides a client certificate.
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

    /// A bearer token from a file, which is read again and again since tokens are renewed.
    #[must_use]
    pub fn token_file(path: PathBuf) -> Self {
        let read = Mutex::new(None);
        Self(Kind::TokenFile { path, read })
    }

    /// What goes into the header of a request.
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

    /// The server does not take the token: the file is read again.
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

    /// A server of this API at a URL, with a token that is read from a file, and a CA to trust instead of the system's.
    #[must_use]
    pub fn with_token(url: &str, token_file: Option<&Path>, ca: Option<&Path>) -> Self {
        let authorities = ca.map(|path| Pem::File(path.to_owned()));
        Self {
            tls: Tls {
                authorities,
                ..Tls::default()
            },
            credentials: token_file
                .map(|path| Credentials::token_file(path.to_owned()))
                .unwrap_or_default(),
            ..Self::plain(url)
        }
    }

    /// As a pod of a cluster reaches its API server.
    ///
    /// # Errors
    /// This is not a pod.
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
            tls: Tls {
                authorities: Some(Pem::File(directory.join("ca.crt"))),
                ..Tls::default()
            },
            credentials: Credentials::token_file(directory.join("token")),
            namespace: namespace.map(|text| text.trim().to_owned()),
        })
    }
}

pub(super) fn read(path: &Path) -> Result<String, SetupError> {
    std::fs::read_to_string(path).map_err(|source| SetupError::File {
        path: path.display().to_string(),
        source,
    })
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
