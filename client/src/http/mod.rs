//! A typed client of the HTTP API (feature `http`). Blocking: from async code, call it in `spawn_blocking`.
//!
//! ```no_run
//! use quota_client::{http::{Client, Error, Options}, wire::{Holder, ReserveRequest}};
//! use quota_semantics::uid::Uid;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("http://127.0.0.1:8480", Options::default())?;
//! let holder = Holder::new("v1", "Pod", "web-1", Uid::new("0b6c1bd9")?);
//! let amounts = [("pods".into(), "1".parse()?), ("requests.cpu".into(), "500m".parse()?)];
//! match client.reserve("team-a", &ReserveRequest::of_amounts(holder, amounts)) {
//!     Ok(grant) => println!("held until {}", grant.reservation.expiration_time),
//!     Err(Error::Denied(refusal)) => println!("no room: {refusal}"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Idempotent calls are retried according to [`Retry`], all others are made once. Reserving is idempotent: namespace
//! and uid identify a reservation, and a repeated request gets the same answer.

mod calls;
mod error;
mod sse;

#[cfg(test)]
mod tests;

use std::{
    fmt, fs,
    io::{BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use http::Method;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use quota_semantics::quantity::as_written;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use serde::{Serialize, de::DeserializeOwned};
use ureq::{
    Agent, Body, Proxy,
    tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem},
};

pub use calls::{Address, Batch, Grant, Items, Pages, Watch, When};
pub use error::{Error, Refusal};
pub use sse::{Event, Events};

use crate::server::{is_this_machine, may_send_token};

/// The maximum size of a response body, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// A stream without data for this long is dead: the daemon sends something at least every 20 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// The options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token; none: requests are sent without one.
    pub token: Option<Token>,
    /// The file with the CA certificates (PEM) for an https server; none: those of the system.
    pub ca: Option<PathBuf>,
    /// The files with the client certificate and its private key (PEM) for an https server.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The timeout of one attempt of a call; for a stream, of connecting and of receiving the response head.
    pub timeout: Duration,
    /// The limits on retries.
    pub retry: Retry,
    /// The reason of changes, recorded in each entry that the client's calls cause. 1 to 512 bytes.
    pub change_reason: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            ca: None,
            identity: None,
            timeout: Duration::from_secs(30),
            retry: Retry::default(),
            change_reason: None,
            user_agent: concat!("quota-client/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// A bearer token. `Debug` does not print its text.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The content of a file, which is read for each call, since tokens are renewed.
    File(PathBuf),
    /// The token itself.
    Text(String),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text(…)"),
        }
    }
}

/// A client of one daemon. Its clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    server: String,
    /// The same without a password, for messages.
    shown: String,
    token: Option<Token>,
    change_reason: Option<HeaderValue>,
    retry: Retry,
}

/// A call of the API.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    method: Method,
    address: &'a Address,
    body: Option<(&'a str, Vec<u8>)>,
    repeatable: bool,
}

impl<'a> Call<'a> {
    /// A call without a body. `GET` and `DELETE` are idempotent.
    pub fn new(method: Method, address: &'a Address) -> Self {
        Self {
            repeatable: matches!(method, Method::GET | Method::DELETE),
            method,
            address,
            body: None,
        }
    }

    /// The same call with a JSON body.
    ///
    /// # Errors
    /// If the body cannot be written as JSON.
    pub fn json(self, body: &(impl Serialize + ?Sized)) -> Result<Self, Error> {
        let text = serde_json::to_vec(body).map_err(|error| Error::Request(error.to_string()))?;
        Ok(self.body("application/json", text))
    }

    /// The same call with a body of a media type.
    pub fn body(self, content_type: &'a str, body: Vec<u8>) -> Self {
        Self { body: Some((content_type, body)), ..self }
    }

    /// The same call, marked as idempotent.
    pub fn repeatable(self) -> Self {
        Self { repeatable: true, ..self }
    }
}

