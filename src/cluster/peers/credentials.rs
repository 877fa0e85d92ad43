//! Authenticates nodes to each other, and names the caller of a forwarded request.

use std::{fs, path::Path, sync::Arc};

use anyhow::{Context as _, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, header};
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};
use serde::{Deserialize, Serialize};
use tokio_rustls::TlsConnector;

use crate::{
    auth::{Pattern, Principal, Role},
    config,
    peer::Peer,
    problem::Undecided,
};

/// The caller of a forwarded request.
const ACTOR: HeaderName = HeaderName::from_static("quotad-actor");

/// Set on responses that say that nothing was decided.
const NOT_LEADER: HeaderName = HeaderName::from_static("quotad-not-leader");

/// Set on responses that say that perhaps only a part was decided.
const OUTCOME_UNKNOWN: HeaderName = HeaderName::from_static("quotad-outcome-unknown");

/// A shorter secret is refused.
const SECRET_BYTES_MIN: usize = 32;

/// The secret of the cluster.
pub(in crate::cluster) struct Credentials {
    bearer: HeaderValue,
    hash: blake3::Hash,
}

/// The caller of a request, as authenticated by the node that received it.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::cluster) struct Actor {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<Caller>,
    /// Names of the certificate, on a listener that requires no token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Caller {
    name: String,
    roles: Vec<Role>,
    namespaces: Vec<Pattern>,
}

/// An extension of requests that another node has forwarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromNode;

impl Actor {
    pub(in crate::cluster) fn of(extensions: &Extensions) -> Self {
        let principal = extensions.get::<Principal>();
        let peer = extensions.get::<Peer>();
        Self {
            principal: principal.map(|principal| Caller {
                name: principal.name().to_string(),
                roles: principal.roles().collect(),
                namespaces: principal.namespaces().to_vec(),
            }),
            names: peer.map_or_else(Vec::new, |peer| peer.names.to_vec()),
        }
    }
}

impl Credentials {
    pub(super) fn load(file: Option<&Path>) -> anyhow::Result<Self> {
        let text = match file {
            Some(file) => fs::read_to_string(file).with_context(|| cannot_read(file))?,
            None => String::new(),
        };
        Self::new(text.trim())
    }

    fn new(secret: &str) -> anyhow::Result<Self> {
        ensure!(
            secret.len() >= SECRET_BYTES_MIN && secret.bytes().all(|byte| byte.is_ascii_graphic()),
            "cluster.token_file: the secret has fewer than {SECRET_BYTES_MIN} bytes, or is no line of ASCII"
        );
        let text = format!("Bearer {secret}");
        let mut bearer = HeaderValue::from_str(&text)?;
        bearer.set_sensitive(true);
        Ok(Self { bearer, hash: blake3::hash(text.as_bytes()) })
    }

    /// Adds the secret and the caller on whose behalf this node sends a request. None if a header cannot hold the
    /// caller.
    pub(super) fn sign(&self, actor: &Actor, headers: &mut HeaderMap) -> Option<()> {
        let actor = BASE64.encode(serde_json::to_vec(actor).ok()?);
        headers.insert(header::AUTHORIZATION, self.bearer.clone());
        headers.insert(ACTOR, HeaderValue::from_str(&actor).ok()?);
        Some(())
    }

    /// Checks whether another node sent the request; then the original caller becomes an extension of the request.
    /// Removes the secret from the headers, so that later code cannot log it.
    pub(in crate::cluster) fn admit(
        &self,
        headers: &mut HeaderMap,
        extensions: &mut Extensions,
    ) -> bool {
        let shown = headers.remove(header::AUTHORIZATION);
        let actor = headers.remove(ACTOR);
        // Hashes compare in constant time.
        let is_node = shown.is_some_and(|shown| blake3::hash(shown.as_bytes()) == self.hash);
        let actor = actor.and_then(|actor| BASE64.decode(actor).ok());
        let actor = actor.and_then(|actor| serde_json::from_slice::<Actor>(&actor).ok());
        let (true, Some(actor)) = (is_node, actor) else {
            return false;
        };
        extensions.insert(FromNode);
        if let Some(Caller { name, roles, namespaces }) = actor.principal {
            extensions.insert(Principal::new(&name, &roles, &namespaces));
        }
        if let Some(peer) = extensions.get_mut::<Peer>() {
            peer.names = actor.names.into();
        }
        true
    }
}

