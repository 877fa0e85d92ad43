//! Lists of quotas and groups, a page at a time.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::header;
use quota_core::{
    event::Sequence,
    state::{self, QuotasView},
};
use quota_semantics::Name;
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Kube,
    accept::Shape,
    field_selector::FieldSelector,
    kind::Kind,
    object::Object,
    params::Params,
    read,
    resource::{Key, ObjectPath, View},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    api::groups,
    label_selector::LabelSelector,
    large::{BYTES_PER_AMOUNT, Permit, Turn},
    writer::now,
};

/// Most amounts in one list, counting limits and the reservations' amounts for them; the rest is left for `continue`.
const LIST_WORK: usize = 200_000;

/// Amounts of groups and their members that are read while the state is locked once.
const GROUPS_WORK: usize = 20_000;

/// Selects objects.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) kind: Kind,
    /// The namespace of the objects; none for all.
    pub(super) namespace: Option<Name>,
    pub(super) fields: FieldSelector,
    pub(super) labels: LabelSelector,
}

impl Scope {
    pub(super) fn new(path: &ObjectPath, params: &Params) -> Result<Self> {
        let (fields, labels) = (params.fields()?, params.labels()?);
        let namespace = match path.kind {
            Kind::Quota => path
                .namespace
                .clone()
                .or_else(|| fields.namespace().cloned()),
            Kind::Group => None,
        };
        Ok(Self {
            kind: path.kind,
            namespace,
            fields,
            labels,
        })
    }

    pub(super) fn holds(&self, object: &Object) -> bool {
        self.is_about(&object.key()) && self.labels.matches(object.labels())
    }

    /// Whether the scope may contain this object, regardless of its labels.
    pub(super) fn is_about(&self, key: &Key) -> bool {
        let is_there = |own: &Name| *own == key.namespace;
        self.kind == key.kind
            && self.namespace.as_ref().is_none_or(is_there)
            && self.fields.matches(&key.namespace, &key.name)
    }
}

/// A page of a list.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    /// The version of the list: a watch from here on misses no change.
    pub(super) version: Sequence,
    /// The position where the next page begins.
    pub(super) next: Option<Position>,
}

/// Renders a page as a response.
pub(super) fn to_json(
    kind: Kind,
    page: &Page,
    shape: Shape,
    params: &Params,
    pause: impl Fn(),
) -> Result<Value> {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = next.token()?.into();
    }
    let entries = entries(&page.objects, shape, params, pause)?;
    Ok(as_list(kind, shape, &metadata, entries))
}

/// The items of a list, or the rows of a table.
fn entries(
    objects: &[Object],
    shape: Shape,
    params: &Params,
    pause: impl Fn(),
) -> Result<Vec<Value>> {
    let bare = |object: &Object| {
        pause();
        let mut json = object.to_json()?;
        if let Some(json) = json.as_object_mut() {
            json.remove("apiVersion");
            json.remove("kind");
        }
        Ok(json)
    };
    match shape {
        Shape::Whole => objects.iter().map(bare).collect(),
        Shape::Metadata => {
            let partial =
                |object: &Object| Ok(table::partial(&object.to_json()?, "meta.k8s.io/v1"));
            objects.iter().map(partial).collect()
        }
        Shape::Table(version) => {
            let (attachment, now) = (Attachment::parse(&params.include_object)?, now());
            let row = |object| {
                pause();
                table::row(object, attachment, version, now)
            };
            objects.iter().map(row).collect()
        }
    }
}

/// A list with these entries.
fn as_list(kind: Kind, shape: Shape, metadata: &Value, entries: Vec<Value>) -> Value {
    match shape {
        Shape::Whole => {
            let (list, api_version) = (format!("{}List", kind.name()), kind.api_version());
            json!({"kind": list, "apiVersion": api_version, "metadata": metadata, "items": entries})
        }
        Shape::Metadata => {
            let kind = "PartialObjectMetadataList";
            json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": entries})
        }
        Shape::Table(version) => as_table(kind, version, metadata, entries),
    }
}

/// A list that is made a page at a time. Of earlier pages only the text is kept.
pub(super) struct Listing {
    kind: Kind,
    shape: Shape,
    params: Params,
    entries: Vec<Box<RawValue>>,
}

impl Listing {
    pub(super) const fn new(kind: Kind, shape: Shape, params: Params) -> Self {
        Self {
            kind,
            shape,
            params,
            entries: Vec::new(),
        }
    }

    /// Adds objects, in the turn of the principal if they show many amounts.
    pub(super) async fn add(&mut self, permit: &Permit, objects: Vec<Object>) -> Result<()> {
        let (amounts, shape, params) = (read::amounts(&objects), self.shape, self.params.clone());
        let make = move |turn: &Turn| -> Result<Vec<_>> {
            let entries = entries(&objects, shape, &params, || turn.pause())?;
            let text = |entry| {
                turn.pause();
                to_raw_value(&entry).map_err(|error| Failure::internal(&error))
            };
            entries.into_iter().map(text).collect()
        };
        self.entries.extend(permit.make(amounts, make).await?);
        Ok(())
    }

