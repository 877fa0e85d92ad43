//! How the bridge signs in with a kubeconfig, and renews what expires.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use quota_testkit::certificates::{self, Authority, Pair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{
    process::Program,
    scene::{Scene, until_ready},
    until,
};

/// Writes a kubeconfig with this cluster and user.
fn kubeconfig(directory: &Path, cluster: &str, user: &str) -> PathBuf {
    let path = directory.join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn bridge(scene: &Scene, kubeconfig: &Path) -> Program {
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    Program::start(&mut scene.command_between(&arguments, &scene.nats.url()))
}

/// A program that signs in, for tokens that another file holds.
struct Plugin {
    directory: TempDir,
    kubeconfig: PathBuf,
}

impl Plugin {
    /// Tokens of this program say that they expire after so many seconds, or not when.
    fn new(scene: &Scene, lifetime: Option<u32>) -> Self {
        let directory = TempDir::new().unwrap();
        let expires = lifetime.map(|seconds| {
            let at = format!("$(date -u -d '+{seconds} seconds' +%Y-%m-%dT%H:%M:%SZ)");
            format!(r#", \"expirationTimestamp\": \"{at}\""#)
        });
        let script = format!(
            "#!/bin/sh\ncd \"$(dirname \"$0\")\" && echo run >> runs && token=$(cat token) || exit 1\n\
             echo \"{{\\\"apiVersion\\\": \\\"client.authentication.k8s.io/v1\\\", \\\"kind\\\": \\\"ExecCredential\\\", \
             \\\"status\\\": {{\\\"token\\\": \\\"$token\\\"{}}}}}\"\n",
            expires.unwrap_or_default()
        );
        let program = directory.path().join("sign-in");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let kubeconfig = kubeconfig(
            directory.path(),
            &format!("server: '{}'", scene.api),
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./sign-in, env: [{name: KEY, value: hush}]}",
        );
        Self { directory, kubeconfig }
    }

    /// From now on it prints this token.
    fn print(&self, token: &str) {
        fs::write(self.directory.path().join("token"), token).unwrap();
    }

    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.directory.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    }
}

/// No request is refused: the program is run before its token expires.
#[test]
fn an_exec_program_is_run_again_before_its_token_expires() {
    let scene = Scene::new();
    let plugin = Plugin::new(&scene, Some(63));
    plugin.print("one");
    scene.world.require_token("one");
    let bridge = bridge(&scene, &plugin.kubeconfig);
    until_ready(&bridge);
    scene.settle();
    let runs = plugin.runs();
    until("it is run again", || (plugin.runs() > runs + 1).then_some(()));
    assert!(bridge.said("Unauthorized").is_empty(), "{}", bridge.log());
}

/// A token without a time is used until it is refused. A program that fails is run again.
#[test]
fn an_exec_program_is_run_again_after_it_failed_and_when_its_token_is_refused() {
    let scene = Scene::new();
    let plugin = Plugin::new(&scene, None);
    scene.world.require_token("one");
    let bridge = bridge(&scene, &plugin.kubeconfig);
    until("the log says why", || bridge.said("No such file or directory").pop());
    assert!(bridge.said("hush").is_empty(), "{}", bridge.log());
    plugin.print("one");
    until_ready(&bridge);
    scene.settle();
    let runs = plugin.runs();
    plugin.print("two");
    scene.churn("later");
    scene.settle();
    assert_eq!(plugin.runs(), runs, "nothing was refused");
    scene.world.require_token("two");
    scene.world.cut();
    scene.churn("renewed");
    scene.settle();
}

/// What stands in front of a server, and speaks TLS.
struct Front {
    authority: Authority,
    own: Pair,
    address: SocketAddr,
    shared: Arc<Mutex<(TlsAcceptor, JoinSet<()>)>>,
}

impl Front {
    /// In front of this server; asks for certificates of an authority, or for none.
    fn new(scene: &Scene, target: &str, trusted: Option<&Authority>) -> Self {
        let authority = certificates::authority();
        let own = certificates::signed(&authority, &["kubernetes.test", "127.0.0.1"]);
        let listener = scene.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = acceptor(&own, trusted);
        let shared = Arc::new(Mutex::new((acceptor, JoinSet::new())));
        let target = target.trim_start_matches("http://").to_owned();
        let accepting = shared.clone();
        scene.runtime.spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let mut shared = accepting.lock().unwrap();
                let (acceptor, target) = (shared.0.clone(), target.clone());
                shared.1.spawn(async move {
                    let mut server = TcpStream::connect(target).await.unwrap();
                    if let Ok(mut caller) = acceptor.accept(caller).await {
                        let _ = copy_bidirectional(&mut caller, &mut server).await;
                    }
                });
            }
        });
        Self { authority, own, address, shared }
    }

    /// From now on certificates of this authority are asked for; all connections end.
    fn trust(&self, trusted: &Authority) {
        let mut shared = self.shared.lock().unwrap();
        shared.0 = acceptor(&self.own, Some(trusted));
        shared.1.abort_all();
    }
}

