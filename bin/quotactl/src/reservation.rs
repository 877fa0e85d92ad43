//! Reservations: asked for, extended, committed, released, and how they are shown.

use http::Method;
use quota_client::{
    http::Address,
    wire::{Holder, Reservation},
};
use serde_json::{Map, Value, json};

use super::{
    apply::note_warnings,
    args::{Amounts, Reserve},
    client::read,
    failure::{Failure, Outcome},
    get::plain,
    manifest::{self, Document},
    session::{Session, each, text},
};
use quota_semantics::Period;

/// `reserve`.
pub(crate) fn reserve(session: &Session, args: &Reserve) -> Outcome {
    if let (Some(request), Some(uid)) = (&args.request, &args.uid) {
        let holder = holder_of(args, uid);
        let mut body = json!({ "reservedBy": holder, "reserved": request });
        set_ttl(&mut body, args.ttl);
        return ask(session, session.scope.namespace(), &body);
    }
    let documents = manifest::load(&args.files)?;
    if args.uid.is_some() && documents.len() > 1 {
        return Err(Failure::usage(
            "--uid is for one object, but there are several in -f",
        ));
    }
    each(documents, |document| {
        let place = document.place.clone();
        let one = || -> Outcome {
            let (namespace, mut body) = body_of(session, document, args.uid.as_deref())?;
            if text(&body, "/reservedBy/uid").is_empty() {
                return Err(Failure::usage("the object has no metadata.uid")
                    .hint("--uid says by which uid the ledger will know it"));
            }
            set_ttl(&mut body, args.ttl);
            ask(session, &namespace, &body)
        };
        one().map_err(|failure| failure.about(place))
    })
}

/// Namespace and body of the request that a document stands for: it is one, or it is the object to reserve for.
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
        let namespace = session
            .scope
            .of_document(own.as_ref().and_then(Value::as_str))?;
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
    let namespace = session
        .scope
        .of_document(Some(text(&value, "/metadata/namespace")))?;
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

fn holder_of(args: &Reserve, uid: &str) -> Value {
    let mut holder = json!({ "uid": uid });
    let fields = [
        ("apiVersion", &args.api_version),
        ("kind", &args.kind),
        ("name", &args.name),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            holder[field] = value.as_str().into();
        }
    }
    holder
}

fn set_ttl(body: &mut Value, ttl: Option<Period>) {
    if let Some(ttl) = ttl {
        body["ttl"] = ttl.to_string().into();
    }
}

fn ask(session: &Session, namespace: &str, body: &Value) -> Outcome {
    let address = Address::in_namespace(namespace, ["reservations"]);
    let reply = session
        .client
        .send_json(Method::POST, &address, Some(body))?;
    note_warnings(&reply.headers);
    let repeated = reply
        .headers
        .get("idempotency-replayed")
        .is_some_and(|value| value == "true");
    let done = if repeated {
        "granted before"
    } else {
        "granted"
    };
    told(session, &reply.body, done)
}

/// `extend`.
pub(crate) fn extend(session: &Session, uid: &str, ttl: Period) -> Outcome {
    let address = Address::in_namespace(session.scope.namespace(), ["reservations", uid, "extend"]);
    let body = json!({ "ttl": ttl.to_string() });
    let reply = session
        .client
        .send_json(Method::POST, &address, Some(&body))?;
    told(session, &reply.body, "extended")
}

/// `commit`.
pub(crate) fn commit(session: &Session, uid: &str, request: Option<&Amounts>) -> Outcome {
    let address = Address::in_namespace(session.scope.namespace(), ["reservations", uid, "commit"]);
    let body = request.map(|request| json!({ "reserved": request }));
    let reply = session
        .client
        .send_json(Method::POST, &address, body.as_ref())?;
    told(session, &reply.body, "committed")
}

/// `release`.
pub(crate) fn release(session: &Session, uid: &str) -> Outcome {
    let address = Address::in_namespace(session.scope.namespace(), ["reservations", uid]);
    session.client.send_json(Method::DELETE, &address, None)?;
    session.output.line(format!("reservation/{uid} released"))
}

fn told(session: &Session, answer: &Value, done: &str) -> Outcome {
    if session.output.is_structured() {
        return session.output.value(answer);
    }
    let reservation: Reservation<'static> = read(answer)?;
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

/// What a reservation is for, as `Pod/web`; empty if only the uid is known.
pub(crate) fn holder(holder: &Holder<'_>) -> String {
    named(&holder.kind, &holder.name)
}

/// Kind and name as `Pod/web`, as far as they are there.
pub(crate) fn named(kind: &str, name: &str) -> String {
    match (kind, name) {
        ("", name) => name.to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind}/{name}"),
    }
}

/// Quantities by resource, as `cpu=1,pods=1`.
pub(crate) fn list(amounts: Option<&Map<String, Value>>) -> String {
    let amount = |(resource, amount): (&String, &Value)| format!("{resource}={}", plain(amount));
    amounts
        .into_iter()
        .flatten()
        .map(amount)
        .collect::<Vec<_>>()
        .join(",")
}
