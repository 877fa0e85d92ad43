//! The HTTP side: lists in pages, watches, discovery, single objects.

mod discovery;
mod watcher;

use std::{collections::HashMap, io, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, Request as HttpRequest, State},
    response::{IntoResponse as _, Response},
};
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fake_api::world::{Fault, Kind, Request, SILENCE, Stored, World};

/// Most bytes of an object that is sent.
const OBJECT_MAX_BYTES: usize = 4 << 20;

/// Serves this world at this listener, for as long as it is polled.
pub async fn serve(listener: TcpListener, world: World) -> io::Result<()> {
    let router = Router::new().fallback(answer).with_state(world);
    axum::serve(listener, router).await
}

/// Where a request goes: the kind, the namespace, the name, and whether only to the status.
struct Target {
    kind: Kind,
    namespace: Option<String>,
    name: Option<String>,
    is_status: bool,
}

async fn answer(
    State(world): State<World>,
    Query(query): Query<HashMap<String, String>>,
    request: HttpRequest,
) -> Response {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(token) = &world.lock().token
        && header(header::AUTHORIZATION) != Some(&format!("Bearer {token}"))
    {
        return status(401, "Unauthorized", "no such token", 0);
    }
    let accept = header(header::ACCEPT).unwrap_or_default();
    let path = head.uri.path();
    if let Some(answer) = discovery::about(&world, path) {
        return answer;
    }
    let Some(target) = target(&world, path) else {
        return status(404, "NotFound", "the server could not find the requested resource", 0);
    };
    let metadata_only = accept.contains("as=PartialObjectMetadata");
    if head.method == Method::GET {
        return read(&world, target, &query, metadata_only).await;
    }
    let Ok(body) = axum::body::to_bytes(body, OBJECT_MAX_BYTES).await else {
        return status(413, "RequestEntityTooLarge", "too large", 0);
    };
    write(&world, &head.method, &target, &body)
}

fn target(world: &World, path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (rest, is_status) = match rest {
        ["namespaces", _, _] => (rest, false),
        [rest @ .., "status"] => (rest, true),
        _ => (rest, false),
    };
    let (namespace, plural, name) = match rest {
        ["namespaces", namespace, plural] => (Some(*namespace), *plural, None),
        ["namespaces", namespace, plural, name] => (Some(*namespace), *plural, Some(*name)),
        [plural] => (None, *plural, None),
        [plural, name] => (None, *plural, Some(*name)),
        _ => return None,
    };
    let inner = world.lock();
    let mut kinds = inner.kinds.values();
    let kind = kinds
        .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)?;
    (kind.has_status || !is_status).then(|| Target {
        kind: kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        is_status,
    })
}

