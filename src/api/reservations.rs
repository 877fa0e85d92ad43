//! Making and reading reservations.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use quota_ledger::{
    Timestamp, decide,
    event::{Actor, Reservation, Sequence},
    resource::ResourceList,
    state::{self, End, Head, Promise},
    uid::Uid,
};
use serde::Serialize;

use super::{
    App, Caller, answer,
    body::JsonText,
    measure::{Operation, decided, measured},
    page::{Page, PageQuery, Params, Target, token},
    problem::{Problem, Reason},
    wish::Wish,
};
use crate::{
    denials::Denials,
    writer::{self, Sitting},
};

/// The object that a reservation is for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HolderView<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    uid: &'a Uid,
}

impl<'a> From<&'a Reservation> for HolderView<'a> {
    fn from(reservation: &'a Reservation) -> Self {
        Self {
            api_version: &reservation.api_version,
            kind: &reservation.kind,
            name: &reservation.name,
            uid: &reservation.uid,
        }
    }
}

/// A reservation, as it is shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown<'a> {
    namespace: &'a str,
    reserved_by: HolderView<'a>,
    reserved: &'a ResourceList,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'static str>,
    created_time: Timestamp,
    expiration_time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Head>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lagging: bool,
}

impl<'a> From<&'a Promise> for Shown<'a> {
    fn from(promise: &'a Promise) -> Self {
        Self::of(&promise.reservation, promise.end)
    }
}

impl<'a> Shown<'a> {
    fn of(reservation: &'a Reservation, end: Option<(End, Timestamp)>) -> Self {
        let (state, detail) = match end {
            None => ("pending", None),
            Some((End::Observed, _)) => ("observed", None),
            Some((End::Committed, _)) => ("committed", None),
            Some((End::Released, _)) => ("released", None),
            Some((End::Superseded, _)) => (
                "released",
                Some("a newer reservation for the same name took its place"),
            ),
            Some((End::Expired, _)) => ("expired", None),
        };
        Self {
            namespace: &reservation.namespace,
            reserved_by: reservation.into(),
            reserved: &reservation.footprint.resources,
            state,
            detail,
            created_time: reservation.created,
            expiration_time: reservation.expiration,
            ended_time: end.map(|(_, time)| time),
            as_of: None,
            lagging: false,
        }
    }
}

