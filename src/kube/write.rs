//! Creates, replaces and patches quotas and groups.

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode};
use quota_core::state;
use serde_json::{Value, json};

use super::{
    Caller, Kube,
    accept::Shape,
    body::{Body, Sent, Warnings},
    fields,
    object::Object,
    params::{FieldValidation, Params},
    patch::{self, Patch},
    read,
    request::{ATTEMPTS, Managing, Request, generated},
    resource::ObjectPath,
    status::{Failure, Result},
};
use crate::{clock::now, large::Permit};

pub(super) async fn create(
    State(kube): State<Kube>,
    path: ObjectPath,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, &path, &headers, &params)?;
    let (json, mut warnings) = object(&request, body, params.field_validation()?).await?;
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
    let object = request
        .create(manifest, Managing::Update, &mut warnings)
        .await?;
    let permit = &request.permit;
    answer(
        permit,
        object,
        StatusCode::CREATED,
        &warnings,
        shape,
        &params,
    )
    .await
}

pub(super) async fn replace(
    State(kube): State<Kube>,
    path: ObjectPath,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, &path, &headers, &params)?;
    let (json, warnings) = object(&request, body, params.field_validation()?).await?;
    if name_of(&json).is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            path.name
        )));
    }
    let object = request
        .update(|_| Ok((json.clone(), Managing::Update)))
        .await?;
    let permit = &request.permit;
    answer(permit, object, StatusCode::OK, &warnings, shape, &params).await
}

pub(super) async fn patch(
    State(kube): State<Kube>,
    path: ObjectPath,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, &path, &headers, &params)?;
    let validation = params.field_validation()?;
    let mut odd = Vec::new();
    let patch = request.read(body.bytes.len(), move || Patch::read(&body));
    let patch = patch.await?;
    // Only operations of a JSON patch can depend on the status, which is large, and which no patch changes.
    let sees_status = matches!(patch, Patch::Json(_));
    let patched: Box<dyn Fn(Value) -> Result<Value> + Send + Sync> = match patch {
        Patch::Apply(config) => return apply(&request, config, validation, shape, &params).await,
        _ if params.force => return Err(Failure::bad_request("force is for apply patches only")),
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
    let warnings = parking_lot::Mutex::new(Warnings::default());
    let change = |live: &Object| {
        let live = match sees_status {
            true => live.to_json()?,
            false => live.manifest.to_json()?,
        };
        let patched = Sent {
            json: patched(live)?,
            odd: odd.clone(),
        };
        let (json, odd) = patched.check(path.kind, validation)?;
        if name_of(&json).is_empty() {
            let why = "Required value: name or generateName is required".to_owned();
            let causes = vec![("FieldValueRequired", "metadata.name".to_owned(), why)];
            let kind = path.kind.qualified_name();
            return Err(Failure::unprocessable(&kind, &path.name, causes));
        }
        *warnings.lock() = odd;
        Ok((json, Managing::Update))
    };
    let object = request.update(change).await?;
    answer(
        &request.permit,
        object,
        StatusCode::OK,
        &warnings.into_inner(),
        shape,
        &params,
    )
    .await
}

/// The object in a body, checked, and warnings about its fields.
async fn object(
    request: &Request,
    body: Body,
    validation: FieldValidation,
) -> Result<(Value, Warnings)> {
    let (kind, bytes) = (request.key.kind, body.bytes.len());
    let read = move || Sent::object(kind, &body)?.check(kind, validation);
    request.read(bytes, read).await
}

/// The name in an object: an update without it is not about the object, whatever the path says.
fn name_of(json: &Value) -> &str {
    json["metadata"]["name"].as_str().unwrap_or_default()
}

async fn apply(
    request: &Request,
    config: Sent,
    validation: FieldValidation,
    shape: Shape,
    params: &Params,
) -> Result<Response> {
    let required = |field: &str, why: &str| {
        let causes = vec![(
            "FieldValueRequired",
            field.to_owned(),
            format!("Required value: {why}"),
        )];
        Failure::unprocessable("PatchOptions.meta.k8s.io", "", causes)
    };
    if !params.has_manager() {
        return Err(required("fieldManager", "is required for apply patch"));
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
                object => {
                    let permit = &request.permit;
                    return answer(permit, object?, StatusCode::OK, &warnings, shape, params).await;
                }
            }
        }
        if !metadata.uid.is_empty() || !metadata.resource_version.is_empty() {
            let why = "the provided object specified uid or resourceVersion, and no existing object was found";
            return Err(Failure::conflict(kind, &request.key.name, why));
        }
        let applied = fields::apply(
            &json!({}),
            &[],
            &config,
            &request.manager,
            params.force,
            now(),
        )?;
        let manifest = request.decode(&applied.object)?;
        let managing = Managing::Apply(applied.managed);
        match request.create(manifest, managing, &mut warnings).await {
            Err(failure) if failure.is_already_exists() => {}
            object => {
                let permit = &request.permit;
                return answer(
                    permit,
                    object?,
                    StatusCode::CREATED,
                    &warnings,
                    shape,
                    params,
                )
                .await;
            }
        }
    }
    Err(Failure::modified(kind, &request.key.name))
}

async fn answer(
    permit: &Permit,
    object: Object,
    status: StatusCode,
    warnings: &Warnings,
    shape: Shape,
    params: &Params,
) -> Result<Response> {
    let mut warnings = warnings.clone();
    warnings.0.extend(object.not_enforced());
    let mut response = read::answer(permit, object, shape, params).await?;
    *response.status_mut() = status;
    warnings.add_to(response.headers_mut());
    Ok(response)
}