/// A response without an error status.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The body of the response; empty if there is none.
    pub body: Vec<u8>,
    server: String,
}

impl Reply {
    /// The body, parsed as JSON.
    ///
    /// # Errors
    /// [`Error::Answer`] if the body does not have the form of `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        // A sum may be longer than a quantity that is sent.
        as_written(|| serde_json::from_slice(&self.body)).map_err(|error| Error::Answer {
            server: self.server.clone(),
            status: self.status.as_u16(),
            what: format!("gives an answer of another form: {error}"),
        })
    }
}

impl Client {
    /// A client of the daemon at a URL, such as `http://127.0.0.1:8480`. No connection is made yet.
    ///
    /// # Errors
    /// If the URL is invalid, a token would be sent over http to another machine, or a file cannot be read.
    pub fn new(server: &str, options: Options) -> Result<Self, Error> {
        let server = server.trim_end_matches('/').to_owned();
        let uri = check_server(&server)?;
        let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
        if options.token.is_some() && !may_send_token(scheme, host) {
            return Err(Error::PlainToken);
        }
        let proxy = match is_this_machine(host) {
            true => None,
            false => Proxy::try_from_env(),
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(&options.user_agent)
            .accept("application/json")
            .timeout_global(Some(options.timeout))
            .proxy(proxy);
        if scheme == "https" {
            config = config.tls_config(configuration(&options)?);
        }
        let change_reason = options.change_reason.map(|reason| {
            HeaderValue::from_bytes(reason.as_bytes())
                .map_err(|_| Error::Request("a change reason is one line".to_owned()))
        });
        let client = Self {
            agent: config.build().new_agent(),
            shown: without_password(&server),
            server,
            token: options.token,
            change_reason: change_reason.transpose()?,
            retry: options.retry,
        };
        // A token that is not there is noticed now.
        client.authorization()?;
        Ok(client)
    }

    /// The URL of the server, without a password.
    pub fn server_without_password(&self) -> &str {
        &self.shown
    }

    /// The same client with other limits on retries.
    pub fn with_retry(&self, retry: Retry) -> Self {
        Self { retry, ..self.clone() }
    }

    /// The value of the `Authorization` header; none if there is no token.
    ///
    /// # Errors
    /// If the token is invalid, or its file cannot be read.
    pub fn authorization(&self) -> Result<Option<String>, Error> {
        self.token.as_ref().map(bearer).transpose()
    }

    /// Makes any call, with retries if the call is idempotent.
    ///
    /// # Errors
    /// If the daemon refuses the call, or cannot be reached.
    pub fn send(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let retry = if call.repeatable { self.retry } else { Retry::NEVER };
        let mut failed = 0_u32;
        loop {
            let error = match self.attempt(call) {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            failed = failed.saturating_add(1);
            match retry.wait(failed, &error) {
                Some(wait) => std::thread::sleep(wait),
                None => return Err(error),
            }
        }
    }

    /// Sends a `GET` request, and parses the response.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`Error::Answer`] if the response does not have the form of `T`.
    pub fn get<T: DeserializeOwned>(&self, address: &Address) -> Result<T, Error> {
        self.send(&Call::new(Method::GET, address))?.json()
    }

    /// Opens a stream of server-sent events, which may never end. The stream continues after the event `last_event_id`.
    ///
    /// # Errors
    /// As [`send`](Self::send). Errors are not retried.
    pub fn stream(
        &self,
        address: &Address,
        last_event_id: Option<&str>,
    ) -> Result<Events<BufReader<impl Read + use<>>>, Error> {
        let request = self.stream_request(address, last_event_id)?;
        self.open(request).map(Events::new)
    }

    /// Downloads a body of any size.
    ///
    /// # Errors
    /// As [`send`](Self::send). Errors are not retried.
    pub fn download(&self, address: &Address) -> Result<BufReader<impl Read + use<>>, Error> {
        self.open(self.request(Method::GET, address)?)
    }

    fn stream_request(
        &self,
        address: &Address,
        last_event_id: Option<&str>,
    ) -> Result<http::request::Builder, Error> {
        let request = self.request(Method::GET, address)?;
        let request = request.header(header::ACCEPT, "text/event-stream");
        Ok(match last_event_id {
            Some(id) => request.header("last-event-id", id),
            None => request,
        })
    }

    fn attempt(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let request = self.request(call.method.clone(), call.address)?;
        let result = match &call.body {
            Some((content_type, body)) => {
                let request = request.header(header::CONTENT_TYPE, *content_type);
                self.agent.run(build(request, body.as_slice())?)
            }
            None => self.agent.run(build(request, ())?),
        };
        self.reply(result.map_err(|error| self.unreachable(&error))?)
    }

    fn open(&self, request: http::request::Builder) -> Result<BufReader<impl Read + use<>>, Error> {
        let timeout = self.agent.config().timeouts().global;
        let request = self
            .agent
            .configure_request(build(request, ())?)
            .timeout_global(None)
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(Some(SILENCE))
            .build();
        let response = self.agent.run(request).map_err(|error| self.unreachable(&error))?;
        if response.status() == StatusCode::OK {
            let body = response.into_body().into_with_config().limit(u64::MAX);
            return Ok(BufReader::new(body.reader()));
        }
        let reply = self.reply(response)?;
        let what = format!("gives no stream but {}", reply.status);
        Err(self.unexpected(reply.status, what))
    }

    fn request(&self, method: Method, address: &Address) -> Result<http::request::Builder, Error> {
        let uri = format!("{}{}", self.server, address.as_str());
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(reason) = &self.change_reason {
            request = request.header("x-change-reason", reason);
        }
        if let Some(authorization) = self.authorization()? {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        Ok(request)
    }

    fn reply(&self, response: http::Response<Body>) -> Result<Reply, Error> {
        let (head, body) = response.into_parts();
        let body = body
            .into_with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_vec()
            .map_err(|error| self.unreachable(&error))?;
        if !head.status.is_success() {
            let (status, wait) = (head.status.as_u16(), retry_after(&head.headers));
            return Err(Error::of_answer(&self.shown, status, wait, &body));
        }
        Ok(Reply { status: head.status, headers: head.headers, body, server: self.shown.clone() })
    }

    /// The error of an answer that is not one of this API.
    fn unexpected(&self, status: StatusCode, what: impl Into<String>) -> Error {
        Error::Answer { server: self.shown.clone(), status: status.as_u16(), what: what.into() }
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        if let ureq::Error::BodyExceedsLimit(most) = error {
            let what = format!("gives an answer of more than {most} bytes");
            return self.unexpected(StatusCode::OK, what);
        }
        let why = match error {
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        Error::Unreachable { server: self.shown.clone(), why }
    }
}

fn build<B>(request: http::request::Builder, body: B) -> Result<Request<B>, Error> {
    request.body(body).map_err(|error| Error::Request(error.to_string()))
}

/// The delay in a `Retry-After` header, which the daemon sends in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

/// The URL without a password, for messages.
pub fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + "://".len()));
    match rest.rsplit_once('@') {
        None => url.to_owned(),
        Some((user_info, host)) => match user_info.split_once(':') {
            Some((user, _)) => format!("{scheme}{user}:***@{host}"),
            None => format!("{scheme}***@{host}"),
        },
    }
}

/// Parses the URL of a server: http or https, with a host and without a query.
fn check_server(server: &str) -> Result<Uri, Error> {
    let wrong = || Error::Server(without_password(server));
    let uri: Uri = server.parse().map_err(|_| wrong())?;
    if uri.host().is_none() || uri.query().is_some() {
        return Err(wrong());
    }
    match uri.scheme_str() {
        Some("http" | "https") => Ok(uri),
        _ => Err(wrong()),
    }
}

fn bearer(token: &Token) -> Result<String, Error> {
    let (text, place) = match token {
        Token::Text(text) => (text.clone(), Path::new("the token")),
        Token::File(file) => {
            let text = fs::read_to_string(file).map_err(|error| Error::file(file, error))?;
            (text, file.as_path())
        }
    };
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::file(place, "no token in it"));
    }
    Ok(format!("Bearer {text}"))
}

