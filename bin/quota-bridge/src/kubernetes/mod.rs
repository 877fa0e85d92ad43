//! A client of the Kubernetes API: lists in pages, watches as lines, single objects.
//!
//! [`kube`] connects and signs in. Requests, bounds and failures are the bridge's own: pages and lines are read as they
//! come, and each failure has its meaning for the task of its kind.

use std::{
    error::Error,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header, response::Parts};
use http_body_util::BodyExt as _;
use hyper_util::client::proxy::matcher::Matcher;
use jiff::{SignedDuration, Timestamp};
use kube::{
    client::{AuthError, Body},
    config::{Cluster, Config, ExecInteractiveMode, InClusterError, Kubeconfig, KubeconfigError},
};
use quota_service::config::redact;
use serde::Deserialize;
use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};

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
    /// When the credentials were read, or could not be.
    tried: Instant,
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
        let tried = Instant::now();
        Ok(Self { client, tried, compared: tried, files, changed })
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
            || (is_refused || is_over) && self.tried.elapsed() >= RENEW
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
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The namespace of the pod in which the program runs; none if it does not use the pod's service account.
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
        let read = spawn_blocking(move || match (SignedIn::new(&inner.access), current.as_mut()) {
            (Ok(new), _) => {
                inner.is_refused.store(false, Ordering::Relaxed);
                Ok(current.insert(new).client.clone())
            }
            (Err(error), Some(known)) => {
                tracing::warn!("cannot renew the credentials: {}", causes(error.as_ref()));
                known.tried = Instant::now();
                Ok(known.client.clone())
            }
            (Err(error), None) => {
                Err(Failure::Unreachable(format!("no credentials: {}", causes(error.as_ref()))))
            }
        });
        read.await.unwrap_or_else(|error| Err(Failure::Unreachable(error.to_string())))
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
            sent.map_err(|error| Failure::of_connection(&error))
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

// Responses whose body is still to be read.

/// The idle timeout of a response body.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A response of which the head has arrived, and the part of the body that was read.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    read: Vec<u8>,
}

impl Answer {
    const fn new(body: Body) -> Self {
        Self { body, read: Vec::new() }
    }

    /// The whole body.
    ///
    /// # Errors
    /// It is longer than so many bytes, or breaks off.
    pub async fn body(mut self, max_bytes: usize) -> Result<Bytes, Failure> {
        while self.read_more(max_bytes).await? {}
        Ok(self.into_read())
    }

    /// Reads what arrives next of the body. False: it was over.
    ///
    /// # Errors
    /// The body is longer than so many bytes, or breaks off.
    pub(crate) async fn read_more(&mut self, max_bytes: usize) -> Result<bool, Failure> {
        let room = max_bytes - self.read.len();
        let announced =
            usize::try_from(http_body::Body::size_hint(&self.body).lower()).unwrap_or(usize::MAX);
        if announced > room {
            return Err(Failure::TooLong(max_bytes));
        }
        self.read.reserve(announced);
        let frame = tokio::time::timeout(PAUSE_TIMEOUT, self.body.frame()).await;
        let frame = frame.map_err(|_| Failure::Unreachable("the answer stopped".to_owned()))?;
        let Some(frame) = frame else {
            return Ok(false);
        };
        let frame = frame.map_err(|error| Failure::of_connection(&error))?;
        if let Ok(data) = frame.into_data() {
            if data.len() > room {
                return Err(Failure::TooLong(max_bytes));
            }
            self.read.extend_from_slice(&data);
        }
        Ok(true)
    }

    /// How many bytes of the body were read.
    pub(crate) const fn read_bytes(&self) -> usize {
        self.read.len()
    }

    /// What was read of the body.
    pub(crate) fn into_read(self) -> Bytes {
        self.read.into()
    }
}

// Failures of requests to an API server.

/// The maximum length of what an `exec` program says when it fails, in characters.
const SAID_MAX_CHARS: usize = 1000;

