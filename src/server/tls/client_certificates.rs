//! A caller's certificates from the handshake, and how long they remain valid.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{sync::watch, time::sleep};

use super::{Tls, certificate, files};

/// Longest time between two checks of the clock, which may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// A caller's certificates; none if the caller presented none.
pub(in crate::server) struct ClientCertificates {
    /// The names that identify the caller.
    pub(in crate::server) names: Arc<[String]>,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) tls: Tls,
    /// Notified when new files are in force.
    pub(super) changes: watch::Receiver<()>,
}

impl ClientCertificates {
    /// Ends when the certificates become invalid: one has expired, or their CA was removed. Never ends without
    /// certificates.
    pub(in crate::server) async fn until_invalid(mut self) {
        if self.chain.is_empty() {
            return std::future::pending().await;
        }
        let ends = self.chain.iter().map(certificate::expiration);
        let Some(end) = ends.flatten().min() else {
            return;
        };
        loop {
            // A certificate is still valid in its last second.
            let left = end.saturating_sub(files::now()).saturating_add(1);
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