    /// The response with all objects.
    pub(super) async fn answer(self, permit: &Permit, version: Sequence) -> Result<Response> {
        let bytes = self.entries.iter().map(|entry| entry.get().len()).sum();
        let metadata = json!({"resourceVersion": version.to_string()});
        let list = as_list(self.kind, self.shape, &metadata, Vec::new());
        let entries = self.entries;
        let make = move |turn: &Turn| {
            let fields = list.as_object().into_iter().flatten();
            let fields: BTreeMap<_, _> = fields
                .map(|(name, value)| match name.as_str() {
                    "items" | "rows" => (name, Field::Entries(&entries)),
                    _ => (name, Field::Other(value)),
                })
                .collect();
            turn.to_json(&fields, bytes)
        };
        let text = permit.make(bytes / BYTES_PER_AMOUNT, make).await;
        let text = text.map_err(|error| Failure::internal(&error))?;
        Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
    }
}

/// A field of a list.
#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Entries(&'a [Box<RawValue>]),
    Other(&'a Value),
}

/// A table of objects of a kind.
pub(super) fn as_table(kind: Kind, version: &str, metadata: &Value, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": version, "metadata": metadata,
        "columnDefinitions": table::columns(kind), "rows": rows,
    })
}

/// The position after which a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position(Name, Name);

impl Position {
    pub(super) fn read(token: &str) -> Result<Self> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        let position = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        position
            .map(|(namespace, name)| Self(namespace, name))
            .ok_or_else(|| Failure::bad_request("continue key is not valid"))
    }

    fn token(&self) -> Result<String> {
        let json =
            serde_json::to_vec(&(&self.0, &self.1)).map_err(|error| Failure::internal(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(json))
    }
}

impl Kube {
    /// An object, and the head of the state.
    pub(super) async fn find(&self, key: &Key) -> Result<(Option<Object>, Sequence)> {
        let (view, head) = self.read(|state| key.view(state)).await?;
        Ok((view.map(|view| self.object(view, head)), head))
    }

    /// The objects of a scope after a position. The state is locked for a few objects at a time, so that no job waits
    /// for long. The version is that of the first few.
    pub(super) async fn page(
        &self,
        scope: &Scope,
        mut after: Position,
        limit: usize,
        check: impl Fn(Sequence) -> Result<()>,
    ) -> Result<Page> {
        let (mut objects, mut version, mut work) = (Vec::new(), None, 0);
        loop {
            let ((copied, next), head) = self
                .read(|state| some_of(state, scope, &after, self.chunk()))
                .await?;
            check(head)?;
            let version = *version.get_or_insert(head);
            for view in copied.views(scope) {
                let more_work = view.work();
                let object = self.object(view, head);
                if !scope.holds(&object) {
                    continue;
                }
                work += more_work;
                if objects.len() == limit || (work > LIST_WORK && !objects.is_empty()) {
                    let next = objects.last().map(|last: &Object| {
                        Position(last.namespace().clone(), last.name().clone())
                    });
                    return Ok(Page {
                        objects,
                        version,
                        next,
                    });
                }
                objects.push(object);
            }
            match next {
                Some(next) => {
                    after = next;
                    tokio::task::yield_now().await;
                }
                None => {
                    return Ok(Page {
                        objects,
                        version,
                        next: None,
                    });
                }
            }
        }
    }
}

/// Objects copied from the state; their figures are computed later, outside the lock.
pub(super) enum Copied {
    Quotas(QuotasView),
    Groups(Vec<View>),
}

impl Copied {
    /// The views of the objects that belong to the scope.
    pub(super) fn views(self, scope: &Scope) -> Vec<View> {
        let views: Vec<View> = match self {
            Self::Quotas(quotas) => quotas.views().map(View::Quota).collect(),
            Self::Groups(views) => views,
        };
        let about = views.into_iter().filter(|view| scope.is_about(&view.key()));
        about.collect()
    }
}

/// Objects of a scope, limited by `limit` and by their work; and the position after them, if more follow.
pub(super) fn some_of(
    state: &state::State,
    scope: &Scope,
    after: &Position,
    limit: usize,
) -> (Copied, Option<Position>) {
    match scope.kind {
        Kind::Quota => {
            let namespace = scope.namespace.as_deref();
            let after = (&*after.0, &*after.1);
            let (quotas, more) = state.quotas_page(namespace, Some(after), limit);
            let last = quotas.records().next_back().filter(|_| more);
            let next = last.map(|quota| Position(quota.namespace.clone(), quota.name.clone()));
            (Copied::Quotas(quotas), next)
        }
        Kind::Group => {
            let (views, more) = some_groups_of(state, &after.1, limit);
            let last = views.last().filter(|_| more).map(View::key);
            let next = last.map(|key| Position(key.namespace, key.name));
            (Copied::Groups(views), next)
        }
    }
}

/// The groups after a name, limited by `limit` and by their work; and whether there are more.
fn some_groups_of(state: &state::State, after: &str, limit: usize) -> (Vec<View>, bool) {
    let (groups, mut more) = state.groups_page(after, limit);
    let (mut views, mut work) = (Vec::new(), 0);
    for group in groups {
        if work > GROUPS_WORK {
            more = true;
            break;
        }
        if let Some(seen) = groups::Seen::with(state, group, groups::MEMBERS_MAX) {
            let view = View::Group(seen);
            work += view.work();
            views.push(view);
        }
    }
    (views, more)
}
