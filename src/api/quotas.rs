//! Quotas: set, show, delete.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use http::{HeaderMap, HeaderValue};
use quota_core::{
    decide::{self, Precondition, QuotaChange},
    event::{Actor, QuotaRecord},
    state::{self as ledger, CopiedQuota, Head, QuotaView, QuotasView},
};
use quota_semantics::{
    quota::{
        Manifest,
        validation::{self, Checked},
    },
    uid::Uid,
};

use super::{
    App, Caller, ObjectText, PageQuery, Params, Target,
    problem::{FieldProblem, Problem, Reason},
    replacing::{
        self, Read, begin, is_no_edit, refuse_revival, refuse_stale, refused, tagged,
        take_from_path,
    },
    token,
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    label_selector::LabelSelector,
    render::quota,
    writer::DecisionContext,
};

/// `PUT /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn put(
    State(app): State<App>,
    Target([namespace, name]): Target<2>,
    Caller(actor): Caller,
    headers: HeaderMap,
    text: ObjectText,
) -> Response {
    let read = move |app: &App, text: &ObjectText| read(app, text, &namespace, &name);
    let about = |copied: &CopiedQuota| (amounts_of(copied), location(copied.record()));
    let show = |turn: &Turn, app: &App, copied, head| show(turn, app, &copied, head, None);
    replacing::put((app, actor, headers, text), read, set, about, show).await
}

/// Reads a quota, and checks what can be checked without the state: the decider, on which all others wait, does not look
/// for what is wrong with a manifest alone. Also answers the warnings.
fn read(
    app: &App,
    text: &ObjectText,
    namespace: &str,
    name: &str,
) -> Result<((Manifest, Checked), Vec<String>), Problem> {
    let Read { mut manifest, unknown } = replacing::read(text)?;
    let metadata = &mut manifest.metadata;
    take_from_path("metadata.namespace", &mut metadata.namespace, namespace)?;
    take_from_path("metadata.name", &mut metadata.name, name)?;
    let mut warnings = validation::warnings(&manifest.spec);
    warnings.extend(unknown);
    warnings.extend(app.ledger.enforcement().not_enforced(&manifest.spec.hard));
    let checked = Checked::of(&manifest);
    Ok(((manifest, checked), warnings))
}

fn location(record: &QuotaRecord) -> Option<HeaderValue> {
    let QuotaRecord { namespace, name, .. } = record;
    super::location(&[("/v1/namespaces/", namespace), ("/quotas/", name)])
}

/// Sets a quota in the transaction; answers the quota, and whether it is new.
fn set(
    context: &mut DecisionContext<'_>,
    actor: &Arc<Actor>,
    (mut manifest, checked): (Manifest, Checked),
    precondition: Option<Precondition>,
) -> Result<(CopiedQuota, bool), Problem> {
    let namespace = manifest.metadata.namespace.clone();
    let name = manifest.metadata.name.clone();
    let state = context.transaction.state();
    let current = state.quota_record(&namespace, &name);
    let created = current.is_none();
    let errors = match current {
        None => {
            begin(&mut manifest.metadata);
            checked.create(&manifest)
        }
        Some((record, entry)) => {
            let stored = quota::manifest(record, entry);
            let subject = format!("quota {namespace}/{name}");
            let place = (Some(&namespace), &name);
            let repeats = || manifest.repeats(&stored);
            if is_no_edit(context, &subject, place, entry, precondition, repeats)? {
                return Ok((copied(state, &namespace, &name)?, false));
            }
            refuse_stale(&subject, &mut manifest.metadata, &stored.metadata)?;
            manifest.inherit(&stored);
            refuse_revival(&subject, &manifest.metadata)?;
            let managers = &mut manifest.metadata.managed_fields;
            managers.clone_from(&stored.metadata.managed_fields);
            checked.update(&manifest, &stored)
        }
    };
    if !errors.is_empty() {
        return Err(Problem::invalid(errors.into_iter().map(FieldProblem::from).collect()));
    }
    let change = QuotaChange {
        namespace: namespace.clone(),
        name: name.clone(),
        fresh_uid: Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        metadata: quota::stored_metadata(&manifest.metadata),
        spec: manifest.spec,
        precondition,
    };
    let transaction = &mut context.transaction;
    let bounds = &context.policy.bounds;
    bounds.check_quota(transaction.state(), &change)?;
    let events =
        decide::set_quota(transaction.state(), transaction.now(), &change).map_err(refused)?;
    let events = decide::unless_adopted(transaction.state(), context.policy, events)?;
    transaction.record(actor, events);
    Ok((copied(transaction.state(), &namespace, &name)?, created))
}

fn copied(state: &ledger::State, namespace: &str, name: &str) -> Result<CopiedQuota, Problem> {
    let copied = state.copied_quota(namespace, name);
    copied.ok_or_else(|| Problem::internal(&"a quota that was set is not there"))
}

/// The response with a quota; 304 without it if the caller's headers are given and have its tag.
fn show(
    turn: &Turn,
    app: &App,
    copied: &CopiedQuota,
    head: Head,
    headers: Option<&HeaderMap>,
) -> Response {
    let view = copied.view();
    let mut shown = quota::resource_quota(&view, app.ledger.enforcement());
    // It changes when the quota is set anew and when its numbers change.
    let status = serde_json::to_vec(&shown.status).unwrap_or_default();
    tagged(view.entry, &status, headers, || {
        shown.as_of = Some(super::as_of(head));
        shown.lagging = app.lags();
        super::large(turn, &shown)
    })
}

