//! The floors: what HTTP and JSON alone cost, and what they cost with a log.
//!
//! The HTTP floor reads the same requests into the same types (of a review, the object too) and answers as long a text
//! at once: nothing is checked, decided or written. The durable floor answers when as many bytes as quotad writes are on disk. No daemon that
//! speaks HTTP in this way can be faster, so a measured rate can be held against them.

mod durable;

use std::{
    convert::Infallible,
    ffi::OsString,
    io::{self, Read as _, Write as _},
    path::PathBuf,
    sync::OnceLock,
    thread,
};

use axum::{
    Router,
    extract::{self, State},
    response::{IntoResponse, Response},
    routing::{delete, post, put},
};
use bytes::Bytes;
use http::{StatusCode, header};
use serde::Deserialize;
use tokio::net::TcpListener;

use durable::{Log, Operation};
use quota_semantics::admission::Charging;
use quotad::{admission, api::ReserveRequest};

use super::tls::{Certificates, TlsListener};

/// As long as the answer to a reservation of three resources.
const GRANTED: &str = r#"{"namespace":"quotactl-bench-0","reservedBy":{"apiVersion":"v1","kind":"Pod","name":"c12-0","uid":"0190a2b4-7c1e-4000-8000-000000000000"},"reserved":{"pods":"1","requests.cpu":"100m","requests.memory":"128Mi"},"state":"pending","createdTime":"2026-11-21T02:30:50.463069518Z","expirationTime":"2026-11-21T02:31:20.463069518Z","asOf":{"sequence":1234567,"time":"2026-11-21T02:30:50.463069518Z"}}"#;

/// As long as the answer to a review of a pod that is admitted.
const ADMITTED: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"26e984f1-c084-4a96-8608-3909917f21e5","allowed":true,"auditAnnotations":{"hold":"1234567 0000000000000000000000000000000000000000000000000000000000000000 team-100 ae935746-11c0-41f7-bee3-c656c3aae521","quotas":"bench","sequence":"1234567"}}}"#;

/// The part of it that each item of a batch has.
const ITEM: &str = r#"{"status":201,"namespace":"quotactl-bench-0","reservedBy":{"apiVersion":"v1","kind":"Pod","name":"c12-0","uid":"0190a2b4-7c1e-4000-8000-000000000000"},"reserved":{"pods":"1","requests.cpu":"100m","requests.memory":"128Mi"},"state":"pending","createdTime":"2026-11-21T02:30:50.463069518Z","expirationTime":"2026-11-21T02:31:20.463069518Z"}"#;

const REFUSED: &str = r#"{"status":400,"reason":"Malformed"}"#;

const LOCATION: &str =
    "/v1/namespaces/quotactl-bench-0/reservations/0190a2b4-7c1e-4000-8000-000000000000";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch<'a> {
    #[serde(default)]
    #[expect(dead_code, reason = "parsed as the daemon does")]
    atomic: bool,
    #[serde(borrow)]
    items: Vec<ReserveRequest<'a>>,
}

/// Serves a floor on a free port until standard input ends; the first line of output is the address. `log DIRECTORY`:
/// it is the durable one, whose log is there. `tls DIRECTORY`: by TLS, with the certificates there.
///
/// # Errors
/// The listener or the log fails.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let (mut log, mut certificates) = (None, None);
    while let Some((name, value)) = arguments.next().zip(arguments.next()) {
        let directory = PathBuf::from(value);
        match name.to_str() {
            Some("log") => log = Some(Log::create(&directory)?),
            Some("tls") => certificates = Some(Certificates::of(&directory)),
            _ => return Err(io::Error::other("log DIRECTORY, tls DIRECTORY")),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", listener.local_addr()?)?;
    out.flush()?;
    let (end, ended) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    runtime.block_on(async {
        tokio::select! {
            served = serve(listener, certificates.as_ref(), router(log)) => served.map(|never| match never {}),
            _ = ended => Ok(()),
        }
    })
}

async fn serve(
    listener: TcpListener,
    certificates: Option<&Certificates>,
    router: Router,
) -> io::Result<Infallible> {
    use axum::serve::ListenerExt as _;
    if let Some(certificates) = certificates {
        axum::serve(TlsListener::new(listener, certificates), router).await?;
        return Err(io::Error::other("the listener ended"));
    }
    let listener = listener.tap_io(|stream| {
        // A stream that is gone already shows when it is read.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Err(io::Error::other("the listener ended"))
}

fn router(log: Option<Log>) -> Router {
    Router::new()
        .route("/v1/namespaces/{namespace}/reservations", post(reserve))
        .route("/v1/namespaces/{namespace}/reservations/{uid}", delete(release))
        .route("/v1/reservations:batch", post(batch))
        .route("/admit", post(admit))
        .route("/v1/namespaces/{namespace}/quotas/{name}", put(quota).delete(quota))
        .with_state(log)
}

async fn append(log: Option<Log>, operation: Operation, count: usize) {
    if let Some(log) = log {
        log.append(operation, count).await;
    }
}

async fn reserve(
    State(log): State<Option<Log>>,
    extract::Path(_namespace): extract::Path<String>,
    text: Bytes,
) -> Response {
    let is_read = serde_json::from_slice::<ReserveRequest<'_>>(&text).is_ok();
    match is_read {
        true => {
            append(log, Operation::Reserve, 1).await;
            let headers =
                [(header::CONTENT_TYPE, "application/json"), (header::LOCATION, LOCATION)];
            (StatusCode::CREATED, headers, Bytes::from_static(GRANTED.as_bytes())).into_response()
        }
        false => refused(),
    }
}

async fn admit(State(log): State<Option<Log>>, text: Bytes) -> Response {
    let is_read = admission::read_review(&text, &Charging::default()).is_ok();
    match is_read {
        true => {
            append(log, Operation::Admit, 1).await;
            json(StatusCode::OK, Bytes::from_static(ADMITTED.as_bytes()))
        }
        false => refused(),
    }
}

async fn release(
    State(log): State<Option<Log>>,
    extract::Path((_namespace, _uid)): extract::Path<(String, String)>,
) -> StatusCode {
    append(log, Operation::Release, 1).await;
    StatusCode::NO_CONTENT
}

async fn batch(State(log): State<Option<Log>>, text: Bytes) -> Response {
    let count = serde_json::from_slice::<Batch<'_>>(&text).map(|batch| batch.items.len());
    match count {
        Ok(count) => {
            append(log, Operation::Reserve, count).await;
            json(StatusCode::OK, items(count))
        }
        Err(_) => refused(),
    }
}

/// The body is taken in: a connection on which some is left is closed behind the answer.
async fn quota(_manifest: Bytes) -> Response {
    json(StatusCode::OK, Bytes::from_static(b"{}"))
}

/// The answer to a batch; the answer of the first requested length is cached.
fn items(count: usize) -> Bytes {
    static KEPT: OnceLock<(usize, Bytes)> = OnceLock::new();
    let render = || Bytes::from(format!(r#"{{"items":[{}]}}"#, vec![ITEM; count].join(",")));
    let (length, kept) = KEPT.get_or_init(|| (count, render()));
    if *length == count { kept.clone() } else { render() }
}

fn refused() -> Response {
    json(StatusCode::BAD_REQUEST, Bytes::from_static(REFUSED.as_bytes()))
}

fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
