//! Reads a body as a whole.

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::problem::{Problem, Reason};

/// All bytes of a body, which the listener limits. Usually they are available at once, and need not be copied.
///
/// # Errors
/// `Malformed` if the body does not arrive completely.
pub(crate) async fn whole(mut body: Body) -> Result<Bytes, Problem> {
    let not_arrived = |error: axum::Error| {
        let detail = format!("the body did not arrive: {error}");
        Problem::new(Reason::Malformed, detail)
    };
    let Some(first) = body.frame().await else {
        return Ok(Bytes::new());
    };
    let first = first.map_err(not_arrived)?.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut pieces = vec![first];
    while let Some(frame) = body.frame().await {
        pieces.extend(frame.map_err(not_arrived)?.into_data());
    }
    Ok(pieces.concat().into())
}
