//! `reserve`, `extend`, `commit` and `release`, and the output of reservations.
//!
//! The content of `-f` stays free JSON: an object is sent unchanged, and the daemon validates requests.

use std::borrow::Cow;

use http::Method;
use quota_client::{
    http::Address,
    wire::{Holder, PodsVerdict, Reservation, ReserveRequest, Verdict},
};
use quota_semantics::{Period, resource::ResourceList, uid::Uid};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    apply::note_warnings,
    args::{Check, Reserve},
    failure::{Exit, Failure, Outcome},
    figures::{Rows, checked_quotas},
    manifest::{self, Document, text},
    session::{Reply, Session, each},
};

/// `reserve`.
pub(crate) fn reserve(session: &Session, args: &Reserve) -> Outcome {
    if let Some(request) = &args.request {
        let uid = args.uid.clone().map_or_else(fresh_uid, Ok)?;
        let request = ReserveRequest {
            ttl: args.ttl,
            ..ReserveRequest::of_amounts(holder_of(args, &uid), request.clone())
        };
        return ask(session, session.scope.of_one("a reservation")?, &request);
    }
    let documents = manifest::load(&args.files)?;
    let uid = args.uid.as_ref().map(Uid::to_string);
    if uid.is_some() && documents.len() > 1 {
        return Err(Failure::usage("--uid is for one object, but there are several in -f"));
    }
    each(documents, |document| {
        let place = document.place.clone();
        let one = || -> Outcome {
            let (namespace, mut body) = body_of(session, document, uid.as_deref())?;
            if text(&body, "/reservedBy/uid").is_empty() {
                body["reservedBy"]["uid"] = fresh_uid()?.to_string().into();
            }
            if let Some(ttl) = args.ttl {
                body["ttl"] = ttl.to_string().into();
            }
            ask(session, &namespace, &body)
        };
        one().map_err(|failure| failure.about(place))
    })
}

/// A uid for an object that has none yet.
fn fresh_uid() -> Outcome<Uid> {
    let bytes = quota_client::tokens::random_bytes::<16>();
    let mut bytes = bytes.map_err(|error| Failure::general(error.to_string()))?;
    // Version 4 of RFC 9562: random.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Ok(Uid::from_uuid(bytes))
}

/// Namespace and body of the request for a document, which is a request itself, or the object to reserve for.
pub(crate) fn body_of(
    session: &Session,
    document: Document,
    uid: Option<&str>,
) -> Outcome<(String, Value)> {
    let Document { mut value, .. } = document;
    let Some(fields) = value.as_object_mut() else {
        return Err(Failure::general("neither an object nor a reservation"));
    };
    if fields.contains_key("reservedBy") {
        let own = fields.remove("namespace");
        let namespace = session.scope.of_document(own.as_ref().and_then(Value::as_str))?;
        if let Some(uid) = uid {
            value["reservedBy"]["uid"] = uid.into();
        }
        return Ok((namespace, value));
    }
    if !fields.contains_key("kind") || !fields.contains_key("apiVersion") {
        return Err(Failure::general(
            "neither an object (apiVersion, kind) nor a reservation (reservedBy)",
        ));
    }
    let namespace = session.scope.of_document(Some(text(&value, "/metadata/namespace")))?;
    let mut holder = Map::new();
    for (field, pointer) in [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("name", "/metadata/name"),
        ("uid", "/metadata/uid"),
    ] {
        let found = text(&value, pointer);
        if !found.is_empty() {
            holder.insert(field.to_owned(), found.into());
        }
    }
    if let Some(uid) = uid {
        holder.insert("uid".to_owned(), uid.into());
    }
    Ok((namespace, json!({ "reservedBy": holder, "object": value })))
}

fn holder_of(args: &Reserve, uid: &Uid) -> Holder<'static> {
    let [api_version, kind, name] =
        [&args.api_version, &args.kind, &args.name].map(|it| it.as_deref().unwrap_or_default());
    Holder::new(api_version, kind, name, uid.clone())
}

fn ask(session: &Session, namespace: &str, request: &impl Serialize) -> Outcome {
    let address = Address::in_namespace(namespace, ["reservations"]);
    let reply = session.client.send_json(Method::POST, &address, request)?;
    note_warnings(&reply.headers);
    let repeated = reply.headers.get("idempotency-replayed").is_some_and(|value| value == "true");
    let done = if repeated { "granted before" } else { "granted" };
    show(session, &reply, done)
}

/// The path of a reservation, or of an action on it.
///
/// # Errors
/// If all namespaces are selected.
pub(crate) fn one<const N: usize>(session: &Session, rest: [&str; N]) -> Outcome<Address> {
    let namespace = session.scope.of_one("a reservation")?;
    let segments = ["reservations"].into_iter().chain(rest);
    Ok(Address::in_namespace(namespace, segments))
}