/// The failure of a request, or of a response that is being read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server returned an error status.
    #[error("{code} {reason}: {message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// Kubernetes' reason, such as `Expired`; may be empty.
        reason: String,
        /// The message of the server.
        message: String,
        /// The delay before the next request, if the server requested one.
        retry_after: Option<Duration>,
    },
    /// The server is unreachable, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// The response cannot be parsed.
    #[error("{0}")]
    Unreadable(String),
    /// The response is longer than this many bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// No data arrived on a watch for too long.
    #[error("silent for too long")]
    Silent,
}

/// A Kubernetes `Status` object, from a response or a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    reason: String,
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u32,
}

impl Failure {
    /// The HTTP status, or the kind of failure, as in metrics.
    pub fn label(&self) -> String {
        match self {
            Self::Status { code, .. } => return code.to_string(),
            Self::Unreachable(_) => "unreachable",
            Self::Unreadable(_) => "unreadable",
            Self::TooLong(_) => "too_long",
            Self::Silent => "silent",
        }
        .to_owned()
    }

    /// The failure of a request or body that did not come through.
    fn of_connection(error: &kube::Error) -> Self {
        match error {
            kube::Error::Service(error) => Self::Unreachable(causes(error.as_ref())),
            error => Self::Unreachable(causes(error)),
        }
    }

    /// The failure for a response with an error status.
    fn of_answer(head: &Parts, body: &Bytes) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let seconds = head.headers.get(header::RETRY_AFTER);
        let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
        Self::of_status(status, head.status, seconds)
    }

    /// The failure for an `ERROR` event of a watch.
    pub fn of_event(object: &str) -> Self {
        match serde_json::from_str::<Status>(object) {
            Ok(status) => Self::of_status(status, StatusCode::INTERNAL_SERVER_ERROR, None),
            Err(error) => Self::Unreadable(format!("an ERROR event without a status: {error}")),
        }
    }

    fn of_status(status: Status, http: StatusCode, retry_after: Option<u32>) -> Self {
        let in_body = status.details.map(|details| details.retry_after_seconds);
        let seconds = retry_after.or(in_body).filter(|seconds| *seconds > 0);
        Self::Status {
            code: if status.code == 0 { http.as_u16() } else { status.code },
            reason: status.reason,
            message: status.message,
            retry_after: seconds.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }

    /// The HTTP status code, if the server returned an error status.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the server no longer has the version or the page of the request.
    pub fn is_expired(&self) -> bool {
        matches!(self, Self::Status { code, reason, .. } if *code == 410 || reason == "Expired" || reason == "Gone")
    }
}

/// An error with its causes, of which those of libraries often repeat the next one.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = message(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = message(error);
        if !text.ends_with(&why) {
            let _ = write!(text, ": {why}");
        }
        cause = error.source();
    }
    text
}

/// The text of an error. That of kube for an `exec` program has the program's environment and output, which may be secret.
fn message(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(AuthError::AuthExecRun { out, .. }) => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said: String = said.trim().chars().take(SAID_MAX_CHARS).collect();
            format!("the exec program ended with {}: {said}", out.status)
        }
        _ => error.to_string(),
    }
}

// A watch: one JSON value per line.

/// The maximum length of a line, in bytes; etcd stores objects of up to 1.5 MiB by default.
const LINE_MAX_BYTES: usize = 64 << 20;

/// The lines of a watch. Text after the last newline is incomplete, and is no line.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// The length of the part of the buffer that was searched for a newline.
    searched: usize,
}

impl Lines {
    fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line; none: the server has ended the watch.
    ///
    /// # Errors
    /// The connection broke, or no data arrived for `idle`.
    pub async fn next(&mut self, idle: Duration) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(Some(line));
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                let why = format!("an event is longer than {LINE_MAX_BYTES} bytes");
                return Err(Failure::Unreadable(why));
            }
            let frame = tokio::time::timeout(idle, self.body.frame()).await;
            let frame = frame.map_err(|_| Failure::Silent)?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::of_connection(&error))?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn buffered(&mut self) -> Option<Bytes> {
        let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at + 1).freeze();
        self.searched = 0;
        Some(line)
    }
}

// The address, CA and credentials for an API server: from a URL, a kubeconfig, or the pod's service account. `kube` reads
// them and signs in.

