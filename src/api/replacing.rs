//! Sets and deletes quotas and groups: reads manifests, and checks one that replaces a stored one.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use quota_core::{
    decide::{self, Precondition, Refusal},
    event::{Actor, Event, Sequence},
    state::{Head, State},
};
use quota_semantics::{
    Name,
    embedded::refuse_embedded,
    field::ERRORS_MAX,
    quantity::{Quantity, exact_numbers},
    quota::{Manifest, manifest::Metadata},
};
use serde_json::Value;

use super::{
    App, JsonText, ObjectText, precondition,
    problem::{FieldProblem, Problem, Reason},
    reservations::{Operation, measured},
};
use crate::{
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    problem::in_plain_words,
    server::warn,
    writer::{DecisionContext, For},
};

/// Takes a name from the path; the manifest may repeat the name.
pub(super) fn take_from_path(field: &str, own: &mut Name, path: &str) -> Result<(), Problem> {
    if own.is_empty() {
        *own = Name::from(path);
    }
    if *own == *path {
        return Ok(());
    }
    let wrong = format!("it differs from that of the path, {path:?}");
    Err(FieldProblem::invalid(field, own, &wrong).into())
}

/// Clears metadata that another, earlier object may have left in the manifest of a new one.
pub(super) fn begin(metadata: &mut Metadata) {
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.managed_fields.clear();
}

/// Refuses a manifest that was read here and edited while the stored object changed. A manifest from elsewhere (with
/// another cluster's uid) makes no statement about the stored object.
pub(super) fn refuse_stale(
    subject: &str,
    new: &mut Metadata,
    stored: &Metadata,
) -> Result<(), Problem> {
    if new.uid != stored.uid {
        new.uid.clear();
        new.resource_version.clear();
        return Ok(());
    }
    if new.resource_version.is_empty() || new.resource_version == stored.resource_version {
        return Ok(());
    }
    let detail = format!(
        "{subject} has been modified: it is at resourceVersion {}, not {}",
        stored.resource_version, new.resource_version
    );
    Err(Problem::new(Reason::Conflict, detail))
}

/// Refuses a manifest without finalizers for an object whose deletion waits for its finalizers. Without them the object
/// would disappear, which this request does not intend; or no controller would be left to remove them, and the deletion
/// would never finish.
pub(super) fn refuse_revival(subject: &str, new: &Metadata) -> Result<(), Problem> {
    if new.deletion_timestamp.is_none() || !new.finalizers.is_empty() {
        return Ok(());
    }
    let detail = format!(
        "{subject} is being deleted and waits for its finalizers: delete it first, or leave them in the manifest"
    );
    Err(Problem::new(Reason::Conflict, detail))
}

/// Whether a manifest that equals the definition from a source (by namespace, if there is one, and name) changes
/// nothing. An edit is refused, since the source would undo it; a request that changes nothing shall succeed. `repeats`
/// compares the two, which takes the decider long for long ones, and is only called for those of a source.
pub(super) fn is_no_edit(
    context: &DecisionContext<'_>,
    subject: &str,
    (namespace, name): (Option<&Name>, &Name),
    entry: Sequence,
    precondition: Option<Precondition>,
    repeats: impl FnOnce() -> bool,
) -> Result<bool, Problem> {
    let state = context.transaction.state();
    if !decide::belongs_to_source(state, context.policy, namespace, name) || !repeats() {
        return Ok(false);
    }
    let holds =
        precondition.map_or(Ok(()), |condition| condition.check(subject.to_owned(), Some(entry)));
    holds.map(|()| true).map_err(refused)
}

/// A precondition comes as a header, so its failure has its own status.
pub(super) fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Conflict { .. } => Problem::new(Reason::PreconditionFailed, refusal.to_string()),
        other => other.into(),
    }
}

/// Decides about a quota or group, and answers what was set, and whether it is new.
type Set<S, C> = fn(
    &mut DecisionContext<'_>,
    &Arc<Actor>,
    S,
    Option<Precondition>,
) -> Result<(C, bool), Problem>;

/// Sets a quota or group. `read` reads it, and answers the warnings; `set` decides, and answers whether it is new;
/// `about` tells how many amounts the response shows, and where the object is.
pub(super) async fn put<S: Send + 'static, C: Send + 'static>(
    (app, actor, headers, text): (App, Arc<Actor>, HeaderMap, ObjectText),
    read: impl FnOnce(&App, &ObjectText) -> Result<(S, Vec<String>), Problem> + Send + 'static,
    set: Set<S, C>,
    about: fn(&C) -> (usize, Option<HeaderValue>),
    show: fn(&Turn, &App, C, Head) -> Response,
) -> Response {
    let principal = actor.principal.clone();
    let changed = measured(Operation::Quota, async {
        let precondition = precondition::of(&headers)?;
        let (reading, amounts) = (app.clone(), text.len() / BYTES_PER_AMOUNT);
        let read = move |_: &Turn| read(&reading, &text);
        let (sent, warnings) = make_sized(&principal, amounts, read).await??;
        let decision = app.ledger.decide_for(For::Principal(&principal), move |context| {
            let set = set(context, &actor, sent, precondition);
            (set, context.transaction.state().head())
        });
        let (set, head) = decision.await?;
        let (copied, created) = set.map_err(|problem| problem.as_of(head))?;
        Ok((copied, created, head, warnings))
    });
    let (copied, created, head, warnings) = match changed.await {
        Ok(changed) => changed,
        Err(problem) => return problem.into_response(),
    };
    let (amounts, location) = about(&copied);
    let make = move |turn: &Turn| show(turn, &app, copied, head);
    let mut response = Permit::to_change(&principal).make(amounts, make).await;
    if created {
        *response.status_mut() = StatusCode::CREATED;
        response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    }
    warn(response.headers_mut(), &warnings);
    response
}

