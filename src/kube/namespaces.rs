//! Namespaces: the names that appear in the ledger. They are read-only; a quota can be created in any namespace.

use std::sync::Arc;

use axum::{
    Json, extract,
    response::{IntoResponse, Response},
};
use quota_core::{
    event::{NamespaceRecord, Sequence},
    state::State,
};
use quota_semantics::{Name, syntax};
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
    render::labels_of,
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
    let selected = Arc::new(move |(name, record): &Known| {
        reader.reads(name)
            && fields.matches("", name)
            && (labels.is_empty() || labels.matches(&labels_of(name, record.as_deref())))
    });
    let (mut found, mut version, mut after) = (Vec::new(), None, Name::from(&*params.after));
    while found.len() <= limit {
        // They are only copied while the state is locked.
        let some = |state: &State| -> Vec<Known> {
            let names = state.namespaces(&after).take(NAMES_AT_ONCE);
            names.map(|name| (name.clone(), state.namespace_record(name).cloned())).collect()
        };
        let (some, head) = kube.read(some).await?;
        let version = *version.get_or_insert(head);
        params.check_version(version)?;
        let last = some.get(NAMES_AT_ONCE - 1).map(|(name, _)| name.clone());
        let (amounts, selected) = (some.len() * weight, selected.clone());
        let select = move |turn: &Turn| -> Vec<_> {
            let some = some.into_iter().inspect(|_| turn.pause());
            some.filter(|known| selected(known)).collect()
        };
        found.extend(permit.make(amounts, select).await);
        let Some(last) = last else { break };
        after = last;
        tokio::task::yield_now().await;
    }
    let head = version.unwrap_or_default();
    let mut metadata = json!({"resourceVersion": head.to_string()});
    if found.len() > limit {
        found.truncate(limit);
        metadata["continue"] = json!(found.last().map(|(name, _)| name));
    }
    let amounts = found.len();
    let make = move |turn: &Turn| {
        let found = found.iter().inspect(|_| turn.pause());
        let attachment = shape.attachment(&params)?;
        let items = found.map(|known| item(known, head, shape, attachment));
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
    let record = |state: &State| state.namespace_record(&name).cloned();
    let (record, head) = kube.read(record).await?;
    let item = item(&(Name::from(&*name), record), head, shape, shape.attachment(&params)?);
    let json = shape.one(item, &head.to_string(), columns);
    Ok(Json(json).into_response())
}

/// A namespace's name, and what a source has reported of it.
type Known = (Name, Option<Arc<NamespaceRecord>>);

/// A namespace. The ledger has only its name and labels; other fields are left out.
fn item((name, record): &Known, head: Sequence, shape: Shape, attachment: Attachment) -> Value {
    let object = json!({
        "apiVersion": VERSION,
        "kind": NAMESPACE_KIND,
        "metadata": {
            "name": name, "resourceVersion": head.to_string(), "creationTimestamp": null,
            "labels": labels_of(name, record.as_deref()),
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