/// An error in the configuration of the access to an API server.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The URL is invalid.
    #[error("{0:?} is no http or https URL")]
    Url(String),
    /// A kubeconfig is invalid, or uses unsupported features.
    #[error("{}: {error}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The error.
        error: KubeconfigError,
    },
    /// A kubeconfig does what the bridge refuses.
    #[error("{}: {message}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do instead.
        message: &'static str,
    },
    /// The files of the pod's service account cannot be read.
    #[error("the service account of the pod: {0}")]
    Pod(InClusterError),
    /// Neither a URL nor a kubeconfig is given, and the program does not run in a pod.
    #[error("no API server: set api or kubeconfig (this is not a pod of a cluster)")]
    Nowhere,
}

/// The access to an API server.
#[derive(Clone, Debug)]
pub enum Access {
    /// A server at a URL.
    Url {
        /// The URL.
        url: String,
        /// The file with a token; none: no credentials.
        token_file: Option<PathBuf>,
        /// The file with the CA certificates to trust (PEM); none: those of the system.
        ca: Option<PathBuf>,
    },
    /// The cluster and user of a context of a kubeconfig.
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The name of the context; none: the current context.
        context: Option<String>,
    },
    /// The API server of the cluster in which the program runs as a pod, with the pod's service account.
    Pod,
}

/// The configuration of an access, as its files hold it now.
struct Present {
    config: Config,
    /// The files whose changes make another configuration.
    files: Vec<PathBuf>,
}

impl Present {
    /// A client that has these credentials; may run a program to get them.
    ///
    /// # Errors
    /// The credentials cannot be read, or their program failed.
    fn sign_in(self) -> anyhow::Result<kube::Client> {
        let mut config = self.config;
        // kube keeps a token from a file for a minute, also after a 401, and refuses one that ends with a newline.
        if let Some(path) = config.auth_info.token_file.take() {
            config.auth_info.token = None;
            let token = std::fs::read_to_string(&path).with_context(|| path.clone())?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .with_context(|| format!("{path} holds no token"))?;
            value.set_sensitive(true);
            config.headers.push((header::AUTHORIZATION, value));
        }
        kube::Client::try_from(config).map_err(|error| match error {
            kube::Error::Auth(error) => error.into(),
            error => error.into(),
        })
    }
}

impl Access {
    /// An API server at this URL that needs no credentials.
    pub fn plain(url: &str) -> Self {
        Self::Url { url: url.to_owned(), token_file: None, ca: None }
    }

    /// Reads the configuration, with the present content of all files.
    ///
    /// # Errors
    /// The URL is invalid, or a file cannot be read, is invalid, or uses unsupported features.
    fn read(&self) -> Result<Present, SetupError> {
        let mut present = match self {
            Self::Url { url, token_file, ca } => of_url(url, token_file.as_deref(), ca.as_deref())?,
            Self::Kubeconfig { path, context } => of_kubeconfig(path, context.as_deref())?,
            Self::Pod => Present { config: of_pod()?, files: Vec::new() },
        };
        let config = &mut present.config;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // The task of a kind retries itself, after `Retry-After`, and counts its retries.
        config.default_retry = false;
        let user = &mut config.auth_info;
        for file in [&user.client_certificate, &user.client_key, &user.token_file] {
            present.files.extend(file.as_ref().map(PathBuf::from));
        }
        Ok(present)
    }
}

fn of_url(url: &str, token_file: Option<&Path>, ca: Option<&Path>) -> Result<Present, SetupError> {
    let uri: Uri = url.parse().map_err(|_| SetupError::Url(redact(url)))?;
    let is_tls = uri.scheme_str() == Some("https");
    if !is_tls && uri.scheme_str() != Some("http") || uri.authority().is_none() {
        return Err(SetupError::Url(redact(url)));
    }
    let mut config = Config::new(uri);
    config.auth_info.token_file = token_file.map(|path| path.to_string_lossy().into_owned());
    config.root_cert_file = ca.map(Path::to_owned);
    // The system may have none.
    if ca.is_some() || !is_tls {
        config.root_cert = Some(Vec::new());
    }
    Ok(Present { config, files: Vec::new() })
}

