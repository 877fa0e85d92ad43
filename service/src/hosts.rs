//! Restricts the hosts for which requests are answered.
//!
//! A page of any origin can point its own name to this host (DNS rebinding). For the browser, its requests are then of
//! the same origin, and they arrive over a connection from this host. But they bear the page's name as `Host`.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::OnceLock,
};

use axum::{Router, extract::Request as Received, middleware, response::IntoResponse as _};
use http::{HeaderValue, Request, StatusCode, header, uri::Authority};

/// The allowed hosts of requests, besides `localhost`, loopback addresses, and the local address of the connection.
#[derive(Clone, Debug, Default)]
pub struct Hosts(Vec<String>);

/// Matches every host.
const ANY: &str = "*";

/// The local address of a connection, and the host of its first request that was allowed: its others mostly name the
/// same one.
#[derive(Debug, Default)]
pub struct LocalHost {
    address: Option<IpAddr>,
    /// A copy: the header itself would keep the connection's buffer, of which it is a part.
    allowed: OnceLock<Box<[u8]>>,
}

impl LocalHost {
    /// Without an address: the connection does not come from the network.
    pub fn new(address: Option<IpAddr>) -> Self {
        let address = address.map(|address| address.to_canonical());
        Self { address, allowed: OnceLock::new() }
    }
}

impl Hosts {
    /// Allows these names and addresses, without port; `*` allows all.
    pub fn new(allowed: &[String]) -> Self {
        Self(allowed.iter().map(|host| plain(host).to_owned()).collect())
    }

    /// Checks that a request on a connection to this host may be answered. A request without a host cannot come from a
    /// page.
    ///
    /// # Errors
    /// The host that is not allowed.
    pub fn check<B>(&self, request: &Request<B>, local: &LocalHost) -> Result<(), String> {
        let uri = request.uri().authority().map(Authority::as_str);
        // Faster than a look-up, since requests have few headers.
        let all = || request.headers().iter();
        let headers = || all().filter_map(|(name, value)| (name == header::HOST).then_some(value));
        let allowed = local.allowed.get().map(|host| &**host);
        let is_allowed = |host: &HeaderValue| allowed == Some(host.as_bytes());
        if uri.is_none() && headers().all(is_allowed) {
            return Ok(());
        }
        let texts = headers().map(|value| value.to_str().unwrap_or("?"));
        let mut named = uri.into_iter().chain(texts);
        if let Some(host) = named.find(|host| !self.serves(host, local.address)) {
            return Err(host.to_owned());
        }
        if let Some(host) = headers().next() {
            local.allowed.get_or_init(|| host.as_bytes().into());
        }
        Ok(())
    }

    fn serves(&self, host: &str, local: Option<IpAddr>) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        // The parser lets through what is no host and port: a user name, and text after an address in brackets.
        let rest = authority.as_str().strip_prefix(authority.host());
        if !rest.is_some_and(is_port) {
            return false;
        }
        let host = plain(authority.host());
        // Only addresses of version 6 are in brackets.
        if authority.host().starts_with('[') && host.parse::<Ipv6Addr>().is_err() {
            return false;
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            let address = address.to_canonical();
            let is_local = local == Some(address);
            if is_local || is_loopback(address) {
                return true;
            }
        }
        let is_allowed = |allowed: &String| allowed == ANY || allowed.eq_ignore_ascii_case(host);
        host.eq_ignore_ascii_case("localhost") || self.0.iter().any(is_allowed)
    }
}

/// Answers requests for other hosts than `localhost` and loopback addresses with 421. For a listener on loopback that
/// needs no credentials: every page that a browser on this machine shows could read it otherwise.
pub fn loopback_only(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Received, next: middleware::Next| {
        match Hosts::default().check(&request, &LocalHost::default()) {
            Ok(()) => next.run(request).await,
            Err(host) => {
                let text = format!("{host:?} is not served here\n");
                (StatusCode::MISDIRECTED_REQUEST, text).into_response()
            }
        }
    }))
}

fn is_loopback(address: IpAddr) -> bool {
    address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST || address.is_loopback()
}

/// Whether the text after a host is empty or a port.
fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    text.is_empty()
        || digits
            .is_some_and(|digits| digits.parse::<u16>().is_ok_and(|_| !digits.starts_with('+')))
}

/// The host without the brackets of an IPv6 address and without a trailing dot.
fn plain(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = inner.unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, hosts: &[&str]) -> Request<()> {
        let request = hosts
            .iter()
            .fold(Request::get(uri), |request, host| request.header(header::HOST, *host));
        request.body(()).unwrap()
    }

    #[test]
    fn only_what_is_ours_is_served() {
        let hosts = Hosts::new(&["quotad.quota.svc".to_owned(), "[fd00::7]".to_owned()]);
        let local = LocalHost::new(Some("10.1.2.3".parse().unwrap()));
        let serves = |host: &str| hosts.check(&request("/", &[host]), &local).is_ok();
        for host in [
            "localhost",
            "LOCALHOST:8480",
            "localhost.",
            "127.0.0.1:8480",
            "127.0.0.2",
            "[::1]:80",
            "[::ffff:127.0.0.1]",
            "10.1.2.3:1",
            "quotad.quota.svc:8480",
            "QUOTAD.quota.svc",
            "[fd00::7]:1",
        ] {
            assert!(serves(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "10.1.2.4",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "localhost, evil.example",
            "[::2]",
            "[::1]evil",
            "[::1]evil:80",
            "[::1].evil.example",
            "[::1",
            "::1",
            "[localhost]",
            "localhost:",
            "localhost:evil",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "127.0.0.1:80.evil.example",
            "0.0.0.0",
            "*",
        ] {
            assert!(!serves(host), "{host}");
        }
        assert!(hosts.check(&request("/", &[]), &local).is_ok());
        assert!(hosts.check(&request("/", &["localhost", "evil"]), &local).is_err());
        let absolute = request("http://evil.example/", &["localhost"]);
        assert_eq!(hosts.check(&absolute, &local), Err("evil.example".to_owned()));
        let any = Hosts::new(&["*".to_owned()]);
        assert!(any.check(&request("/", &["evil.example"]), &LocalHost::default()).is_ok());
    }

    #[tokio::test]
    async fn a_listener_on_loopback_answers_no_foreign_host() {
        use tower::ServiceExt as _;

        let router =
            || loopback_only(Router::new().route("/metrics", axum::routing::get("a_total 1")));
        for (host, status) in [
            ("localhost:8482", StatusCode::OK),
            ("127.0.0.1", StatusCode::OK),
            ("evil.example", StatusCode::MISDIRECTED_REQUEST),
            ("[::1]evil", StatusCode::MISDIRECTED_REQUEST),
        ] {
            let (parts, ()) = request("/metrics", &[host]).into_parts();
            let request = Request::from_parts(parts, axum::body::Body::empty());
            let answer = router().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), status, "{host}");
        }
    }

    #[test]
    fn a_connection_knows_the_host_that_was_allowed_and_no_other() {
        let (hosts, local) = (Hosts::default(), LocalHost::default());
        let check = |uri: &str, names: &[&str]| hosts.check(&request(uri, names), &local).is_ok();
        assert!(!check("/", &["evil.example"]) && check("/", &["localhost:1"]));
        assert!(check("/", &["localhost:1"]) && check("/", &["127.0.0.1"]));
        assert!(!check("/", &["evil.example"]) && !check("/", &["localhost:1", "evil.example"]));
        assert!(!check("http://evil.example/", &["localhost:1"]));
    }
}
