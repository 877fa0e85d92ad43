//! Makes and reads reservations: the request, the decision, its metrics.

use std::{fmt, future::Future, sync::Arc, time::Instant};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::{HeaderValue, StatusCode, header};
use quota_client::wire::{AsOf, Reservation};
use quota_core::{
    decide::{self, Audience, Basis, Decision, Notice, Policy, Refusal, Request, Requester},
    event::{Actor, Sequence},
    state::{self, Head, ReservationPlace, ReservationState, ReservationStatus, ReservationsView},
    transaction::WriteTransaction,
};
use quota_semantics::{
    Name, Timestamp,
    object::{
        Footprint, GroupResource, NoContext, Object, STEPS_MAX, TypeMeta, plural, short_name,
    },
    quantity::Quantity,
    resource::ResourceList,
    syntax::{self, MAX_SUBDOMAIN},
    uid::Uid,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    App, Caller, JsonText, Page, Params, Target, When,
    lifecycle::{not_found, parse_uid},
    problem::{FieldProblem, Problem, Reason},
    token,
};
pub(super) use crate::metrics::Operation;
use crate::{
    auth::{Principal, requester},
    config::{Period, RESERVATION_RESOURCES_MAX},
    denials::{Denials, Denied},
    fairness::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, Turn, make_sized},
    log_limiter::{LogLimiter, shortened},
    metrics::{self, Decision as DecisionLabel},
    render::reservation::{item, whole, write},
    server::warn,
    writer::{DecisionContext, For},
};

/// The response for one reservation.
pub(super) fn show(
    app: &App,
    status: StatusCode,
    reservation: &ReservationStatus,
    head: Head,
) -> Response {
    show_with(app, status, reservation, &[], head)
}

fn show_with(
    app: &App,
    status: StatusCode,
    reservation: &ReservationStatus,
    warnings: &[String],
    Head { sequence, time }: Head,
) -> Response {
    let reservation = Reservation {
        as_of: Some(AsOf { sequence, time }),
        lagging: app.lags(),
        ..whole(reservation, warnings)
    };
    let mut text = Vec::with_capacity(super::ANSWER_BYTES);
    write(&reservation, &mut text);
    super::written(status, text)
}

/// A granted request.
pub(super) struct Granted {
    pub(super) status: ReservationStatus,
    pub(super) replayed: bool,
    /// Warnings for the caller.
    pub(super) warnings: Vec<String>,
}

/// A decision as the answer tells it.
pub(super) fn granted(decided: Result<Decision, Refusal>) -> Result<Granted, Problem> {
    let Decision { status, replayed, notices, unlimited, .. } = decided?;
    let status =
        status.ok_or_else(|| Problem::internal(&"a granted reservation is not remembered"))?;
    let warnings = warnings(&status.reservation.namespace, &notices, &unlimited);
    Ok(Granted { status, replayed: replayed.is_some(), warnings })
}

/// Decides a request, and notes for auditors what was decided, whether or not the caller still waits.
pub(super) fn reserve(
    transaction: &mut WriteTransaction<'_>,
    policy: &Policy,
    actor: &Arc<Actor>,
    by: &Requester,
    request: &Request,
    denials: Option<&Denials>,
) -> Result<Decision, Refusal> {
    let decided = transaction.reserve(actor, by, request, policy);
    match (&decided, denials) {
        (Ok(decision), _) => note(&decision.notices),
        (Err(refusal), Some(denials)) => {
            denials.note(actor, request, refusal, transaction.state().head());
        }
        (Err(_), None) => {}
    }
    decided
}

/// Warnings for the caller.
pub(super) fn warnings(namespace: &str, notices: &[Notice], unlimited: &[Name]) -> Vec<String> {
    let for_caller = |notice: &&Notice| notice.audience == Audience::Caller;
    let messages = notices.iter().filter(for_caller);
    decide::warning_of_unlimited(namespace, unlimited)
        .into_iter()
        .chain(messages.map(|notice| notice.message.clone()))
        .collect()
}

/// Exceeded limits that are logged per second.
static EXCEEDED: LogLimiter = LogLimiter::new(10);

/// Logs and counts notices for auditors.
pub(super) fn note(notices: &[Notice]) {
    let for_auditors = |notice: &&Notice| notice.audience == Audience::Auditors;
    for notice in notices.iter().filter(for_auditors) {
        metrics::limit_passed();
        if let Some(held_back) = EXCEEDED.pass() {
            let message = shortened(&notice.message);
            tracing::info!(quota = %notice.quota, message, held_back, "a limit that is not enforced was exceeded");
        }
    }
}

