//! https: whom `quotactl` trusts, and what it shows.

use std::{fs, path::PathBuf, sync::Arc};

use quota_testkit::certificates::{authority, signed};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tempfile::TempDir;

use super::{Stub, run};

/// An authority, a server certificate for this machine and a client certificate, as PEM files.
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = authority();
        fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
        for (name, host) in [("server", "127.0.0.1"), ("client", "client.example.com")] {
            signed(&authority, &[host]).write(directory.path(), name);
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A server that wants to see a client certificate.
    fn server(&self) -> Stub {
        let certificate = |name| CertificateDer::from_pem_file(self.path(name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate("ca.pem")).unwrap();
        let provider = Arc::new(default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(vec![certificate("server.crt")], key)
            .unwrap();
        Stub::secure(config, |_, _| (200, Vec::new(), json!({"items": []}).to_string()))
    }

    fn flags(&self, names: &[(&str, &str)]) -> String {
        let flag = |(flag, name): &(&str, &str)| format!(" --{flag} {}", self.path(name).display());
        names.iter().map(flag).collect()
    }
}

#[test]
fn both_sides_show_their_certificates() {
    let certificates = Certificates::new();
    fs::write(certificates.path("token"), "secret\n").unwrap();
    let stub = certificates.server();
    let flags = certificates.flags(&[
        ("ca", "ca.pem"),
        ("cert", "client.crt"),
        ("key", "client.key"),
        ("token-file", "token"),
    ]);
    let run = run(&stub.url, &format!("get quota{flags}"));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(stub.asked()[0].headers["authorization"], "Bearer secret");
}

#[test]
fn nothing_is_sent_to_a_server_that_is_not_trusted() {
    let certificates = Certificates::new();
    let stub = certificates.server();
    let system = run(&stub.url, "get quota");
    assert_eq!(system.code, 1);
    assert!(system.err.contains("invalid peer certificate"), "{}", system.err);
    let nameless = run(&stub.url, &format!("get quota{}", certificates.flags(&[("ca", "ca.pem")])));
    assert_eq!(nameless.code, 1);
    assert_eq!(stub.asked().len(), 0);
    let half =
        run(&stub.url, &format!("get quota{}", certificates.flags(&[("cert", "client.crt")])));
    assert_eq!(half.code, 2);
}
