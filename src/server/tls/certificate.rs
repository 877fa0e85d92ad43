//! Reads the names and the expiration of a certificate.

use std::fmt::Display;

use rustls::pki_types::CertificateDer;
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

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
