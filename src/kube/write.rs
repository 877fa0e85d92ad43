//! Creating, replacing and patching quotas.

use axum::{extract::State, response::Response};
use http::{HeaderMap, StatusCode};
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
    request::{ATTEMPTS, Managing, Request, as_json, generated},
    status::{Failure, Result},
};
use crate::{routes::Target, writer::now};

pub(super) async fn create(
    State(kube): State<Kube>,
    Target(namespace): Target<String>,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, namespace, String::new(), &headers, &params)?;
    let (json, mut warnings) = Sent::quota(&body)?.check(params.field_validation()?)?;
    let mut manifest = request.decode(&json)?;
    if !manifest.metadata.resource_version.is_empty() {
        return Err(Failure::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    if manifest.metadata.name.is_empty() && !manifest.metadata.generate_name.is_empty() {
        manifest.metadata.name = generated(&manifest.metadata.generate_name);
    }
    manifest.metadata.managed_fields =
        fields::updated(None, &as_json(&manifest)?, &[], &request.manager, now());
    let object = request.create(manifest, &mut warnings).await?;
    answer(&object, StatusCode::CREATED, &warnings, shape, &params)
}

pub(super) async fn replace(
    State(kube): State<Kube>,
    Target((namespace, name)): Target<(String, String)>,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, namespace, name, &headers, &params)?;
    let (json, warnings) = Sent::quota(&body)?.check(params.field_validation()?)?;
    let object = request
        .update(|_| Ok((json.clone(), Managing::Update)))
        .await?;
    answer(&object, StatusCode::OK, &warnings, shape, &params)
}

pub(super) async fn patch(
    State(kube): State<Kube>,
    Target((namespace, name)): Target<(String, String)>,
    caller: Caller,
    headers: HeaderMap,
    shape: Shape,
    params: Params,
    body: Body,
) -> Result<Response> {
    let request = Request::new(kube, caller, namespace, name, &headers, &params)?;
    let validation = params.field_validation()?;
    let patched: Box<dyn Fn(Value) -> Result<Value> + Send + Sync> = match Patch::read(&body)? {
        Patch::Apply(config) => return apply(&request, config, validation, shape, &params).await,
        _ if params.force => return Err(Failure::bad_request("force is for apply patches only")),
        Patch::Merge(patch) => Box::new(move |object| Ok(patch::merge(object, &patch))),
        Patch::Strategic(patch) => Box::new(move |object| patch::strategic(object, &patch)),
        Patch::Json(operations) => Box::new(move |object| patch::json(object, &operations)),
    };
    let warnings = parking_lot::Mutex::new(Warnings::default());
    let change = |live: &Object| {
        let patched = Sent::of(patched(live.to_json()?)?);
        let (json, odd) = patched.check(validation)?;
        *warnings.lock() = odd;
        Ok((json, Managing::Update))
    };
    let object = request.update(change).await?;
    answer(
        &object,
        StatusCode::OK,
        &warnings.into_inner(),
        shape,
        &params,
    )
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
    let (config, mut warnings) = config.check(validation)?;
    let sent = request.decode(&config)?;
    if !sent.metadata.managed_fields.is_empty() {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    // Spelled as objects are: a number of pods is as good as a text, and no difference.
    let config = as_json(&sent)?;
    for _ in 0..ATTEMPTS {
        let exists = request
            .kube
            .quota(&request.namespace, &request.name)
            .await?
            .0
            .is_some();
        if exists {
            let change = |live: &Object| {
                let managed = &live.manifest.metadata.managed_fields;
                let applied = fields::apply(
                    &as_json(&live.manifest)?,
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
                object => return answer(&object?, StatusCode::OK, &warnings, shape, params),
            }
        }
        if !sent.metadata.uid.is_empty() || !sent.metadata.resource_version.is_empty() {
            let why = "the provided object specified uid or resourceVersion, and no existing object was found";
            return Err(Failure::conflict(&request.name, why));
        }
        let applied = fields::apply(
            &json!({}),
            &[],
            &config,
            &request.manager,
            params.force,
            now(),
        )?;
        let mut manifest = request.decode(&applied.object)?;
        manifest.metadata.managed_fields = applied.managed;
        match request.create(manifest, &mut warnings).await {
            Err(failure) if failure.is_already_exists() => {}
            object => return answer(&object?, StatusCode::CREATED, &warnings, shape, params),
        }
    }
    Err(Failure::modified(&request.name))
}

fn answer(
    object: &Object,
    status: StatusCode,
    warnings: &Warnings,
    shape: Shape,
    params: &Params,
) -> Result<Response> {
    let mut response = read::one(object, shape, params)?;
    *response.status_mut() = status;
    let mut warnings = warnings.clone();
    warnings.0.extend(object.not_enforced());
    warnings.tell(response.headers_mut());
    Ok(response)
}
