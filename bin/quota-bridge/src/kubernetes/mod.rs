//! A small client of the Kubernetes API: lists in pages, watches as lines, single objects.
//!
//! It uses hyper and rustls, which the programs contain anyway, and supports only the requests of a publisher.

mod access;
mod connect;
mod failure;
mod kubeconfig;
mod lines;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::{client::legacy, rt::TokioExecutor};

pub use access::{Access, Credentials, SetupError};
pub use failure::Failure;
pub use lines::Lines;

use connect::Connector;

/// How long the head of an answer may take. A list without resourceVersion waits for etcd.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the body of an answer may pause.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest body that is read, in bytes: a page of objects of 1.5 MiB each fits.
const BODY_MAX_BYTES: usize = 1 << 30;

/// Whole objects.
pub const JSON: &str = "application/json";

/// Only the metadata of objects, or whole ones from servers that cannot do that.
pub const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
     application/json";

/// As [`METADATA`], for watches.
pub const METADATA_WATCH: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A client of one API server, or of a load balancer before several.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// Scheme, authority and path prefix, without a slash at the end.
    base: String,
    credentials: Credentials,
    http: legacy::Client<Connector, Full<Bytes>>,
}

impl Client {
    /// A client with this access. Nothing is connected yet.
    ///
    /// # Errors
    /// The URL is none.
    pub fn new(access: Access) -> Result<Self, SetupError> {
        let base = access.url.trim_end_matches('/').to_owned();
        let uri: Uri = base
            .parse()
            .map_err(|_| SetupError::Url(access.url.clone()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
            return Err(SetupError::Url(access.url));
        }
        let connector = Connector::new(access.tls);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Ok(Self(Arc::new(Inner {
            base,
            credentials: access.credentials,
            http,
        })))
    }

    /// The server's URL.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// Reads what is at this path.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn get(&self, path: &str, accept: &'static str) -> Result<Bytes, Failure> {
        let response = self
            .request(Method::GET, path, accept, Bytes::new())
            .await?;
        body(response).await
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn watch(&self, path: &str, accept: &'static str) -> Result<Lines, Failure> {
        let response = self
            .request(Method::GET, path, accept, Bytes::new())
            .await?;
        Ok(Lines::new(response.into_body()))
    }

    /// Sends an object as JSON.
    ///
    /// # Errors
    /// Why it was not taken.
    pub async fn send(&self, method: Method, path: &str, object: Bytes) -> Result<Bytes, Failure> {
        let response = self.request(method, path, JSON, object).await?;
        body(response).await
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
            .header(
                header::USER_AGENT,
                concat!("quota-bridge/", env!("CARGO_PKG_VERSION")),
            );
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
        let text = body(Response::new(rest)).await.unwrap_or_default();
        Err(Failure::of_answer(&head, &text))
    }
}

/// The whole body of an answer.
async fn body(response: Response<Incoming>) -> Result<Bytes, Failure> {
    let mut body = response.into_body();
    let mut read = Vec::new();
    loop {
        let frame = tokio::time::timeout(PAUSE_TIMEOUT, body.frame()).await;
        let frame = frame.map_err(|_| Failure::Unreachable("the answer stopped".to_owned()))?;
        let Some(frame) = frame else {
            return Ok(read.into());
        };
        let frame = frame.map_err(|error| Failure::unreachable(&error))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > BODY_MAX_BYTES {
                let why = format!("the answer is longer than {BODY_MAX_BYTES} bytes");
                return Err(Failure::Unreadable(why));
            }
            read.extend_from_slice(&data);
        }
    }
}
