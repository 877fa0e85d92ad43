use std::{fs, net::SocketAddr, path::PathBuf};

use axum::Extension;
use quota_testkit::certificates::{self, Authority, Pair, authority, signed_with};
use rcgen::{DnType, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::{TlsConnector, client};

use super::*;
use crate::{
    auth::Access,
    reload::follow,
    routes,
    server::{
        Peer,
        tests::{Server, open, options},
    },
};

fn signed(issuer: &Issuer<'_, KeyPair>, common: &str, names: Vec<SanType>) -> Pair {
    signed_until(issuer, common, names, 2999)
}

fn signed_until(
    issuer: &Issuer<'_, KeyPair>,
    common: &str,
    names: Vec<SanType>,
    year: i32,
) -> Pair {
    signed_with(issuer, |params| {
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = names;
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
    })
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

struct Setup {
    directory: TempDir,
    server_ca: Authority,
    client_ca: Authority,
}

impl Setup {
    fn new() -> Self {
        let setup = Self {
            directory: TempDir::new().unwrap(),
            server_ca: authority(),
            client_ca: authority(),
        };
        setup.put("client-ca.pem", &setup.client_ca.pem());
        setup.rotate();
        setup
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn put_pair(&self, pair: &Pair) {
        self.put("cert.pem", &pair.certificate);
        self.put("key.pem", &pair.key);
    }

    /// Replaces the server certificate.
    fn rotate(&self) {
        self.put_pair(&signed(&self.server_ca, "quotad", vec![dns("quota.svc")]));
    }

    fn config(&self, allowed: &[&str]) -> schema::Tls {
        schema::Tls {
            cert: Some(self.path("cert.pem")),
            key: Some(self.path("key.pem")),
            client_ca: (!allowed.is_empty()).then(|| self.path("client-ca.pem")),
            allowed_names: allowed.iter().map(|name| (*name).to_owned()).collect(),
            api: false,
        }
    }

    fn serve(&self, allowed: &[&str]) -> (Server, Follower) {
        let (tls, follower) = Tls::load(&self.config(allowed)).unwrap();
        (Self::start(tls), follower)
    }

    fn start(tls: Tls) -> Server {
        let names = |Extension(peer): Extension<Peer>| async move { peer.names.join(" ") };
        let names = routes::get("/", Access::Public, names);
        Server::start(open([names]), options(), Some(tls))
    }

    /// Calls with this certificate; returns the response's body and the server's certificate.
    async fn call(
        &self,
        address: SocketAddr,
        client: Option<&Pair>,
        alpn: &[u8],
    ) -> io::Result<(String, Vec<u8>)> {
        let mut stream = connect(address, self.client(client, alpn)).await?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        match answer.split_once("\r\n\r\n") {
            Some((_, body)) => Ok((body.to_owned(), certificate)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// A client that trusts the server, and caches sessions.
    fn client(&self, client: Option<&Pair>, alpn: &[u8]) -> Arc<ClientConfig> {
        let authority = self.server_ca.pem();
        let mut config = certificates::client(&authority, client, &[&TLS13, &TLS12]);
        config.alpn_protocols = vec![alpn.to_vec()];
        Arc::new(config)
    }
}

async fn connect(
    address: SocketAddr,
    client: Arc<ClientConfig>,
) -> io::Result<client::TlsStream<TcpStream>> {
    let name = ServerName::try_from("quota.svc").unwrap();
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(client).connect(name, stream).await
}

/// Sends one request, and leaves the connection open.
async fn ask(stream: &mut client::TlsStream<TcpStream>) -> io::Result<()> {
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"kube-apiserver") {
        answer.push(stream.read_u8().await?);
    }
    Ok(())
}

fn api_server(issuer: &Issuer<'_, KeyPair>) -> Pair {
    signed(issuer, "", vec![dns("kube-apiserver")])
}

#[tokio::test]
async fn a_session_is_not_resumed_past_a_look_at_the_certificate() {
    let setup = Setup::new();
    let (server, _) = setup.serve(&["kube-apiserver"]);
    let pair = api_server(&setup.client_ca);
    for version in [&TLS13, &TLS12] {
        let client = setup.client(Some(&pair), H1);
        let mut client = Arc::unwrap_or_clone(client);
        if version.version == rustls::ProtocolVersion::TLSv1_2 {
            client.resumption = client
                .resumption
                .tls12_resumption(rustls::client::Tls12Resumption::SessionIdOrTickets);
        }
        let client = Arc::new(client);
        for _ in 0..3 {
            let mut stream = connect(server.address, client.clone()).await.unwrap();
            ask(&mut stream).await.unwrap();
            let kind = stream.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full));
        }
    }
}

#[tokio::test]
async fn a_connection_ends_with_the_ca_that_it_was_let_in_by() {
    let setup = Setup::new();
    let (server, mut follower) = setup.serve(&["kube-apiserver"]);
    let old = setup.client(Some(&api_server(&setup.client_ca)), H1);
    let mut idle = connect(server.address, old.clone()).await.unwrap();
    ask(&mut idle).await.unwrap();

    setup.rotate();
    let other = authority();
    setup.put("client-ca.pem", &format!("{}{}", setup.client_ca.pem(), other.pem()));
    follower.look();
    let new = setup.client(Some(&api_server(&other)), H1);
    let mut kept = connect(server.address, new).await.unwrap();
    ask(&mut kept).await.unwrap();
    ask(&mut idle).await.unwrap();

    setup.put("client-ca.pem", &other.pem());
    follower.look();
    // The end of the stream, in either form that TLS has.
    assert!(!matches!(idle.read(&mut [0]).await, Ok(1..)));
    ask(&mut kept).await.unwrap();
    let refused = async { ask(&mut connect(server.address, old).await?).await };
    assert!(refused.await.is_err());
}

#[tokio::test]
async fn a_connection_ends_with_its_certificate() {
    let setup = Setup::new();
    let (server, _) = setup.serve(&["kube-apiserver"]);
    let now = u64::try_from(super::now()).unwrap();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let until = epoch + std::time::Duration::from_secs(now + 3);
    let pair = signed_with(&setup.client_ca, |params| {
        params.subject_alt_names = vec![dns("kube-apiserver")];
        params.not_after = until;
    });
    let client = setup.client(Some(&pair), H1);
    let mut stream = connect(server.address, client.clone()).await.unwrap();
    ask(&mut stream).await.unwrap();
    assert!(!matches!(stream.read(&mut [0]).await, Ok(1..)));
    let refused = async { ask(&mut connect(server.address, client).await?).await };
    assert!(refused.await.is_err());
}

const H1: &[u8] = b"http/1.1";

#[tokio::test]
async fn callers_are_known_by_name() {
    let setup = Setup::new();
    let (server, _) = setup.serve(&["kube-apiserver", "spiffe://cluster/webhooks"]);
    let call = |client| setup.call(server.address, client, H1);

    let name = "kube-apiserver";
    let by_dns = signed(&setup.client_ca, "other", vec![dns("a.b"), dns(name)]);
    assert_eq!(call(Some(&by_dns)).await.unwrap().0, name);
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let names = vec![dns("a.b"), uri("spiffe://cluster/webhooks")];
    let by_uri = signed(&setup.client_ca, "other", names);
    assert_eq!(call(Some(&by_uri)).await.unwrap().0, "spiffe://cluster/webhooks");

    let mail = SanType::Rfc822Name(name.try_into().unwrap());
    for names in [vec![], vec![uri(name)], vec![mail], vec![dns("spiffe://cluster/webhooks")]] {
        let other = signed(&setup.client_ca, name, names.clone());
        let called = setup.call(server.address, Some(&other), H1);
        assert!(called.await.is_err(), "{names:?}");
    }
    assert!(call(None).await.is_err(), "no certificate");
    let other_name = signed(&setup.client_ca, "kubelet", vec![dns("kube-apiserver.evil")]);
    assert!(call(Some(&other_name)).await.is_err(), "right CA, wrong name");
    let other_ca = signed(&authority(), name, vec![dns(name)]);
    assert!(call(Some(&other_ca)).await.is_err(), "wrong CA, right name");
    let expired = signed_until(&setup.client_ca, name, vec![dns(name)], 2001);
    assert!(call(Some(&expired)).await.is_err(), "expired");
}

#[tokio::test]
async fn callers_of_the_api_may_do_without_a_certificate() {
    let setup = Setup::new();
    let (tls, _) = Tls::load_for_api(&setup.config(&["kube-apiserver"])).unwrap();
    let server = Setup::start(tls);
    let call = |client| setup.call(server.address, client, H1);
    assert_eq!(call(None).await.unwrap().0, "");
    let named = signed(&setup.client_ca, "ci", vec![dns("ci.svc")]);
    assert_eq!(call(Some(&named)).await.unwrap().0, "ci.svc");
    let other_ca = signed(&authority(), "ci", vec![]);
    assert!(call(Some(&other_ca)).await.is_err(), "wrong CA");
}

#[tokio::test]
async fn without_a_client_ca_callers_have_no_names() {
    let setup = Setup::new();
    let (server, _) = setup.serve(&[]);
    assert_eq!(setup.call(server.address, None, H1).await.unwrap().0, "");
    assert!(
        setup.call(server.address, None, b"h2").await.is_err(),
        "HTTP/1.1 where HTTP/2 was agreed on"
    );
}

#[tokio::test]
async fn certificates_can_be_changed_while_serving() {
    let setup = Setup::new();
    let (server, mut follower) = setup.serve(&[]);
    let certificate = async || setup.call(server.address, None, H1).await.unwrap().1;
    let first = certificate().await;
    follower.look();
    assert_eq!(certificate().await, first);

    setup.rotate();
    assert_eq!(certificate().await, first, "not looked at yet");
    follower.look();
    let second = certificate().await;
    assert_ne!(second, first);

    setup.put("key.pem", "half of a k");
    follower.look();
    assert_eq!(certificate().await, second, "a bad file changes nothing");
    fs::remove_file(setup.path("key.pem")).unwrap();
    follower.look();
    assert_eq!(certificate().await, second, "nor does a missing one");

    setup.rotate();
    follower.look();
    assert_ne!(certificate().await, second);
}

#[tokio::test]
async fn a_reload_that_is_asked_for_is_done() {
    let setup = Setup::new();
    let (server, follower) = setup.serve(&[]);
    let first = setup.call(server.address, None, H1).await.unwrap().1;
    setup.rotate();
    let (ask, reload) = watch::channel(0);
    let following = tokio::spawn(follow(follower, reload, server.stop.clone()));
    ask.send(1).unwrap();
    // The follower reads the files at its start, and again on a reload.
    while setup.call(server.address, None, H1).await.unwrap().1 == first {
        tokio::task::yield_now().await;
    }
    server.stop.cancel();
    following.await.unwrap();
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    let setup = Setup::new();
    // With its sources, as the program prints it.
    let refused = |config: &schema::Tls| {
        let error = Tls::load(config).err().unwrap();
        format!("{:#}", anyhow::Error::from(error))
    };
    let mut config = setup.config(&["name"]);

    let pair = signed_until(&setup.server_ca, "quotad", vec![dns("quota.svc")], 2001);
    setup.put_pair(&pair);
    assert!(refused(&config).starts_with("the certificate expired"), "{}", refused(&config));

    setup.rotate();
    setup.put("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    assert_eq!(
        refused(&config),
        "certificate and key cannot be used: the private key does not belong to the certificate"
    );
    let other_curve = include_str!("../../../client/src/http/p521.pem");
    setup.put("key.pem", other_curve);
    assert!(
        refused(&config).ends_with("P-256 or P-384, Ed25519; P-521 is not supported"),
        "{}",
        refused(&config)
    );

    setup.rotate();
    setup.put("client-ca.pem", "");
    assert!(refused(&config).starts_with("tls.client_ca cannot be used"));

    setup.put("cert.pem", "no certificate");
    assert!(refused(&config).starts_with("tls.cert cannot be used"));

    config.key = Some(setup.path("missing.pem"));
    assert!(refused(&config).starts_with("cannot read "));
    config.key = None;
    assert_eq!(refused(&config), "tls.cert and tls.key are needed");
}
