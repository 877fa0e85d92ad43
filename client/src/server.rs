//! The servers to which a token may be sent.

use std::net::IpAddr;

/// Whether the host of a URL is this machine: `localhost` or a loopback address. An IPv6 address may be in brackets.
pub fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a token may be sent to a server with this scheme and host: by https, or to this machine. Plain http to
/// another machine would show the token to everyone on the way.
pub fn may_send_token(scheme: &str, host: &str) -> bool {
    scheme == "https" || is_this_machine(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_by_https_or_to_this_machine() {
        for (scheme, host) in [
            ("https", "quotad.other"),
            ("http", "localhost"),
            ("http", "127.0.0.1"),
            ("http", "127.8.9.1"),
            ("http", "[::1]"),
            ("http", "::1"),
        ] {
            assert!(may_send_token(scheme, host), "{scheme}://{host}");
        }
        for host in ["quotad.other", "10.0.0.1", "[fe80::1]", "localhost.other", ""] {
            assert!(!may_send_token("http", host), "http://{host}");
        }
    }
}
