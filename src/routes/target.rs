//! The variable parts of a path.

use axum::extract::{FromRequestParts, RawPathParams};
use futures::FutureExt as _;
use http::request::Parts;
use quota_semantics::Name;

use crate::problem::{Problem, Reason};

/// The variable parts of a request's path, percent-decoded.
///
/// # Errors
/// `Malformed` if one is not valid UTF-8.
pub(crate) fn path_parameters(parts: &mut Parts) -> Result<RawPathParams, Problem> {
    let found = RawPathParams::from_request_parts(parts, &()).now_or_never();
    found.and_then(Result::ok).ok_or_else(|| {
        let detail = format!("{} is not percent-encoded UTF-8", parts.uri.path());
        Problem::new(Reason::Malformed, detail)
    })
}

/// The first variable parts of a path, percent-decoded.
#[derive(Clone, Debug)]
pub struct Target<const N: usize>(pub [Name; N]);

impl<const N: usize, S: Send + Sync> FromRequestParts<S> for Target<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let found = path_parameters(parts)?;
        let mut names = found.iter().map(|(_, name)| Name::from(name));
        Ok(Self(std::array::from_fn(|_| names.next().unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use http::Request;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        auth::Access::Public,
        router::{Rules, router},
        routes::get,
    };

    #[tokio::test]
    async fn variable_parts_are_decoded() {
        let one = |Target([name]): Target<1>| async move { name.to_string() };
        let two = |Target([namespace, uid]): Target<2>| async move { format!("{namespace}|{uid}") };
        let routes = [
            get("/groups/{name}", Public, one),
            get("/namespaces/{namespace}/reservations/{uid}/commit", Public, two),
            get("/ui/{*path}", Public, one),
        ];
        let router = router(routes, Rules::default());
        for (path, status, expected) in [
            ("/groups/%C3%BC", 200, "ü"),
            ("/namespaces/team-a/reservations/x%2Fy/commit", 200, "team-a|x/y"),
            ("/ui/a/b.js", 200, "a/b.js"),
            ("/groups/%FF", 400, "percent-encoded"),
            ("/namespaces//reservations/x/commit", 404, "nothing"),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), status, "{path}");
            let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let is_expected =
                if status == 200 { text == expected } else { text.contains(expected) };
            assert!(is_expected, "{path}: {text}");
        }
    }
}
