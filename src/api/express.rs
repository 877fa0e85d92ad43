//! The busiest requests, reservations and releases, past the router.
//!
//! They are answered by the same functions as behind the router; only how these are reached differs.

use std::{future::Future, pin::Pin, sync::Arc};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse as _, Response},
};
use http::{Method, Uri};
use quota_core::{decide::By, event::Actor};

use super::{
    App, answer,
    body::{JsonText, must_be_json},
    caller, lifecycle,
    problem::Problem,
    reservations,
};
use crate::{
    auth::{Authenticator, Target},
    server::{self, Peer},
};

const RESERVATIONS: &str = "/v1/namespaces/{namespace}/reservations";
const RESERVATION: &str = "/v1/namespaces/{namespace}/reservations/{uid}";

/// The way of reservations and releases.
pub struct Express {
    app: App,
    authenticator: Authenticator,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked<'a> {
    Reserve { namespace: &'a str },
    Release { namespace: &'a str, uid: &'a str },
}

impl Express {
    /// A way to the same answers as those of [`super::router`] behind [`crate::auth::guarded`].
    #[must_use]
    pub const fn new(app: App, authenticator: Authenticator) -> Self {
        Self { app, authenticator }
    }

    /// Everything up to where the body or the ledger has to be waited for.
    fn admit(&self, request: Request, peer: &Peer) -> Result<Admitted, Box<Response>> {
        let (mut parts, body) = request.into_parts();
        // Its own handle, since the parts are changed below.
        let uri = parts.uri.clone();
        let Some(asked) = asked(&parts.method, uri.path()) else {
            return Err(Box::new(astray()));
        };
        let target = Target {
            route: Some(asked.route()),
            namespace: Some(asked.namespace()),
            peer: Some(peer),
        };
        let admitted = self.authenticator.admit(&target, &mut parts)?;
        let principal = admitted.principal;
        let actor = caller::actor(&parts.headers, principal.actor()).map_err(refused)?;
        let by = caller::by(&actor, &principal, asked.namespace());
        if matches!(asked, Asked::Reserve { .. }) {
            must_be_json(&parts.headers).map_err(refused)?;
        }
        Ok(Admitted {
            method: parts.method,
            uri,
            actor,
            by,
            body,
        })
    }

    async fn carry_out(&self, admitted: Admitted) -> Response {
        let Admitted {
            method,
            uri,
            actor,
            by,
            body,
        } = admitted;
        match asked(&method, uri.path()) {
            Some(Asked::Reserve { namespace }) => match JsonText::of(body).await {
                Ok(text) => reservations::reserve(&self.app, namespace, actor, by, &text).await,
                Err(problem) => problem.into_response(),
            },
            Some(Asked::Release { namespace, uid }) => {
                lifecycle::end(&self.app, namespace.into(), uid, actor, by).await
            }
            None => astray(),
        }
    }
}

/// A request of a caller who may make it.
struct Admitted {
    method: Method,
    uri: Uri,
    actor: Arc<Actor>,
    by: By,
    body: Body,
}

fn astray() -> Response {
    Problem::internal(&"a request went astray").into_response()
}

fn refused(problem: Problem) -> Box<Response> {
    Box::new(problem.into_response())
}

impl server::Express for Express {
    fn route(&self, method: &Method, path: &str) -> Option<&'static str> {
        asked(method, path).map(Asked::route)
    }

    fn answer(
        self: Arc<Self>,
        request: Request,
        peer: Peer,
    ) -> Pin<Box<dyn Future<Output = Response> + Send>> {
        // What the request has beyond that would be held, and moved about, until it is answered.
        let admitted = self.admit(request, &peer);
        Box::pin(async move {
            match admitted {
                Ok(admitted) => self.carry_out(admitted).await,
                Err(response) => *response,
            }
        })
    }
}

impl<'a> Asked<'a> {
    const fn route(self) -> &'static str {
        match self {
            Self::Reserve { .. } => RESERVATIONS,
            Self::Release { .. } => RESERVATION,
        }
    }

    const fn namespace(self) -> &'a str {
        match self {
            Self::Reserve { namespace } | Self::Release { namespace, .. } => namespace,
        }
    }
}

/// What a request asks for; none if only the router can tell: so whenever something is written otherwise than it is
/// usually written.
fn asked<'a>(method: &Method, path: &'a str) -> Option<Asked<'a>> {
    let (namespace, rest) = answer::plain(path.strip_prefix("/v1/namespaces/")?);
    let rest = rest.strip_prefix("/reservations")?;
    if namespace.is_empty() {
        return None;
    }
    if rest.is_empty() {
        return (method == Method::POST).then_some(Asked::Reserve { namespace });
    }
    let (uid, rest) = answer::plain(rest.strip_prefix('/')?);
    let is_release = method == Method::DELETE && !uid.is_empty() && rest.is_empty();
    is_release.then_some(Asked::Release { namespace, uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_is_taken() {
        let path = "/v1/namespaces/team-a/reservations";
        let namespace = "team-a";
        assert_eq!(
            asked(&Method::POST, path),
            Some(Asked::Reserve { namespace })
        );
        let one = format!("{path}/0190a2b4-7c1e-4000-8000-000000000000");
        let uid = "0190a2b4-7c1e-4000-8000-000000000000";
        assert_eq!(
            asked(&Method::DELETE, &one),
            Some(Asked::Release { namespace, uid })
        );
        for (method, path) in [
            (Method::GET, path),
            (Method::DELETE, path),
            (Method::POST, &one),
            (Method::POST, "/v1/namespaces/team-a/reservations/"),
            (Method::DELETE, "/v1/namespaces/team-a/reservations/"),
            (Method::DELETE, "/v1/namespaces/team-a/reservations/a/b"),
            (Method::DELETE, "/v1/namespaces/team-a/reservations/a%2Fb"),
            (Method::POST, "/v1/namespaces/team-a/reservationsx"),
            (Method::POST, "/v1/namespaces//reservations"),
            (Method::POST, "/v1/namespaces/team%2Da/reservations"),
            (Method::POST, "/v2/namespaces/team-a/reservations"),
        ] {
            assert_eq!(asked(&method, path), None, "{method} {path}");
        }
    }
}
