//! TLS towards the daemon: CA certificates and the client certificate.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::{Error, Options};

/// The TLS configuration for an https server.
pub(super) fn configuration(options: &Options) -> Result<TlsConfig, Error> {
    let roots = match &options.ca {
        Some(file) => certificates(file)?,
        None => system_roots(),
    };
    let client = match &options.identity {
        Some((cert, key)) => {
            Some(ClientCert::new_with_certs(&certificates(cert)?, private_key(key)?))
        }
        None => None,
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .build())
}

/// The CA certificates of the system. Unreadable ones are left out: the handshake then reports an unknown issuer.
fn system_roots() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let mut certificates = Vec::new();
    for item in items(file)? {
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err(Error::file(file, "no certificate in it")),
        false => Ok(certificates),
    }
}

fn private_key(file: &Path) -> Result<PrivateKey<'static>, Error> {
    let mut items = items(file)?.into_iter();
    let key = items.find_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    let key = key.ok_or_else(|| Error::file(file, "no private key in it"))?;
    let read = PrivateKeyDer::from_pem_file(file).map_err(|error| Error::file(file, error))?;
    match any_supported_type(&read) {
        Ok(_) => Ok(key),
        Err(_) => Err(Error::file(
            file,
            "the private key is none of those supported: RSA (2048 to 8192 bits), ECDSA on P-256 or P-384, Ed25519; P-521 is not supported",
        )),
    }
}

fn items(file: &Path) -> Result<Vec<PemItem<'static>>, Error> {
    let text = fs::read(file).map_err(|error| Error::file(file, error))?;
    parse_pem(&text).collect::<Result<_, _>>().map_err(|error| Error::file(file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = certificates(file.path()).unwrap_err();
        assert!(error.to_string().ends_with("no certificate in it"));
        assert!(private_key(file.path()).is_err());
        assert!(certificates(Path::new("/nonexistent/ca.pem")).is_err());
    }

    #[test]
    fn a_key_of_another_algorithm_is_refused_with_those_supported() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), include_str!("p521.pem")).unwrap();
        let error = private_key(file.path()).unwrap_err().to_string();
        assert!(
            error.contains("P-256 or P-384") && error.contains("P-521 is not supported"),
            "{error}"
        );
    }
}
