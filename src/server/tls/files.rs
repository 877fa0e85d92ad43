//! Reads certificate files, and builds the TLS configuration from them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject},
    server::{
        NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
};

use super::{Callers, HTTP1, HTTP2, certificate};
use crate::{config::schema, metrics};

/// Why certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `tls.cert` or `tls.key` is not set.
    #[error("tls.cert and tls.key are needed")]
    NotConfigured,
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, #[source] std::io::Error),
    /// A file is not PEM, or does not hold what it should.
    #[error("{0} cannot be used: {1}")]
    Pem(&'static str, #[source] pem::Error),
    /// A certificate is malformed.
    #[error("{0}")]
    Certificate(String),
    /// The certificate has expired.
    #[error("the certificate expired {0} s ago")]
    Expired(i64),
    /// Key and certificate differ, or the key's algorithm is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Rustls(String),
    /// No client could be verified by these CA certificates.
    #[error("tls.client_ca cannot be used: {0}")]
    ClientCa(#[from] VerifierBuilderError),
}

impl From<rustls::Error> for Error {
    /// In words for operators: the library's own text, as a source, would follow them.
    fn from(error: rustls::Error) -> Self {
        Self::Rustls(quota_service::tls::unusable(&error))
    }
}

/// The configuration from the files.
pub(super) struct InForce {
    pub(super) server: Arc<ServerConfig>,
    /// Verifies callers' certificates; none if no certificate is requested.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl InForce {
    /// Whether a caller's certificates are valid now.
    pub(super) fn counts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let (Some(verifier), Some((own, more))) = (&self.verifier, chain.split_first()) else {
            return false;
        };
        verifier.verify_client_cert(own, more, UnixTime::now()).is_ok()
    }
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
pub struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Files {
    pub(super) fn read(config: &schema::Tls) -> Result<Self, Error> {
        let read =
            |path: &Path| fs::read(path).map_err(|error| Error::Read(path.to_owned(), error));
        let (Some(cert), Some(key)) = (&config.cert, &config.key) else {
            return Err(Error::NotConfigured);
        };
        Ok(Self {
            cert: read(cert)?,
            key: read(key)?,
            client_ca: config.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// The configuration to serve with, and when the certificate expires.
    pub(super) fn in_force(&self, callers: Callers) -> Result<Arc<InForce>, Error> {
        let chain = certificates("tls.cert", &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| Error::Pem("tls.key", error))?;
        let expiration = match chain.first() {
            Some(own) => certificate::expiration(own),
            None => return Err(Error::Pem("tls.cert", pem::Error::NoItemsFound)),
        }
        .map_err(Error::Certificate)?;
        let late = now().saturating_sub(expiration);
        if late > 0 {
            return Err(Error::Expired(late));
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let verifier =
            self.client_ca.as_ref().map(|ca| verifier(ca, provider, callers)).transpose()?;
        let mut config = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        }
        .with_single_cert(chain, key)?;
        if verifier.is_some() {
            // A resumed session would keep its certificate without a new verification.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        if callers == Callers::Certified {
            metrics::certificate_expiration(expiration);
        }
        Ok(Arc::new(InForce { server: Arc::new(config), verifier }))
    }
}

fn verifier(
    ca: &[u8],
    provider: Arc<rustls::crypto::CryptoProvider>,
    callers: Callers,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls.client_ca", ca)? {
        roots.add(certificate)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    Ok(match callers {
        Callers::Certified => builder.build()?,
        Callers::Anybody => builder.allow_unauthenticated().build()?,
    })
}

fn certificates(key: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| Error::Pem(key, error))
}

/// Seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
