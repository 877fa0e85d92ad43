//! Principals, and the actors of the entries that their requests cause.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock},
};

use axum::extract::FromRequestParts;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, request::Parts};
use quota_core::{decide::Requester, event::Actor};
use quota_semantics::Name;

use super::{Pattern, Role};
use crate::{
    problem::{Problem, Reason},
    server::{
        Peer,
        guard::{self, REQUEST_ID, TRACEPARENT},
    },
};

/// An authenticated caller, and the actor of the entries that it causes. An extension of every request that passed
/// [`Authenticator::admit`](super::Authenticator::admit) where tokens are needed. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(Arc<Inner>);

#[derive(Debug, PartialEq, Eq)]
struct Inner {
    actor: Arc<Actor>,
    roles: Vec<Role>,
    namespaces: Vec<Pattern>,
}

/// The principal of every caller where no token is needed.
static ANONYMOUS: LazyLock<Principal> = LazyLock::new(|| {
    Principal::new(quota_client::tokens::ANONYMOUS, &Role::ALL, &[Pattern::all()])
});

impl Principal {
    /// A principal that has these roles in these namespaces.
    pub fn new(name: &str, roles: &[Role], namespaces: &[Pattern]) -> Self {
        Self(Arc::new(Inner {
            actor: Actor::named(name),
            roles: roles.to_vec(),
            namespaces: namespaces.to_vec(),
        }))
    }

    /// `anonymous`, who may do everything: the principal of every caller while no tokens are configured.
    pub fn anonymous() -> Self {
        ANONYMOUS.clone()
    }

    /// Whether this is [`Principal::anonymous`].
    pub(crate) fn is_anonymous(&self) -> bool {
        *self == *ANONYMOUS
    }

    /// The caller of a request; `anonymous` on a listener that requires no token.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(Self::anonymous)
    }

    /// The caller of a request in the form that entries record. On a listener that requires no token, the name of its
    /// certificate is used.
    pub(crate) fn actor_of(extensions: &Extensions) -> Arc<Actor> {
        if let Some(principal) = extensions.get::<Self>() {
            return principal.actor();
        }
        let certified = extensions.get::<Peer>().and_then(|peer| peer.names.first());
        match certified {
            Some(name) => Actor::named(name),
            None => ANONYMOUS.actor(),
        }
    }

    /// The actor for entries, without details of a request.
    pub fn actor(&self) -> Arc<Actor> {
        self.0.actor.clone()
    }

    /// The name in entries.
    pub fn name(&self) -> &Name {
        &self.0.actor.principal
    }

    /// Whether the principal has this role in a namespace. The empty name stands for objects outside namespaces; only
    /// `*` matches it.
    pub fn may(&self, role: Role, namespace: &str) -> bool {
        self.has(role) && self.0.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    /// Whether the principal has this role in all namespaces, by the pattern `*`.
    pub(crate) fn may_everywhere(&self, role: Role) -> bool {
        self.has(role) && self.0.namespaces.iter().any(Pattern::is_all)
    }

    /// Names the role that is required: any of these, in a namespace or else in all of them.
    pub fn lacks(&self, roles: &[Role], namespace: Option<&str>) -> String {
        let roles: Vec<_> = roles.iter().map(|role| role.as_str()).collect();
        let (name, roles) = (self.name(), roles.join(" or "));
        match namespace {
            Some(namespace) => {
                format!("{name} needs the role {roles} in the namespace {namespace}")
            }
            None => format!("{name} needs the role {roles} in all namespaces"),
        }
    }

    /// The principal's roles.
    pub fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.0.roles.iter().copied()
    }

    /// The namespaces in which the principal has its roles.
    pub fn namespaces(&self) -> &[Pattern] {
        &self.0.namespaces
    }

    /// Whether the principal has this role in any namespace.
    pub fn has(&self, role: Role) -> bool {
        self.0.roles.contains(&role)
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

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

/// The actor of the entries that a request causes: its caller, `X-Request-Id` and `traceparent` if they are
/// well-formed, and `X-Change-Reason`.
///
/// # Errors
/// `Malformed` if the reason cannot be recorded unchanged.
pub fn actor(headers: &HeaderMap, caller: Arc<Actor>) -> Result<Arc<Actor>, Problem> {
    // Faster than three look-ups where there is none of them, as mostly.
    let recorded = [&REQUEST_ID, &TRACEPARENT, &CHANGE_REASON];
    if !headers.keys().any(|name| recorded.contains(&name)) {
        return Ok(caller);
    }
    let request_id = guard::request_id(headers).map(HeaderValue::to_str);
    let request_id = request_id.and_then(Result::ok);
    let traceparent = guard::traceparent(headers);
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
pub(crate) fn requester(actor: &Actor, principal: &Principal, namespace: &str) -> Requester {
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

    #[test]
    fn a_role_is_had_in_the_namespaces_of_the_principal() {
        let team: Pattern = "team-*".parse().unwrap();
        let principal = Principal::new("ci", &[Role::Read, Role::Reserve], &[team]);
        assert!(principal.may(Role::Reserve, "team-a"));
        assert!(!principal.may(Role::Admin, "team-a"));
        assert!(!principal.may(Role::Reserve, "default"));
        assert!(!principal.may(Role::Read, ""));
        assert!(!principal.may_everywhere(Role::Read));
        let auditor = Principal::new("auditor", &[Role::Read], &[Pattern::all()]);
        assert!(auditor.may(Role::Read, "") && auditor.may_everywhere(Role::Read));
        assert!(!auditor.may_everywhere(Role::Admin));
    }

    #[test]
    fn who_is_not_known_is_anonymous() {
        let principal = Principal::of(&Extensions::new());
        assert_eq!(*principal.name(), quota_client::tokens::ANONYMOUS);
        assert!(Role::ALL.iter().all(|role| principal.may_everywhere(*role)));
    }

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
