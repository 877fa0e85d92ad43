//! A client of the Kubernetes API: lists in pages, watches as lines, single objects.
//!
//! [`kube`] connects and signs in. Requests, bounds and failures are the bridge's own: pages and lines are read as they
//! come, and each failure has its meaning for the task of its kind.

mod access;
mod answer;
mod failure;
mod lines;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

pub use access::{Access, SetupError};
pub use answer::Answer;
pub use failure::Failure;
pub use lines::Lines;

/// The timeout of connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval at which the files of an access are compared, and at most once in which refused credentials are renewed.
const RENEW: Duration = Duration::from_secs(10);

/// The time before a client certificate of an `exec` program expires at which the program is run again.
const EXPIRY: SignedDuration = SignedDuration::from_secs(60);

/// The timeout for the head of a response. A list without resourceVersion waits for etcd.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response body, in bytes, unless the caller sets a lower one.
const BODY_MAX_BYTES: usize = 64 << 20;

/// The maximum size of the body of an error, in bytes.
const ERROR_MAX_BYTES: usize = 1 << 20;

/// The media type for whole objects.
pub const JSON: &str = "application/json";

/// The media type for lists of metadata, or of whole objects from servers that do not support that.
pub const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json";

/// As [`METADATA`], for watches.
pub const METADATA_WATCH: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A client of one API server, or of a load balancer in front of several.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    access: Access,
    /// Scheme, authority and path prefix, without a slash at the end.
    base: String,
    namespace: Option<String>,
    /// Whether the server has refused the credentials since they were read.
    is_refused: AtomicBool,
    signed_in: Arc<Mutex<Option<SignedIn>>>,
}

/// A client with the credentials of a point in time.
struct SignedIn {
    client: kube::Client,
    since: Instant,
    compared: Instant,
    files: Vec<PathBuf>,
    changed: Vec<Option<SystemTime>>,
}

impl SignedIn {
    /// Reads the credentials; may run a program.
    fn new(access: &Access) -> anyhow::Result<Self> {
        let present = access.read()?;
        let (files, changed) = (present.files.clone(), changed(&present.files));
        let client = present.sign_in()?;
        let since = Instant::now();
        Ok(Self { client, since, compared: since, files, changed })
    }

    /// Whether the credentials are to be read again: a file has changed, they expire soon, or they are refused.
    fn is_due(&mut self, is_refused: bool) -> bool {
        if !is_refused && self.compared.elapsed() < RENEW {
            return false;
        }
        self.compared = Instant::now();
        let expires = self.client.valid_until();
        let is_over = expires.is_some_and(|at| at.duration_since(Timestamp::now()) < EXPIRY);
        changed(&self.files) != self.changed
            || (is_refused || is_over) && self.since.elapsed() >= RENEW
    }
}

/// The times at which these files were changed.
fn changed(files: &[PathBuf]) -> Vec<Option<SystemTime>> {
    files.iter().map(|file| file.metadata().ok()?.modified().ok()).collect()
}

impl Client {
    /// A client with this access. No connection is made yet, and no program is run.
    ///
    /// # Errors
    /// The configuration of the access is invalid.
    pub fn new(access: Access) -> Result<Self, SetupError> {
        let config = access.read()?.config;
        let namespace = matches!(access, Access::Pod).then_some(config.default_namespace);
        Ok(Self(Arc::new(Inner {
            access,
            base: config.cluster_url.to_string().trim_end_matches('/').to_owned(),
            namespace,
            is_refused: AtomicBool::new(false),
            signed_in: Arc::default(),
        })))
    }