/// `POST /v1/namespaces/{namespace}/reservations`
pub(super) async fn create(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    principal: Principal,
    Caller(actor): Caller,
    text: JsonText,
) -> Response {
    let by = requester(&actor, &principal, &namespace);
    let granted = measured(Operation::Reserve, async {
        app.may_grant()?;
        let (reading, place) = (app.clone(), namespace.clone());
        let amounts = text.len() / BYTES_PER_AMOUNT;
        let read = move |_: &Turn| read(&reading, &text, &place);
        let request = make_sized(&actor.principal, amounts, read).await??;
        let denials = app.ledger.denials().cloned();
        let principal = actor.principal.clone();
        let decide = move |context: &mut DecisionContext<'_>, request: &_| {
            let DecisionContext { transaction, policy, .. } = context;
            let decided = reserve(transaction, policy, &actor, &by, request, denials.as_ref());
            (decided, transaction.state().head())
        };
        let ledger = &app.ledger;
        let decision = ledger.decide_about(For::Principal(&principal), request.clone(), decide);
        let (decided, head) = decision.await?;
        match granted(decided) {
            Ok(granted) => Ok((granted, head)),
            Err(problem) => {
                log_denied(&request, &problem, head.sequence);
                Err(problem.as_of(head))
            }
        }
    })
    .await;
    match &granted {
        Ok((granted, _)) => decided(None, granted.replayed),
        Err(problem) => decided(Some(problem), false),
    }
    match granted {
        Ok((granted, head)) => created(&app, &granted, head),
        // What one denial shows is bounded, so that its answer need not wait for a turn.
        Err(problem) => problem.into_response(),
    }
}

/// The request of a body. It is shared, so that it is freed here, not on the decider thread, which all other jobs wait
/// for.
fn read(app: &App, text: &JsonText, namespace: &Name) -> Result<Arc<Request>, Problem> {
    let request = text.read::<ReserveRequest<'_>>()?;
    request.request(app, namespace, crate::now(), None).map(Arc::new)
}

fn created(app: &App, granted: &Granted, head: Head) -> Response {
    if granted.replayed {
        let mut response = show(app, StatusCode::OK, &granted.status, head);
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
        return response;
    }
    let Granted { status, warnings, .. } = granted;
    let mut response = show_with(app, StatusCode::CREATED, status, warnings, head);
    let reservation = &granted.status.reservation;
    let uid = reservation.uid.to_string();
    let location =
        super::location(&[("/v1/namespaces/", &reservation.namespace), ("/reservations/", &uid)]);
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    warn(response.headers_mut(), &granted.warnings);
    response
}

