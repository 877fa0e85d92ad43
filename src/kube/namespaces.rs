//! Namespaces: the names that appear in the ledger. They are read-only; a quota can be created in any namespace.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use quota_core::event::Sequence;
use quota_semantics::{Name, quota::selector::NAME_LABEL};
use serde_json::{Value, json};

use super::{
    Kube, NAMESPACE_KIND, VERSION,
    accept::Shape,
    params::Params,
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::routes::Target;

/// Most namespaces of one list.
const LIST_MAX: usize = 10_000;
/// The longest name, that of a DNS label.
const NAME_MAX_BYTES: usize = 63;

pub(super) async fn list(
    State(kube): State<Kube>,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    let (labels, fields) = (params.labels()?, params.fields()?);
    let limit = match params.limit.and_then(|limit| usize::try_from(limit).ok()) {
        None | Some(0) => LIST_MAX,
        Some(limit) => limit.min(LIST_MAX),
    };
    let matches = |name: &&Name| {
        fields.matches("", name)
            && labels.matches(&[(NAME_LABEL.to_owned(), name.to_string())].into())
    };
    let (mut names, head) = kube
        .read(|state| {
            state
                .namespaces(&params.after)
                .filter(matches)
                .take(limit + 1)
                .cloned()
                .collect::<Vec<_>>()
        })
        .await?;
    params.check_version(head)?;
    let mut metadata = json!({"resourceVersion": head.to_string()});
    if names.len() > limit {
        names.truncate(limit);
        metadata["continue"] = json!(names.last());
    }
    let items = names.iter().map(|name| object(name, head)).collect();
    let list = format!("{NAMESPACE_KIND}List");
    Ok(Json(shaped(items, shape, &params, &metadata, &list)?).into_response())
}

pub(super) async fn get(
    State(kube): State<Kube>,
    Target(name): Target<String>,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > NAME_MAX_BYTES
        || !name.bytes().all(fits)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        return Err(Failure::no_such_namespace(&name));
    }
    let ((), head) = kube.read(|_| ()).await?;
    let object = object(&name.into(), head);
    let json = match shape {
        Shape::Whole => object,
        Shape::Metadata => table::partial(&object, "meta.k8s.io/v1"),
        Shape::Table(_) => {
            let metadata = json!({"resourceVersion": head.to_string()});
            shaped(vec![object], shape, &params, &metadata, "")?
        }
    };
    Ok(Json(json).into_response())
}

/// A namespace. The ledger has only its name; other fields are left out.
fn object(name: &Name, head: Sequence) -> Value {
    json!({
        "apiVersion": VERSION,
        "kind": NAMESPACE_KIND,
        "metadata": {
            "name": name, "resourceVersion": head.to_string(), "creationTimestamp": null,
            "labels": {NAME_LABEL: name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn shaped(
    items: Vec<Value>,
    shape: Shape,
    params: &Params,
    metadata: &Value,
    list: &str,
) -> Result<Value> {
    match shape {
        Shape::Whole => {
            Ok(json!({"kind": list, "apiVersion": VERSION, "metadata": metadata, "items": items}))
        }
        Shape::Metadata => {
            let items: Vec<_> = items
                .iter()
                .map(|item| table::partial(item, "meta.k8s.io/v1"))
                .collect();
            Ok(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "items": items,
            }))
        }
        Shape::Table(version) => {
            let attachment = Attachment::parse(&params.include_object)?;
            let row = |item: &Value| {
                let cells = json!([item["metadata"]["name"], "Active", "<unknown>"]);
                table::with_object(cells, item, attachment, version)
            };
            let columns = [
                table::column("Name", "name", "Name must be unique."),
                table::column("Status", "", "The status of the namespace"),
                table::column("Age", "", "Not known here."),
            ];
            let rows: Vec<_> = items.iter().map(row).collect();
            Ok(json!({
                "kind": "Table", "apiVersion": version, "metadata": metadata, "columnDefinitions": columns, "rows": rows,
            }))
        }
    }
}