/// The answer that shows one reservation.
pub(super) fn show(app: &App, status: StatusCode, promise: &Promise, head: Head) -> Response {
    let shown = Shown {
        as_of: Some(head),
        lagging: app.lags(),
        ..Shown::from(promise)
    };
    let mut text = String::with_capacity(answer::ANSWER_BYTES);
    match shown.write(&mut text) {
        Ok(()) => answer::written(status, text.into()),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

impl Shown<'_> {
    /// The same text that serde makes of it, in a fraction of the time: this is the answer that most callers wait for.
    fn write(&self, out: &mut String) -> fmt::Result {
        out.push('{');
        self.write_fields(out)?;
        out.push('}');
        Ok(())
    }

    /// The fields alone, for an object that has others before them.
    pub(super) fn write_fields(&self, out: &mut String) -> fmt::Result {
        let HolderView {
            api_version,
            kind,
            name,
            uid,
        } = &self.reserved_by;
        field(out, "\"namespace\":", self.namespace);
        out.push_str(",\"reservedBy\":{");
        for (key, text) in [
            ("\"apiVersion\":", api_version),
            ("\"kind\":", kind),
            ("\"name\":", name),
        ] {
            if !text.is_empty() {
                field(out, key, text);
                out.push(',');
            }
        }
        field(out, "\"uid\":", &uid.to_string());
        out.push_str("},\"reserved\":{");
        for (index, (name, quantity)) in self.reserved.iter().enumerate() {
            field(out, if index > 0 { "," } else { "" }, name);
            quoted(out, ":", quantity)?;
        }
        field(out, "},\"state\":", self.state);
        if let Some(detail) = self.detail {
            field(out, ",\"detail\":", detail);
        }
        quoted(out, ",\"createdTime\":", &self.created_time)?;
        quoted(out, ",\"expirationTime\":", &self.expiration_time)?;
        if let Some(ended) = &self.ended_time {
            quoted(out, ",\"endedTime\":", ended)?;
        }
        if let Some(head) = &self.as_of {
            write_head(out, head)?;
        }
        if self.lagging {
            out.push_str(LAGGING);
        }
        Ok(())
    }
}

/// The field that tells that a source is behind, behind other fields.
pub(super) const LAGGING: &str = ",\"lagging\":true";

/// Appends how far the ledger was, behind other fields.
pub(super) fn write_head(out: &mut String, Head { sequence, time }: &Head) -> fmt::Result {
    write!(out, ",\"asOf\":{{\"sequence\":{sequence}")?;
    quoted(out, ",\"time\":", time)?;
    out.push('}');
    Ok(())
}

/// Appends a field whose value never holds what has to be escaped.
fn quoted(out: &mut String, key: &str, value: &impl fmt::Display) -> fmt::Result {
    out.push_str(key);
    out.push('"');
    write!(out, "{value}")?;
    out.push('"');
    Ok(())
}

/// Appends a field that may hold any text.
fn field(out: &mut String, key: &str, text: &str) {
    out.push_str(key);
    let is_escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    // All of it, since that is quicker than to look for the first.
    if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
        out.push_str(&serde_json::Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// A wish that was granted.
pub(super) struct Granted {
    pub(super) promise: Promise,
    pub(super) replayed: bool,
}

/// Grants a wish at the desk, or says why not.
pub(super) fn grant(
    sitting: &mut Sitting<'_>,
    actor: &Arc<Actor>,
    request: &decide::Filed,
    denials: Option<&Denials>,
) -> Result<Granted, Problem> {
    let desk = &mut sitting.desk;
    let reserved = decide::reserve(desk.state(), desk.now(), request, sitting.policy);
    let reserved = reserved.inspect_err(|refusal| {
        if let Some(denials) = denials {
            denials.note(actor, request, refusal, desk.state().head());
        }
    })?;
    desk.record(actor, reserved.events);
    Ok(Granted {
        promise: remembered(desk.state(), &request.uid)?,
        replayed: reserved.replayed,
    })
}

/// A reservation that was granted just now or before.
pub(super) fn remembered(state: &state::State, uid: &Uid) -> Result<Promise, Problem> {
    let promise = state.promise(uid);
    promise.ok_or_else(|| Problem::internal(&"a granted reservation is not remembered"))
}

/// `POST /v1/namespaces/{namespace}/reservations`
pub(super) async fn create(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    reserve(&app, &namespace, actor, &text).await
}

/// Reserves what a body asks for.
pub(super) async fn reserve(
    app: &App,
    namespace: &str,
    actor: Arc<Actor>,
    text: &JsonText,
) -> Response {
    let granted = measured(Operation::Reserve, async {
        app.may_grant()?;
        let request = text
            .read::<Wish<'_>>()?
            .request(app, namespace, writer::now(), None)?;
        // Here, since all others wait for the thread that decides; and kept, so that it is freed here.
        request.digest();
        let request = Arc::new(request);
        let denials = app.ledger.denials().cloned();
        let decided = request.clone();
        let decision = app.ledger.decide(move |sitting| {
            let granted = grant(sitting, &actor, &decided, denials.as_ref());
            (granted, sitting.desk.state().head())
        });
        let (granted, head) = decision.await?;
        granted
            .map(|granted| (granted, head))
            .map_err(|problem| problem.as_of(head))
    });
    let granted = granted.await;
    match &granted {
        Ok((granted, _)) => decided(None, granted.replayed),
        Err(problem) => decided(Some(problem), false),
    }
    match granted {
        Ok((granted, head)) => created(app, &granted, head),
        Err(problem) => problem.into_response(),
    }
}

fn created(app: &App, granted: &Granted, head: Head) -> Response {
    if granted.replayed {
        let mut response = show(app, StatusCode::OK, &granted.promise, head);
        response
            .headers_mut()
            .insert("idempotency-replayed", HeaderValue::from_static("true"));
        return response;
    }
    let mut response = show(app, StatusCode::CREATED, &granted.promise, head);
    let reservation = &granted.promise.reservation;
    let uid = reservation.uid.to_string();
    let location = answer::location(&[
        ("/v1/namespaces/", &reservation.namespace),
        ("/reservations/", &uid),
    ]);
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// `GET /v1/namespaces/{namespace}/reservations/{uid}`
pub(super) async fn get(
    State(app): State<App>,
    Target((namespace, uid)): Target<(String, String)>,
) -> Result<Response, Problem> {
    let not_found = || Problem::new(Reason::NotFound, format!("reservation {uid:?} not found"));
    let known = Uid::new(&uid).map_err(|_| not_found())?;
    let found = app
        .ledger
        .read(|state| (state.promise(&known), state.head()));
    let (promise, head) = found.await?;
    let promise = promise
        .filter(|promise| promise.reservation.namespace == *namespace)
        .ok_or_else(not_found)?;
    Ok(show(&app, StatusCode::OK, &promise, head))
}

/// `GET /v1/namespaces/{namespace}/reservations`: the pending ones, in the order in which they were granted.
pub(super) async fn list(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let limit = query.limit(app.page)?;
    let after: Sequence = query.after()?.unwrap_or(0);
    let pending = app
        .ledger
        .read(|state| (state.pending(&namespace), state.head()));
    let (mut pending, head) = pending.await?;
    // The entry that granted it stays the same, whatever is extended or ends between two pages.
    pending.retain(|view| view.entry > after);
    pending.sort_unstable_by_key(|view| view.entry);
    let more = pending.len() > limit;
    pending.truncate(limit);
    let last = pending
        .last()
        .filter(|_| more)
        .map(|view| token(&view.entry))
        .transpose()?;
    let items = pending
        .iter()
        .map(|view| Shown::of(&view.reservation, view.end))
        .collect();
    Ok(answer::ok(&Page {
        items,
        next: last,
        as_of: head,
        lagging: app.lags(),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quota_ledger::{Span, quantity::Quantity};

    use super::*;

    proptest! {
        #[test]
        fn it_is_shown_as_serde_would(
            texts in prop::array::uniform4(".{0,8}"),
            uid in "[!-~]{1,40}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            reserved in prop::collection::btree_map("[a-z./\"]{1,12}", "[1-9][0-9]{0,20}(m|k|Mi|e3|)", 0..4),
            times in prop::array::uniform4(any::<i64>()),
            options in prop::array::uniform4(any::<bool>()),
            sequence: u64,
        ) {
            let uid = Uid::new(&uid).unwrap();
            let reserved: ResourceList = reserved
                .iter()
                .map(|(name, text)| (name.as_str().into(), text.parse::<Quantity>().unwrap()))
                .collect();
            let [created_time, expiration_time, ended, time] =
                times.map(Timestamp::from_nanoseconds);
            let [detailed, over, known, lagging] = options;
            let shown = Shown {
                namespace: &texts[0],
                reserved_by: HolderView {
                    api_version: &texts[1],
                    kind: &texts[2],
                    name: &texts[3],
                    uid: &uid,
                },
                reserved: &reserved,
                state: "pending",
                detail: detailed.then_some("a \"newer\" one"),
                created_time,
                expiration_time: expiration_time.plus(Span::ZERO),
                ended_time: over.then_some(ended),
                as_of: known.then_some(Head { sequence, time }),
                lagging,
            };
            let mut text = String::new();
            shown.write(&mut text).unwrap();
            prop_assert_eq!(text, serde_json::to_string(&shown).unwrap());
        }
    }
}
