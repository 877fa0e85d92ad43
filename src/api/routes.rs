//! The routes of `/v1`. To add one, add a line here: everything else is derived from it.

use axum::Json;
use serde::Serialize;

use super::{
    App, backup, batch, check, corrections, denials, drift, entries, events, explain, lifecycle,
    objects, overview, past, quotas, relist, reservations, status, usage, watch,
};
use crate::{
    auth::{
        Access::{Known, Role},
        Role::{Admin, Ingest, Read, Reserve},
        Scope::{Everywhere, Items, Path, Query},
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
    Json(Index {
        name: "quotad",
        version: env!("CARGO_PKG_VERSION"),
        paths,
    })
}

/// The routes of the API. Those of one path stand together.
#[must_use]
pub fn routes() -> Vec<Route<App>> {
    vec![
        get("/", Known, index).about("the paths"),
        get("/v1/status", Known, status::status)
            .about("how the ledger and its sources stand, and who asks"),
        get("/v1/usage", Role(&[Read], Everywhere), overview::list)
            .about("list of the namespaces, the fullest first ([overview](#overview)); `search`, `at`, `sequence`"),
        get("/v1/usage/history", Role(&[Read], Everywhere), overview::trend)
            .about("how full namespaces were; `namespaces`, `from`, `to`, `step`"),
        get("/v1/quotas", Role(&[Read], Everywhere), quotas::list_all)
            .about("list of the quotas of all namespaces"),
        get("/v1/namespaces/{namespace}/quotas", Role(&[Read], Path), quotas::list)
            .about("list of quotas"),
        get("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Read], Path), quotas::get)
            .about("200, 304: the quota"),
        put("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Admin], Path), quotas::put)
            .about("201, 200: the quota"),
        delete("/v1/namespaces/{namespace}/quotas/{name}", Role(&[Admin], Path), quotas::delete)
            .about("204"),
        get("/v1/namespaces/{namespace}/reservations", Role(&[Read, Reserve], Path), reservations::list)
            .about("list of the pending ones; `at`, `sequence`"),
        post("/v1/namespaces/{namespace}/reservations", Role(&[Reserve], Path), reservations::create)
            .about("201 granted, 200 granted before, 403 denied"),
        get("/v1/namespaces/{namespace}/reservations/{uid}", Role(&[Read, Reserve], Path), reservations::get)
            .about("200: one in any state, as long as it is remembered"),
        delete("/v1/namespaces/{namespace}/reservations/{uid}", Role(&[Reserve], Path), lifecycle::release)
            .about("204, also when repeated"),
        post("/v1/namespaces/{namespace}/reservations/{uid}/extend", Role(&[Reserve], Path), lifecycle::extend)
            .about("200: the reservation"),
        post("/v1/namespaces/{namespace}/reservations/{uid}/commit", Role(&[Reserve], Path), lifecycle::commit)
            .about("200: the reservation"),
        post("/v1/reservations:batch", Role(&[Reserve], Items), batch::reserve)
            .about("200: one result per item; atomic: all, or the first refusal"),
        post("/v1/namespaces/{namespace}/check", Role(&[Read, Reserve], Path), check::check)
            .about("200: whether it would fit; writes nothing; the body may be YAML"),
        get("/v1/namespaces/{namespace}/usage", Role(&[Read], Path), usage::usage)
            .about("sums of the namespace, and what each limit leaves; `at`, `sequence`"),
        get("/v1/namespaces/{namespace}/usage/history", Role(&[Read], Path), past::series)
            .about("the usage at points in time ([audit](audit.md#then)); `from`, `to`, `step`"),
        get("/v1/namespaces/{namespace}/explain", Role(&[Read], Path), explain::explain)
            .about("what stands behind a number ([audit](audit.md))"),
        get("/v1/namespaces/{namespace}/denials", Role(&[Read], Path), denials::list)
            .about("the latest denials ([audit](audit.md))"),
        get("/v1/denials", Role(&[Read], Everywhere), denials::list_all)
            .about("the latest denials of all namespaces"),
        get("/v1/namespaces/{namespace}/objects", Role(&[Read], Path), objects::list)
            .about("list of the objects behind the numbers; `resource`"),
        get("/v1/objects", Role(&[Read], Everywhere), objects::list_all)
            .about("list of the objects of all namespaces; `resource`"),
        // What is listed may be of any namespace, and the answer tells what the ledger has of it.
        post("/v1/drift", Role(&[Read], Everywhere), drift::compare)
            .body(BodyLimit::Events)
            .about("200: how each listed object differs from what the ledger believes; writes nothing"),
        // They put the record of the facts right, whatever its sources told.
        post("/v1/corrections", Role(&[Admin], Everywhere), corrections::correct)
            .body(BodyLimit::Events)
            .about("200: one outcome per item"),
        // They cost the cluster's API server something.
        post("/v1/relist", Role(&[Admin], Everywhere), relist::ask)
            .about("202: which clusters' publishers are asked to list again"),
        // Facts, limits among them while `quotas.adopt` is on.
        post("/v1/events", Role(&[Ingest], Everywhere), events::accept)
            .body(BodyLimit::Events)
            .about("200: how many were accepted, ignored, rejected"),
        get("/v1/entries", Role(&[Read], Query), entries::list)
            .about("list of entries of the ledger; `from`, `namespace`, `order`: with `order=desc` the newest first, from `from` back"),
        // They hold whatever was sent, so nobody else is to see them.
        get("/v1/dead-letters", Role(&[Admin], Everywhere), entries::dead_letters)
            .about("list of what could not be understood, newest first"),
        get("/v1/backup", Role(&[Admin], Everywhere), backup::backup)
            .about("all that is durable, as a stream of bytes for `quotactl backup` ([backup](audit.md#backup))"),
        get("/v1/watch", Role(&[Read], Query), watch::watch)
            .about("entries as they become durable, as server-sent events; `from`, `namespace`"),
    ]
}
