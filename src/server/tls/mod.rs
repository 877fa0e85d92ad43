//! TLS for a listener: rustls with ring, HTTP/1.1 only, certificates that can be changed while
//! serving, and callers that are known by name.

mod certificate;
mod files;

#[cfg(test)]
pub(crate) mod tests;

use std::{io, sync::Arc};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

pub use files::Error;
use files::Files;

use crate::{config::schema, metrics, reload::follow};

/// The certificates in force. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<Shared>);

struct Shared {
    config: schema::Tls,
    callers: Callers,
    current: ArcSwap<ServerConfig>,
}

/// What callers have to show, if there is a `tls.client_ca`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callers {
    /// A certificate with one of `tls.allowed_names`.
    Certified,
    /// A certificate or none; its names are told.
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
    pub fn load_for_api(config: &schema::Tls) -> Result<(Self, Follower), Error> {
        Self::load_for(config, Callers::Anybody)
    }

    fn load_for(config: &schema::Tls, callers: Callers) -> Result<(Self, Follower), Error> {
        let files = Files::read(config)?;
        let current = ArcSwap::from(files.server_config(callers)?);
        let tls = Self(Arc::new(Shared {
            config: config.clone(),
            callers,
            current,
        }));
        let follower = Follower {
            tls: tls.clone(),
            seen: files,
        };
        Ok((tls, follower))
    }

    /// Greets a caller, and tells the names of its certificate.
    ///
    /// # Errors
    /// The handshake fails, or the caller bears none of the allowed names.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Arc<[String]>)> {
        let acceptor = TlsAcceptor::from(self.0.current.load_full());
        let stream = acceptor.accept(stream).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let names = match certificates.and_then(<[_]>::first) {
            Some(certificate) => certificate::names(certificate).map_err(io::Error::other)?,
            None => Vec::new(),
        };
        let allowed = &self.0.config.allowed_names;
        let anybody = allowed.is_empty() || self.0.callers == Callers::Anybody;
        if anybody || names.iter().any(|name| allowed.contains(name)) {
            return Ok((stream, names.into()));
        }
        Err(io::Error::other(format!(
            "none of the names is allowed: {names:?}"
        )))
    }
}

/// Keeps up with changes of the certificate files.
pub struct Follower {
    tls: Tls,
    /// What was read last, usable or not, so that one bad file is told about once.
    seen: Files,
}

impl Follower {
    /// Takes new files into force whenever they change or a reload is asked for, until `stop`. Files
    /// that cannot be used change nothing.
    pub async fn run(mut self, reload: watch::Receiver<u64>, stop: CancellationToken) {
        follow(|| self.look(), reload, stop).await;
    }

    /// Looks at the files once.
    pub(super) fn look(&mut self) {
        let files = match Files::read(&self.tls.0.config) {
            Ok(files) if files == self.seen => return,
            Ok(files) => files,
            // While a file is being replaced it may be missing; the next look will tell.
            Err(error) => {
                tracing::warn!(%error, "certificate files cannot be read, the old ones stay");
                metrics::certificate_reload_failed();
                return;
            }
        };
        match files.server_config(self.tls.0.callers) {
            Ok(config) => {
                self.tls.0.current.store(config);
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