// Retries of idempotent calls.

/// The delay before the first retry after a broken connection; doubled for each further retry.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The delay before a retry if a busy daemon sends no `Retry-After`.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// The limits on retries. Only idempotent calls are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of attempts while the daemon is busy (429, 503).
    pub busy_attempts: u32,
    /// The maximum number of attempts if the connection breaks or cannot be made.
    pub connection_attempts: u32,
    /// The maximum delay between two attempts; a longer `Retry-After` is cut to it.
    pub longest_wait: Duration,
}

impl Default for Retry {
    /// Four attempts, at most five seconds apart.
    fn default() -> Self {
        Self { busy_attempts: 4, connection_attempts: 4, longest_wait: Duration::from_secs(5) }
    }
}

impl Retry {
    /// No retries.
    pub const NEVER: Self =
        Self { busy_attempts: 1, connection_attempts: 1, longest_wait: Duration::ZERO };

    /// The delay before the next attempt of an idempotent call that has failed `failed` times, last with `error`; none:
    /// no further attempt.
    pub fn wait(&self, failed: u32, error: &Error) -> Option<Duration> {
        let (most, wait) = match error {
            Error::Busy(refusal) => (self.busy_attempts, refusal.retry_after.unwrap_or(BUSY_WAIT)),
            Error::Unreachable { .. } => {
                let doubled = 2_u32.saturating_pow(failed.saturating_sub(1));
                (self.connection_attempts, FIRST_WAIT.saturating_mul(doubled))
            }
            _ => return None,
        };
        (failed < most).then(|| wait.min(self.longest_wait))
    }
}