/// `GET /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn get(
    State(app): State<App>,
    Target([namespace, name]): Target<2>,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let read = app.ledger.read(|state| (state.copied_quota(&namespace, &name), state.head()));
    let (copied, head) = read.await?;
    let copied = copied.ok_or_else(|| {
        let detail = format!("quota {namespace}/{name} not found");
        Problem::new(Reason::NotFound, detail)
    })?;
    let amounts = amounts_of(&copied);
    let make = move |turn: &Turn| show(turn, &app, &copied, head, Some(&headers));
    make_sized(&actor.principal, amounts, make).await
}

/// `DELETE /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn delete(
    State(app): State<App>,
    Target([namespace, name]): Target<2>,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Response {
    replacing::delete(&app, actor, &headers, move |state, precondition| {
        decide::delete_quota(state, &namespace, &name, precondition)
    })
    .await
}

/// `GET /v1/namespaces/{namespace}/quotas`: by name. With a selector, a page may be shorter than requested, or even
/// empty, although more pages follow.
pub(super) async fn list(
    State(app): State<App>,
    Target([namespace]): Target<1>,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let after = query.after::<String>()?;
    let after = after.map(|name| (namespace.to_string(), name));
    let key = |quota: &QuotaRecord| token(&&*quota.name);
    page(app, &actor, &query, Some(&namespace), after, key).await
}

/// `GET /v1/quotas`: by namespace and name, of the namespaces that the caller may read. All numbers of a page are of one
/// moment, unless the caller may read some namespaces only.
pub(super) async fn list_all(
    State(app): State<App>,
    reader: Reader,
    Caller(actor): Caller,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let key = |quota: &QuotaRecord| token(&(&*quota.namespace, &*quota.name));
    match reader.reads_all() {
        true => page(app, &actor, &query, None, query.after()?, key).await,
        false => page_of(app, &actor, &query, &reader, query.after()?, key).await,
    }
}

/// As [`page`], of the namespaces that the caller may read. The state is locked for a few quotas at a time, since most may
/// be of other namespaces. A page may be short although more pages follow.
async fn page_of(
    app: App,
    actor: &Actor,
    query: &PageQuery,
    reader: &Reader,
    mut after: Option<(String, String)>,
    key: impl FnOnce(&QuotaRecord) -> Result<String, Problem>,
) -> Result<Response, Problem> {
    /// How often the state is locked for one page, and the amounts with which it is full.
    const HOLDS: usize = 256;
    const LISTED_AMOUNTS: usize = 10_000;
    let permit = Permit::to_read(&actor.principal)?;
    let (limit, labels) = (query.limit(app.page)?, query.labels()?);
    let (mut found, mut first, mut last) = (QuotasView::default(), None, None);
    for _ in 0..HOLDS {
        let most = limit - found.len();
        let page = app.ledger.read(|state| {
            let after = after.as_ref();
            let after = after.map(|(namespace, name)| (&**namespace, &**name));
            (state.quotas_page(None, after, most), state.head())
        });
        let ((mut page, more), head) = page.await?;
        first.get_or_insert(head);
        last = page.records().next_back().filter(|_| more).cloned();
        page.retain(|quota| reader.reads(&quota.namespace));
        found.extend(page);
        let Some(last) = &last else { break };
        if found.len() == limit || amounts(&found) > LISTED_AMOUNTS {
            break;
        }
        after = Some((last.namespace.to_string(), last.name.to_string()));
        tokio::task::yield_now().await;
    }
    let next = last.map(|quota| key(&quota)).transpose()?;
    let amounts = amounts(&found) + found.len() * labels.weight();
    let head = first.unwrap_or_default();
    let make = move |turn: &Turn| respond(turn, &app, &found, &labels, next, head);
    Ok(permit.make(amounts, make).await)
}

/// The response with a page, made in the turn of the principal if it shows many amounts.
async fn page(
    app: App,
    actor: &Actor,
    query: &PageQuery,
    namespace: Option<&str>,
    after: Option<(String, String)>,
    key: impl FnOnce(&QuotaRecord) -> Result<String, Problem>,
) -> Result<Response, Problem> {
    let permit = Permit::to_read(&actor.principal)?;
    let (limit, labels) = (query.limit(app.page)?, query.labels()?);
    let page = app.ledger.read(|state| {
        let after = after.as_ref();
        let after = after.map(|(namespace, name)| (&**namespace, &**name));
        (state.quotas_page(namespace, after, limit), state.head())
    });
    let ((view, more), head) = page.await?;
    let last = view.records().next_back().filter(|_| more);
    let next = last.map(|quota| key(quota)).transpose()?;
    let amounts = amounts(&view) + view.len() * labels.weight();
    let make = move |turn: &Turn| respond(turn, &app, &view, &labels, next, head);
    Ok(permit.make(amounts, make).await)
}

/// How many amounts an answer with a quota shows; its metadata is read and shown, too.
fn amounts_of(copied: &CopiedQuota) -> usize {
    copied.amounts() + copied.record().metadata.len() / BYTES_PER_AMOUNT
}

/// How many amounts an answer with these quotas shows; their metadata is read and shown, too.
fn amounts(view: &QuotasView) -> usize {
    view.amounts() + view.metadata_bytes() / BYTES_PER_AMOUNT
}

fn labels_of(view: &QuotaView) -> BTreeMap<String, String> {
    quota::manifest(&view.record, view.entry).metadata.labels
}

fn respond(
    turn: &Turn,
    app: &App,
    view: &QuotasView,
    labels: &LabelSelector,
    next: Option<String>,
    head: Head,
) -> Response {
    let views: Vec<QuotaView> = view
        .views()
        .inspect(|_| turn.pause())
        .filter(|view| labels.is_empty() || labels.matches(&labels_of(view)))
        .collect();
    let items = views.iter();
    let items = items.map(|view| quota::resource_quota(view, app.ledger.enforcement()));
    super::large(turn, &app.page_of(items.collect(), next, head))
}
