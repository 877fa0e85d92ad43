//! The rights of a caller, for `kubectl auth can-i` and `kubectl auth whoami`. They are derived from the route table.

use std::sync::LazyLock;

use axum::Json;
use http::{Method, StatusCode};
use prost::Message;
use quota_service::health::PROBES;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Failure, Kube, Result, protobuf,
    request::{Body, JSON, PROTOBUF, Sent, YAML, json},
    resource::QUOTA_GROUP,
};
use crate::{
    auth::{
        Access::{self, Authenticated, Public},
        Principal, Scope,
    },
    problem::in_plain_words,
    routes::{Route, Spec},
};

const AUTHORIZATION: &str = "authorization.k8s.io/v1";
const AUTHENTICATION: &str = "authentication.k8s.io/v1";

/// Matches every verb, resource or group.
const ANY: &str = "*";

/// Verbs on a kind, and the access that they need.
struct Rule {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verbs: &'static [&'static str],
    access: Access,
}

/// The rights of callers, according to the route table.
static RIGHTS: LazyLock<Rights> = LazyLock::new(|| Rights::of(&super::routes()));

struct Rights {
    rules: Vec<Rule>,
    /// Paths that belong to no kind and are open to every authenticated caller.
    paths: Vec<&'static str>,
}

impl Rights {
    fn of(routes: &[Route<Kube>]) -> Self {
        let specs = || routes.iter().map(Route::spec);
        let health = PROBES.iter().map(|(path, _)| *path);
        let health = health.filter(|path| !path.contains('{'));
        let is_open = |spec: &&Spec| {
            spec.method == Method::GET && matches!(spec.access, Public | Authenticated)
        };
        let discovery = specs().filter(is_open).map(|spec| spec.path);
        Self {
            rules: specs().filter_map(Rule::of).collect(),
            paths: discovery.chain(health).collect(),
        }
    }

    fn allow(&self, principal: &Principal, action: &Attributes) -> bool {
        let matches = |pattern: &str, name: &str| pattern == ANY || pattern == name;
        let namespace = match (action.resource.as_str(), action.namespace.as_str()) {
            // A namespace counts as being within itself.
            ("namespaces", "") => &action.name,
            (_, namespace) => namespace,
        };
        let rules = self.rules.iter().filter(|rule| {
            matches(&action.group, rule.group)
                && matches(&action.resource, rule.resource)
                && action.subresource == rule.subresource
        });
        let is_any = action.resource == ANY || action.group == ANY;
        let granted = |verb: &str| {
            let mut rules = rules.clone().filter(|rule| rule.verbs.contains(&verb));
            match is_any {
                false => rules.any(|rule| rule.allows(principal, namespace)),
                // What is open to all says nothing about the rest.
                true => {
                    let mut guarded = rules.filter(|rule| rule.is_guarded()).peekable();
                    guarded.peek().is_some()
                        && guarded.all(|rule| rule.allows(principal, namespace))
                }
            }
        };
        let mut all_verbs = rules.clone().flat_map(|rule| rule.verbs);
        match action.verb.as_str() {
            ANY => rules.clone().next().is_some() && all_verbs.all(|verb| granted(verb)),
            verb => granted(verb),
        }
    }

    fn allow_path(&self, path: &NonResource) -> bool {
        path.verb == "get" && self.paths.contains(&path.path.as_str())
    }
}

/// Kubernetes' verbs for a method, on one object or on a collection.
fn verbs(method: &Method, name: bool) -> &'static [&'static str] {
    match (method.as_str(), name) {
        ("GET", true) => &["get"],
        ("GET", false) => &["list", "watch"],
        ("POST", _) => &["create"],
        ("PUT", _) => &["update"],
        ("PATCH", _) => &["patch"],
        ("DELETE", true) => &["delete"],
        ("DELETE", false) => &["deletecollection"],
        _ => &[],
    }
}

