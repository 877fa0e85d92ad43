//! TLS for a listener: rustls with ring, certificates that can be changed while
//! serving, and callers that are known by name.

mod certificate;
mod client_certificates;
mod files;

#[cfg(test)]
pub(crate) mod tests;

use std::{io, sync::Arc};

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

pub(super) use client_certificates::ClientCertificates;
pub use files::Error;
use files::{Files, InForce};

use crate::{
    config::schema,
    metrics,
    reload::{Followed, follow},
};

/// HTTP/2, as the handshake names it.
pub(super) const HTTP2: &[u8] = b"h2";

/// HTTP/1.1, as the handshake names it.
const HTTP1: &[u8] = b"http/1.1";

/// The certificates in force. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    config: schema::Tls,
    callers: Callers,
    current: ArcSwap<InForce>,
    /// Notifies connections that other files are in force.
    changes: watch::Sender<()>,
}

/// What callers have to show, if there is a `tls.client_ca`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callers {
    /// A certificate with one of `tls.allowed_names`.
    Certified,
    /// A certificate or none; with the names that count.
    Anybody,
}

impl Tls {
    /// Reads the configured files, for the webhook; the [`Follower`] keeps up with their changes.
    ///
    /// # Errors
    /// A file cannot be read or used, key and certificate differ, the certificate has expired.
    pub fn load(config: &schema::Tls) -> Result<(Self, Follower), Error> {
        Self::load_for(config, Callers::Certified)
    }

    /// The same for the HTTP API, whose callers may show a token instead of a certificate.
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
        let follower = Follower {
            tls: tls.clone(),
            seen: files,
        };
        Ok((tls, follower))
    }

    /// Does the handshake with a caller, and returns its certificate.
    ///
    /// # Errors
    /// The handshake fails, or the caller bears none of the allowed names.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, ClientCertificates)> {
        // Before it is verified, so that no change is missed.
        let changes = self.0.changes.subscribe();
        let acceptor = TlsAcceptor::from(self.0.current.load().server.clone());
        let stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let names = self.names(chain)?;
        let chain = chain.iter().cloned().map(CertificateDer::into_owned);
        let shown = ClientCertificates::new(names.into(), chain.collect(), self.clone(), changes);
        Ok((stream, shown))
    }

    /// The names by which a caller is known: for the webhook, the one that is allowed.
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
            None => Err(io::Error::other(format!(
                "none of the names is allowed: {names:?}"
            ))),
        }
    }

    /// Whether a caller's certificates count now.
    fn counts(&self, chain: &[CertificateDer<'_>]) -> bool {
        self.0.current.load().counts(chain)
    }
}

/// Keeps up with changes of the certificate files.
pub struct Follower {
    tls: Tls,
    /// What was read last, usable or not, so that one bad file is logged once.
    seen: Files,
}

impl Follower {
    /// Takes new files into force whenever they change or a reload is requested, until `stop`. Files
    /// that cannot be used change nothing.
    pub async fn run(self, reload: watch::Receiver<u64>, stop: CancellationToken) {
        follow(self, reload, stop).await;
    }

    /// Looks at the files, and takes them as they are.
    #[cfg(test)]
    pub(super) fn look(&mut self) {
        if let Some(files) = self.news() {
            self.take(files);
        }
    }
}

impl Followed for Follower {
    type Content = Files;

    fn news(&mut self) -> Option<Files> {
        match Files::read(&self.tls.0.config) {
            Ok(files) => (files != self.seen).then_some(files),
            // While a file is being replaced it may be missing; the next look will show.
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
