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