impl Rule {
    /// The rule of a route, if its path belongs to a kind.
    fn of(spec: &Spec) -> Option<Self> {
        let (group, path) = match spec.path.strip_prefix("/api/v1/") {
            Some(path) => ("", path),
            None => (QUOTA_GROUP, spec.path.strip_prefix("/apis/quota.openshift.io/v1/")?),
        };
        let (resource, name, subresource) = match path.split('/').collect::<Vec<_>>()[..] {
            [resource] | ["namespaces", _, resource] => (resource, false, ""),
            [resource, _] | ["namespaces", _, resource, _] => (resource, true, ""),
            [resource, _, subresource] | ["namespaces", _, resource, _, subresource] => {
                (resource, true, subresource)
            }
            _ => return None,
        };
        Some(Self {
            group,
            resource,
            subresource,
            verbs: verbs(&spec.method, name),
            access: spec.access,
        })
    }

    /// Whether it takes a role.
    const fn is_guarded(&self) -> bool {
        matches!(self.access, Access::Role(..))
    }

    /// Whether this caller has the right in a namespace, or in all if it is empty.
    fn allows(&self, principal: &Principal, namespace: &str) -> bool {
        match self.access {
            Public | Authenticated => true,
            Access::Role(roles, scope) => roles.iter().any(|role| match (namespace, scope) {
                ("", Scope::Readable) => principal.has(*role),
                ("", _) | (_, Scope::Everywhere) => principal.may_everywhere(*role),
                (namespace, _) => principal.may(*role, namespace),
            }),
        }
    }
}

/// The `spec` of a `SelfSubjectAccessReview`; numbers as in `generated.proto` of `k8s.io/api/authorization/v1`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AccessSpec {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<Attributes>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<NonResource>,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
struct Attributes {
    #[prost(string, tag = "1")]
    namespace: String,
    #[prost(string, tag = "2")]
    verb: String,
    #[prost(string, tag = "3")]
    group: String,
    #[prost(string, tag = "5")]
    resource: String,
    #[prost(string, tag = "6")]
    subresource: String,
    #[prost(string, tag = "7")]
    name: String,
}

#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
struct NonResource {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    verb: String,
}

/// The `spec` of a `SelfSubjectRulesReview`.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
#[serde(default)]
struct NamespaceSpec {
    #[prost(string, tag = "1")]
    namespace: String,
}

/// The `spec` of a `SelfSubjectReview`, which is empty.
#[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
struct EmptySpec {}

/// `POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews`
pub(super) async fn access(principal: Principal, body: Body) -> Result<(StatusCode, Json<Value>)> {
    let spec: AccessSpec = read(&body)?;
    let allowed = match (&spec.resource_attributes, &spec.non_resource_attributes) {
        (Some(attributes), None) => RIGHTS.allow(&principal, attributes),
        (None, Some(path)) => RIGHTS.allow_path(path),
        _ => {
            let detail =
                "exactly one of resourceAttributes and nonResourceAttributes must be specified";
            return Err(Failure::bad_request(detail));
        }
    };
    let reason = match allowed {
        true => String::new(),
        false => format!("the roles of {} do not allow it", principal.name()),
    };
    let status = json!({"allowed": allowed, "reason": reason});
    Ok(reviewed("SelfSubjectAccessReview", AUTHORIZATION, &spec, status))
}

/// `POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews`
pub(super) async fn rules(principal: Principal, body: Body) -> Result<(StatusCode, Json<Value>)> {
    let spec: NamespaceSpec = read(&body)?;
    let granted = RIGHTS.rules.iter().filter(|rule| rule.allows(&principal, &spec.namespace));
    let kinds: Vec<_> = granted
        .map(|rule| {
            let resource = match rule.subresource {
                "" => rule.resource.to_owned(),
                subresource => format!("{}/{subresource}", rule.resource),
            };
            json!({"apiGroups": [rule.group], "resources": [resource], "verbs": rule.verbs})
        })
        .collect();
    let status = json!({
        "resourceRules": kinds,
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": RIGHTS.paths}],
        "incomplete": false,
    });
    Ok(reviewed("SelfSubjectRulesReview", AUTHORIZATION, &spec, status))
}

