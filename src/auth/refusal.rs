//! Responses to rejected callers: problems, and `Status` objects on Kubernetes' paths.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};

use super::{Principal, Role};
use crate::{
    kubernetes_status::{Failure, StatusDetails},
    problem::{Problem, Reason},
};

/// The response does not reveal whether a token is unknown, wrong or expired.
pub(super) fn unauthenticated(path: &str) -> Response {
    let mut response = if is_of_kubernetes(path) {
        let reason = "Unauthorized";
        Failure::new(StatusCode::UNAUTHORIZED, reason, reason).into_response()
    } else {
        let detail = "a valid bearer token or client certificate is needed";
        Problem::new(Reason::Unauthorized, detail).into_response()
    };
    let scheme = HeaderValue::from_static("Bearer realm=\"quotad\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    response
}

/// The caller needs any of these roles in this namespace, or in all namespaces if it is none.
pub(super) fn forbidden(
    parts: &Parts,
    principal: &Principal,
    roles: &[Role],
    namespace: Option<&str>,
) -> Response {
    let path = parts.uri.path();
    if is_of_kubernetes(path) {
        return in_kubernetes_words(principal, &parts.method, path, is_watch(parts))
            .into_response();
    }
    let detail = match roles {
        [] => format!("nobody may {} {path}", parts.method),
        roles => principal.lacks(roles, namespace),
    };
    Problem::new(Reason::Forbidden, detail).into_response()
}

/// Paths that Kubernetes clients use.
pub(crate) fn is_of_kubernetes(path: &str) -> bool {
    ["/api", "/apis", "/openapi", "/version"].iter().any(|root| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn is_watch(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1" | "watch"))
}

/// A request in Kubernetes' terms.
struct KubernetesRequest<'a> {
    group: &'a str,
    namespace: &'a str,
    resource: &'a str,
    name: &'a str,
}

impl<'a> KubernetesRequest<'a> {
    /// None if the path does not name a resource.
    fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.split('/').skip(1);
        let group = match (segments.next()?, segments.next()?) {
            ("api", _) => "",
            ("apis", group) => segments.next().map(|_| group)?,
            _ => return None,
        };
        let (mut namespace, mut resource) = ("", segments.next()?);
        let mut name = segments.next().unwrap_or_default();
        if resource == "namespaces" && !name.is_empty() {
            namespace = name;
            if let Some(inner) = segments.next() {
                (resource, name) = (inner, segments.next().unwrap_or_default());
            }
        }
        Some(Self { group, namespace, resource, name })
    }

    fn verb(&self, method: &Method, watch: bool) -> &'static str {
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if self.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ if watch => "watch",
            _ if self.name.is_empty() => "list",
            _ => "get",
        }
    }

    fn details(&self) -> StatusDetails {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        StatusDetails {
            kind: given(self.resource),
            name: given(self.name),
            group: given(self.group),
            ..StatusDetails::default()
        }
    }
}

/// In the words of Kubernetes (`forbiddenMessage` in apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
fn in_kubernetes_words(principal: &Principal, method: &Method, path: &str, watch: bool) -> Failure {
    let forbidden = |message: String, details: StatusDetails| {
        let mut failure = Failure::new(StatusCode::FORBIDDEN, "Forbidden", message);
        *failure.details() = details;
        failure
    };
    let user = principal.name().as_str();
    let Some(request) = KubernetesRequest::parse(path) else {
        let verb = method.as_str().to_ascii_lowercase();
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        return forbidden(message, StatusDetails::default());
    };
    let qualified = match request.group {
        "" => request.resource.to_owned(),
        group => format!("{}.{group}", request.resource),
    };
    let about = match request.name {
        "" => qualified,
        name => format!("{qualified} {name:?}"),
    };
    let place = match request.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let verb = request.verb(method, watch);
    let KubernetesRequest { group, resource, .. } = request;
    let message = format!(
        "{about} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {place}"
    );
    forbidden(message, request.details())
}
