//! Certificates: their names and expiration, and those of a caller, as long as they remain valid.

use std::{fmt::Display, sync::Arc, time::Duration};

use rustls::pki_types::CertificateDer;
use tokio::{sync::watch, time::sleep};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::{Tls, files};

/// The accepted names: DNS and URI SANs. A common name or an e-mail address is often chosen by the bearer.
///
/// A DNS name has no colon and a URI has one, so that they cannot be confused; a SAN of one type with the syntax of the
/// other is ignored.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
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
pub(super) fn expiration(certificate: &CertificateDer<'_>) -> Result<i64, String> {
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
        let ends = self.chain.iter().map(expiration);
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
