//! Groups: set, show, delete.

mod read;
mod show;

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header};
use quota_core::{
    decide::{self, GroupChange, Precondition, Refusal},
    event::Actor,
    state::Head,
};
use quota_semantics::{group::validation::Checked, quota::validation as of_quotas, uid::Uid};

use super::{
    App, Caller, answer,
    body::ObjectText,
    measure::{Operation, measured},
    page::{PageQuery, Params, Target, token},
    past::{self, When},
    precondition,
    problem::{Problem, Reason},
    replacing::{self, begin, is_no_edit, refuse_revival, refuse_stale, refused, take_from_path},
};
use crate::{
    large::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    server::warn,
    writer::{DecisionContext, For},
};
use read::{Form, Sent};

pub use show::{
    Copied, GroupWithMembers, MEMBERS_MAX, amounts_of, conditions, figures, guaranteed_to_others,
    manifest, member, numbers, stored_metadata,
};

/// `PUT /v1/groups/{name}`
pub(super) async fn put(
    State(app): State<App>,
    Target([name]): Target<1>,
    Caller(actor): Caller,
    headers: HeaderMap,
    text: ObjectText,
) -> Response {
    let principal = actor.principal.clone();
    let changed = measured(Operation::Quota, async {
        let precondition = precondition::of(&headers)?;
        let (reading, amounts) = (app.clone(), text.len() / BYTES_PER_AMOUNT);
        let read = move |_: &Turn| read(&reading, &text, &name);
        let (sent, warnings) = make_sized(&principal, amounts, read).await??;
        let ledger = &app.ledger;
        let decision = ledger.decide_for(For::Principal(&principal), move |context| {
            let set = set(context, &actor, sent, precondition);
            (set, context.transaction.state().head())
        });
        let (set, head) = decision.await?;
        let (copied, created) = set.map_err(|problem| problem.as_of(head))?;
        Ok((copied, created, head, warnings))
    });
    match changed.await {
        Ok((copied, created, head, warnings)) => {
            let (amounts, name) = (copied.amounts(), copied.group.record.name.clone());
            let make = move |turn: &Turn| show(turn, &app, copied, head, None);
            let permit = Permit::to_change(&principal);
            let mut response = permit.make(amounts, make).await;
            if created {
                *response.status_mut() = StatusCode::CREATED;
            }
            if created && let Some(location) = answer::location(&[("/v1/groups/", &name)]) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            warn(response.headers_mut(), &warnings);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// Reads a group, and checks what can be checked without the state: the decider, on which all others wait, does not look
/// for what is wrong with a manifest alone. Also answers the warnings.
fn read(
    app: &App,
    text: &ObjectText,
    name: &str,
) -> Result<((Sent, Checked), Vec<String>), Problem> {
    let mut sent = read::read(text)?;
    let field = match sent.form {
        Form::Fields => "name",
        Form::Manifest => "metadata.name",
    };
    take_from_path(field, &mut sent.manifest.metadata.name, name)?;
    let limits = &sent.manifest.spec.quota;
    let mut warnings = of_quotas::warnings(limits);
    warnings.append(&mut sent.unknown);
    warnings.extend(app.ledger.enforcement().not_enforced(&limits.hard));
    let checked = Checked::of(&sent.manifest);
    Ok(((sent, checked), warnings))
}

/// Sets a group in the transaction; answers the group, and whether it is new.
fn set(
    context: &mut DecisionContext<'_>,
    actor: &Arc<Actor>,
    (sent, mut checked): (Sent, Checked),
    precondition: Option<Precondition>,
) -> Result<(Copied, bool), Problem> {
    let Sent {
        mut manifest, form, ..
    } = sent;
    let name = manifest.metadata.name.clone();
    let state = context.transaction.state();
    let current = state.group_record(&name);
    let created = current.is_none();
    let spec = match current {
        None => {
            begin(&mut manifest.metadata);
            checked.create(&manifest)
        }
        Some((record, entry)) => {
            let stored = show::manifest(record, entry);
            let subject = format!("group {name}");
            if form == Form::Fields {
                // Metadata that the typed fields cannot express is kept.
                checked.keep_owners_and_finalizers(&mut manifest.metadata, &stored.metadata);
            }
            let (place, repeats) = ((None, &name), || manifest.repeats(&stored));
            if is_no_edit(context, &subject, place, entry, precondition, repeats)? {
                return Ok((copied(state, &name)?, false));
            }
            refuse_stale(&subject, &mut manifest.metadata, &stored.metadata)?;
            manifest.inherit(&stored);
            let metadata = &mut manifest.metadata;
            metadata
                .managed_fields
                .clone_from(&stored.metadata.managed_fields);
            refuse_revival(&subject, &manifest.metadata)?;
            checked.update(&manifest, &stored)
        }
    };
    let spec = spec.map_err(|errors| form.invalid(errors))?;
    let change = GroupChange {
        name: name.clone(),
        fresh_uid: Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        metadata: show::stored_metadata(&manifest, &spec),
        spec,
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
    Ok((copied(transaction.state(), &name)?, created))
}

fn copied(state: &quota_core::state::State, name: &str) -> Result<Copied, Problem> {
    let copied = Copied::of(state, name);
    copied.ok_or_else(|| Problem::internal(&"a group that was set is not there"))
}

/// The response with a group; 304 without it if the caller's headers are given and have its tag.
fn show(
    turn: &Turn,
    app: &App,
    copied: Copied,
    head: Head,
    headers: Option<&HeaderMap>,
) -> Response {
    let seen = copied.seen(|| turn.pause());
    let mut group = show::group(&seen.view, Some(&seen), app.ledger.enforcement());
    turn.pause();
    let status = turn.to_json(&group.status, 0).unwrap_or_default();
    let tag = precondition::tag(seen.view.entry, &status);
    let mut response = match headers.is_some_and(|headers| precondition::has(headers, &tag)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            group.as_of = Some(answer::as_of(head));
            group.lagging = app.lags();
            answer::large(turn, &group)
        }
    };
    response.headers_mut().insert(header::ETAG, tag);
    response
}

fn not_found(name: &str) -> Problem {
    Problem::new(Reason::NotFound, format!("group {name} not found"))
}

/// `GET /v1/groups/{name}`
pub(super) async fn get(
    State(app): State<App>,
    Target([name]): Target<1>,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let read = app
        .ledger
        .read(|state| (Copied::of(state, &name), state.head()));
    let (copied, head) = read.await?;
    let copied = copied.ok_or_else(|| not_found(&name))?;
    let amounts = copied.amounts();
    let make = move |turn: &Turn| show(turn, &app, copied, head, Some(&headers));
    make_sized(&actor.principal, amounts, make).await
}

/// `DELETE /v1/groups/{name}`
pub(super) async fn delete(
    State(app): State<App>,
    Target([name]): Target<1>,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Response {
    replacing::delete(&app, actor, &headers, move |state, precondition| {
        decide::delete_group(state, &name, precondition)
    })
    .await
}

/// `GET /v1/groups`: by name. All numbers of a page are of one moment; members are counted, not listed. With a
/// selector, a page may be shorter than requested, or even empty, although more pages follow.
pub(super) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let (limit, labels) = (query.limit(app.page)?, query.labels()?);
    let after: Option<String> = query.after()?;
    let page = app.ledger.read(|state| {
        let after = after.as_deref().unwrap_or_default();
        (state.groups_page(after, limit), state.head())
    });
    let ((page, more), head) = page.await?;
    let last = page.last().filter(|_| more);
    let next = last.map(|group| token(&&*group.record.name)).transpose()?;
    let amounts = page.iter().map(amounts_of).sum::<usize>() + page.len() * labels.weight();
    let make = move |turn: &Turn| {
        let groups = page.into_iter().map(|group| {
            turn.pause();
            show::group(&group.view(), None, app.ledger.enforcement())
        });
        let items = groups.filter(|group| labels.is_empty() || labels.matches(&group.labels));
        answer::large(turn, &app.page_of(items.collect(), next, head))
    };
    Ok(permit.make(amounts, make).await)
}

/// `GET /v1/groups/{name}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target([name]): Target<1>,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let group = name.clone();
    let view = move |state: &quota_core::state::State| (Copied::of(state, &group), state.head());
    let amounts = |(copied, _): &(Option<Copied>, Head)| copied.as_ref().map_or(0, Copied::amounts);
    let make = move |(copied, head): (Option<Copied>, Head), lagging, turn: &Turn| {
        let copied = copied.ok_or_else(|| not_found(&name))?;
        let seen = copied.seen(|| turn.pause());
        Ok(answer::large(turn, &show::usage(&seen, head, lagging)))
    };
    past::answer(&app, &actor.principal, &when, view, amounts, make).await?
}