/// `GET /v1/namespaces/{namespace}/reservations/{uid}`
pub(super) async fn get(
    State(app): State<App>,
    Target([namespace, uid]): Target<2>,
) -> Result<Response, Problem> {
    let parsed = parse_uid(&uid)?;
    let found =
        app.ledger.read(|state| (state.reservation_status(&namespace, &parsed), state.head()));
    let (status, head) = found.await?;
    let status = status.ok_or_else(|| not_found(&uid))?;
    Ok(show(&app, StatusCode::OK, &status, head))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListQuery {
    #[serde(default)]
    state: ReservationState,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/namespaces/{namespace}/reservations`: the pending ones, or those in another `state`; of now, or `?at=TIME`,
/// or `?sequence=N`.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<ListQuery>,
) -> Result<Response, Problem> {
    let limit = super::limit(query.limit, app.page)?;
    // Pages are ordered by the entry that granted or ended a reservation, which stays the same between two pages.
    let after: ReservationPlace = super::after(query.after.as_deref())?.unwrap_or_default();
    let when = When { at: query.at, sequence: query.sequence };
    let copied = move |state: &state::State| {
        let view = state.reservations_view(&namespace, query.state, after);
        (view, state.head())
    };
    // All of them are scanned, but outside the lock of the state. A few reservations may have many amounts.
    let amounts = |(view, _): &(ReservationsView, Head)| view.amounts(AMOUNTS_AT_ONCE);
    let make = move |(view, head): (ReservationsView, Head), lagging, turn: &Turn| {
        let (reservations, next) = view.page(after, limit, || turn.pause());
        let items = reservations.iter();
        Ok(super::large(
            turn,
            &Page {
                items: items.map(|(reservation, end)| item(reservation, *end)).collect(),
                next: next.as_ref().map(token).transpose()?,
                as_of: super::as_of(head),
                lagging,
            },
        ))
    };
    super::answer(&app, &actor.principal, &when, copied, amounts, make).await?
}

// The body of a reservation request, and the request for capacity that it describes.

/// Most names that the requests of a batch share.
const SHARED_MAX: usize = 16;

/// A request to reserve capacity.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ReserveRequest<'a> {
    /// Required only in a batch: elsewhere the path names the namespace.
    pub(super) namespace: Option<Name>,
    reserved_by: Option<Holder>,
    #[serde(borrow)]
    reserved: Option<Amounts<'a>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    ttl: Option<String>,
}

/// The object that capacity is reserved for; an empty text counts as absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Holder {
    #[serde(deserialize_with = "or_null")]
    api_version: Name,
    #[serde(deserialize_with = "or_null")]
    kind: Name,
    #[serde(deserialize_with = "or_null")]
    name: Name,
    #[serde(deserialize_with = "or_null")]
    uid: Name,
}

/// A text; null counts as empty.
fn or_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A resource list with unparsed quantities, so that each invalid one can be named.
#[derive(Debug)]
pub(super) struct Amounts<'a>(Vec<(Name, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Amounts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadAmounts)
    }
}

struct ReadAmounts;

impl<'de> Visitor<'de> for ReadAmounts {
    type Value = Amounts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("quantities by resource name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts<'de>, A::Error> {
        let mut amounts: Vec<(Name, &RawValue)> = Vec::new();
        while let Some((name, quantity)) = map.next_entry::<Name, &RawValue>()? {
            if amounts.len() == RESERVATION_RESOURCES_MAX {
                let limit =
                    format_args!("more than {RESERVATION_RESOURCES_MAX} resources").to_string();
                return Err(de::Error::custom(limit));
            }
            if amounts.iter().any(|(other, _)| *other == name) {
                return Err(de::Error::custom(format!("resource {name:?} is there twice")));
            }
            amounts.push((name, quantity));
        }
        Ok(Amounts(amounts))
    }
}

impl Amounts<'_> {
    /// Parses the quantities: resource names must be qualified names, amounts not negative.
    pub(super) fn read(&self, field: &str, causes: &mut Vec<FieldProblem>) -> ResourceList {
        let mut list = Vec::with_capacity(self.0.len());
        for (name, token) in &self.0 {
            let field = || format!("{field}[{name}]");
            for wrong in syntax::qualified_name(name) {
                causes.push(FieldProblem::invalid(field(), name, &wrong));
            }
            match Quantity::from_json_token(token.get()) {
                Ok(quantity) if quantity.is_negative() => {
                    let wrong = "must be greater than or equal to 0";
                    causes.push(FieldProblem::invalid(field(), &quantity.to_string(), wrong));
                }
                Ok(quantity) => list.push((name.clone(), quantity)),
                Err(error) => {
                    causes.push(FieldProblem::invalid(field(), token.get(), &error.to_string()));
                }
            }
        }
        list.into_iter().collect()
    }
}

/// Names that the requests of a batch have in common: sharing them makes it cheaper to create, compare and free the
/// requests.
#[derive(Default)]
pub(super) struct SharedNames(Vec<Name>);

impl SharedNames {
    fn share(&mut self, name: &mut Name) {
        match self.0.iter().find(|shared| *shared == name) {
            Some(shared) => name.clone_from(shared),
            None if self.0.len() < SHARED_MAX => self.0.push(name.clone()),
            None => {}
        }
    }

    /// Lets a request share names with the requests before it.
    pub(super) fn share_of(&mut self, request: &mut ReserveRequest<'_>) {
        let holder = request.reserved_by.iter_mut();
        let holder = holder.flat_map(|holder| [&mut holder.api_version, &mut holder.kind]);
        let holder = holder.filter(|name| !name.is_empty());
        let resources = request.reserved.iter_mut().flat_map(|amounts| &mut amounts.0);
        let resources = resources.map(|(name, _)| name);
        let namespace = request.namespace.iter_mut();
        namespace.chain(holder).chain(resources).for_each(|name| self.share(name));
    }
}

/// The object of a request, as far as the request's own fields describe it.
struct Subject {
    resource: GroupResource,
    footprint: Footprint,
    object: Option<Arc<Object>>,
}

impl<'a> ReserveRequest<'a> {
    /// A request for an object.
    pub(super) fn of_object(object: &'a RawValue) -> Self {
        Self { object: Some(object), ..Self::default() }
    }

    /// The request for capacity. `fresh` is the uid to use if the request has none; without `fresh` the request must
    /// have one.
    ///
    /// # Errors
    /// `Invalid` with every field that is not valid.
    pub(super) fn request(
        &self,
        app: &App,
        namespace: &Name,
        now: Timestamp,
        fresh: Option<Uid>,
    ) -> Result<Request, Problem> {
        let mut causes = Vec::new();
        for wrong in syntax::dns_label(namespace) {
            causes.push(FieldProblem::invalid("namespace", namespace, &wrong));
        }
        if self.namespace.as_deref().is_some_and(|own| own != namespace.as_str()) {
            causes.push(FieldProblem::forbidden("namespace", "it differs from that of the path"));
        }
        let mut holder = self.reserved_by.clone().unwrap_or_default();
        holder.check(&mut causes);
        let subject = match (&self.reserved, self.object) {
            (Some(amounts), None) => Some(self.measured(app, &holder, amounts, &mut causes)),
            (None, Some(object)) => {
                observed(app, namespace, now, &mut holder, object.get(), &mut causes)
            }
            _ => {
                causes
                    .push(FieldProblem::required("reserved", "exactly one of reserved and object"));
                None
            }
        };
        let uid = match (&*holder.uid, fresh) {
            ("", Some(fresh)) => Some(fresh),
            ("", None) => {
                causes.push(FieldProblem::required("reservedBy.uid", "it identifies the object"));
                None
            }
            (uid, _) => Uid::new(uid)
                .map_err(|error| {
                    causes.push(FieldProblem::invalid("reservedBy.uid", uid, &error.to_string()));
                })
                .ok(),
        };
        let ttl = read_ttl(self.ttl.as_deref(), &mut causes);
        match (subject, uid) {
            (Some(subject), Some(uid)) if causes.is_empty() => Ok(Request {
                uid,
                namespace: namespace.clone(),
                resource: subject.resource,
                name: (*holder.name).into(),
                api_version: holder.api_version,
                kind: holder.kind,
                basis: Basis::Create,
                subresource: Name::default(),
                footprint: Arc::new(subject.footprint),
                before: None,
                object: subject.object,
                ttl: ttl.map(Period::span),
            }),
            _ => Err(Problem::invalid(causes)),
        }
    }

    /// The object, if the request has one.
    pub(super) fn object(&self) -> Option<&str> {
        self.object.map(RawValue::get)
    }

    fn measured(
        &self,
        app: &App,
        holder: &Holder,
        amounts: &Amounts<'_>,
        causes: &mut Vec<FieldProblem>,
    ) -> Subject {
        Subject {
            resource: resource_of(app, &holder.api_version, &holder.kind),
            footprint: Footprint {
                resources: amounts.read("reserved", causes),
                ..Footprint::default()
            },
            object: None,
        }
    }
}

impl Holder {
    /// Names what is wrong with the fields. The uid is parsed later.
    fn check(&self, causes: &mut Vec<FieldProblem>) {
        let Self { api_version, kind, name, uid: _ } = self;
        for (field, text) in [("apiVersion", api_version), ("kind", kind), ("name", name)] {
            causes.extend(wrong_name(format_args!("reservedBy.{field}"), text));
        }
    }

    /// Takes over the object's own fields; where both state a field, the two must agree.
    fn agree(&mut self, object: [(&str, &Name); 4], causes: &mut Vec<FieldProblem>) {
        let mine = [&mut self.api_version, &mut self.kind, &mut self.name, &mut self.uid];
        for (mine, (field, theirs)) in mine.into_iter().zip(object) {
            if let Some(wrong) = wrong_name(format_args!("object.{field}"), theirs) {
                causes.push(wrong);
            } else if mine.is_empty() {
                mine.clone_from(theirs);
            } else if !theirs.is_empty() && mine != theirs {
                let wrong = format!("it differs from that of reservedBy, {mine:?}");
                causes.push(FieldProblem::invalid(format!("object.{field}"), theirs, &wrong));
            }
        }
    }
}

/// What is wrong with a name that the ledger would not record as it is.
fn wrong_name(field: fmt::Arguments<'_>, name: &str) -> Option<FieldProblem> {
    short_name(name)?;
    let wrong = format!("at most {MAX_SUBDOMAIN} bytes without control characters");
    Some(FieldProblem::invalid(field.to_string(), name, &wrong))
}

/// Parses an object, and computes its footprint.
fn observed(
    app: &App,
    namespace: &str,
    now: Timestamp,
    holder: &mut Holder,
    json: &str,
    causes: &mut Vec<FieldProblem>,
) -> Option<Subject> {
    // Serde would accept a list as the fields in their order.
    if !json.starts_with('{') {
        causes.push(unreadable(&"it must be a JSON object"));
        return None;
    }
    let meta: TypeMeta = match serde_json::from_str(json) {
        Ok(meta) => meta,
        Err(error) => {
            causes.push(unreadable(&error));
            return None;
        }
    };
    let given = |own: &Name, other: &Name| {
        if own.is_empty() { other.clone() } else { own.clone() }
    };
    let api_version = given(&meta.api_version, &holder.api_version);
    let kind = given(&meta.kind, &holder.kind);
    if kind.is_empty() {
        causes.push(FieldProblem::required("object.kind", "it says how to read the object"));
        return None;
    }
    let resource = resource_of(app, &api_version, &kind);
    let charging = app.events.charging();
    let object = match charging.read(&resource, json.as_bytes()) {
        Ok(object) => object,
        Err(error) => {
            causes.push(unreadable(&error));
            return None;
        }
    };
    if object.is_too_complex() {
        let wrong = "the number of containers times the containers and the resources that they name is above";
        causes.push(unreadable(&format_args!("{wrong} {STEPS_MAX}")));
        return None;
    }
    let object = object.with_api_defaults();
    let metadata = object.metadata();
    if !metadata.namespace.is_empty() && metadata.namespace != *namespace {
        let wrong = format!("it differs from that of the path, {namespace:?}");
        causes.push(FieldProblem::invalid(
            "object.metadata.namespace",
            &metadata.namespace,
            &wrong,
        ));
    }
    let own = [
        ("apiVersion", &api_version),
        ("kind", &kind),
        ("metadata.name", &metadata.name),
        ("metadata.uid", &metadata.uid),
    ];
    holder.agree(own, causes);
    let footprint = charging.footprint(&resource, &object, now, &NoContext);
    // No reservation may have more. The decider, which all other requests wait for, need not look at them.
    let resources = footprint.resources.len();
    if resources > RESERVATION_RESOURCES_MAX {
        let wrong = format_args!("it counts for {resources} resources");
        causes.push(unreadable(&format_args!("{wrong}, more than {RESERVATION_RESOURCES_MAX}")));
        return None;
    }
    Some(Subject { resource, footprint, object: Some(Arc::new(object)) })
}

fn unreadable(error: &dyn fmt::Display) -> FieldProblem {
    FieldProblem {
        field: "object".into(),
        message: error.to_string(),
        kind: "FieldValueInvalid".into(),
    }
}

/// Parses a time to live.
pub(super) fn read_ttl(text: Option<&str>, causes: &mut Vec<FieldProblem>) -> Option<Period> {
    match text?.parse::<Period>() {
        Ok(period) => Some(period),
        Err(error) => {
            causes.push(FieldProblem::invalid("ttl", text.unwrap_or_default(), &error.to_string()));
            None
        }
    }
}

/// The resource of a kind: as configured, or by Kubernetes' naming rule.
fn resource_of(app: &App, api_version: &str, kind: &str) -> GroupResource {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if !app.kinds.is_empty() {
        let key = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        if let Some(resource) = app.kinds.get(&key) {
            return GroupResource::new(group, resource);
        }
    }
    GroupResource { group: Name::from(group), resource: plural(group, kind) }
}

// Metrics of decisions.

/// Denials that are logged per second.
static DENIED: LogLimiter = LogLimiter::new(10);

/// Runs an operation, and records its duration and the limit that it hit.
pub(super) fn measured<T>(
    operation: Operation,
    work: impl Future<Output = Result<T, Problem>>,
) -> impl Future<Output = Result<T, Problem>> {
    let began = Instant::now();
    work.inspect(move |done| {
        metrics::decision_duration(operation, began.elapsed());
        done.as_ref().err().into_iter().for_each(limited);
    })
}

/// Counts the limit that a problem is about, if any.
pub(super) fn limited(problem: &Problem) {
    if let Some(limit) = problem.limit() {
        metrics::limit_reached(limit);
    }
}

/// Counts the decision on one request.
pub(super) fn decided(problem: Option<&Problem>, replayed: bool) {
    let decision = match problem {
        None if replayed => DecisionLabel::Replayed,
        None => DecisionLabel::Granted,
        Some(problem) if problem.is_refusal() || problem.reason() == Reason::Forbidden => {
            DecisionLabel::Denied
        }
        Some(_) => DecisionLabel::Error,
    };
    metrics::decisions(decision, problem.map(Problem::reason));
}

/// Logs a denied request as the webhook does.
pub(super) fn log_denied(request: &Request, problem: &Problem, sequence: Sequence) {
    if !problem.is_refusal() {
        return;
    }
    let denied = Denied {
        namespace: &request.namespace,
        resource: &request.resource.resource,
        name: &request.name,
        sequence,
    };
    denied.log(&DENIED, &problem.detail());
}
