//! Creates, replaces and patches quotas and groups.

use axum::response::Response;
use http::StatusCode;
use quota_core::state;
use serde_json::{Value, json};

use super::{
    body::{Body, Sent},
    fields,
    object::Object,
    params::{FieldValidation, PATCH_OPTIONS},
    patch::{self, Patch},
    resource::Key,
    status::{Failure, Result},
    write_request::{ATTEMPTS, Managing, Request, generated},
};
use crate::clock::now;

pub(super) async fn create(request: Request, body: Body) -> Result<Response> {
    let (json, mut warnings) = object(&request, body).await?;
    let mut manifest = request.decode(&json)?;
    let metadata = manifest.metadata_mut();
    if !metadata.resource_version.is_empty() {
        return Err(Failure::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
        metadata.name = generated(&metadata.generate_name);
    }
    let object = request.create(manifest, Managing::Update, &mut warnings).await?;
    request.answer(object, StatusCode::CREATED, warnings).await
}

pub(super) async fn replace(request: Request, body: Body) -> Result<Response> {
    let (json, warnings) = object(&request, body).await?;
    if name_of(&json).is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            request.key.name
        )));
    }
    let object = request.update(|_| Ok((json.clone(), Managing::Update))).await?;
    request.answer(object, StatusCode::OK, warnings).await
}

pub(super) async fn patch(request: Request, body: Body) -> Result<Response> {
    let Key { kind, name, .. } = &request.key;
    let validation = request.params.field_validation()?;
    let mut odd = Vec::new();
    let patch = request.read(body.bytes.len(), move || Patch::read(&body));
    let patch = patch.await?;
    // Only operations of a JSON patch can depend on the status, which is large, and which no patch changes.
    let sees_status = matches!(patch, Patch::Json(_));
    let patched: Box<dyn Fn(Value) -> Result<Value> + Send + Sync> = match patch {
        Patch::Apply(config) => return apply(&request, config, validation).await,
        _ if request.params.force => {
            return Err(Failure::bad_request("force is for apply patches only"));
        }
        Patch::Merge(patch) => {
            odd = patch.odd;
            Box::new(move |object| Ok(patch::merge(object, &patch.json)))
        }
        Patch::Strategic(patch) => {
            odd = patch.odd;
            Box::new(move |object| patch::strategic(object, &patch.json))
        }
        Patch::Json(operations) => Box::new(move |object| patch::json(object, &operations)),
    };
    let warnings = parking_lot::Mutex::new(Vec::new());
    let change = |live: &Object| {
        let live = match sees_status {
            true => live.to_json()?,
            false => live.manifest.to_json()?,
        };
        let patched = Sent { json: patched(live)?, odd: odd.clone() };
        let (json, odd) = patched.check(*kind, validation)?;
        if name_of(&json).is_empty() {
            let why = "Required value: name or generateName is required".to_owned();
            return Err(Failure::wrong_field(
                &kind.qualified_name(),
                name,
                "FieldValueRequired",
                "metadata.name",
                why,
            ));
        }
        *warnings.lock() = odd;
        Ok((json, Managing::Update))
    };
    let object = request.update(change).await?;
    let warnings = warnings.into_inner();
    request.answer(object, StatusCode::OK, warnings).await
}

/// The object in a body, checked, and warnings about its fields.
async fn object(request: &Request, body: Body) -> Result<(Value, Vec<String>)> {
    let validation = request.params.field_validation()?;
    let (kind, bytes) = (request.key.kind, body.bytes.len());
    let read = move || Sent::object(kind, &body)?.check(kind, validation);
    request.read(bytes, read).await
}

/// The name in an object: an update without it is not about the object, whatever the path says.
fn name_of(json: &Value) -> &str {
    json["metadata"]["name"].as_str().unwrap_or_default()
}

async fn apply(request: &Request, config: Sent, validation: FieldValidation) -> Result<Response> {
    let params = &request.params;
    if !params.has_manager() {
        let why = "Required value: is required for apply patch".to_owned();
        let (reason, field) = ("FieldValueRequired", "fieldManager");
        return Err(Failure::wrong_field(PATCH_OPTIONS, "", reason, field, why));
    }
    let kind = request.key.kind;
    config.check_typed(kind)?;
    let (config, mut warnings) = config.check(kind, validation)?;
    let sent = request.decode(&config)?;
    let metadata = sent.metadata();
    if !metadata.managed_fields.is_empty() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    // The configuration is spelled as stored objects are: a number of pods equals its text, and is no difference.
    let config = sent.to_json()?;
    for _ in 0..ATTEMPTS {
        let exists = |state: &state::State| request.key.is_in(state);
        let (exists, _) = request.kube.read(exists).await?;
        if exists {
            let change = |live: &Object| {
                let managed = &live.manifest.metadata().managed_fields;
                let applied = fields::apply(
                    &live.manifest.to_json()?,
                    managed,
                    &config,
                    &request.manager,
                    params.force,
                    now(),
                )?;
                Ok((applied.object, Managing::Apply(applied.managed)))
            };
            match request.update(change).await {
                Err(failure) if failure.is_not_found() => continue,
                object => return request.answer(object?, StatusCode::OK, warnings).await,
            }
        }
        if !metadata.uid.is_empty() || !metadata.resource_version.is_empty() {
            let why = "the provided object specified uid or resourceVersion, and no existing object was found";
            return Err(Failure::conflict(kind, &request.key.name, why));
        }
        let applied =
            fields::apply(&json!({}), &[], &config, &request.manager, params.force, now())?;
        let manifest = request.decode(&applied.object)?;
        let managing = Managing::Apply(applied.managed);
        match request.create(manifest, managing, &mut warnings).await {
            Err(failure) if failure.is_already_exists() => {}
            object => return request.answer(object?, StatusCode::CREATED, warnings).await,
        }
    }
    Err(Failure::modified(kind, &request.key.name))
}
