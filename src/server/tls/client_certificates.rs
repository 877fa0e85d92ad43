//! What a caller showed when it was greeted, and how long that counts.

use std::{sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{sync::watch, time::sleep};

use super::{Tls, certificate, files};

/// Longest time until the clock is looked at again: it may be set meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// A caller's certificates; none, if it showed none.
pub(in crate::server) struct ClientCertificates {
    /// The names by which it is known.
    pub(in crate::server) names: Arc<[String]>,
    chain: Vec<CertificateDer<'static>>,
    tls: Tls,
    changes: watch::Receiver<()>,
}

impl ClientCertificates {
    pub(super) fn new(
        names: Arc<[String]>,
        chain: Vec<CertificateDer<'static>>,
        tls: Tls,
        changes: watch::Receiver<()>,
    ) -> Self {
        Self {
            names,
            chain,
            tls,
            changes,
        }
    }

    /// Ends when the certificates do not count any more: one has expired, or their CA is gone. Never, if there are
    /// none.
    pub(in crate::server) async fn until_invalid(mut self) {
        if self.chain.is_empty() {
            return std::future::pending().await;
        }
        let ends = self.chain.iter().map(certificate::expiration);
        let Some(end) = ends.flatten().min() else {
            return;
        };
        loop {
            // The second that a certificate ends with is one of its own.
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
