//! The caller of a request.
//!
//! The one place that turns a request into the [`Actor`] of the entries that it causes.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, HeaderValue, request::Parts};
use quota_core::{decide::Requester, event::Actor};
use quota_semantics::Name;

use crate::{
    auth::{Principal, Role},
    problem::{Problem, Reason},
    request_headers::{self, REQUEST_ID, TRACEPARENT},
};

static CHANGE_REASON: HeaderName = HeaderName::from_static("x-change-reason");

/// Longer reasons are refused rather than cut.
pub(crate) const CHANGE_REASON_MAX_BYTES: usize = 512;

/// The caller of a request, in the form that entries record.
#[derive(Clone, Debug)]
pub struct Caller(pub Arc<Actor>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        actor(&parts.headers, Principal::actor_of(&parts.extensions)).map(Self)
    }
}

/// The actor of a request: its caller, `X-Request-Id` and `traceparent` if they are well-formed, and `X-Change-Reason`.
///
/// # Errors
/// `Malformed` if the reason cannot be recorded unchanged.
pub fn actor(headers: &HeaderMap, caller: Arc<Actor>) -> Result<Arc<Actor>, Problem> {
    // Faster than three look-ups where there is none of them, as mostly.
    let recorded = [&REQUEST_ID, &TRACEPARENT, &CHANGE_REASON];
    if !headers.keys().any(|name| recorded.contains(&name)) {
        return Ok(caller);
    }
    let request_id = request_headers::request_id(headers).map(HeaderValue::to_str);
    let request_id = request_id.and_then(Result::ok);
    let traceparent = request_headers::traceparent(headers);
    let reason = match headers.get(&CHANGE_REASON) {
        Some(reason) => Some(change_reason(reason.as_bytes())?),
        None => None,
    };
    if request_id.is_none() && traceparent.is_none() && reason.is_none() {
        return Ok(caller);
    }
    Ok(Arc::new(Actor {
        request_id: request_id.map(Name::from),
        traceparent: traceparent.map(Name::from),
        reason: reason.map(Name::from),
        ..(*caller).clone()
    }))
}

/// The holder of reservations that this caller makes in a namespace, and what the caller may change there.
pub(crate) fn by(actor: &Actor, principal: &Principal, namespace: &str) -> Requester {
    Requester {
        principal: actor.principal.clone(),
        is_admin: principal.may(Role::Admin, namespace),
        is_anybody: principal.is_anonymous(),
    }
}

/// Whether a reason can be recorded unchanged.
pub(crate) fn is_change_reason(text: &str) -> bool {
    text.len() <= CHANGE_REASON_MAX_BYTES && !text.chars().any(char::is_control)
}

fn change_reason(bytes: &[u8]) -> Result<&str, Problem> {
    let text = std::str::from_utf8(bytes).ok();
    text.filter(|text| is_change_reason(text)).ok_or_else(|| {
        let limit = CHANGE_REASON_MAX_BYTES;
        let detail = format!("X-Change-Reason must be at most {limit} bytes of printable UTF-8");
        Problem::new(Reason::Malformed, detail)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(name: &'static str, value: &[u8]) -> Result<Arc<Actor>, Problem> {
        let value = HeaderValue::from_bytes(value).unwrap();
        actor(
            &HeaderMap::from_iter([(http::HeaderName::from_static(name), value)]),
            Actor::named("jane"),
        )
    }

    #[test]
    fn what_is_well_formed_is_recorded() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(of("traceparent", parent.as_bytes()).unwrap().traceparent, Some(parent.into()));
        assert_eq!(of("x-request-id", b"r-1").unwrap().request_id, Some("r-1".into()));
        let why = "für das Fest".as_bytes();
        assert_eq!(of("x-change-reason", why).unwrap().reason, Some("für das Fest".into()));
    }

    #[test]
    fn ids_that_are_not_are_left_out() {
        for (name, value) in [
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0".to_owned()),
            ("traceparent", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01".to_owned()),
            ("x-request-id", "a b".to_owned()),
            ("x-request-id", "x".repeat(129)),
        ] {
            assert_eq!(*of(name, value.as_bytes()).unwrap(), *Actor::named("jane"));
        }
    }

    #[test]
    fn a_reason_that_cannot_be_kept_is_refused() {
        assert!(of("x-change-reason", "x".repeat(513).as_bytes()).is_err());
        assert!(of("x-change-reason", b"a\tb").is_err());
        assert!(of("x-change-reason", b"\xff").is_err());
    }
}
