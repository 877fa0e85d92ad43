//! Events: the latest denials, and the pending reservations, so that whoever has kubectl alone sees why a request was
//! denied and what is held. Events are where users of Kubernetes look for that, and every kubectl knows them. They are
//! read-only, and not entries of the ledger.

use axum::{extract, response::Response};
use quota_client::wire::Denial;
use quota_core::{event::Reservation, state::State};
use quota_semantics::{Name, Timestamp};
use serde_json::{Value, json};

use super::{
    Caller, Kube, VERSION,
    accept::Shape,
    params::Params,
    read::{large, read_permit},
    status::{Failure, Result},
    table,
};
use crate::{
    auth::Reader,
    clock::now,
    denials::Query,
    fairness::{NAMES_AT_ONCE, Turn},
    routes::Target,
};

/// The kind's plural in paths.
pub(super) const PLURAL: &str = "events";
/// The kind.
pub(super) const KIND: &str = "Event";

/// Most events of each sort in one list.
const MOST: usize = 500;

/// An event.
struct Event {
    name: String,
    namespace: Name,
    time: Timestamp,
    /// Whether something was denied.
    is_warning: bool,
    reason: String,
    message: String,
    /// The apiVersion, the kind or plural, the name and the uid of its object.
    object: [String; 4],
}

/// `GET /api/v1/namespaces/{namespace}/events`
pub(super) async fn list(
    extract::State(kube): extract::State<Kube>,
    Target([namespace]): Target<1>,
    caller: Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    answer(kube, Some(namespace), Reader::default(), caller, shape, params).await
}

/// `GET /api/v1/events`: of the namespaces that the caller may read.
pub(super) async fn list_all(
    extract::State(kube): extract::State<Kube>,
    reader: Reader,
    caller: Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    answer(kube, None, reader, caller, shape, params).await
}

async fn answer(
    kube: Kube,
    namespace: Option<Name>,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    let (labels, fields) = (params.labels()?, params.fields()?);
    let permit = read_permit(&actor)?;
    let mut events = kube.denied(namespace.clone(), reader.clone()).await;
    let (held, head) = kube.held(namespace, &reader).await?;
    params.check_version(head)?;
    events.extend(held);
    // An event has no labels.
    let none = std::collections::BTreeMap::new();
    events.retain(|event| fields.matches(&event.namespace, &event.name) && labels.matches(&none));
    events.sort_by_key(|event| std::cmp::Reverse(event.time));
    let metadata = json!({"resourceVersion": head.to_string()});
    let amounts = events.len();
    let make = move |turn: &Turn| {
        let attachment = shape.attachment(&params)?;
        let now = now();
        let items = events.iter().map(|event| {
            turn.pause();
            shape.item(event.to_json(), attachment, || event.cells(now))
        });
        Ok(shape.list((KIND, VERSION), &metadata, columns, items.collect()))
    };
    large(&permit, amounts, make).await
}

impl Kube {
    /// The latest denials.
    async fn denied(&self, namespace: Option<Name>, reader: Reader) -> Vec<Event> {
        let query = Query { namespace, reader, before: None, limit: MOST };
        let Some(denials) = self.0.ledger.denials() else {
            return Vec::new();
        };
        let kept = denials.list(query).await;
        // A denial that was decided on entries that are not durable yet could still be lost with them.
        let durable = self.0.ledger.durable().sequence;
        let kept = kept.iter().filter(|denial| denial.sequence <= durable);
        let read = kept.filter_map(|denial| serde_json::from_str(denial.json.get()).ok());
        read.map(Event::of_denial).collect()
    }

    /// The first pending reservations, and the head of the state.
    async fn held(&self, namespace: Option<Name>, reader: &Reader) -> Result<(Vec<Event>, u64)> {
        let some_of = |state: &State, names: &[Name], room: usize| -> Vec<Event> {
            let pending = names.iter().flat_map(|name| state.some_pending(name, room));
            pending.take(room).map(Event::of_reservation).collect()
        };
        if let Some(namespace) = namespace {
            return self.read(|state| some_of(state, &[namespace], MOST)).await;
        }
        let (mut events, mut after, mut head) = (Vec::new(), Name::default(), None);
        loop {
            let room = MOST - events.len();
            let some = |state: &State| {
                let names: Vec<Name> =
                    state.namespaces(&after).take(NAMES_AT_ONCE).cloned().collect();
                let readable = names.iter().filter(|name| reader.reads(name)).cloned();
                let readable: Vec<Name> = readable.collect();
                (some_of(state, &readable, room), names)
            };
            let ((some, names), at) = self.read(some).await?;
            let head = *head.get_or_insert(at);
            events.extend(some);
            match names.last() {
                Some(last) if names.len() == NAMES_AT_ONCE && events.len() < MOST => {
                    after = last.clone();
                }
                _ => return Ok((events, head)),
            }
            tokio::task::yield_now().await;
        }
    }
}

impl Event {
    fn of_denial(denial: Denial) -> Self {
        let object = denial.object;
        Self {
            name: format!("denial-{}", denial.id),
            namespace: denial.namespace,
            time: denial.time,
            is_warning: true,
            reason: denial.reason.into_owned(),
            message: denial.detail,
            object: [String::new(), object.resource, object.name.into(), object.uid.to_string()],
        }
    }

    fn of_reservation(reservation: &Reservation) -> Self {
        let kind = match &*reservation.kind {
            "" => &reservation.resource,
            _ => &reservation.kind,
        };
        Self {
            name: format!("reservation-{}", reservation.uid),
            namespace: reservation.namespace.clone(),
            time: reservation.created,
            is_warning: false,
            reason: "Reserved".to_owned(),
            message: format!(
                "{} held until {}",
                reservation.footprint.resources.pretty(),
                reservation.expiration
            ),
            object: [
                reservation.api_version.to_string(),
                kind.to_string(),
                reservation.name.to_string(),
                reservation.uid.to_string(),
            ],
        }
    }

    const fn kind(&self) -> &'static str {
        match self.is_warning {
            true => "Warning",
            false => "Normal",
        }
    }

    fn to_json(&self) -> Value {
        let [api_version, kind, name, uid] = &self.object;
        let mut object =
            json!({"kind": kind, "namespace": self.namespace, "name": name, "uid": uid});
        if !api_version.is_empty() {
            object["apiVersion"] = json!(api_version);
        }
        json!({
            "apiVersion": VERSION,
            "kind": KIND,
            "metadata": {
                "name": self.name, "namespace": self.namespace, "creationTimestamp": self.time,
            },
            "involvedObject": object,
            "reason": self.reason,
            "message": self.message,
            "type": self.kind(),
            "firstTimestamp": self.time,
            "lastTimestamp": self.time,
            "count": 1,
            "source": {"component": "quotad"},
        })
    }

    /// The cells of `kubectl get events`.
    fn cells(&self, now: Timestamp) -> Value {
        let [_, kind, name, uid] = &self.object;
        let name = if name.is_empty() { uid } else { name };
        let object = format!("{}/{name}", kind.to_lowercase());
        let age = quota_client::table::span(now.since(self.time));
        json!([age, self.kind(), self.reason, object, self.message])
    }
}

fn columns() -> Value {
    json!([
        table::column("Last Seen", "", "The time since the denial or the grant."),
        table::column("Type", "", "Warning: a denial. Normal: a reservation."),
        table::column("Reason", "", "Why the request was denied."),
        table::column("Object", "", "The object of the request."),
        table::column("Message", "", "The message of the denial, or what is held and until when."),
    ])
}
