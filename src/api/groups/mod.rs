//! Groups: set, show, delete.

mod read;

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header};
use quota_core::{
    decide::{self, GroupChange, Precondition, Refusal},
    event::{Actor, Sequence},
    state::{CopiedGroup, Head},
};
use quota_semantics::{
    Name, Timestamp, group::validation::Checked, quota::validation as of_quotas, uid::Uid,
};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    body::ObjectText,
    measure::{Operation, measured},
    page::{self, Params, Target, token},
    past::{self, When},
    precondition,
    problem::{Problem, Reason},
    replacing::{self, begin, is_no_edit, refuse_revival, refuse_stale, refused, take_from_path},
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    label_selector::LabelSelector,
    render::group::{self, Copied, amounts_of},
    server::warn,
    writer::{DecisionContext, For},
};
use read::{Form, Sent};

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
            let make = move |turn: &Turn| show(turn, &app, copied, head, None, &Reader::default());
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
    let Sent { mut manifest, form, .. } = sent;
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
            let stored = group::manifest(record, entry);
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
            metadata.managed_fields.clone_from(&stored.metadata.managed_fields);
            refuse_revival(&subject, &manifest.metadata)?;
            checked.update(&manifest, &stored)
        }
    };
    let spec = spec.map_err(|errors| form.invalid(errors))?;
    let change = GroupChange {
        name: name.clone(),
        fresh_uid: Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        metadata: group::stored_metadata(&manifest, &spec),
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
    reader: &Reader,
) -> Response {
    let seen = copied.seen(|| turn.pause());
    let mut group = group::to_wire(&seen.view, Some(&seen), app.ledger.enforcement());
    group::hide_others(&mut group, reader);
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

/// A group as a caller may read it; none if no namespace that the caller may read is a member.
fn readable(state: &quota_core::state::State, name: &str, reader: &Reader) -> Option<Copied> {
    Copied::for_reader(state, state.copied_group(name)?, reader)
}

/// `GET /v1/groups/{name}`
pub(super) async fn get(
    State(app): State<App>,
    Target([name]): Target<1>,
    reader: Reader,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let read = app.ledger.read(|state| (readable(state, &name, &reader), state.head()));
    let (copied, head) = read.await?;
    let copied = copied.ok_or_else(|| not_found(&name))?;
    let amounts = copied.amounts();
    let make = move |turn: &Turn| show(turn, &app, copied, head, Some(&headers), &reader);
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

/// `GET /v1/groups`: by name; of a caller who may not read all namespaces, those that count any that the caller may read.
/// All numbers of a page are of one moment; members are counted, not listed. With a selector, or for such a caller, a
/// page may be shorter than requested, or even empty, although more pages follow.
pub(super) async fn list(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<GroupsQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let labels = LabelSelector::parse(query.label_selector.as_deref().unwrap_or_default())
        .map_err(|why| Problem::new(Reason::Malformed, why))?;
    let after: Option<String> = page::after(query.after.as_deref())?;
    let reads = reader.clone();
    let view = move |state: &quota_core::state::State| {
        let after = after.as_deref().unwrap_or_default();
        let (mut page, mut more) = state.groups_page(after, limit);
        if !reads.reads_all() {
            more |= cut_by_members(&mut page);
        }
        let last = page.last().filter(|_| more);
        let last = last.map(|group| group.record.name.clone());
        if !reads.reads_all() {
            let shown = |group: CopiedGroup| {
                let copied = Copied::for_reader(state, group, &reads)?;
                Some(copied.group)
            };
            page = page.into_iter().filter_map(shown).collect();
        }
        (page, last, state.head())
    };
    let weight = labels.weight();
    let amounts = |(page, ..): &(Vec<CopiedGroup>, Option<Name>, Head)| {
        page.iter().map(amounts_of).sum::<usize>() + page.len() * weight
    };
    let making = app.clone();
    let make = move |(page, last, head): (Vec<CopiedGroup>, Option<Name>, Head), _, turn: &Turn| {
        let next = last.map(|last| token(&&*last)).transpose()?;
        let groups = page.into_iter().map(|group| {
            turn.pause();
            let mut group = group::to_wire(&group.view(), None, making.ledger.enforcement());
            group::hide_others(&mut group, &reader);
            group
        });
        let items = groups.filter(|group| labels.is_empty() || labels.matches(&group.labels));
        Ok(answer::large(turn, &making.page_of(items.collect(), next, head)))
    };
    let when = When { at: query.at, sequence: query.sequence };
    past::answer(&app, &actor.principal, &when, view, amounts, make).await?
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupsQuery {
    label_selector: Option<String>,
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// Keeps only so many groups that few members have to be looked at while the state is locked, but at least one. Whether
/// any were cut off.
fn cut_by_members(page: &mut Vec<CopiedGroup>) -> bool {
    const MEMBERS: usize = 10_000;
    let mut members = 0;
    let within = |group: &CopiedGroup| {
        members += group.members;
        members <= MEMBERS
    };
    let count = page.iter().map(within).take_while(|within| *within).count();
    let all = page.len();
    page.truncate(count.max(1));
    page.len() < all
}

/// `GET /v1/groups/{name}/usage`, of now, or `?at=TIME`, or `?sequence=N`
pub(super) async fn usage(
    State(app): State<App>,
    Target([name]): Target<1>,
    reader: Reader,
    Caller(actor): Caller,
    Params(when): Params<When>,
) -> Result<Response, Problem> {
    let group = name.clone();
    let view =
        move |state: &quota_core::state::State| (readable(state, &group, &reader), state.head());
    let amounts = |(copied, _): &(Option<Copied>, Head)| copied.as_ref().map_or(0, Copied::amounts);
    let make = move |(copied, head): (Option<Copied>, Head), lagging, turn: &Turn| {
        let copied = copied.ok_or_else(|| not_found(&name))?;
        let seen = copied.seen(|| turn.pause());
        Ok(answer::large(turn, &group::usage(&seen, head, lagging)))
    };
    past::answer(&app, &actor.principal, &when, view, amounts, make).await?
}
