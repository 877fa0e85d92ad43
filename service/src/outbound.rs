//! HTTP requests sent by a program itself: checkpoints, traces.

use std::{sync::Arc, time::Duration};

use ureq::{
    Agent, Proxy,
    tls::{Certificate, RootCerts, TlsConfig},
};

/// An HTTP client for an address, with a timeout for each request. Redirects are not followed, a status is never an
/// error, and an https server has to be trusted by the system.
pub fn agent(url: &str, user_agent: &str, timeout: Duration) -> Agent {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(user_agent)
        .timeout_global(Some(timeout))
        .proxy(Proxy::try_from_env());
    if url.starts_with("https:") {
        // Unreadable certificates are left out: the handshake will report the missing one.
        let found = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::new_with_certs(&roots));
        config = config.tls_config(tls.build());
    }
    config.build().new_agent()
}

// Errors of TLS in words for operators.

/// Why a certificate and its key cannot be used.
pub fn unusable(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        Error::InconsistentKeys(_) => "the private key does not belong to the certificate".to_owned(),
        // The only way to recognize a key of another algorithm.
        Error::General(text) if text.contains("private key") => {
            "the private key is none of those supported: RSA (2048 to 8192 bits), ECDSA on P-256 or P-384, Ed25519; \
             P-521 is not supported"
                .to_owned()
        }
        other => other.to_string(),
    }
}