    /// The server's URL.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The namespace of the pod in which the program runs; none if it does not use the pod's service account.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.0.namespace.as_deref()
    }

    /// The client with the present credentials.
    async fn signed_in(&self) -> Result<kube::Client, Failure> {
        let mut current = self.0.signed_in.clone().lock_owned().await;
        let is_refused = self.0.is_refused.load(Ordering::Relaxed);
        if let Some(known) = current.as_mut()
            && !known.is_due(is_refused)
        {
            return Ok(known.client.clone());
        }
        let inner = self.0.clone();
        // Holds the lock to its end, so that a program that hangs is not run a second time.
        let read = spawn_blocking(move || match (SignedIn::new(&inner.access), current.as_ref()) {
            (Ok(new), _) => {
                inner.is_refused.store(false, Ordering::Relaxed);
                Ok(current.insert(new).client.clone())
            }
            (Err(error), Some(known)) => {
                tracing::warn!("cannot renew the credentials: {error:#}");
                Ok(known.client.clone())
            }
            (Err(error), None) => Err(Failure::Unreachable(format!("no credentials: {error:#}"))),
        });
        read.await.unwrap_or_else(|error| Err(Failure::unreachable(&error)))
    }

    /// Sends a `GET` request, and reads the body.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub async fn get(&self, path: &str, accept: &'static str) -> Result<Bytes, Failure> {
        self.open(path, accept).await?.body(BODY_MAX_BYTES).await
    }

    /// Sends a `GET` request. The body is still to be read.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub async fn open(&self, path: &str, accept: &'static str) -> Result<Answer, Failure> {
        let response = self.request(Method::GET, path, accept, Bytes::new()).await?;
        Ok(Answer::new(response.into_body()))
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub async fn watch(&self, path: &str, accept: &'static str) -> Result<Lines, Failure> {
        let response = self.request(Method::GET, path, accept, Bytes::new()).await?;
        Ok(Lines::new(response.into_body()))
    }

    /// Sends an object as JSON.
    ///
    /// # Errors
    /// The request fails, or is refused.
    pub async fn send(&self, method: Method, path: &str, object: Bytes) -> Result<Bytes, Failure> {
        let response = self.request(method, path, JSON, object).await?;
        Answer::new(response.into_body()).body(BODY_MAX_BYTES).await
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        object: Bytes,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("quota-bridge/", env!("CARGO_PKG_VERSION")));
        if !object.is_empty() {
            request = request.header(header::CONTENT_TYPE, JSON);
        }
        let request = request
            .body(Body::from(object))
            .map_err(|error| Failure::Unreadable(error.to_string()))?;
        let answer = timeout(HEAD_TIMEOUT, async {
            let sent = self.signed_in().await?.send(request).await;
            sent.map_err(|error| Failure::unreachable(&error))
        });
        let response =
            answer.await.map_err(|_| Failure::Unreachable("no answer in time".to_owned()))??;
        if response.status().is_success() {
            return Ok(response);
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            self.0.is_refused.store(true, Ordering::Relaxed);
        }
        let (head, rest) = response.into_parts();
        let text = Answer::new(rest).body(ERROR_MAX_BYTES).await;
        let text = text.unwrap_or_default();
        Err(Failure::of_answer(&head, &text))
    }
}

#[cfg(test)]
mod tests {
    use quota_testkit::fake_api::{server, world::World};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_token_is_read_again_once_it_was_refused() {
        let world = World::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(server::serve(listener, world.clone()));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\n").unwrap();
        world.require_token("one");
        let token_file = Some(file.path().to_owned());
        let client = Client::new(Access::Url { url, token_file, ca: None }).unwrap();
        let code = async || client.get("/version", JSON).await.err().and_then(|it| it.code());
        assert_eq!(code().await, None);
        std::fs::write(file.path(), "two\n").unwrap();
        assert_eq!(code().await, None, "it was read just now");
        world.require_token("two");
        assert_eq!((code().await, code().await), (Some(401), None));
        // What was read last stays in use.
        std::fs::write(file.path(), "a\nb").unwrap();
        client.0.is_refused.store(true, Ordering::Relaxed);
        assert_eq!(code().await, None);
    }

    #[tokio::test]
    async fn what_is_not_supported_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        let refused = |context: Option<&str>, cluster: &str, user: &str| {
            let text = format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: 'https://a:6443'{cluster}}}}}]\n\
                 users: [{{name: u, user: {{{user}}}}}]\n"
            );
            std::fs::write(&path, text).unwrap();
            let access =
                Access::Kubeconfig { path: path.clone(), context: context.map(str::to_owned) };
            Client::new(access).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(None, "", "exec: {command: aws}"), "");
        assert!(refused(Some("there"), "", "").contains("there"));
        let insecure = refused(None, ", insecure-skip-tls-verify: true", "");
        assert!(insecure.ends_with("is not supported: name the CA"), "{insecure}");
        let asks = refused(None, "", "exec: {command: aws, interactiveMode: Always}");
        assert!(asks.contains("interactiveMode"), "{asks}");
        assert!(refused(None, ", proxy-url: 'http://a b'", "").contains("proxy"));
        for url in ["ftp://a", "a", "http://"] {
            assert!(matches!(Client::new(Access::plain(url)), Err(SetupError::Url(_))), "{url}");
        }
    }
}
