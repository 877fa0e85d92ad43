//! `relist`: publishers are asked to list again what there is.

use http::Method;
use serde_json::{Value, json};

use super::{address::Address, failure::Outcome, session::Session};

/// Asks for a relist of these resources, or of all.
pub(crate) fn run(session: &Session, resources: &[String]) -> Outcome {
    let address = Address::of(["v1", "relist"]);
    let body = json!({ "resources": resources });
    let answer = session
        .client
        .send_json(Method::POST, &address, Some(&body))?
        .body;
    if session.output.is_structured() {
        return session.output.value(&answer);
    }
    let what = match resources {
        [] => "everything".to_owned(),
        some => some.join(", "),
    };
    let wait = answer.get("waitSeconds").and_then(Value::as_u64);
    let when = match wait.unwrap_or_default() {
        0 => "now".to_owned(),
        wait => format!("in {wait}s, since it was asked a short while ago"),
    };
    let clusters = answer.get("clusters").and_then(Value::as_array);
    for cluster in clusters.into_iter().flatten().filter_map(Value::as_str) {
        session
            .output
            .line(format!("{cluster} is asked to list {what} {when}"))?;
    }
    Ok(())
}
