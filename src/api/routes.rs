//! The routes of `/v1`. To add a route, add a line here: everything else is derived from this table.

use std::sync::LazyLock;

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{Method, header};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::Value;

use super::{
    App, analysis, batch, check, corrections, entries, events, explain, groups, lifecycle, openapi,
    overview,
    problem::{Problem, Reason},
    quotas, reservations, series, status, watch,
};
use crate::{
    auth::{
        Access::{Authenticated, Role},
        Role::{Admin, Ingest, Read, Reserve},
        Scope::{Everywhere, Items, Path, Query, Readable},
        refuse_foreign_page,
    },
    routes::{BodyLimit, Route, delete, get, post, put},
};

#[derive(Serialize)]
struct Index {
    name: &'static str,
    version: &'static str,
    paths: Vec<&'static str>,
}

/// `GET /`
async fn index() -> Json<Index> {
    let mut paths: Vec<_> = routes().iter().map(|route| route.spec().path).collect();
    paths.dedup();
    Json(Index { name: "quotad", version: env!("CARGO_PKG_VERSION"), paths })
}

/// The description of the API in OpenAPI.
pub fn document() -> Value {
    openapi::document(&routes())
}

static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// `GET /openapi.json`
async fn description() -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, DESCRIPTION.clone()).into_response()
}

/// The media types of manifests.
const JSON_OR_YAML: &[&str] = &["application/json", "application/yaml"];

/// The routes of the API.
pub fn routes() -> Vec<Route<App>> {
    table().into_iter().map(enforced).collect()
}

