//! Quotas: setting, showing, deleting.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use quota_ledger::{
    Name,
    decide::{self, Precondition, QuotaChange, Refusal},
    event::Actor,
    quota::{Manifest as ResourceQuotaManifest, validation},
    state::{Head, QuotaView},
    uid::Uid,
};
use serde::Deserialize;

use super::{
    App, Caller, answer,
    body::{self, Manifest},
    page::{self, Page, PageQuery, Params, Target, token},
    problem::{Cause, Problem, Reason},
    render::{self, ResourceQuota},
};
use crate::writer::Sitting;

/// Most bytes of warnings that are sent as headers.
const WARNING_MAX_BYTES: usize = 512;

/// `PUT /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn put(
    State(app): State<App>,
    Target((namespace, name)): Target<(String, String)>,
    Caller(actor): Caller,
    headers: HeaderMap,
    body: Manifest,
) -> Result<Response, Problem> {
    let precondition = precondition(&headers)?;
    let mut manifest = read(&body)?;
    take_from_path(
        "metadata.namespace",
        &mut manifest.metadata.namespace,
        &namespace,
    )?;
    take_from_path("metadata.name", &mut manifest.metadata.name, &name)?;
    let warnings = validation::warnings(&manifest.spec);
    let decision = app.ledger.decide(move |sitting| {
        let set = set(sitting, &actor, manifest, precondition);
        (set, sitting.desk.state().head())
    });
    let (set, head) = decision.await?;
    let (view, created) = set.map_err(|problem| problem.as_of(head))?;
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = show(status, &view);
    if created {
        warn(response.headers_mut(), &warnings);
    }
    Ok(response)
}

/// Reads a manifest in JSON or YAML.
fn read(body: &Manifest) -> Result<ResourceQuotaManifest, Problem> {
    let malformed = |error: &dyn std::fmt::Display| {
        Problem::new(
            Reason::Malformed,
            format!("cannot read the manifest: {error}"),
        )
    };
    let json = match body.yaml {
        false => body.text.clone(),
        true => {
            let text = std::str::from_utf8(&body.text).map_err(|error| malformed(&error))?;
            let value: serde_json::Value =
                serde_saphyr::from_str(text).map_err(|error| malformed(&error))?;
            value.to_string().into()
        }
    };
    ResourceQuotaManifest::from_json(&json).map_err(|error| malformed(&error))
}

/// The path says it; the manifest may say the same.
fn take_from_path(field: &str, own: &mut Name, path: &str) -> Result<(), Problem> {
    if own.is_empty() {
        *own = Name::from(path);
    }
    if *own == *path {
        return Ok(());
    }
    let wrong = format!("it differs from that of the path, {path:?}");
    Err(Problem::invalid(vec![Cause::invalid(field, own, &wrong)]))
}

/// Sets a quota at the desk; answers it, and whether it is new.
fn set(
    sitting: &mut Sitting<'_>,
    actor: &Arc<Actor>,
    mut manifest: ResourceQuotaManifest,
    precondition: Option<Precondition>,
) -> Result<(QuotaView, bool), Problem> {
    let desk = &mut sitting.desk;
    let namespace = manifest.metadata.namespace.clone();
    let name = manifest.metadata.name.clone();
    let current = desk.state().quota_record(&namespace, &name);
    let created = current.is_none();
    let errors = match current {
        None => validation::validate_create(&manifest),
        Some((record, entry)) => {
            let stored = render::manifest(record, entry);
            manifest.inherit(&stored);
            validation::validate_update(&manifest, &stored)
        }
    };
    if !errors.is_empty() {
        return Err(Problem::invalid(
            errors.into_iter().map(Cause::from).collect(),
        ));
    }
    let change = QuotaChange {
        namespace: namespace.clone(),
        name: name.clone(),
        fresh_uid: Uid::from_uuid(uuid::Uuid::new_v4().into_bytes()),
        metadata: render::stored_metadata(&manifest.metadata),
        spec: manifest.spec,
        precondition,
    };
    let events = decide::set_quota(desk.state(), desk.now(), &change).map_err(refused)?;
    desk.record(actor, events);
    let view = desk.state().quota(&namespace, &name);
    let view = view.ok_or_else(|| Problem::internal(&"a quota that was set is not there"))?;
    Ok((view, created))
}

/// A precondition came as a header, so its failure has a status of its own.
fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Conflict { .. } => Problem::new(Reason::PreconditionFailed, refusal.to_string()),
        other => other.into(),
    }
}

