//! TLS towards the daemon: whom to trust, and what to show.

use std::{fs, path::Path, sync::Arc};

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::{
    config::Connection,
    failure::{Failure, Outcome},
};

/// How connections to an https server are made.
pub(crate) fn configuration(connection: &Connection) -> Outcome<TlsConfig> {
    let roots = match &connection.ca {
        Some(file) => certificates(file)?,
        None => system_roots(),
    };
    let client = match (&connection.cert, &connection.key) {
        (Some(cert), Some(key)) => Some(ClientCert::new_with_certs(
            &certificates(cert)?,
            private_key(key)?,
        )),
        _ => None,
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .build())
}

/// Certificates that cannot be read are left out: the handshake will say what is missing.
fn system_roots() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    found
        .certs
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect()
}

fn certificates(file: &Path) -> Outcome<Vec<Certificate<'static>>> {
    let mut certificates = Vec::new();
    for item in items(file)? {
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(Failure::general("no certificate in it").about(file.display()));
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Outcome<PrivateKey<'static>> {
    let mut items = items(file)?.into_iter();
    items
        .find_map(|item| match item {
            PemItem::PrivateKey(key) => Some(key),
            _ => None,
        })
        .ok_or_else(|| Failure::general("no private key in it").about(file.display()))
}

fn items(file: &Path) -> Outcome<Vec<PemItem<'static>>> {
    let text = fs::read(file).map_err(|error| Failure::from(error).about(file.display()))?;
    parse_pem(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::general(error.to_string()).about(file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let failure = certificates(file.path()).unwrap_err();
        assert!(failure.message.ends_with("no certificate in it"));
        assert!(private_key(file.path()).is_err());
        assert!(certificates(Path::new("/nonexistent/ca.pem")).is_err());
    }
}
