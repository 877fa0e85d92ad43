//! Groups: set, show, delete.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::HeaderMap;
use quota_core::{
    decide::{self, GroupChange, Precondition, Refusal},
    event::{Actor, Sequence},
    state::{CopiedGroup, Head},
};
use quota_semantics::{
    Name, Timestamp,
    group::{
        Manifest,
        extension::{
            Carrier, EACH, ENFORCEMENT, Extensions, GUARANTEED, OBJECTS, OVERRIDE, PARENT, PREFIX,
            SOFT,
        },
        validation::{Checked, typed_field},
    },
    quota::{FieldError, validation as of_quotas},
    uid::Uid,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    App, Caller, ObjectText, Params, Target, When,
    problem::{FieldProblem, Problem, Reason},
    replacing::{
        self, SPEC, TOP, begin, is_no_edit, malformed, parse, refuse_revival, refuse_stale,
        refused, tagged, take_from_path, unknown, unreadable,
    },
    token,
};
use crate::{
    auth::Reader,
    fairness::{Turn, make_sized},
    label_selector::LabelSelector,
    render::group::{self, Copied, amounts_of},
    writer::DecisionContext,
};

/// `PUT /v1/groups/{name}`
pub(super) async fn put(
    State(app): State<App>,
    Target([name]): Target<1>,
    Caller(actor): Caller,
    headers: HeaderMap,
    text: ObjectText,
) -> Response {
    let read = move |app: &App, text: &ObjectText| read_and_check(app, text, &name);
    let about = |copied: &Copied| {
        let location = super::location(&[("/v1/groups/", &copied.group.record.name)]);
        (copied.amounts(), location)
    };
    let show = |turn: &Turn, app: &App, copied, head| {
        show(turn, app, copied, head, None, &Reader::default())
    };
    replacing::put((app, actor, headers, text), read, set, about, show).await
}

/// Reads a group, and checks what can be checked without the state: the decider, on which all others wait, does not look
/// for what is wrong with a manifest alone. Also answers the warnings.
fn read_and_check(
    app: &App,
    text: &ObjectText,
    name: &str,
) -> Result<((Sent, Checked), Vec<String>), Problem> {
    let mut sent = read(text)?;
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
    tagged(seen.view.entry, &status, headers, || {
        group.as_of = Some(super::as_of(head));
        group.lagging = app.lags();
        super::large(turn, &group)
    })
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
    let limit = super::limit(query.limit, app.page)?;
    let labels = LabelSelector::parse(query.label_selector.as_deref().unwrap_or_default())
        .map_err(|why| Problem::new(Reason::Malformed, why))?;
    let after: Option<String> = super::after(query.after.as_deref())?;
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
        Ok(super::large(turn, &making.page_of(items.collect(), next, head)))
    };
    let when = When { at: query.at, sequence: query.sequence };
    super::answer(&app, &actor.principal, &when, view, amounts, make).await?
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
        Ok(super::large(turn, &group::usage(&seen, head, lagging)))
    };
    super::answer(&app, &actor.principal, &when, view, amounts, make).await?
}

// Reading a group: as a ClusterResourceQuota, or as typed fields.

/// The extensions: names of the typed fields and of the annotations that hold them.
const EXTENSIONS: [(&str, &str); 7] = [
    ("parent", PARENT),
    ("guaranteed", GUARANTEED),
    ("objects", OBJECTS),
    ("each", EACH),
    ("soft", SOFT),
    ("enforcement", ENFORCEMENT),
    ("override", OVERRIDE),
];

/// Typed fields that belong to the metadata.
const METADATA: [&str; 5] = ["name", "uid", "resourceVersion", "labels", "annotations"];

/// Fields that only responses have.
const OF_ANSWERS: [&str; 4] = ["createdTime", "status", "asOf", "lagging"];

/// The form in which a group was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Typed fields.
    Fields,
    /// A ClusterResourceQuota.
    Manifest,
}