/// Routes of one path are adjacent.
fn table() -> Vec<Route<App>> {
    vec![
        get("/", Authenticated, index).operation("index", &[(200, "Index")]).about("the paths"),
        get("/openapi.json", Authenticated, description)
            .operation("getDescription", &[(200, "Description")])
            .about("the description of this API (OpenAPI 3.1)"),
        get("/v1/status", Authenticated, status::status)
            .operation("getStatus", &[(200, "Status")]).about("the state of the ledger and its sources, and the caller's identity"),
        get("/v1/cluster", Authenticated, status::cluster_status)
            .operation("getCluster", &[(200, "Cluster")]).about("the cluster as this node sees it ([cluster](cluster.md)); 404 without one"),
        // This begins a ledger.
        post("/v1/cluster/init", Role(&[Admin], Everywhere), status::initialise).of_node()
            .operation("initCluster", &[(201, "ClusterInitialised")]).about("201: the stream was created; the ledger in it continues this node's entries"),
        post("/v1/cluster/transfer", Role(&[Admin], Everywhere), status::transfer)
            .operation("transferLead", &[(200, "Cluster")]).sends("ClusterTransfer").about("200: another node has taken the lead"),
        post("/v1/cluster/remove", Role(&[Admin], Everywhere), status::remove).idempotent()
            .operation("removeNode", &[(200, "Cluster")]).sends("ClusterRemove").about("200: the stream is not kept any more for a node that was stopped"),
        // This begins a ledger after the entries of this node.
        post("/v1/cluster/heal", Role(&[Admin], Everywhere), status::heal).of_node()
            .operation("healCluster", &[(201, "ClusterInitialised")]).sends("ClusterHeal").about("201: a stream that was removed, or has lost acknowledged messages, was recreated; the ledger in it continues this node's entries ([cluster](cluster.md#the-servers-have-lost-the-stream))"),
        get("/v1/usage", Role(&[Read], Readable), overview::list)
            .operation("listUsage", &[(200, "OverviewPage")]).query(&["search", "labelSelector", "sort", "at", "sequence", "limit", "continue"]).about("list of the namespaces, the fullest first ([overview](#overview)); `search`, `labelSelector`, `sort`, `at`, `sequence`"),
        get("/v1/usage/history", Role(&[Read], Readable), overview::trend)
            .operation("getTrend", &[(200, "Trend")]).query(&["namespaces!", "from!", "to", "step"]).about("how full namespaces were; `namespaces`, `from`, `to`, `step`"),
        get("/v1/quotas", Role(&[Read], Readable), quotas::list_all)
            .operation("listAllQuotas", &[(200, "QuotaPage")]).query(&["labelSelector", "limit", "continue"]).about("list of the quotas of all namespaces; `labelSelector`"),
        get("/v1/namespaces/{namespace}", Role(&[Read], Path), status::get)
            .operation("getNamespace", &[(200, "Namespace")]).about("the labels of the namespace, and the groups that count it"),
        get("/v1/namespaces/{namespace}/quotas", Role(&[Read], Path), quotas::list)
            .operation("listQuotas", &[(200, "QuotaPage")]).query(&["labelSelector", "limit", "continue"]).about("list of quotas; `labelSelector`"),
        get("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Read], Path), quotas::get)
            .operation("getQuota", &[(200, "Quota"), (304, "")]).about("200, 304: the quota"),
        put("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Admin], Path), quotas::put).idempotent()
            .operation("setQuota", &[(200, "Quota"), (201, "Quota")]).sends_as(JSON_OR_YAML, "QuotaInput").about("201, 200: the quota"),
        delete("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Admin], Path), quotas::delete).idempotent()
            .operation("deleteQuota", &[(204, "")]).about("204"),
        get("/v1/groups", Role(&[Read], Readable), groups::list)
            .operation("listGroups", &[(200, "GroupPage")]).query(&["labelSelector", "at", "sequence", "limit", "continue"]).about("list of groups; members are counted, not named; `labelSelector`, `at`, `sequence`"),
        get("/v1/groups/{name}", Role(&[Read], Readable), groups::get)
            .operation("getGroup", &[(200, "Group"), (304, "")]).about("200, 304: the group"),
        put("/v1/groups/{name}", Role(&[Admin], Everywhere), groups::put).idempotent()
            .operation("setGroup", &[(200, "Group"), (201, "Group")]).sends_as(JSON_OR_YAML, "GroupInput").about("201, 200: the group; typed fields, or a ClusterResourceQuota"),
        delete("/v1/groups/{name}", Role(&[Admin], Everywhere), groups::delete).idempotent()
            .operation("deleteGroup", &[(204, "")]).about("204"),
        get("/v1/groups/{name}/usage", Role(&[Read], Readable), groups::usage)
            .operation("getGroupUsage", &[(200, "GroupUsage")]).query(&["at", "sequence"]).about("what counts in the group, and what each member takes; `at`, `sequence`"),
        get("/v1/groups/{name}/usage/history", Role(&[Read], Readable), series::of_group)
            .operation("getGroupUsageHistory", &[(200, "GroupUsageSeries")]).query(&["from!", "to", "step"]).about("the usage over a period, in equal parts, with the members of each moment; `from`, `to`, `step`"),
        get("/v1/report", Role(&[Read], Items), analysis::report)
            .operation("getReport", &[(200, "Report")]).query(&["from!", "to", "by", "namespace", "group", "labelSelector", "resource"]).about("what was consumed in a period ([reports](reports.md)); `from`, `to`, `by`, and filters"),
        get("/v1/groups/{name}/explain", Role(&[Read], Readable), explain::explain_group)
            .operation("explainGroup", &[(200, "GroupExplanation")]).query(&["resource!", "at", "sequence", "limit", "continue"]).about("the objects and reservations of a number of the group, in all its namespaces ([audit](audit.md))"),
        get("/v1/namespaces/{namespace}/reservations", Role(&[Read, Reserve], Path), reservations::list)
            .operation("listReservations", &[(200, "ReservationPage")]).query(&["state", "at", "sequence", "limit", "continue"]).about("list of the pending ones, or of those in another `state`; `at`, `sequence`"),
        post("/v1/namespaces/{namespace}/reservations", Role(&[Reserve], Path), reservations::create).idempotent()
            .operation("reserve", &[(200, "Reservation"), (201, "Reservation")]).sends("ReserveRequest").about("201 granted, 200 granted before, 403 denied"),
        get("/v1/namespaces/{namespace}/reservations/{uid}", Role(&[Read, Reserve], Path), reservations::get)
            .operation("getReservation", &[(200, "Reservation")]).about("200: one in any state, as long as it is remembered"),
        delete("/v1/namespaces/{namespace}/reservations/{uid}", Role(&[Reserve], Path), lifecycle::release).idempotent()
            .operation("release", &[(204, "")]).about("204, also when repeated"),
        post("/v1/namespaces/{namespace}/reservations/{uid}/extend", Role(&[Reserve], Path), lifecycle::extend).idempotent()
            .operation("extend", &[(200, "Reservation")]).sends("ExtendRequest").about("200: the reservation"),
        post("/v1/namespaces/{namespace}/reservations/{uid}/commit", Role(&[Reserve], Path), lifecycle::commit).idempotent()
            .operation("commit", &[(200, "Reservation")]).sends("CommitRequest")
.body_may_be_left_out().about("200: the reservation"),
        post("/v1/reservations:batch", Role(&[Reserve], Items), batch::create).idempotent()
            .operation("reserveBatch", &[(200, "BatchAnswer")]).sends("BatchRequest").about("200: one result per item; atomic: all, or the first refusal"),
        post("/v1/namespaces/{namespace}/check", Role(&[Read, Reserve], Path), check::check).idempotent()
            .operation("check", &[(200, "Verdict")]).sends_as(JSON_OR_YAML, "ReserveRequest").about("200: whether it would fit; writes nothing; the body may be YAML"),
        get("/v1/namespaces/{namespace}/usage", Role(&[Read], Path), overview::usage)
            .operation("getUsage", &[(200, "Usage")]).query(&["at", "sequence"]).about("sums of the namespace, and what each limit leaves; `at`, `sequence`"),
        get("/v1/namespaces/{namespace}/usage/history", Role(&[Read], Path), series::series)
            .operation("getUsageHistory", &[(200, "UsageSeries")]).query(&["from!", "to", "step"]).about("the usage over a period, in equal parts ([audit](audit.md#usage-at-a-past-time)); `from`, `to`, `step`"),
        get("/v1/namespaces/{namespace}/explain", Role(&[Read], Path), explain::explain)
            .operation("explain", &[(200, "Explanation")]).query(&["resource!", "quota", "at", "sequence", "limit", "continue"]).about("the objects and reservations of a number ([audit](audit.md))"),
        get("/v1/namespaces/{namespace}/denials", Role(&[Read], Path), entries::list_denials)
            .operation("listDenials", &[(200, "DenialPage")]).query(&["limit", "continue"]).about("the latest denials ([audit](audit.md))"),
        get("/v1/denials", Role(&[Read], Readable), entries::list_all)
            .operation("listAllDenials", &[(200, "DenialPage")]).query(&["limit", "continue"]).about("the latest denials of all namespaces"),
        get("/v1/namespaces/{namespace}/objects", Role(&[Read], Path), explain::list)
            .operation("listObjects", &[(200, "ObjectPage")]).query(&["resource", "limit", "continue"]).about("list of the counted objects, with their amounts; `resource`"),
        get("/v1/objects", Role(&[Read], Readable), explain::list_all)
            .operation("listAllObjects", &[(200, "ObjectPage")]).query(&["resource", "limit", "continue"]).about("list of the objects of all namespaces; `resource`"),
        get("/v1/suggestions", Role(&[Read], Query), analysis::suggest)
            .operation("listSuggestions", &[(200, "Suggestions")]).query(&["from!", "to", "percentile", "headroom", "namespace", "labelSelector"]).about("limits that fit what was taken in a period ([simulate](simulate.md)); `from`, `to`, `percentile`, `headroom`, `namespace`, `labelSelector`"),
        // The handler checks that the caller may set each of the limits.
        post("/v1/simulate", Role(&[Admin], Items), analysis::simulate).idempotent()
            .operation("simulate", &[(200, "Simulation")]).sends("SimulateRequest").about("200: what other limits would have done to the recorded past ([simulate](simulate.md)); writes nothing"),
        // Listed objects may be of any namespace, and the answer shows the ledger's objects of that namespace.
        post("/v1/drift", Role(&[Read], Everywhere), corrections::compare).idempotent()
            .body(BodyLimit::Events)
            .operation("compare", &[(200, "DriftAnswer")]).sends("DriftRequest").about("200: how each listed object differs from what the ledger believes; writes nothing"),
        // Corrections override the facts that sources have sent.
        post("/v1/corrections", Role(&[Admin], Everywhere), corrections::correct)
            .body(BodyLimit::Events)
            .operation("correct", &[(200, "CorrectionAnswer")]).sends("CorrectionRequest").about("200: one outcome per item"),
        // A relist puts load on the cluster's API server.
        post("/v1/relist", Role(&[Admin], Everywhere), events::request_relist).idempotent()
            .operation("relist", &[(202, "RelistAnswer")]).sends("RelistRequest")
.body_may_be_left_out().about("202: the clusters whose publishers were requested to relist"),
        // Events are facts; they include limits while `quotas.adopt` is on.
        post("/v1/events", Role(&[Ingest], Everywhere), events::accept).idempotent()
            .body(BodyLimit::Events)
            .operation("sendEvents", &[(200, "EventsAnswer")]).sends_as(&["application/json", "application/x-ndjson"], "EventsInput").about("200: how many were accepted, ignored, rejected"),
        get("/v1/entries", Role(&[Read], Query), entries::list)
            .operation("listEntries", &[(200, "EntryPage")]).query(&["fromSequence", "namespace", "order", "limit", "continue"]).about("list of entries of the ledger; `from`, `namespace`, `order`: with `order=desc` the newest first, from `from` back"),
        // Dead letters hold any content that was sent, so only admins may read them.
        get("/v1/dead-letters", Role(&[Admin], Everywhere), entries::dead_letters)
            .operation("listDeadLetters", &[(200, "DeadLetterPage")]).query(&["limit", "continue"]).about("list of rejected events, newest first"),
        get("/v1/backup", Role(&[Admin], Everywhere), status::backup)
            .operation("backup", &[(200, "application/octet-stream")]).about("all durable entries, as a stream of bytes for `quotactl backup` ([backup](audit.md#backup))"),
        get("/v1/watch", Role(&[Read], Query), watch::watch)
            .operation("watch", &[(200, "text/event-stream")]).query(&["fromSequence", "namespace"]).about("entries as they become durable, as server-sent events; `from`, `namespace`"),
    ]
}

// The rules that all routes of this API share. They are checked before a handler sees the request.

/// The route under the rules: a query has only the parameters that the route declares, so that a mistyped one is not
/// silently ignored; and a web page of another origin cannot change anything.
///
/// In a cluster, the rules are checked on the node that answers, after `min_sequence` was taken out of the query of a read.
pub(super) fn enforced(route: Route<App>) -> Route<App> {
    let spec = route.spec();
    let changes = spec.method != Method::GET;
    let parameters = spec.operation.query.iter();
    let declared: Vec<&str> = parameters.map(|name| openapi::parameter_name(name)).collect();
    route.checked(move |request| {
        if changes {
            refuse_foreign_page(request)?;
        }
        match request.uri().query() {
            None => Ok(()),
            Some(query) => refuse_unknown(query, &declared),
        }
    })
}

fn refuse_unknown(query: &str, declared: &[&str]) -> Result<(), Problem> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let names = pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    let mut names = names.map(|name| percent_decode_str(name).decode_utf8_lossy());
    let Some(unknown) = names.find(|name| !declared.contains(&&**name)) else {
        return Ok(());
    };
    let known = match declared {
        [] => "none is known here".to_owned(),
        names => format!("known: {}", names.join(", ")),
    };
    let detail = format!("unknown query parameter {unknown:?}; {known}");
    Err(Problem::new(Reason::Malformed, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_declared_parameters_are_known() {
        let known = ["limit", "labelSelector"];
        for query in ["", "&", "limit=1", "limit", "&labelSelector=a%3Db&limit=", "l%69mit=1"] {
            assert!(refuse_unknown(query, &known).is_ok(), "{query}");
        }
        for (query, unknown) in [
            ("limits=1", "limits"),
            ("limit=1&dryRun=All", "dryRun"),
            ("=1", ""),
            ("Limit=1", "Limit"),
            ("min%5Fsequence=1", "min_sequence"),
            ("%ff", "\u{fffd}"),
        ] {
            let problem = refuse_unknown(query, &known).unwrap_err();
            let detail =
                format!("unknown query parameter {unknown:?}; known: limit, labelSelector");
            assert_eq!(problem.detail(), detail);
        }
        let problem = refuse_unknown("ttl=5m", &[]).unwrap_err();
        let detail = "unknown query parameter \"ttl\"; none is known here";
        assert_eq!(problem.detail(), detail);
    }
}