fn acceptor(own: &Pair, trusted: Option<&Authority>) -> TlsAcceptor {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = trusted.map_or_else(WebPkiClientVerifier::no_client_auth, |trusted| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&trusted.pem())).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        verifier.build().unwrap()
    });
    let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate(&own.certificate)], key);
    Arc::new(config.unwrap()).into()
}

#[test]
fn a_client_certificate_is_shown_and_read_again_when_its_file_has_changed() {
    let scene = Scene::new();
    let (first, second) = (certificates::authority(), certificates::authority());
    let front = Front::new(&scene, &scene.api, Some(&first));
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("ca.crt"), front.authority.pem()).unwrap();
    certificates::signed(&first, &["bridge"]).write(directory.path(), "bridge");
    let config = kubeconfig(
        directory.path(),
        &format!(
            "server: 'https://{}', certificate-authority: ca.crt, tls-server-name: kubernetes.test",
            front.address
        ),
        "client-certificate: bridge.crt, client-key: bridge.key",
    );
    let bridge = bridge(&scene, &config);
    until_ready(&bridge);
    scene.settle();
    certificates::signed(&second, &["bridge"]).write(directory.path(), "bridge");
    front.trust(&second);
    scene.churn("renewed");
    scene.settle();
}

/// The issuer's certificate is of an authority that the system trusts, and the client has no secret.
#[test]
fn an_expired_id_token_is_refreshed() {
    let scene = Scene::new();
    let token = |expires: i64| {
        let claims = URL_SAFE_NO_PAD.encode(json!({"exp": expires}).to_string());
        format!("e30.{claims}.signature")
    };
    let (expired, fresh) = (token(1), token(4_102_444_800));
    scene.world.require_token(&fresh);
    let listener = scene.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let front = Front::new(&scene, &listener.local_addr().unwrap().to_string(), None);
    let issuer = format!("https://{}", front.address);
    let endpoints = json!({"token_endpoint": format!("{issuer}/token")});
    let answer = async move |request: String| {
        assert!(request.contains("refresh_token=again"), "{request}");
        Json(json!({"id_token": fresh}))
    };
    let routes = Router::new()
        .route("/.well-known/openid-configuration", get(async || Json(endpoints)))
        .route("/token", post(answer));
    scene.runtime.spawn(async { axum::serve(listener, routes).await.unwrap() });
    let directory = TempDir::new().unwrap();
    let trusted = directory.path().join("ca.crt");
    fs::write(&trusted, front.authority.pem()).unwrap();
    let user = format!(
        "auth-provider: {{name: oidc, config: {{idp-issuer-url: '{issuer}', client-id: bridge, \
         id-token: {expired}, refresh-token: again}}}}"
    );
    let config = kubeconfig(directory.path(), &format!("server: '{}'", scene.api), &user);
    let arguments = ["--kubeconfig", config.to_str().unwrap()];
    let mut command = scene.command_between(&arguments, &scene.nats.url());
    let bridge = Program::start(command.env("SSL_CERT_FILE", trusted));
    until_ready(&bridge);
    scene.settle();
}

/// What a caller of a proxy asks it to connect to, as it is sent.
async fn asked(caller: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = vec![caller.read_u8().await?];
    if head == [5] {
        let mut methods = vec![0; caller.read_u8().await?.into()];
        caller.read_exact(&mut methods).await?;
        caller.write_all(&[5, 0]).await?;
        let mut request = vec![0; 5];
        caller.read_exact(&mut request).await?;
        head = vec![0; usize::from(request[4]) + 2];
        caller.read_exact(&mut head).await?;
        caller.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 1]).await?;
    } else {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(caller.read_u8().await?);
        }
        caller.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    }
    Ok(head)
}

/// Starts a bridge behind a proxy of this kind that alone knows the name of the server.
fn through_a_proxy(scheme: &str, target: &'static [u8]) {
    let scene = Scene::new();
    let listener = scene.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let proxy = listener.local_addr().unwrap();
    let server = scene.api.trim_start_matches("http://").to_owned();
    scene.runtime.spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let server = server.clone();
            tokio::spawn(async move {
                let Ok(asked) = asked(&mut caller).await else { return };
                assert!(asked.starts_with(target), "{asked:?}");
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut caller, &mut server).await;
            });
        }
    });
    let directory = TempDir::new().unwrap();
    let cluster = format!("server: 'http://kubernetes.test:6443', proxy-url: '{scheme}://{proxy}'");
    let bridge = bridge(&scene, &kubeconfig(directory.path(), &cluster, ""));
    until_ready(&bridge);
    scene.settle();
}

#[test]
fn the_http_proxy_of_the_kubeconfig_is_used() {
    through_a_proxy("http", b"CONNECT kubernetes.test:6443 ");
}

#[test]
fn the_socks_proxy_of_the_kubeconfig_is_used() {
    through_a_proxy("socks5", b"kubernetes.test\x19\x2b");
}