/// A group in the form in which it was sent.
struct Sent {
    manifest: Manifest,
    form: Form,
    /// Warnings about ignored unknown fields.
    unknown: Vec<String>,
}

impl Form {
    /// An `Invalid` problem whose causes name fields as this form does.
    fn invalid(self, errors: Vec<FieldError>) -> Problem {
        let cause = |error: FieldError| {
            let mut cause = FieldProblem::from(error);
            if self == Self::Fields {
                cause.field = typed_field(&cause.field);
            }
            cause
        };
        Problem::invalid(errors.into_iter().map(cause).collect())
    }
}

/// Reads a group.
///
/// # Errors
/// `Malformed` if the text is not a group; `Invalid` with every limit that is not a quantity.
fn read(text: &ObjectText) -> Result<Sent, Problem> {
    let (json, value) = parse(text)?;
    let is_manifest = value.get("spec").is_some() || value.get("apiVersion").is_some();
    match (value, is_manifest) {
        (Value::Object(fields), false) => of_fields(fields),
        (value, _) => of_manifest(json.as_bytes(), &value),
    }
}

fn of_manifest(json: &[u8], value: &Value) -> Result<Sent, Problem> {
    let unknown = unknown(value, "", &TOP)
        .into_iter()
        .chain(unknown(value, "spec", &["selector", "quota"]))
        .chain(unknown(value, "spec.selector", &["labels", "annotations"]))
        .chain(unknown(value, "spec.quota", &SPEC));
    Ok(Sent {
        unknown: unknown.collect(),
        manifest: decode(json, value, "spec.quota.hard")?,
        form: Form::Manifest,
    })
}

fn of_fields(fields: Map<String, Value>) -> Result<Sent, Problem> {
    let (mut metadata, mut quota) = (Map::new(), Map::new());
    let mut extensions = BTreeMap::new();
    let mut selector = Value::Null;
    let mut unknown = Vec::new();
    for (field, value) in fields {
        let extension = EXTENSIONS.iter().find(|(name, _)| *name == field);
        match (extension, field.as_str()) {
            (Some((_, key)), _) => {
                extensions.extend(annotation(value).map(|text| ((*key).to_owned(), text)));
            }
            (None, "selector") => selector = value,
            (None, name) if SPEC.contains(&name) => {
                quota.insert(field, value);
            }
            (None, name) if METADATA.contains(&name) => {
                metadata.insert(field, value);
            }
            (None, name) if OF_ANSWERS.contains(&name) => {}
            (None, name) => unknown.push(format!("unknown field '{name}'")),
        }
    }
    let manifest = json!({
        "metadata": metadata,
        "spec": {"selector": selector, "quota": quota},
    });
    let json = manifest.to_string();
    let mut manifest = decode(json.as_bytes(), &manifest, "hard")?;
    let annotations = &mut manifest.metadata.annotations;
    let stray: Vec<_> = annotations
        .keys()
        .filter(|key| key.starts_with(PREFIX))
        .map(|key| {
            FieldProblem::forbidden(&format!("annotations[{key}]"), "it is a field of the group")
        })
        .collect();
    if !stray.is_empty() {
        return Err(Problem::invalid(stray));
    }
    let (read, errors) = Extensions::from_annotations(&extensions, Carrier::Group);
    if !errors.is_empty() {
        return Err(Form::Fields.invalid(errors));
    }
    annotations.extend(read.to_annotations());
    Ok(Sent { manifest, form: Form::Fields, unknown })
}

/// The annotation's text for a field's value; none for an empty value.
fn annotation(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(value.to_string()),
    }
}

fn decode(json: &[u8], value: &Value, hard: &str) -> Result<Manifest, Problem> {
    let causes = unreadable(value, "/spec/quota/hard", hard);
    if !causes.is_empty() {
        return Err(Problem::invalid(causes));
    }
    Manifest::from_json(json).map_err(|error| malformed(&error))
}
