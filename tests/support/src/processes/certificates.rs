//! Certificates, and who has signed them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// Who signs certificates, and its own certificate.
pub type Authority = CertifiedIssuer<'static, KeyPair>;

/// A new one.
pub fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

/// A certificate for these DNS names and addresses.
pub fn signed(authority: &Issuer<'_, KeyPair>, names: &[&str]) -> Pair {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let names = CertificateParams::new(names).unwrap().subject_alt_names;
    signed_with(authority, |params| params.subject_alt_names = names)
}

/// A certificate with what is set of it.
pub fn signed_with(
    authority: &Issuer<'_, KeyPair>,
    set: impl FnOnce(&mut CertificateParams),
) -> Pair {
    let mut params = CertificateParams::default();
    set(&mut params);
    let key = KeyPair::generate().unwrap();
    Pair { certificate: params.signed_by(&key, authority).unwrap().pem(), key: key.serialize_pem() }
}

impl Pair {
    /// That of two files.
    pub fn read(certificate: &Path, key: &Path) -> Self {
        Self {
            certificate: fs::read_to_string(certificate).unwrap(),
            key: fs::read_to_string(key).unwrap(),
        }
    }

    /// Writes `NAME.crt` and `NAME.key` into a directory, and returns where they are.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let write = |end: &str, text: &str| {
            let path = directory.join(format!("{name}.{end}"));
            fs::write(&path, text).unwrap();
            path
        };
        (write("crt", &self.certificate), write("key", &self.key))
    }
}

/// What somebody connects with who trusts this authority (PEM), has this certificate or none, and remembers sessions.
pub fn client(
    authority: &str,
    own: Option<&Pair>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(authority)).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match own {
        None => client.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            client.with_client_auth_cert(vec![certificate(&pair.certificate)], key).unwrap()
        }
    }
}
