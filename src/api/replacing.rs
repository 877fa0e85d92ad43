//! Checks of a manifest that replaces a stored one. And deletion.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use quota_core::{
    decide::{self, Precondition, Refusal},
    event::{Actor, Event, Sequence},
    state::State,
};
use quota_semantics::{Name, quota::manifest::Metadata};

use super::{
    App,
    measure::{Operation, measured},
    precondition,
    problem::{FieldProblem, Problem, Reason},
};
use crate::writer::{DecisionContext, For};

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
