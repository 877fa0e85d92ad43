//! What a certificate says: its names and when it expires.

use std::net::{Ipv4Addr, Ipv6Addr};

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

/// The DNS, URI, e-mail and IP names, then the common names, which is where Kubernetes puts users.
pub(super) fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, Malformed> {
    let (_, certificate) = X509Certificate::from_der(certificate)?;
    let alternative = certificate.subject_alternative_name()?;
    let alternative = alternative
        .iter()
        .flat_map(|names| &names.value.general_names);
    let common = certificate
        .subject()
        .iter_common_name()
        .filter_map(|name| name.as_str().ok());
    Ok(alternative
        .filter_map(text)
        .chain(common.map(str::to_owned))
        .collect())
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::URI(text) | GeneralName::RFC822Name(text) => {
            Some((*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(|octets| Ipv4Addr::from(octets).to_string());
            let v6 = <[u8; 16]>::try_from(*bytes).map(|octets| Ipv6Addr::from(octets).to_string());
            v4.or(v6).ok()
        }
        _ => None,
    }
}

/// The last second that the certificate is good for, since 1970.
pub(super) fn expiration(certificate: &CertificateDer<'_>) -> Result<i64, Malformed> {
    let (_, certificate) = X509Certificate::from_der(certificate)?;
    Ok(certificate.validity().not_after.timestamp())
}