// TLS towards the daemon: CA certificates and the client certificate.

/// The TLS configuration for an https server.
fn configuration(options: &Options) -> Result<TlsConfig, Error> {
    let roots = match &options.ca {
        Some(file) => certificates(file)?,
        None => system_roots(),
    };
    let client = match &options.identity {
        Some((cert, key)) => {
            Some(ClientCert::new_with_certs(&certificates(cert)?, private_key(key)?))
        }
        None => None,
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .build())
}

/// The CA certificates of the system. Unreadable ones are left out: the handshake then reports an unknown issuer.
fn system_roots() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, Error> {
    let mut certificates = Vec::new();
    for item in items(file)? {
        if let PemItem::Certificate(certificate) = item {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err(Error::file(file, "no certificate in it")),
        false => Ok(certificates),
    }
}

fn private_key(file: &Path) -> Result<PrivateKey<'static>, Error> {
    let mut items = items(file)?.into_iter();
    let key = items.find_map(|item| match item {
        PemItem::PrivateKey(key) => Some(key),
        _ => None,
    });
    let key = key.ok_or_else(|| Error::file(file, "no private key in it"))?;
    let read = PrivateKeyDer::from_pem_file(file).map_err(|error| Error::file(file, error))?;
    match any_supported_type(&read) {
        Ok(_) => Ok(key),
        Err(_) => Err(Error::file(
            file,
            "the private key is none of those supported: RSA (2048 to 8192 bits), ECDSA on P-256 or P-384, Ed25519; P-521 is not supported",
        )),
    }
}

fn items(file: &Path) -> Result<Vec<PemItem<'static>>, Error> {
    let text = fs::read(file).map_err(|error| Error::file(file, error))?;
    parse_pem(&text).collect::<Result<_, _>>().map_err(|error| Error::file(file, error))
}
