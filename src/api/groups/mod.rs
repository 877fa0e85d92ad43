//! Groups: set, show, delete.

mod read;
mod show;

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use quota_client::wire;
use quota_core::{
    decide::{self, GroupChange, Precondition, Refusal},
    event::Actor,
    state::Head,
};
use quota_semantics::{group::validation, quota::validation as of_quotas, uid::Uid};

use super::{
    App, Caller, answer,
    body::ManifestText,
    measure::{Operation, measured},
    page::{LabelledQuery, Page, Params, Target, token},
    past::{self, When},
    precondition,
    problem::{Problem, Reason},
    render::not_enforced,
    replacing::{self, begin, is_no_edit, refuse_revival, refuse_stale, refused, take_from_path},
};
use crate::{
    large::{Permit, Turn},
    server::warn,
    writer::DecisionContext,
};
use read::{Form, Sent};

pub use show::{
    MEMBERS_MAX, Seen, conditions, figures, guaranteed_to_others, manifest, member, numbers,
    stored_metadata,
};

/// `PUT /v1/groups/{name}`
pub(super) async fn put(
    State(app): State<App>,
    Target(name): Target<String>,
    Caller(actor): Caller,
    headers: HeaderMap,
    text: ManifestText,
) -> Response {
    let changed = measured(Operation::Quota, async {
        let precondition = precondition::of(&headers)?;
        let mut sent = read::read(&text)?;
        let field = match sent.form {
            Form::Fields => "name",
            Form::Manifest => "metadata.name",
        };
        take_from_path(field, &mut sent.manifest.metadata.name, &name)?;
        let limits = &sent.manifest.spec.quota;
        let mut warnings = of_quotas::warnings(limits);
        warnings.append(&mut sent.unknown);
        warnings.extend(not_enforced(&limits.hard, app.ledger.coverage()));
        let principal = actor.principal.clone();
        let decision = app.ledger.decide_for(&principal, move |context| {
            let set = set(context, &actor, sent, precondition);
            (set, context.transaction.state().head())
        });
        let (set, head) = decision.await?;
        let (seen, created) = set.map_err(|problem| problem.as_of(head))?;
        Ok((seen, created, head, warnings))
    });
    match changed.await {
        Ok((seen, created, head, warnings)) => {
            let status = match created {
                true => StatusCode::CREATED,
                false => StatusCode::OK,
            };
            let mut response = show(&app, status, &seen, head);
            let name = &seen.view.record.name;
            if created && let Some(location) = answer::location(&[("/v1/groups/", name)]) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            warn(response.headers_mut(), &warnings);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Sets a group in the transaction; answers the group, and whether it is new.
fn set(
    context: &mut DecisionContext<'_>,
    actor: &Arc<Actor>,
    sent: Sent,
    precondition: Option<Precondition>,
) -> Result<(Seen, bool), Problem> {
    let Sent {
        mut manifest, form, ..
    } = sent;
    let name = manifest.metadata.name.clone();
    let state = context.transaction.state();
    let current = state.group_record(&name);
    let created = current.is_none();
    let errors = match current {
        None => {
            begin(&mut manifest.metadata);
            validation::validate_create(&manifest)
        }
        Some((record, entry)) => {
            let stored = show::manifest(record, entry);
            let subject = format!("group {name}");
            let metadata = &mut manifest.metadata;
            if form == Form::Fields {
                // Metadata that the typed fields cannot express is kept.
                metadata.finalizers.clone_from(&stored.metadata.finalizers);
                let owners = &stored.metadata.owner_references;
                metadata.owner_references.clone_from(owners);
            }
            if manifest.repeats(&stored)
                && is_no_edit(context, &subject, (None, &name), entry, precondition)?
            {
                return Ok((set_view(state, &name)?, false));
            }
            refuse_stale(&subject, &mut manifest.metadata, &stored.metadata)?;
            manifest.inherit(&stored);
            let metadata = &mut manifest.metadata;
            metadata
                .managed_fields
                .clone_from(&stored.metadata.managed_fields);
            refuse_revival(&subject, &manifest.metadata)?;
            validation::validate_update(&manifest, &stored)
        }
    };
    if !errors.is_empty() {
        return Err(form.invalid(errors));
    }
    let change = GroupChange {
        name: name.clone(),
        fresh_uid: Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        metadata: show::stored_metadata(&manifest),
        spec: manifest.spec().0,
        precondition,
    };
    let transaction = &mut context.transaction;
    let (state, policy) = (transaction.state(), context.policy);
    policy.bounds.check_group(state, &change)?;
    let events = decide::set_group(state, transaction.now(), &change, &policy.groups);
    let events = events.map_err(|refusal| match refusal {
        Refusal::Invalid(errors) => form.invalid(errors),
        other => refused(other),
    })?;
    let events = decide::unless_adopted(state, policy, events)?;
    transaction.record(actor, events);
    Ok((set_view(transaction.state(), &name)?, created))
}

fn set_view(state: &quota_core::state::State, name: &str) -> Result<Seen, Problem> {
    let seen = Seen::of(state, name);
    seen.ok_or_else(|| Problem::internal(&"a group that was set is not there"))
}

/// A group as a response body, and its entity tag.
fn shown(app: &App, seen: &Seen) -> (wire::Group, HeaderValue) {
    let group = show::group(&seen.view, Some(seen), app.ledger.coverage());
    let status = serde_json::to_vec(&group.status).unwrap_or_default();
    let tag = precondition::tag(seen.view.entry, &status);
    (group, tag)
}

fn show(app: &App, status: StatusCode, seen: &Seen, head: Head) -> Response {
    let (mut group, tag) = shown(app, seen);
    group.as_of = Some(answer::as_of(head));
    group.lagging = app.lags();
    let mut response = answer::json(status, &group);
    response.headers_mut().insert(header::ETAG, tag);
    response
}

fn not_found(name: &str) -> Problem {
    Problem::new(Reason::NotFound, format!("group {name} not found"))
}

/// `GET /v1/groups/{name}`
pub(super) async fn get(
    State(app): State<App>,
    Target(name): Target<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let read = app
        .ledger
        .read(|state| (Seen::of(state, &name), state.head()));
    let (seen, head) = read.await?;
    let seen = seen.ok_or_else(|| not_found(&name))?;
    let (_, tag) = shown(&app, &seen);
    if precondition::has(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    Ok(show(&app, StatusCode::OK, &seen, head))
}

/// `DELETE /v1/groups/{name}`
pub(super) async fn delete(
    State(app): State<App>,
    Target(name): Target<String>,
    Caller(actor): Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    replacing::delete(&app, actor, (&uri, &headers), move |state, precondition| {
        decide::delete_group(state, &name.into(), precondition)
    })
    .await
}

/// `GET /v1/groups`: by name. All numbers of a page are of one moment; members are counted, not listed. With a
/// selector, a page may be shorter than requested, or even empty, although more pages follow.
pub(super) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    Params(query): Params<LabelledQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let (limit, labels) = (query.limit(app.page)?, query.labels()?);
    let after: Option<String> = query.after()?;
    let page = app.ledger.read(|state| {
        let after = after.as_deref().unwrap_or_default();
        (state.groups_page(after, limit), state.head())
    });
    let ((views, more), head) = page.await?;
    let last = views.last().filter(|_| more);
    let next = last.map(|view| token(&&*view.record.name)).transpose()?;
    let amounts = views.iter().map(|view| 1 + view.figures.len()).sum();
    let make = move |turn: &Turn| {
        let groups = views.iter().map(|view| {
            turn.pause();
            show::group(view, None, app.ledger.coverage())
        });
        let items = groups.filter(|group| labels.is_empty() || labels.matches(&group.labels));
        answer::large(
            turn,
            &Page {
                items: items.collect(),
                next,
                as_of: answer::as_of(head),
                lagging: app.lags(),
            },
        )
    };
    Ok(permit.make(amounts, make).await)
}

/// `GET /v1/groups/{name}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target(name): Target<String>,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let group = name.clone();
    let question = move |state: &quota_core::state::State| (Seen::of(state, &group), state.head());
    let ((seen, head), lagging) = past::ask(&app, &actor.principal, &when, question).await?;
    let seen = seen.ok_or_else(|| not_found(&name))?;
    let amounts = seen.view.figures.len() * (1 + seen.members.len());
    let make = move |turn: &Turn| answer::large(turn, &show::usage(&seen, head, lagging));
    Ok(permit.make(amounts, make).await)
}
