//! Requests between nodes: over kept-alive connections, authenticated by the secret that all nodes share.

mod credentials;

use std::{collections::BTreeMap, future::Future, time::Duration};

use anyhow::anyhow;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use quota_replication::protocol::NodeName;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

pub(crate) use credentials::FromNode;
pub(super) use credentials::{Actor, Credentials, mark, marked};

use crate::config;

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
            tls: credentials::connector(settings)?,
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
            if !NOT_PASSED.contains(name) && !credentials::is_reserved(name) {
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