fn precondition(headers: &HeaderMap) -> Result<Option<Precondition>, Problem> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let malformed = |header: &str| {
        Problem::new(
            Reason::Malformed,
            format!("{header} must be \"*\" or the ETag of a quota"),
        )
    };
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Precondition::Present)),
        (Some(tag), None) => {
            let version = tag.trim_matches('"').parse();
            version
                .map(|version| Some(Precondition::Version(version)))
                .map_err(|_| malformed("If-Match"))
        }
        (None, Some("*")) => Ok(Some(Precondition::Absent)),
        _ => Err(malformed("If-None-Match")),
    }
}

fn tag(view: &QuotaView) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{}\"", view.entry))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn show(status: StatusCode, view: &QuotaView) -> Response {
    let mut response = answer::json(status, &ResourceQuota::from(view));
    response.headers_mut().insert(header::ETAG, tag(view));
    response
}

fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        let text: String = warning
            .chars()
            .filter(|c| !matches!(c, '"' | '\\'))
            .collect();
        let text = text.get(..WARNING_MAX_BYTES).unwrap_or(&text);
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            headers.append(header::WARNING, value);
        }
    }
}

/// `GET /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn get(
    State(app): State<App>,
    Target((namespace, name)): Target<(String, String)>,
) -> Result<Response, Problem> {
    let view = app
        .ledger
        .read(|state| state.quota(&namespace, &name))
        .await?;
    let not_found = || {
        Problem::new(
            Reason::NotFound,
            format!("quota {namespace}/{name} not found"),
        )
    };
    let view = view.ok_or_else(not_found)?;
    Ok(show(StatusCode::OK, &view))
}

/// `DELETE /v1/namespaces/{namespace}/quotas/{name}`
pub(super) async fn delete(
    State(app): State<App>,
    Target((namespace, name)): Target<(String, String)>,
    Caller(actor): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    body::refuse_foreign_pages(&headers)?;
    let precondition = precondition(&headers)?;
    let decision = app.ledger.decide(move |sitting| {
        let desk = &mut sitting.desk;
        let (namespace, name) = (Name::from(namespace), Name::from(name));
        let events = decide::delete_quota(desk.state(), &namespace, &name, precondition);
        let deleted = events.map(|events| desk.record(&actor, events));
        (deleted, desk.state().head())
    });
    let (deleted, head) = decision.await?;
    deleted.map_err(|refusal| refused(refusal).as_of(head))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /v1/namespaces/{namespace}/quotas`: by name.
pub(super) async fn list(
    State(app): State<App>,
    Target(namespace): Target<String>,
    Params(query): Params<PageQuery>,
) -> Result<Response, Problem> {
    let limit = query.limit(app.page)?;
    let after: Option<String> = query.after()?;
    let all = app
        .ledger
        .read(|state| (state.quotas(&namespace), state.head()));
    let (mut views, head) = all.await?;
    views.retain(|view| {
        after
            .as_deref()
            .is_none_or(|after| &*view.record.name > after)
    });
    let more = views.len() > limit;
    views.truncate(limit);
    let last = views
        .last()
        .filter(|_| more)
        .map(|view| token(&&*view.record.name))
        .transpose()?;
    Ok(shown(&app, &views, last, head))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AllQuery {
    limit: Option<usize>,
    #[serde(rename = "continue")]
    after: Option<String>,
}

/// `GET /v1/quotas`: by namespace and name. The numbers of a page are of one moment.
pub(super) async fn list_all(
    State(app): State<App>,
    Params(query): Params<AllQuery>,
) -> Result<Response, Problem> {
    let limit = page::limit(query.limit, app.page)?;
    let after: Option<(String, String)> = query
        .after
        .as_deref()
        .filter(|token| !token.is_empty())
        .map(page::read_token)
        .transpose()?;
    let all = app
        .ledger
        .read(|state| (state.quotas_after(after.as_ref(), limit + 1), state.head()));
    let (mut views, head) = all.await?;
    let more = views.len() > limit;
    views.truncate(limit);
    let key = |view: &QuotaView| token(&(&*view.record.namespace, &*view.record.name));
    let last = views.last().filter(|_| more).map(key).transpose()?;
    Ok(shown(&app, &views, last, head))
}

fn shown(app: &App, views: &[QuotaView], next: Option<String>, head: Head) -> Response {
    let items = views.iter().map(ResourceQuota::from).collect();
    answer::ok(&Page {
        items,
        next,
        as_of: head,
        lagging: app.lags(),
    })
}