fn of_pod() -> Result<Config, SetupError> {
    Config::incluster_env().map_err(|error| match error {
        InClusterError::ReadEnvironmentVariable(_) => SetupError::Nowhere,
        error => SetupError::Pod(error),
    })
}

fn of_kubeconfig(path: &Path, context: Option<&str>) -> Result<Present, SetupError> {
    let failed = |error| SetupError::Kubeconfig { path: path.to_owned(), error };
    let refused = |message| SetupError::Refused { path: path.to_owned(), message };
    let mut kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    if let Some(context) = context {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let cluster = cluster(&kubeconfig).unwrap_or_default();
    let mut config = Config::try_from(kubeconfig).map_err(failed)?;
    // kube compares NO_PROXY with the proxy, not with the API server.
    config.proxy_url = match &cluster.proxy_url {
        Some(url) if !url.is_empty() => {
            Some(url.parse().map_err(|error| failed(KubeconfigError::ParseProxyUrl(error)))?)
        }
        _ => config
            .proxy_url
            .filter(|_| Matcher::from_env().intercept(&config.cluster_url).is_some()),
    };
    let scheme = config.proxy_url.as_ref().map(|url| url.scheme_str().unwrap_or_default());
    if scheme.is_some_and(|it| !["http", "https", "socks5"].contains(&it)) {
        return Err(refused("the URL of a proxy must begin with http://, https:// or socks5://"));
    }
    if config.accept_invalid_certs {
        return Err(refused("insecure-skip-tls-verify is not supported: name the CA"));
    }
    // kube refreshes no token without a secret, which public clients do not have.
    if let Some(provider) = &mut config.auth_info.auth_provider {
        provider.config.entry("client-secret".to_owned()).or_default();
    }
    if let Some(exec) = &mut config.auth_info.exec {
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(refused(
                "a program that asks its user (interactiveMode: Always) is not supported: use a service account",
            ));
        }
        exec.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    let mut files = vec![path.to_owned()];
    files.extend(cluster.certificate_authority.map(PathBuf::from));
    Ok(Present { config, files })
}

/// The cluster of the current context.
fn cluster(kubeconfig: &Kubeconfig) -> Option<Cluster> {
    let name = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|it| it.name == *name)?.context.as_ref()?;
    let named = kubeconfig.clusters.iter().find(|it| it.name == context.cluster)?;
    named.cluster.clone()
}

#[cfg(test)]
mod tests {
    use quota_testkit::fake_api::{server, world::World};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    use crate::kubernetes::{Access, Client, JSON};

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
        let proxy = refused(None, ", proxy-url: 'socks5h://user:hush@a'", "");
        assert!(proxy.contains("socks5://") && !proxy.contains("hush"), "{proxy}");
        for url in ["ftp://a", "a", "http://"] {
            assert!(matches!(Client::new(Access::plain(url)), Err(SetupError::Url(_))), "{url}");
        }
    }

    /// Reads a body of at most 8 bytes from a server that sends this response.
    async fn read(answer: &'static str) -> Result<Bytes, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let client = Client::new(Access::plain(&url)).unwrap();
        let opened = client.open("/api", JSON).await.unwrap();
        let body = opened.body(8).await;
        server.await.unwrap();
        body
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_not_read_to_its_end() {
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n12345678").await;
        assert_eq!(body.unwrap(), "12345678");
        // The server says so before it sends any of it.
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
        assert_eq!(body, Err(Failure::TooLong(8)));
        let body = read(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n",
        )
        .await;
        assert_eq!(body, Err(Failure::TooLong(8)));
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n1234").await;
        assert!(matches!(body, Err(Failure::Unreachable(_))), "{body:?}");
    }

    #[test]
    fn a_status_in_a_watch_says_what_is_wrong() {
        let expired = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
        let failure = Failure::of_event(expired);
        assert!(failure.is_expired());
        assert_eq!(failure.to_string(), "410 Expired: too old");
        let busy = r#"{"code":429,"details":{"retryAfterSeconds":7}}"#;
        let Failure::Status { retry_after, .. } = Failure::of_event(busy) else {
            panic!("a status");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(7)));
        assert!(matches!(Failure::of_event("nothing"), Failure::Unreadable(_)));
    }
}
