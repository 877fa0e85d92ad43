//! TLS for a listener: rustls with ring, certificates that can be replaced while serving, and callers that are
//! identified by name.

mod certificate;
mod files;

#[cfg(test)]
pub(crate) mod tests;

use std::{io, sync::Arc};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub(super) use certificate::ClientCertificates;
pub use files::Error;
use files::{Files, InForce};

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
            Some(certificate) => certificate::names(certificate).map_err(io::Error::other)?,
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
