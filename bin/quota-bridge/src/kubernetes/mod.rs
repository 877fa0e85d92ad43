//! A small client of the Kubernetes API: lists in pages, watches as lines, single objects.
//!
//! It uses hyper and rustls, which the programs contain anyway, and supports only the requests of a publisher.

mod access;
mod answer;
mod connect;
mod failure;
mod kubeconfig;
mod lines;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{client::legacy, rt::TokioExecutor};
use quota_service::config::redact;

pub use access::{Access, Credentials, SetupError};
pub use answer::Answer;
pub use failure::Failure;
pub use lines::Lines;

use connect::Connector;

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
    /// Scheme, authority and path prefix, without a slash at the end.
    base: String,
    credentials: Credentials,
    http: legacy::Client<Connector, Full<Bytes>>,
}

impl Client {
    /// A client with this access. No connection is made yet.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(access: Access) -> Result<Self, SetupError> {
        let base = access.url.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| SetupError::Url(redact(&access.url)))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
            return Err(SetupError::Url(redact(&access.url)));
        }
        let connector = Connector::new(access.tls);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Self(Arc::new(Inner { base, credentials: access.credentials, http })))
    }

    /// The server's URL.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
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
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.0.base))
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("quota-bridge/", env!("CARGO_PKG_VERSION")));
        if !object.is_empty() {
            request = request.header(header::CONTENT_TYPE, JSON);
        }
        if let Some(authorization) = self.0.credentials.authorization().await? {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request
            .body(Full::new(object))
            .map_err(|error| Failure::Unreadable(error.to_string()))?;
        let answer = tokio::time::timeout(HEAD_TIMEOUT, self.0.http.request(request)).await;
        let response = answer
            .map_err(|_| Failure::Unreachable("no answer in time".to_owned()))?
            .map_err(|error| Failure::unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        if response.status() == StatusCode::UNAUTHORIZED {
            self.0.credentials.forget();
        }
        let (head, rest) = response.into_parts();
        let text = Answer::new(rest).body(ERROR_MAX_BYTES).await;
        let text = text.unwrap_or_default();
        Err(Failure::of_answer(&head, &text))
    }
}