/// Marks a response to another node.
pub(in crate::cluster) fn mark(headers: &mut HeaderMap, undecided: Undecided) {
    let mark = match undecided {
        Undecided::All | Undecided::NotReady => NOT_LEADER,
        Undecided::Part => OUTCOME_UNKNOWN,
    };
    headers.insert(mark, HeaderValue::from_static("true"));
}

/// How another node has marked a response.
pub(in crate::cluster) fn marked(headers: &HeaderMap) -> Option<Undecided> {
    if headers.contains_key(NOT_LEADER) {
        return Some(Undecided::All);
    }
    let is_part = headers.contains_key(OUTCOME_UNKNOWN);
    is_part.then_some(Undecided::Part)
}

/// Headers that only nodes may set.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    [ACTOR, NOT_LEADER, OUTCOME_UNKNOWN].contains(name)
}

/// Connects to the other nodes over TLS, if they use it.
pub(super) fn connector(settings: &config::Cluster) -> anyhow::Result<Option<TlsConnector>> {
    let Some(file) = &settings.tls_ca else {
        return Ok(None);
    };
    let pem = fs::read(file).with_context(|| cannot_read(file))?;
    let roots = roots(&pem).context("cluster.tls_ca cannot be used")?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

fn roots(pem: &[u8]) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "it holds no certificate");
    Ok(roots)
}

fn cannot_read(file: &Path) -> String {
    format!("cannot read {}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn signed(by: &Credentials, extensions: &Extensions) -> HeaderMap {
        let mut headers = HeaderMap::new();
        by.sign(&Actor::of(extensions), &mut headers).unwrap();
        headers
    }

    #[test]
    fn a_node_is_believed_whose_request_it_is_and_nobody_else() {
        let nodes = Credentials::new(SECRET).unwrap();
        let mut extensions = Extensions::new();
        let team: Pattern = "team-*".parse().unwrap();
        let caller = Principal::new("ci", &[Role::Reserve], &[team]);
        extensions.insert(caller.clone());
        let mut headers = signed(&nodes, &extensions);
        let mut admitted = Extensions::new();
        assert!(nodes.admit(&mut headers, &mut admitted));
        assert_eq!(admitted.get(), Some(&caller));
        assert!(admitted.get::<FromNode>().is_some());
        assert!(headers.is_empty(), "{headers:?}");

        let other = Credentials::new(&SECRET.replace('0', "1")).unwrap();
        let mut forged = signed(&other, &extensions);
        let mut admitted = Extensions::new();
        assert!(!nodes.admit(&mut forged, &mut admitted));
        assert!(admitted.get::<Principal>().is_none());
        assert!(!nodes.admit(&mut HeaderMap::new(), &mut admitted));
    }

    /// The head of a request may have 16 KiB.
    #[test]
    fn the_most_rights_leave_room_in_a_head() {
        let nodes = Credentials::new(SECRET).unwrap();
        let mut extensions = Extensions::new();
        // As many namespaces as a record of the tokens file may have.
        let namespaces = vec!["a".parse::<Pattern>().unwrap(); 2048];
        extensions.insert(Principal::new(&"x".repeat(253), &Role::ALL, &namespaces));
        let headers = signed(&nodes, &extensions);
        assert!(headers.values().map(HeaderValue::len).sum::<usize>() < 12 * 1024);
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused() {
        assert!(Credentials::new("short").is_err());
        assert!(Credentials::new(&"ä".repeat(32)).is_err());
    }
}
