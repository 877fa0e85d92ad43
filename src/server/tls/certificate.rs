//! Reads the names and the expiration of a certificate.

use rustls::pki_types::CertificateDer;
use x509_parser::{
    certificate::X509Certificate, error::X509Error, extensions::GeneralName, prelude::FromDer as _,
};

/// A certificate that is not one.
#[derive(Debug, thiserror::Error)]
#[error("malformed certificate: {0}")]
pub(super) struct Malformed(String);

impl<E: std::fmt::Debug> From<x509_parser::nom::Err<E>> for Malformed {
    fn from(error: x509_parser::nom::Err<E>) -> Self {
        Self(error.to_string())
    }
}

impl From<X509Error> for Malformed {
    fn from(error: X509Error) -> Self {
        Self(error.to_string())
    }
}

/// The accepted names: DNS and URI SANs. A common name or an e-mail address is often chosen by the bearer.
///
/// A DNS name has no colon and a URI has one, so that they cannot be confused; a SAN of one type with the syntax of the
/// other is ignored.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, Malformed> {
    let (_, certificate) = X509Certificate::from_der(certificate)?;
    let alternative = certificate.subject_alternative_name()?;
    let alternative = alternative
        .iter()
        .flat_map(|names| &names.value.general_names);
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
pub(super) fn expiration(certificate: &CertificateDer<'_>) -> Result<i64, Malformed> {
    let (_, certificate) = X509Certificate::from_der(certificate)?;
    Ok(certificate.validity().not_after.timestamp())
}