/// `POST /apis/authentication.k8s.io/v1/selfsubjectreviews`
pub(super) async fn subject(principal: Principal, body: Body) -> Result<(StatusCode, Json<Value>)> {
    let spec: EmptySpec = read(&body)?;
    let groups: Vec<_> = principal.roles().map(|role| format!("quota-ledger:{role}")).collect();
    let status = json!({"userInfo": {"username": principal.name(), "groups": groups}});
    Ok(reviewed("SelfSubjectReview", AUTHENTICATION, &spec, status))
}

/// Parses the `spec` of a review, in JSON, YAML or protobuf.
fn read<S: Message + Default + DeserializeOwned>(body: &Body) -> Result<S> {
    let json = match body.media_type.as_str() {
        JSON => json(&body.bytes)?,
        YAML => Sent::yaml(&body.bytes)?.json,
        PROTOBUF => {
            return protobuf::review(&body.bytes)
                .map_err(|error| Failure::bad_request(error.to_string()));
        }
        _ => {
            let taken = [JSON, YAML, PROTOBUF].join(", ");
            return Err(Failure::unsupported_media_type(&taken));
        }
    };
    match json.get("spec") {
        None | Some(Value::Null) => Ok(S::default()),
        Some(spec) => {
            S::deserialize(spec).map_err(|error| Failure::bad_request(in_plain_words(&error)))
        }
    }
}

fn reviewed(
    kind: &str,
    group_version: &str,
    spec: &impl Serialize,
    status: Value,
) -> (StatusCode, Json<Value>) {
    let body = json!({
        "kind": kind, "apiVersion": group_version, "metadata": {"creationTimestamp": null},
        "spec": spec, "status": status,
    });
    (StatusCode::CREATED, Json(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Role;

    fn may(principal: &Principal, action: &Attributes) -> bool {
        RIGHTS.allow(principal, action)
    }

    fn action(namespace: &str, verb: &str, resource: &str) -> Attributes {
        Attributes {
            namespace: namespace.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            ..Attributes::default()
        }
    }

    #[test]
    fn answers_follow_the_roles_of_the_routes() {
        let team = ["team-a".parse().unwrap()];
        let reader = Principal::new("reader", &[Role::Read], &team);
        for verb in ["get", "list", "watch"] {
            assert!(may(&reader, &action("team-a", verb, "resourcequotas")), "{verb}");
            assert!(!may(&reader, &action("team-b", verb, "resourcequotas")), "{verb}");
            // A list over all namespaces is that of those that the caller may read.
            let is_list = verb != "get";
            assert_eq!(may(&reader, &action("", verb, "resourcequotas")), is_list, "{verb}");
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection", ANY] {
            assert!(!may(&reader, &action("team-a", verb, "resourcequotas")), "{verb}");
            assert!(may(&Principal::anonymous(), &action("team-a", verb, "resourcequotas")));
        }
        for other in ["pods", "deployments"] {
            assert!(!may(&Principal::anonymous(), &action("team-a", "get", other)));
        }
        assert!(may(&Principal::anonymous(), &action("", ANY, ANY)));
        assert!(may(&reader, &action("", "list", "namespaces")));
        let one = Attributes { name: "team-a".to_owned(), ..action("", "get", "namespaces") };
        assert!(may(&reader, &one));
        let of_groups = |namespace: &str, resource: &str| Attributes {
            group: QUOTA_GROUP.to_owned(),
            ..action(namespace, "list", resource)
        };
        assert!(may(&reader, &of_groups("team-a", "appliedclusterresourcequotas")));
        assert!(may(&reader, &of_groups("", "clusterresourcequotas")));
        assert!(may(&Principal::anonymous(), &of_groups("", "clusterresourcequotas")));
        let of_another_group =
            Attributes { group: "apps".to_owned(), ..action("team-a", "get", "resourcequotas") };
        assert!(!may(&Principal::anonymous(), &of_another_group));
    }

    #[test]
    fn paths_without_a_kind_are_those_that_everybody_may_get() {
        let may = |path: &str, verb: &str| {
            RIGHTS.allow_path(&NonResource { path: path.to_owned(), verb: verb.to_owned() })
        };
        assert!(may("/version", "get") && may("/healthz", "get"));
        assert!(!may("/version", "post") && !may("/v1/backup", "get"));
    }
}
