//! TLS for a listener: rustls with ring, certificates that can be replaced while serving, and callers that are
//! identified by name.

#[cfg(test)]
pub(crate) mod tests;

use std::{
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, UnixTime,
        pem::{self, PemObject},
    },
    server::{
        NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
};
use tokio::{net::TcpStream, sync::watch, time::sleep};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use crate::{config::schema, metrics, reload::Followed};

/// HTTP/2 in the handshake (ALPN).
pub(super) const HTTP2: &[u8] = b"h2";

/// HTTP/1.1 in the handshake (ALPN).
const HTTP1: &[u8] = b"http/1.1";

/// The certificates in force. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    config: schema::Tls,
    callers: Callers,
    current: ArcSwap<InForce>,
    /// Notifies connections that new files are in force.
    changes: watch::Sender<()>,
}

/// The certificates that callers must present, if there is a `tls.client_ca`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callers {
    /// A certificate with one of `tls.allowed_names`.
    Certified,
    /// A certificate or none; all its names identify the caller.
    Anybody,
}

impl Tls {
    /// Reads the configured files for the webhook; the [`Follower`] applies later changes.
    ///
    /// # Errors
    /// A file cannot be read or used, key and certificate differ, the certificate has expired.
    pub fn load(config: &schema::Tls) -> Result<(Self, Follower), Error> {
        Self::load_for(config, Callers::Certified)
    }

    /// The same for the HTTP API, whose callers may present a token instead of a certificate.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub(crate) fn load_for_api(config: &schema::Tls) -> Result<(Self, Follower), Error> {
        Self::load_for(config, Callers::Anybody)
    }

    fn load_for(config: &schema::Tls, callers: Callers) -> Result<(Self, Follower), Error> {
        let files = Files::read(config)?;
        let current = ArcSwap::from(files.in_force(callers)?);
        let tls = Self(Arc::new(Shared {
            config: config.clone(),
            callers,
            current,
            changes: watch::Sender::new(()),
        }));
        let follower = Follower { tls: tls.clone(), seen: files };
        Ok((tls, follower))
    }

    /// Performs the handshake with a caller, and returns its certificates.
    ///
    /// # Errors
    /// The handshake fails, or the caller bears none of the allowed names.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, ClientCertificates)> {
        // Subscribed before the verification, so that no change is missed.
        let changes = self.0.changes.subscribe();
        let acceptor = TlsAcceptor::from(self.0.current.load().server.clone());
        let stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let names = self.names(chain)?;
        let chain = chain.iter().cloned().map(CertificateDer::into_owned);
        let shown = ClientCertificates {
            names: names.into(),
            chain: chain.collect(),
            tls: self.clone(),
            changes,
        };
        Ok((stream, shown))
    }

    /// The names that identify a caller: for the webhook, the allowed one.
    fn names(&self, chain: &[CertificateDer<'_>]) -> io::Result<Vec<String>> {
        let names = match chain.first() {
            Some(certificate) => names(certificate).map_err(io::Error::other)?,
            None => Vec::new(),
        };
        let allowed = &self.0.config.allowed_names;
        if allowed.is_empty() || self.0.callers == Callers::Anybody {
            return Ok(names);
        }
        match names.iter().find(|name| allowed.contains(name)) {
            Some(name) => Ok(vec![name.clone()]),
            None => Err(io::Error::other(format!("none of the names is allowed: {names:?}"))),
        }
    }

    /// Whether a caller's certificates are valid now.
    fn counts(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.0.current.load().counts(chain)
    }
}

/// Follows changes of the certificate files.
pub struct Follower {
    tls: Tls,
    /// The files that were read last, usable or not, so that one bad file is logged once.
    seen: Files,
}

impl Followed for Follower {
    type Content = Files;

    fn news(&mut self) -> Option<Files> {
        match Files::read(&self.tls.0.config) {
            Ok(files) => (files != self.seen).then_some(files),
            // A file may be missing while it is being replaced; the next look will find it.
            Err(error) => {
                tracing::warn!(%error, "certificate files cannot be read, the old ones stay");
                metrics::certificate_reload_failed();
                None
            }
        }
    }

    fn take(&mut self, files: Files) {
        match files.in_force(self.tls.0.callers) {
            Ok(in_force) => {
                self.tls.0.current.store(in_force);
                self.tls.0.changes.send_replace(());
                tracing::info!("new certificates are in force");
            }
            Err(error) => {
                tracing::error!(%error, "new certificates cannot be used, the old ones stay");
                metrics::certificate_reload_failed();
            }
        }
        self.seen = files;
    }
}

// Certificates: their names and expiration, and those of a caller, as long as they remain valid.

/// The accepted names: DNS and URI SANs. A common name or an e-mail address is often chosen by the bearer.
///
/// A DNS name has no colon and a URI has one, so that they cannot be confused; a SAN of one type with the syntax of the
/// other is ignored.
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(malformed)?;
    let alternative = certificate.subject_alternative_name().map_err(malformed)?;
    let alternative = alternative.iter().flat_map(|names| &names.value.general_names);
    Ok(alternative.filter_map(text).collect())
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) if !text.contains(':') => Some((*text).to_owned()),
        GeneralName::URI(text) if text.contains(':') => Some((*text).to_owned()),
        _ => None,
    }
}

/// The last second in which the certificate is valid, since 1970.
fn expiration(certificate: &CertificateDer<'_>) -> Result<i64, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(malformed)?;
    Ok(certificate.validity().not_after.timestamp())
}

fn malformed(error: impl Display) -> String {
    format!("malformed certificate: {error}")
}

/// Longest time between two checks of the clock, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// A caller's certificates; none if the caller presented none.
pub(in crate::server) struct ClientCertificates {
    /// The names that identify the caller.
    pub(in crate::server) names: Arc<[String]>,
    chain: Vec<CertificateDer<'static>>,
    tls: Tls,
    /// Notified when new files are in force.
    changes: watch::Receiver<()>,
}

impl ClientCertificates {
    /// Ends when the certificates become invalid: one has expired, or their CA was removed. Never ends without
    /// certificates.
    pub(in crate::server) async fn until_invalid(mut self) {
        if self.chain.is_empty() {
            return std::future::pending().await;
        }
        let ends = self.chain.iter().map(expiration);
        let Some(end) = ends.flatten().min() else {
            return;
        };
        loop {
            // A certificate is still valid in its last second.
            let left = end.saturating_sub(now()).saturating_add(1);
            let left = Duration::from_secs(u64::try_from(left).unwrap_or(1).max(1));
            tokio::select! {
                () = sleep(left.min(LOOK)) => {}
                Ok(()) = self.changes.changed() => {}
            }
            if !self.tls.counts(&self.chain) {
                return;
            }
        }
    }
}

// Reads certificate files, and builds the TLS configuration from them.

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
        Self::Rustls(quota_service::outbound::unusable(&error))
    }
}

/// The configuration from the files.
struct InForce {
    server: Arc<ServerConfig>,
    /// Verifies callers' certificates; none if no certificate is requested.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl InForce {
    /// Whether a caller's certificates are valid now.
    fn counts(&self, chain: &[CertificateDer<'_>]) -> bool {
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
    fn read(config: &schema::Tls) -> Result<Self, Error> {
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
    fn in_force(&self, callers: Callers) -> Result<Arc<InForce>, Error> {
        let chain = certificates("tls.cert", &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| Error::Pem("tls.key", error))?;
        let expiration = match chain.first() {
            Some(own) => expiration(own),
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
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
