//! Connections to the API server, with TLS where its URL says `https`.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::access::Tls;

/// The timeout of connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the server of a URL.
#[derive(Clone)]
pub(super) struct Connector {
    tls: Arc<Tls>,
}

impl Connector {
    pub(super) fn new(tls: Tls) -> Self {
        Self { tls: Arc::new(tls) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect(&uri, &tls)).await;
            let stream = connected.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, "connecting takes too long")
            })?;
            stream.map(TokioIo::new)
        })
    }
}

async fn connect(uri: &Uri, tls: &Tls) -> io::Result<Stream> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    if !is_tls {
        return Ok(Box::new(stream));
    }
    // Read anew for each connection, since certificates are renewed while the program runs.
    let config = tls.config().map_err(io::Error::other)?;
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
    Ok(Box::new(stream.await?))
}

/// The bytes of a connection, with TLS or without.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection.
pub(super) type Stream = Box<dyn Io>;

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