/// The response with an object, which its entry and its numbers identify; 304 without it if the caller's headers are
/// given and have its tag.
pub(super) fn tagged(
    entry: Sequence,
    status: &[u8],
    headers: Option<&HeaderMap>,
    show: impl FnOnce() -> Response,
) -> Response {
    let tag = precondition::tag(entry, status);
    let mut response = match headers.is_some_and(|headers| precondition::has(headers, &tag)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => show(),
    };
    response.headers_mut().insert(header::ETAG, tag);
    response
}

/// Deletes a quota or group, unless it belongs to a source.
pub(super) async fn delete(
    app: &App,
    actor: Arc<Actor>,
    headers: &HeaderMap,
    deletion: impl FnOnce(&State, Option<Precondition>) -> Result<Vec<Event>, Refusal> + Send + 'static,
) -> Response {
    let deleted = measured(Operation::Quota, async {
        let precondition = precondition::of(headers)?;
        let principal = actor.principal.clone();
        let ledger = &app.ledger;
        let decision = ledger.decide_for(For::Always(&principal), move |context| {
            let transaction = &mut context.transaction;
            let events = deletion(transaction.state(), precondition);
            let events = events.and_then(|events| {
                decide::unless_adopted(transaction.state(), context.policy, events)
            });
            let deleted = events.map(|events| transaction.record(&actor, events));
            (deleted, transaction.state().head())
        });
        let (deleted, head) = decision.await?;
        deleted.map_err(|refusal| refused(refusal).as_of(head))
    });
    match deleted.await {
        Ok(_) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem.into_response(),
    }
}

// Reads manifests in JSON or YAML.

/// A manifest, and warnings about its unknown fields.
pub(super) struct Read {
    pub(super) manifest: Manifest,
    /// Warnings about ignored unknown fields.
    pub(super) unknown: Vec<String>,
}

/// Reads a manifest.
///
/// # Errors
/// `Malformed` if the text is not a manifest; `Invalid` with every limit that is not a quantity.
pub(super) fn read(text: &ObjectText) -> Result<Read, Problem> {
    let (json, value) = parse(text)?;
    let causes = unreadable(&value, "/spec/hard", "spec.hard");
    if !causes.is_empty() {
        return Err(Problem::invalid(causes));
    }
    let manifest = Manifest::from_json(json.as_bytes()).map_err(|error| malformed(&error))?;
    let top = unknown(&value, "", &TOP).into_iter();
    let unknown = top.chain(unknown(&value, "spec", &SPEC)).collect();
    Ok(Read { manifest, unknown })
}

/// The text as JSON, converted from YAML if necessary; and as a value in which numbers that would lose digits are
/// strings.
///
/// # Errors
/// `Malformed` if it is neither JSON nor YAML.
pub(super) fn parse(text: &ObjectText) -> Result<(JsonText, Value), Problem> {
    let json = text.to_json()?;
    let bytes = json.as_bytes();
    refuse_embedded(bytes).map_err(|error| malformed(&error))?;
    let value = serde_json::from_slice(&exact_numbers(bytes)).map_err(|error| malformed(&error))?;
    Ok((json, value))
}

pub(super) fn malformed(error: &dyn std::fmt::Display) -> Problem {
    let detail = format!("cannot read the manifest: {}", in_plain_words(error));
    Problem::new(Reason::Malformed, detail)
}

/// Limits at this place of a manifest that are not quantities, as causes with this field name.
pub(super) fn unreadable(manifest: &Value, pointer: &str, name: &str) -> Vec<FieldProblem> {
    let hard = manifest.pointer(pointer).and_then(Value::as_object);
    let cause = |(resource, token): (&String, &Value)| {
        let token = token.to_string();
        let error = Quantity::from_json_token(&token).err()?;
        let shown = token.trim_matches('"');
        let field = format!("{name}[{resource}]");
        Some(FieldProblem::invalid(field, shown, &error.to_string()))
    };
    let causes = hard.into_iter().flatten().filter_map(cause);
    // The answer says that there are more than these.
    causes.take(ERRORS_MAX + 1).collect()
}

/// The top-level fields of every manifest. A response can be sent back as a manifest, so fields of responses are
/// included.
pub(super) const TOP: [&str; 7] =
    ["apiVersion", "kind", "metadata", "spec", "status", "asOf", "lagging"];

/// The fields of a quota's spec.
pub(super) const SPEC: [&str; 3] = ["hard", "scopes", "scopeSelector"];

/// Warnings about unknown fields of an object in a manifest (`spec.quota`; empty: the whole manifest), as Kubernetes'
/// `fieldValidation=Warn` words them.
pub(super) fn unknown(manifest: &Value, place: &str, allowed: &[&str]) -> Vec<String> {
    let keys = place.split('.').filter(|key| !key.is_empty());
    let object = keys.fold(manifest, |value, key| &value[key]);
    let fields = object.as_object().into_iter().flatten();
    let strange = fields.filter(|(field, _)| !allowed.contains(&field.as_str()));
    let separator = if place.is_empty() { "" } else { "." };
    strange.map(|(field, _)| format!("unknown field '{place}{separator}{field}'")).collect()
}
