//! The routes of the Kubernetes-style API.

use axum::response::{IntoResponse as _, Response};
use http::Method;

use super::{
    Kube, applied, discovery, events, namespaces, openapi, read, remove, reviews, status::Failure,
    write,
};
use crate::{
    auth::{
        Access::{Authenticated, Role},
        Role::{Admin, Read},
        Scope::{Everywhere, Path, Readable},
        is_of_kubernetes,
    },
    router::Refused,
    routes::{Route, delete, get, patch, post, put},
};

const QUOTAS: &str = "/api/v1/namespaces/{namespace}/resourcequotas";
const QUOTA: &str = "/api/v1/namespaces/{namespace}/resourcequotas/{name}";
const QUOTA_STATUS: &str = "/api/v1/namespaces/{namespace}/resourcequotas/{name}/status";

const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";
const GROUP: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas/{name}";
const GROUP_STATUS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas/{name}/status";
const APPLIED: &str =
    "/apis/quota.openshift.io/v1/namespaces/{namespace}/appliedclusterresourcequotas";
const APPLIED_GROUP: &str =
    "/apis/quota.openshift.io/v1/namespaces/{namespace}/appliedclusterresourcequotas/{name}";

/// The routes of this API.
#[must_use]
pub fn routes() -> Vec<Route<Kube>> {
    vec![
        get("/version", Authenticated, discovery::version)
            .about("the Kubernetes version that this API follows"),
        get("/api", Authenticated, discovery::versions).about("the versions of the core group"),
        get("/apis", Authenticated, discovery::groups).about("the other API groups"),
        get(
            "/apis/quota.openshift.io/v1",
            Authenticated,
            discovery::quota_resources,
        )
        .about("the resources of this API group"),
        get(
            "/apis/authorization.k8s.io/v1",
            Authenticated,
            discovery::authorization_resources,
        )
        .about("the resources of this API group"),
        get(
            "/apis/authentication.k8s.io/v1",
            Authenticated,
            discovery::authentication_resources,
        )
        .about("the resources of this API group"),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            Authenticated,
            reviews::access,
        )
        .about("201: whether the caller may do something, for `kubectl auth can-i`"),
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            Authenticated,
            reviews::rules,
        )
        .about("201: what the caller may do, for `kubectl auth can-i --list`"),
        post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            Authenticated,
            reviews::subject,
        )
        .about("201: who the caller is, for `kubectl auth whoami`"),
        get("/api/v1", Authenticated, discovery::core_resources).about("the resources of the core group"),
        get("/openapi/v2", Authenticated, openapi::v2).about("OpenAPI schemas of the kinds, for kubectl"),
        get("/openapi/v3", Authenticated, openapi::index).about("index of the OpenAPI v3 documents"),
        get("/openapi/v3/api/v1", Authenticated, openapi::v3)
            .about("OpenAPI schemas of the kinds, for kubectl"),
        get(
            "/openapi/v3/apis/quota.openshift.io/v1",
            Authenticated,
            openapi::v3_groups,
        )
        .about("OpenAPI schemas of the kinds, for kubectl"),
        get(
            "/api/v1/resourcequotas",
            Role(&[Read], Readable),
            read::list,
        )
        .about("list or watch of the quotas of all namespaces"),
        get(QUOTAS, Role(&[Read], Path), read::list).about("list or watch of quotas"),
        post(QUOTAS, Role(&[Admin], Path), write::create).about("201: the quota"),
        delete(QUOTAS, Role(&[Admin], Path), remove::delete_collection)
            .about("list of the deleted quotas"),
        get(QUOTA, Role(&[Read], Path), read::get).about("the quota"),
        put(QUOTA, Role(&[Admin], Path), write::replace).about("the quota"),
        patch(QUOTA, Role(&[Admin], Path), write::patch)
            .about("the quota; JSON, merge and strategic merge patches, server-side apply"),
        delete(QUOTA, Role(&[Admin], Path), remove::delete).about("the deleted quota"),
        get(QUOTA_STATUS, Role(&[Read], Path), read::get).about("the quota"),
        get("/api/v1/events", Role(&[Read], Readable), events::list_all)
            .about("list of the latest denials and of pending reservations, of all namespaces, as Events"),
        get("/api/v1/namespaces/{namespace}/events", Role(&[Read], Path), events::list)
            .about("the same of the namespace"),
        get("/api/v1/services", Authenticated, discovery::services)
            .about("an empty list, for `kubectl cluster-info`"),
        get(
            "/api/v1/namespaces/{namespace}/services",
            Role(&[Read], Path),
            discovery::services,
        )
        .about("the same"),
        get(GROUPS, Role(&[Read], Readable), read::list).about("list or watch of groups"),
        post(GROUPS, Role(&[Admin], Everywhere), write::create).about("201: the group"),
        delete(GROUPS, Role(&[Admin], Everywhere), remove::delete_collection)
            .about("list of the deleted groups"),
        get(GROUP, Role(&[Read], Readable), read::get).about("the group"),
        put(GROUP, Role(&[Admin], Everywhere), write::replace).about("the group"),
        patch(GROUP, Role(&[Admin], Everywhere), write::patch)
            .about("the group; JSON, merge and strategic merge patches, server-side apply"),
        delete(GROUP, Role(&[Admin], Everywhere), remove::delete).about("the deleted group"),
        get(GROUP_STATUS, Role(&[Read], Readable), read::get).about("the group"),
        get(APPLIED, Role(&[Read], Path), applied::list)
            .about("list of the groups that count the namespace, with the members that the caller may read"),
        get(APPLIED_GROUP, Role(&[Read], Path), applied::get)
            .about("one of them"),
        get(
            "/api/v1/namespaces",
            Role(&[Read], Readable),
            namespaces::list,
        )
        .about("list of the namespaces that the ledger knows"),
        get(
            "/api/v1/namespaces/{namespace}",
            Role(&[Read], Path),
            namespaces::get,
        )
        .about("the namespace"),
    ]
}

/// The response to a request without a handler, in the format that clients of this path expect.
#[must_use]
pub fn refused(refused: Refused, method: &Method, path: &str) -> Response {
    match refused {
        Refused::NoMethod if is_of_kubernetes(path) => {
            Failure::method_not_allowed().into_response()
        }
        _ => refused.as_problem(method, path),
    }
}
