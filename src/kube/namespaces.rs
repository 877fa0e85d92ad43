//! Namespaces: the names that appear in the ledger. They are read-only; a quota can be created in any namespace.

use std::sync::Arc;

use axum::{
    Json, extract,
    response::{IntoResponse, Response},
};
use quota_core::{event::Sequence, state::State};
use quota_semantics::{Name, quota::selector::NAME_LABEL, syntax};
use serde_json::{Value, json};

use super::{
    Caller, Kube, NAMESPACE_KIND, VERSION,
    accept::Shape,
    params::Params,
    read::{large, read_permit},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    auth::Reader,
    fairness::{NAMES_AT_ONCE, Turn},
    routes::Target,
};

pub(super) async fn list(
    extract::State(kube): extract::State<Kube>,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if params.watch {
        return Err(Failure::method_not_allowed());
    }
    let (labels, fields) = (params.labels()?, params.fields()?);
    let weight = params.selector_weight();
    let limit = params.limit();
    let permit = read_permit(&actor)?;
    let selected = Arc::new(move |name: &Name| {
        reader.reads(name)
            && fields.matches("", name)
            && labels.matches(&[(NAME_LABEL.to_owned(), name.to_string())].into())
    });
    let (mut names, mut version, mut after) = (Vec::new(), None, Name::from(&*params.after));
    while names.len() <= limit {
        // The names are only copied while the state is locked.
        let some = |state: &State| -> Vec<_> {
            let names = state.namespaces(&after).take(NAMES_AT_ONCE);
            names.cloned().collect()
        };
        let (some, head) = kube.read(some).await?;
        let version = *version.get_or_insert(head);
        params.check_version(version)?;
        let last = some.last().filter(|_| some.len() == NAMES_AT_ONCE).cloned();
        let (amounts, selected) = (some.len() * weight, selected.clone());
        let select = move |turn: &Turn| -> Vec<_> {
            let some = some.into_iter().inspect(|_| turn.pause());
            some.filter(|name| selected(name)).collect()
        };
        names.extend(permit.make(amounts, select).await);
        let Some(last) = last else { break };
        after = last;
        tokio::task::yield_now().await;
    }
    let head = version.unwrap_or_default();
    let mut metadata = json!({"resourceVersion": head.to_string()});
    if names.len() > limit {
        names.truncate(limit);
        metadata["continue"] = json!(names.last());
    }
    let amounts = names.len();
    let make = move |turn: &Turn| {
        let names = names.iter().inspect(|_| turn.pause());
        let attachment = shape.attachment(&params)?;
        let items = names.map(|name| item(name, head, shape, attachment));
        Ok(shape.list((NAMESPACE_KIND, VERSION), &metadata, columns, items.collect()))
    };
    large(&permit, amounts, make).await
}

pub(super) async fn get(
    extract::State(kube): extract::State<Kube>,
    Target([name]): Target<1>,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    if !syntax::dns_label(&name).is_empty() {
        return Err(Failure::no_such_namespace(&name));
    }
    let ((), head) = kube.read(|_| ()).await?;
    let item = item(&name, head, shape, shape.attachment(&params)?);
    let json = shape.one(item, &head.to_string(), columns);
    Ok(Json(json).into_response())
}

/// A namespace. The ledger has only its name; other fields are left out.
fn item(name: &Name, head: Sequence, shape: Shape, attachment: Attachment) -> Value {
    let object = json!({
        "apiVersion": VERSION,
        "kind": NAMESPACE_KIND,
        "metadata": {
            "name": name, "resourceVersion": head.to_string(), "creationTimestamp": null,
            "labels": {NAME_LABEL: name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    shape.item(object, attachment, || json!([name, "Active", "<unknown>"]))
}

fn columns() -> Value {
    json!([
        table::column("Name", "name", "Name must be unique."),
        table::column("Status", "", "The status of the namespace"),
        table::column("Age", "", "Not known here."),
    ])
}