fn write(world: &World, method: &Method, target: &Target, body: &Bytes) -> Response {
    let kind = target.kind.name();
    let namespace = target.namespace.as_deref().unwrap_or_default();
    if *method == Method::DELETE {
        let name = target.name.as_deref().unwrap_or_default();
        return match world.delete(&kind, namespace, name) {
            Some(text) => text_answer(200, text),
            None => status(404, "NotFound", "there is no such object", 0),
        };
    }
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else {
        return status(400, "BadRequest", "the body is no JSON", 0);
    };
    let namespace = match target.kind.namespaced && namespace.is_empty() {
        true => object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned(),
        false => namespace.to_owned(),
    };
    if *method == Method::POST {
        if let Some(prefix) = object["metadata"]["generateName"].as_str().map(str::to_owned)
            && object["metadata"]["name"].is_null()
        {
            let revision = world.lock().revision;
            object["metadata"]["name"] = json!(format!("{prefix}{revision}"));
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = (kind.clone(), namespace.clone(), name);
        if world.lock().objects.contains_key(&key) {
            return status(409, "AlreadyExists", "there is an object by that name", 0);
        }
    }
    let planned = world.lock().fault(&kind, Request::Update);
    if let Some(Fault::Status(code, wait)) = planned {
        return status(code, "Conflict", "as planned", wait);
    }
    if target.kind.has_status {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let before = world.get(&kind, &namespace, name);
        object = only(object, before, target.is_status);
    }
    match world.put(&kind, &namespace, object) {
        Ok(text) if *method == Method::POST => text_answer(201, text),
        Ok(text) => text_answer(200, text),
        Err((code, message)) => {
            let reason = if code == 409 { "Conflict" } else { "Invalid" };
            status(code, reason, &message, 0)
        }
    }
}

/// What is stored of an object that has a status of its own, which is written by itself.
fn only(mut object: Value, before: Option<Value>, is_status: bool) -> Value {
    let Some(mut before) = before else {
        object["status"] = Value::Null;
        return object;
    };
    match is_status {
        false => object["status"] = before["status"].take(),
        true => {
            before["status"] = object["status"].take();
            before["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].take();
            object = before;
        }
    }
    object
}

async fn read(
    world: &World,
    target: Target,
    query: &HashMap<String, String>,
    metadata_only: bool,
) -> Response {
    let parameter = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    if let Some(name) = &target.name {
        let namespace = target.namespace.clone().unwrap_or_default();
        let key = (target.kind.name(), namespace, name.clone());
        let planned = world.lock().fault(&key.0, Request::Get);
        if let Some(Fault::Status(code, wait)) = planned {
            return status(code, "InternalError", "as planned", wait);
        }
        return match world.lock().objects.get(&key) {
            Some(object) => text_answer(200, object.text.clone()),
            None => status(404, "NotFound", "there is no such object", 0),
        };
    }
    let is_watch = matches!(parameter("watch"), "1" | "true");
    let request = match () {
        () if is_watch && parameter("sendInitialEvents") == "true" => Request::WatchList,
        () if is_watch => Request::Watch,
        () if parameter("continue").is_empty() => Request::List,
        () => Request::Continue,
    };
    let fault = world.lock().fault(&target.kind.name(), request);
    match fault {
        Some(Fault::Status(code, wait)) => {
            let reason = match code {
                410 => "Expired",
                403 => "Forbidden",
                429 => "TooManyRequests",
                _ => "InternalError",
            };
            return status(code, reason, "as planned", wait);
        }
        Some(Fault::Silent) if !is_watch => tokio::time::sleep(SILENCE).await,
        _ => {}
    }
    match is_watch {
        true => watcher::watch(world, target, query, metadata_only, request, fault),
        false => list(world, &target, query, metadata_only, fault),
    }
}

fn list(
    world: &World,
    target: &Target,
    query: &HashMap<String, String>,
    metadata_only: bool,
    fault: Option<Fault>,
) -> Response {
    let mut inner = world.lock();
    let version = query.get("resourceVersion").map(String::as_str);
    if inner.cached.is_some() && version != Some("0") {
        return status(504, "Timeout", "etcd does not answer", 0);
    }
    let limit = query.get("limit").and_then(|text| text.parse().ok()).unwrap_or(0);
    let (version, mut rest) = match query.get("continue").filter(|token| !token.is_empty()) {
        Some(token) => match inner.pages.get(token) {
            Some(page) => page.clone(),
            None => return status(410, "Expired", "the continue token is too old", 0),
        },
        None => {
            let (revision, objects) = inner.visible();
            let kind = target.kind.name();
            let of_kind = (kind.clone(), String::new(), String::new())..;
            let objects = objects.range(of_kind).take_while(|((of, ..), _)| *of == kind);
            let wanted = |object: &Arc<Stored>| {
                let namespace = target.namespace.as_ref();
                namespace.is_none_or(|namespace| object.namespace == *namespace)
            };
            // Of a page of one, only the version matters: not all need be copied for it.
            let most = if limit == 1 { 2 } else { usize::MAX };
            let objects = objects.map(|(_, object)| object.clone()).filter(wanted);
            (revision, objects.take(most).collect())
        }
    };
    if fault == Some(Fault::Empty) {
        rest.clear();
    }
    let later = match limit {
        0 => Vec::new(),
        limit => rest.split_off(rest.len().min(limit)),
    };
    let next = match later.is_empty() {
        true => String::new(),
        false => {
            let token = format!("{version}/{}+{}", later.len(), later[0].name);
            inner.pages.insert(token.clone(), (version, later));
            token
        }
    };
    drop(inner);
    let (api_version, kind) = match metadata_only {
        true => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadataList".to_owned()),
        false => (target.kind.api_version(), format!("{}List", target.kind.kind)),
    };
    let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
    let mut text = format!(
        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#
    );
    for (index, object) in rest.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        if fault == Some(Fault::Unreadable) && index == rest.len() / 2 {
            text.push_str(r#"{"metadata":{"name":7}}"#);
        } else {
            text.push_str(&shown(object, metadata_only));
        }
    }
    text.push_str("]}");
    if fault == Some(Fault::Cut) {
        let half = text.len() / 2;
        text.truncate(half);
        let pieces = [Ok(Bytes::from(text)), Err(io::Error::other("cut as planned"))];
        return Body::from_stream(futures::stream::iter(pieces)).into_response();
    }
    text_answer(200, text)
}

/// The object, or only its metadata.
fn shown(object: &Stored, metadata_only: bool) -> String {
    if !metadata_only {
        return object.text.clone();
    }
    let whole: Value = serde_json::from_str(&object.text).unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": whole["metadata"]}).to_string()
}

fn json_answer(value: &Value) -> Response {
    text_answer(200, value.to_string())
}

fn text_answer(code: u16, text: String) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or_default();
    (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn status(code: u16, reason: &str, message: &str, wait: u32) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    let mut response = text_answer(code, status.to_string());
    if wait > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}
