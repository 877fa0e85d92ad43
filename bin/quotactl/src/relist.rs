//! `relist`: requests a relist from the publishers.

use http::Method;
use quota_client::{
    http::Address,
    wire::{RelistAnswer, RelistRequest},
};

use super::{failure::Outcome, session::Session};

/// Requests a relist of these resources, or of all.
pub(crate) fn run(session: &Session, resources: &[String]) -> Outcome {
    let address = Address::of(["v1", "relist"]);
    let request = RelistRequest {
        resources: resources.to_vec(),
    };
    let reply = session.client.send_json(Method::POST, &address, &request)?;
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    let what = match resources {
        [] => "everything".to_owned(),
        some => some.join(", "),
    };
    let answer: RelistAnswer = reply.read()?;
    let when = match answer.wait_seconds {
        0 => "now".to_owned(),
        wait => format!("in {wait}s, since it was asked a short while ago"),
    };
    for cluster in &answer.clusters {
        session
            .output
            .line(format!("{cluster} is asked to list {what} {when}"))?;
    }
    Ok(())
}
