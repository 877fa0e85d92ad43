//! An admission hook of your own: a ValidatingWebhook that asks Quota Ledger for room. Copy it, and change [`amounts`].
//!
//! The daemon's own webhook (`POST /admit`) knows what Kubernetes' objects count for. This one is for objects of which only
//! you know what they need: here a `TrainingJob`, whose `spec.workers` need `spec.gpusPerWorker` GPUs each.
//!
//! ```text
//! LISTEN=127.0.0.1:8490 QUOTA_SERVER=http://127.0.0.1:8480 QUOTA_TOKEN_FILE=token \
//!     cargo run -p quota-client --features http --example admission_hook
//! ```
//!
//! An API server calls webhooks by https only: let a proxy beside the hook end TLS.
//!
//! The hook decides about creations and gives nothing back: a webhook learns what is about to happen, not what happened. The
//! controller of the objects sees that. It calls `client.commit(namespace, uid, None)` when it sees an object for the first
//! time, which turns the reservation into use, and `client.release(namespace, uid)` when the object is gone. A creation that
//! failed is never seen, and its room is free again after [`HOLD`]. Let the fields that [`amounts`] reads be immutable, since the hook
//! does not review changes.

use std::{env, io, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use quota_client::{
    http::{Client, Error, Options, Retry, Token},
    wire::{Holder, ReserveRequest},
};
use quota_semantics::{Period, resource::ResourceList, uid::Uid};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How long room is held for an object that nobody has seen yet: longer than its controller takes to commit it.
const HOLD: Period = Period::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setting = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let options = Options {
        token: env::var_os("QUOTA_TOKEN_FILE").map(|file| Token::File(file.into())),
        // An API server waits ten seconds, unless the webhook's configuration says otherwise.
        timeout: Duration::from_secs(4),
        retry: Retry {
            busy_attempts: 1,
            connection_attempts: 2,
            longest_wait: Duration::from_millis(100),
        },
        ..Options::default()
    };
    let client = Client::new(&setting("QUOTA_SERVER", "http://127.0.0.1:8480"), options)?;
    let listener = TcpListener::bind(setting("LISTEN", "127.0.0.1:8490")).await?;
    Ok(serve(listener, client).await?)
}

/// Answers reviews at `/admit`; ends if the listener fails.
pub(crate) async fn serve(listener: TcpListener, client: Client) -> io::Result<()> {
    let app = Router::new().route("/admit", post(admit));
    axum::serve(listener, app.with_state(client)).await
}

async fn admit(
    State(client): State<Client>,
    Json(review): Json<Value>,
) -> Result<Json<Value>, (StatusCode, String)> {
    let failed = |why: String| (StatusCode::SERVICE_UNAVAILABLE, why);
    // The client blocks, which the thread that serves must not.
    let answered = tokio::task::spawn_blocking(move || answer(&client, &review)).await;
    // Without a decision the API server does what `failurePolicy` says.
    answered
        .map_err(|error| failed(error.to_string()))?
        .map(Json)
        .map_err(|error| failed(error.to_string()))
}

/// What a review is answered with. An error: nothing could be decided, since the daemon does not answer, is not ready, or
/// does not know the hook.
fn answer(client: &Client, review: &Value) -> Result<Value, Error> {
    let request = &review["request"];
    let response = match decide(client, request) {
        Ok(warnings) => json!({"uid": request["uid"], "allowed": true, "warnings": warnings}),
        Err(Refused::Denied { code, message }) => json!({
            "uid": request["uid"], "allowed": false, "status": {"code": code, "message": message},
        }),
        Err(Refused::Undecided(error)) => return Err(error),
    };
    Ok(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    }))
}

/// Why a request is not admitted.
enum Refused {
    /// It is denied.
    Denied { code: u16, message: String },
    /// Nobody knows.
    Undecided(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        match error {
            // There is no room, or this uid was used before: its author has to change something.
            Error::Denied(refusal) | Error::Conflict(refusal) | Error::Refused(refusal) => {
                Self::Denied { code: refusal.status, message: refusal.to_string() }
            }
            // The hook has no rights, or the daemon is away or busy: that is not the author's fault.
            error => Self::Undecided(error),
        }
    }
}

/// Reserves for the created object. Returns warnings for the caller.
fn decide(client: &Client, request: &Value) -> Result<Vec<String>, Refused> {
    let invalid = |message: &str| Refused::Denied { code: 422, message: message.to_owned() };
    let text = |pointer: &str| {
        let found = request.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let (namespace, dry_run) = (text("/namespace"), request["dryRun"] == true);
    match text("/operation") {
        "CREATE" => {
            let uid = Uid::new(text("/object/metadata/uid"));
            let uid = uid.map_err(|_| invalid("the object has no uid"))?;
            let amounts = amounts(&request["object"]);
            let amounts = amounts
                .ok_or_else(|| invalid("spec.workers and spec.gpusPerWorker are numbers"))?;
            let holder = Holder::new(
                text("/object/apiVersion"),
                text("/object/kind"),
                text("/object/metadata/name"),
                uid,
            );
            let wanted = ReserveRequest::of_amounts(holder, amounts).for_time(HOLD);
            if dry_run {
                let verdict = client.check(namespace, &wanted)?;
                let why = verdict.detail.unwrap_or_default();
                return match verdict.fits {
                    true => Ok(verdict.warnings.into_owned()),
                    false => Err(Refused::Denied { code: 403, message: why.into_owned() }),
                };
            }
            // Asking twice is safe: the same uid holds the same once.
            let grant = client.reserve(namespace, &wanted)?;
            Ok(grant.reservation.warnings.into_owned())
        }
        // Above all not a deletion, which may still fail: another webhook may refuse it, and finalizers may keep the object.
        // Its room would be granted twice.
        _ => Ok(Vec::new()),
    }
}

/// What an object counts for: yours to change.
fn amounts(object: &Value) -> Option<ResourceList> {
    let number = |pointer: &str| object.pointer(pointer)?.as_u64();
    let gpus = number("/spec/workers")?.checked_mul(number("/spec/gpusPerWorker")?)?;
    let amounts = [("count/trainingjobs.example.com", 1), ("requests.nvidia.com/gpu", gpus)];
    let read = |(name, amount): (&str, u64)| Some((name.into(), amount.to_string().parse().ok()?));
    amounts.into_iter().map(read).collect()
}
