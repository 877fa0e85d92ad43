//! Requests between nodes: over kept-alive connections, authenticated by the secret that all nodes share.

use std::{collections::BTreeMap, fs, future::Future, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use quota_replication::protocol::NodeName;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use crate::{
    auth::{Pattern, Principal, Role},
    config,
    problem::Undecided,
    server::Peer as RemotePeer,
};

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(1);

/// How long a node may take to begin a response whose body is read separately.
const BEGIN: Duration = Duration::from_secs(10);

/// Idle connections to a node that are kept. The responses to all requests of one batch arrive together, so many
/// connections become idle at once.
const IDLE_MAX: usize = 512;

/// Most bytes of a response.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Headers that belong to one connection, or that are set anew.
const NOT_PASSED: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::ORIGIN,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::AUTHORIZATION,
];

/// The other nodes.
pub(super) struct Peers {
    nodes: BTreeMap<NodeName, Peer>,
    credentials: Credentials,
    tls: Option<TlsConnector>,
}

struct Peer {
    authority: String,
    host: String,
    idle: Mutex<Vec<Sender>>,
}

type Sender = SendRequest<Full<Bytes>>;

/// Why a node has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The node did not receive the request.
    NotSent,
    /// It is unknown whether the node has carried the request out.
    Unknown,
}

impl Peers {
    /// Reads the secret, and the certificates.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub(super) fn load(settings: &config::Cluster) -> anyhow::Result<Self> {
        let mut nodes = BTreeMap::new();
        for (name, url) in &settings.peers {
            let no_address = |text: &str| anyhow!("cluster.peers: {text:?} is no address");
            let address: Uri = url.parse().map_err(|_| no_address(url))?;
            let authority = address.authority().ok_or_else(|| no_address(url))?;
            let name = name.parse().map_err(|_| no_address(name))?;
            let default_port = match settings.tls_cert {
                Some(_) => 443,
                None => 80,
            };
            let port = authority.port_u16().unwrap_or(default_port);
            let peer = Peer {
                authority: format!("{}:{port}", authority.host()),
                host: authority.host().trim_matches(['[', ']']).to_owned(),
                idle: Mutex::default(),
            };
            nodes.insert(name, peer);
        }
        Ok(Self {
            nodes,
            credentials: Credentials::load(settings.token_file.as_deref())?,
            tls: connector(settings)?,
        })
    }

    pub(super) const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The names of all nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    /// Forwards a request to a node, on behalf of its caller.
    pub(super) async fn send(
        &self,
        node: &NodeName,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        actor: &Actor,
        body: Bytes,
    ) -> Result<Response<Bytes>, Failed> {
        let peer = self.nodes.get(node).ok_or(Failed::NotSent)?;
        let request = self.request(peer, (method, path), headers, actor, body);
        let request = request.ok_or(Failed::NotSent)?;
        let mut sender = match peer.kept().await {
            Some(sender) => sender,
            None => self.connect(peer).await.ok_or(Failed::NotSent)?,
        };
        let answer = sender.send_request(request).await;
        let (parts, body) = answer
            .map_err(|error| match error.is_canceled() {
                true => Failed::NotSent,
                false => Failed::Unknown,
            })?
            .into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Failed::Unknown)?.to_bytes();
        peer.keep(sender);
        Ok(Response::from_parts(parts, body))
    }

    /// The response of a node to `GET`, its body unread since it may be long; none if the node does not answer in time.
    pub(super) async fn open(&self, node: &NodeName, path: &str) -> Option<Response<Incoming>> {
        let peer = self.nodes.get(node)?;
        let nobody = Actor::default();
        let target = (&Method::GET, path);
        let request = self.request(peer, target, &HeaderMap::new(), &nobody, Bytes::new())?;
        let mut sender = self.connect(peer).await?;
        within(BEGIN, sender.send_request(request)).await?.ok()
    }

    fn request(
        &self,
        peer: &Peer,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        actor: &Actor,
        body: Bytes,
    ) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse().ok()?;
        let passed = request.headers_mut();
        for (name, value) in headers {
            if !NOT_PASSED.contains(name) && !is_reserved(name) {
                passed.append(name.clone(), value.clone());
            }
        }
        let host = HeaderValue::from_str(&peer.authority).ok()?;
        passed.insert(header::HOST, host);
        self.credentials.sign(actor, passed)?;
        Some(request)
    }

    async fn connect(&self, peer: &Peer) -> Option<Sender> {
        let connecting = async {
            let stream = TcpStream::connect(&peer.authority).await.ok()?;
            stream.set_nodelay(true).ok()?;
            let Some(tls) = &self.tls else {
                return handshake(stream).await;
            };
            let host = ServerName::try_from(peer.host.clone()).ok()?;
            handshake(tls.connect(host, stream).await.ok()?).await
        };
        within(CONNECT, connecting).await.flatten()
    }
}

async fn handshake<S>(stream: S) -> Option<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, future).await.ok()
}

impl Peer {
    /// An idle connection that is still usable. The previous response may have been read before the connection's task
    /// has finished, so this waits until the connection is ready.
    async fn kept(&self) -> Option<Sender> {
        loop {
            let mut sender = self.idle.lock().pop()?;
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
    }
}

// Authenticates nodes to each other, and names the caller of a forwarded request.

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
        let peer = extensions.get::<RemotePeer>();
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
    fn load(file: Option<&Path>) -> anyhow::Result<Self> {
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
    fn sign(&self, actor: &Actor, headers: &mut HeaderMap) -> Option<()> {
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
        if let Some(peer) = extensions.get_mut::<RemotePeer>() {
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
fn is_reserved(name: &HeaderName) -> bool {
    [ACTOR, NOT_LEADER, OUTCOME_UNKNOWN].contains(name)
}

/// Connects to the other nodes over TLS, if they use it.
fn connector(settings: &config::Cluster) -> anyhow::Result<Option<TlsConnector>> {
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