/// `extend`.
pub(crate) fn extend(session: &Session, uid: &str, ttl: Period) -> Outcome {
    let address = one(session, [uid, "extend"])?;
    let body = json!({ "ttl": ttl.to_string() });
    let reply = session.client.send_json(Method::POST, &address, &body)?;
    show(session, &reply, "extended")
}

/// `commit`.
pub(crate) fn commit(session: &Session, uid: &str, request: Option<&ResourceList>) -> Outcome {
    let address = one(session, [uid, "commit"])?;
    let client = &session.client;
    let reply = match request {
        Some(request) => {
            client.send_json(Method::POST, &address, &json!({ "reserved": request }))?
        }
        None => client.call(Method::POST, &address)?,
    };
    show(session, &reply, "committed")
}

/// `release`.
pub(crate) fn release(session: &Session, uid: &str) -> Outcome {
    let address = one(session, [uid])?;
    session.client.call(Method::DELETE, &address)?;
    if session.output.is_structured() {
        // The answer is empty.
        return session.output.value(&json!({
            "namespace": session.scope.namespace(),
            "reservedBy": {"uid": uid},
            "state": "released",
        }));
    }
    session.output.line(format!("reservation/{uid} released"))
}

fn show(session: &Session, reply: &Reply, done: &str) -> Outcome {
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    let reservation: Reservation<'static> = reply.read()?;
    let uid = &reservation.reserved_by.uid;
    session.output.line(match &*reservation.state {
        "pending" => {
            let end = reservation.expiration_time;
            format!("reservation/{uid} {done}, held until {end}")
        }
        state if state == done => format!("reservation/{uid} {done}"),
        state => format!("reservation/{uid} {done} ({state})"),
    })
}

/// The object of a reservation, as `Pod/web`; empty if the reservation has only a uid.
pub(crate) fn holder(holder: &Holder<'_>) -> String {
    named(&holder.kind, &holder.name)
}

/// Kind and name as `Pod/web`; parts that are empty are left out.
pub(crate) fn named(kind: &str, name: &str) -> String {
    match (kind, name) {
        ("", name) => name.to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind}/{name}"),
    }
}

/// Checks each document; fails with [`Exit::Denied`] if one does not fit.
pub(crate) fn check(session: &Session, args: &Check) -> Outcome {
    each(manifest::load(&args.files.files)?, |document| {
        let place = document.place.clone();
        check_one(session, document, args.pods).map_err(|failure| failure.about(place))
    })
}

fn check_one(session: &Session, document: Document, with_pods: bool) -> Outcome {
    let (namespace, body) = body_of(session, document, None)?;
    let address = Address::in_namespace(&namespace, ["check"]);
    let reply = session.client.send_json(Method::POST, &address, &body)?;
    note_warnings(&reply.headers);
    let verdict: Verdict<'static> = reply.read()?;
    session.note_lag(verdict.lagging);
    let pods = verdict.pods.as_ref().filter(|_| with_pods);
    let short = pods.filter(|pods| pods.fit < pods.replicas);
    if session.output.is_structured() {
        session.output.value(&reply.json)?;
    } else {
        let of = |field| text(&body, field);
        let what = named(of("/reservedBy/kind"), of("/reservedBy/name"));
        session.output.line(summary(&what, &verdict, pods))?;
        let quotas = match short {
            Some(pods) if verdict.fits => &pods.quotas,
            _ => &verdict.quotas,
        };
        let rows = match session.output.is_wide() {
            true => Rows::All,
            false => Rows::Failed,
        };
        if let Some(table) = checked_quotas(quotas, rows) {
            session.output.table(&table)?;
        }
    }
    if verdict.fits && short.is_none() { Ok(()) } else { Err(Failure::silent(Exit::Denied)) }
}

fn summary(what: &str, verdict: &Verdict<'_>, pods: Option<&PodsVerdict<'_>>) -> String {
    let what = if what.is_empty() { "it" } else { what };
    if !verdict.fits {
        return match why([&verdict.detail, &verdict.reason]) {
            Some(why) => format!("{what} does not fit: {why}"),
            None => format!("{what} does not fit"),
        };
    }
    let Some(PodsVerdict { replicas, fit, reason, detail, .. }) = pods else {
        return format!("{what} fits");
    };
    let noun = if *replicas == 1 { "pod" } else { "pods" };
    if fit == replicas {
        return match replicas {
            0 => format!("{what} fits, without any pods"),
            1 => format!("{what} fits, and so does its pod"),
            _ => format!("{what} fits, and so do its {replicas} {noun}"),
        };
    }
    let why = why([detail, reason]).map_or_else(String::new, |why| format!(": {why}"));
    match replicas {
        1 => format!("{what} fits; its pod would not{why}"),
        _ => format!("{what} fits; {fit} of its {replicas} {noun} would{why}"),
    }
}

fn why<'a>(texts: [&'a Option<Cow<'_, str>>; 2]) -> Option<&'a str> {
    let mut texts = texts.into_iter().flatten();
    texts.find(|why| !why.is_empty()).map(|why| &**why)
}
