//! TLS on both sides: certificates as users make them, the generator's connections, the floor's listener.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::serve::Listener;
use quota_bench::load::Connect;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::support::programs;

/// What the certificate is made for.
const HOST: &str = "localhost";

/// The generator speaks this.
const PROTOCOL: &[u8] = b"http/1.1";

/// The files that `quotactl generate certs` makes.
#[derive(Clone, Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes them in a directory.
    pub fn make(directory: &Path) -> Self {
        let directory = directory.join("certificates");
        programs::certificates(&directory, HOST);
        Self(directory)
    }

    /// Those of a directory.
    pub fn of(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.0.join("tls.crt")
    }

    /// The server's key.
    pub fn key(&self) -> PathBuf {
        self.0.join("tls.key")
    }

    fn read(path: &Path) -> CertificateDer<'static> {
        let text = fs::read(path).expect("it was made");
        CertificateDer::from_pem_slice(&text).expect("it is a certificate")
    }

    /// What connects to a server with this certificate.
    pub fn connector(&self, address: SocketAddr) -> Tls {
        let mut roots = RootCertStore::empty();
        let added = roots.add(Self::read(&self.0.join("ca.crt")));
        added.expect("it is a CA");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Tls { address, connector: TlsConnector::from(Arc::new(config)) }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = fs::read(self.key()).expect("it was made");
        let key = PrivateKeyDer::from_pem_slice(&key).expect("it is a key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_no_client_auth()
            .with_single_cert(vec![Self::read(&self.certificate())], key)
            .expect("they belong together");
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server by TLS.
#[derive(Clone)]
pub struct Tls {
    address: SocketAddr,
    connector: TlsConnector,
}

impl Connect for Tls {
    type Stream = client::TlsStream<TcpStream>;

    async fn connect(&self) -> io::Result<Self::Stream> {
        let stream = self.address.connect().await?;
        let name = ServerName::try_from(HOST).map_err(io::Error::other)?;
        self.connector.connect(name, stream).await
    }
}

/// A listener whose connections have shaken hands, one after the other: they are made before anything is measured.
pub struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    pub fn new(listener: TcpListener, certificates: &Certificates) -> Self {
        Self { listener, acceptor: certificates.acceptor() }
    }
}

impl Listener for TlsListener {
    type Io = server::TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // A stream that is gone already shows when it is read.
            let _ = stream.set_nodelay(true);
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
