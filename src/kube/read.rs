//! Reads quotas and groups: one object, or lists.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use axum::{
    Json, extract,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::header;
use quota_core::{
    event::{Actor, Sequence},
    state::{self, QuotasView},
};
use quota_semantics::Name;
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Caller, Failure, Kube, Result,
    derived::hide_others,
    object::{self, Attachment, Object, Shape},
    request::{FieldSelector, Params},
    resource::{CopiedView, Key, Kind, View},
    watch,
};
use crate::{
    auth::Reader,
    fairness::{BYTES_PER_AMOUNT, Permit, Turn, make_sized},
    label_selector::LabelSelector,
    now, render,
    writer::Unavailable,
};

pub(super) async fn get(
    extract::State(kube): extract::State<Kube>,
    key: Key,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let (copied, head) = kube.read(|state| key.readable(state, &reader)).await?;
    params.check_version(head)?;
    let copied = copied.ok_or_else(|| Failure::not_found(key.kind, &key.name))?;
    let amounts = copied.amounts();
    let make = move |turn: &Turn| {
        let is_whole = |attachment| shape.is_whole(attachment);
        let view = match shape.attachment(&params).is_ok_and(is_whole) {
            true => copied.view(turn),
            false => copied.numbers(),
        };
        let mut object = kube.object(view, head);
        hide_others(&mut object.manifest, &reader);
        one(&object, shape, &params)
    };
    let made = make_sized(&actor.principal, amounts, make).await;
    made.map_err(|_| Unavailable::Overloaded)?
}

/// The response for one object, made in the turn of the principal if it shows many amounts.
pub(super) async fn answer(
    permit: &Permit,
    object: Object,
    shape: Shape,
    params: &Params,
) -> Result<Response> {
    let (amounts, params) = (object.amounts(), params.clone());
    let make = move |_: &Turn| one(&object, shape, &params);
    permit.make(amounts, make).await
}

/// The response for one object.
fn one(object: &Object, shape: Shape, params: &Params) -> Result<Response> {
    let attachment = shape.attachment(params)?;
    let item =
        shape.item(shape.json(object, attachment)?, attachment, || object::cells(object, now()));
    let version = &object.manifest.metadata().resource_version;
    let json = shape.one(item, version, || object::columns(object.manifest.kind()));
    Ok(Json(json).into_response())
}

/// A list, or a watch if the query requests one.
pub(super) async fn list(
    extract::State(kube): extract::State<Kube>,
    path: Key,
    reader: Reader,
    Caller(actor): Caller,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    let scope = Scope::new(&path, &params, reader)?;
    if params.watch {
        let actor: &Actor = &actor;
        return watch::watch(kube, actor, scope, shape, params).await;
    }
    let after = Position::read(&params.after)?;
    let permit = read_permit(&actor)?;
    let listing = Listing::new(path.kind, shape, &params)?;
    let scope = Arc::new(scope);
    let text = kube.page(&permit, &scope, after, &params, listing);
    Ok(Listing::response(text.await?))
}

/// The permission to read for this caller.
pub(super) fn read_permit(actor: &Actor) -> Result<Permit> {
    Ok(Permit::to_read(&actor.principal).map_err(|_| Unavailable::Overloaded)?)
}

/// How many amounts an answer with these objects shows.
pub(super) fn amounts(objects: &[Object]) -> usize {
    objects.iter().map(Object::amounts).sum()
}

/// An answer that is made in the turn of the principal if it shows many amounts.
pub(super) async fn large(
    permit: &Permit,
    amounts: usize,
    make: impl FnOnce(&Turn) -> Result<Value> + Send + 'static,
) -> Result<Response> {
    let make = move |turn: &Turn| {
        let json = make(turn)?;
        turn.to_json(&json, 0).map_err(|error| Failure::internal(&error))
    };
    let text = permit.make(amounts, make).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

// Lists of quotas and groups, a page at a time.

/// Most amounts in one list, counting limits and the reservations' amounts for them; the rest is left for `continue`.
pub(super) const LIST_WORK: usize = 200_000;

/// A list. Of its objects only the text is kept.
pub(super) struct Listing {
    kind: Kind,
    shape: Shape,
    attachment: Attachment,
    entries: Vec<Box<RawValue>>,
    /// Most objects of a page.
    limit: usize,
    /// The amounts of the objects of a page.
    work: usize,
    /// The last object of a page.
    last: Option<Position>,
}

impl Listing {
    pub(super) fn new(kind: Kind, shape: Shape, params: &Params) -> Result<Self> {
        Ok(Self {
            kind,
            shape,
            attachment: shape.attachment(params)?,
            entries: Vec::new(),
            limit: params.limit(),
            work: 0,
            last: None,
        })
    }

    /// Whether whole objects are listed.
    fn is_whole(&self) -> bool {
        self.shape.is_whole(self.attachment)
    }

    /// The item of an object, or its row of a table.
    fn entry(&self, object: &Object) -> Result<Value> {
        let mut json = self.shape.json(object, self.attachment)?;
        if let (Shape::Whole, Some(json)) = (self.shape, json.as_object_mut()) {
            json.remove("apiVersion");
            json.remove("kind");
        }
        let cells = || object::cells(object, now());
        Ok(self.shape.item(json, self.attachment, cells))
    }

    /// Adds an object, in the turn of the principal if it shows many amounts.
    pub(super) async fn with(mut self, permit: &Permit, object: Object) -> Result<Self> {
        let amounts = object.amounts();
        let make = move |turn: &Turn| {
            self.add(&object, turn)?;
            Ok(self)
        };
        permit.make(amounts, make).await
    }

    /// The response with all objects.
    pub(super) async fn answer(self, permit: &Permit, version: Sequence) -> Result<Response> {
        let bytes = self.bytes();
        let make = move |turn: &Turn| self.end(version, None, turn);
        let text = permit.make(bytes / BYTES_PER_AMOUNT, make).await?;
        Ok(Self::response(text))
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.get().len()).sum()
    }

    /// The response with a text.
    pub(super) fn response(text: Vec<u8>) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }

    /// Adds the objects of the scope; answers whether the page is full and there are more.
    fn fill(
        &mut self,
        kube: &Kube,
        scope: &Scope,
        copied: Vec<(Copied, Sequence)>,
        turn: &Turn,
    ) -> Result<bool> {
        for (some, head) in copied {
            for view in some.views(self.is_whole(), turn) {
                turn.pause();
                let work = view.work();
                let mut object = kube.object(view, head);
                hide_others(&mut object.manifest, &scope.reader);
                if !scope.labels.matches(object.labels()) {
                    continue;
                }
                self.work += work;
                let is_much = self.work > LIST_WORK && !self.entries.is_empty();
                if self.entries.len() == self.limit || is_much {
                    return Ok(true);
                }
                self.add(&object, turn)?;
                self.last = Some(Position::of(&object));
            }
        }
        Ok(false)
    }

    /// Adds an object.
    fn add(&mut self, object: &Object, turn: &Turn) -> Result<()> {
        let entry = self.entry(object)?;
        turn.pause();
        let text = to_raw_value(&entry).map_err(|error| Failure::internal(&error))?;
        self.entries.push(text);
        Ok(())
    }

    /// The text of the list, with its version, and the position where the next page begins.
    fn end(self, version: Sequence, next: Option<Position>, turn: &Turn) -> Result<Vec<u8>> {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(next) = next {
            metadata["continue"] = next.token()?.into();
        }
        let kind = (self.kind.name(), self.kind.api_version());
        let columns = || object::columns(self.kind);
        let list = self.shape.list(kind, &metadata, columns, Vec::new());
        let fields = list.as_object().into_iter().flatten();
        let fields: BTreeMap<_, _> = fields
            .map(|(name, value)| match name.as_str() {
                "items" | "rows" => (name, Field::Entries(&self.entries)),
                _ => (name, Field::Other(value)),
            })
            .collect();
        let text = turn.to_json(&fields, self.bytes());
        text.map_err(|error| Failure::internal(&error))
    }
}

/// A field of a list.
#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Entries(&'a [Box<RawValue>]),
    Other(&'a Value),
}

impl Kube {
    /// An object, and the head of the state. It is made in the turn of the principal if it shows many amounts.
    pub(super) async fn find(
        &self,
        permit: &Permit,
        key: &Key,
    ) -> Result<(Option<Object>, Sequence)> {
        let (copied, head) = self.read(|state| key.copied(state)).await?;
        let Some(copied) = copied else {
            return Ok((None, head));
        };
        Ok((Some(self.made(permit, copied, head).await), head))
    }

    /// The object of a copy from a state at `head`, made in the turn of the principal if it shows many amounts.
    pub(super) async fn made(&self, permit: &Permit, copied: CopiedView, head: Sequence) -> Object {
        let (kube, amounts) = (self.clone(), copied.amounts());
        let make = move |turn: &Turn| kube.object(copied.view(turn), head);
        permit.make(amounts, make).await
    }

    /// The text of a list of the objects of a scope after a position, made in the turn of the principal if they show many
    /// amounts. The state is locked for a few objects at a time, so that no job waits for long; meanwhile they are only
    /// copied. The version is that of the first few.
    pub(super) async fn page(
        &self,
        permit: &Permit,
        scope: &Arc<Scope>,
        mut after: Position,
        params: &Params,
        mut listing: Listing,
    ) -> Result<Vec<u8>> {
        let mut version = None;
        loop {
            let (mut copied, mut objects, mut amounts) = (Vec::new(), 0, 0);
            let more = loop {
                let some = |state: &state::State| some_of(state, scope, &after, self.chunk());
                let ((some, next), head) = self.read(some).await?;
                params.check_version(head)?;
                version.get_or_insert(head);
                let some = some.within(scope);
                let (more_objects, more_amounts) = some.size(listing.is_whole());
                objects += more_objects;
                amounts += more_amounts + more_objects * scope.labels.weight();
                copied.push((some, head));
                let Some(next) = next else { break false };
                after = next;
                let is_much = listing.work + amounts > LIST_WORK;
                if is_much || listing.entries.len() + objects > listing.limit {
                    break true;
                }
                tokio::task::yield_now().await;
            };
            let (kube, scope) = (self.clone(), scope.clone());
            let version = version.unwrap_or_default();
            let make = move |turn: &Turn| {
                let is_full = listing.fill(&kube, &scope, copied, turn)?;
                if is_full || !more {
                    let next = listing.last.take().filter(|_| is_full);
                    return listing.end(version, next, turn).map(ControlFlow::Break);
                }
                Ok(ControlFlow::Continue(listing))
            };
            match permit.make(amounts, make).await? {
                ControlFlow::Break(text) => return Ok(text),
                ControlFlow::Continue(part) => listing = part,
            }
        }
    }
}

// The objects that a request is about, and the place in their order where a page begins.

/// Selects objects.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) kind: Kind,
    /// The namespace of the objects; none for all.
    pub(super) namespace: Option<Name>,
    pub(super) fields: FieldSelector,
    pub(super) labels: LabelSelector,
    /// The namespaces that the caller may read: of a list of all namespaces, only the objects of these.
    pub(super) reader: Reader,
}

impl Scope {
    /// The scope of a request for a collection.
    pub(super) fn new(path: &Key, params: &Params, reader: Reader) -> Result<Self> {
        let (fields, labels) = (params.fields()?, params.labels()?);
        let named = Some(&path.namespace).filter(|namespace| !namespace.is_empty());
        let namespace = match path.kind {
            Kind::Quota => named.or_else(|| fields.namespace()).cloned(),
            Kind::Group => None,
        };
        Ok(Self { kind: path.kind, namespace, fields, labels, reader })
    }

    /// Whether it is of groups for a caller who may not read all namespaces: which groups these are changes with their
    /// members.
    pub(super) fn is_by_members(&self) -> bool {
        self.kind == Kind::Group && !self.reader.reads_all()
    }

    /// Whether the scope may contain this object, regardless of its labels. The namespace of a group is empty; which groups
    /// the caller may read depends on their members.
    pub(super) fn is_about(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.kind == kind
            && (kind == Kind::Group || self.reader.reads(namespace))
            && self.namespace.as_deref().is_none_or(|own| own == namespace)
            && self.fields.matches(namespace, name)
    }
}

/// The position after which a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position(pub(super) Name, pub(super) Name);

impl From<Key> for Position {
    fn from(key: Key) -> Self {
        Self(key.namespace, key.name)
    }
}

impl Position {
    pub(super) fn of(object: &Object) -> Self {
        Self(object.namespace().clone(), object.name().clone())
    }

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

    pub(super) fn token(&self) -> Result<String> {
        let json =
            serde_json::to_vec(&(&self.0, &self.1)).map_err(|error| Failure::internal(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(json))
    }
}

// Objects that are copied from the state, a few at a time, to compute their figures while the state goes on.

/// Groups and members of them that are copied while the state is locked once.
const GROUP_PLACES: usize = 2_000;
/// Amounts of the groups that are copied at once: more than these are rarely used.
const GROUP_AMOUNTS: usize = 20_000;

/// Objects copied from the state; their figures are computed later, outside the lock.
pub(super) enum Copied {
    Quotas(QuotasView),
    Groups(Vec<render::group::Copied>),
}

impl Copied {
    /// Only the objects that may belong to a scope, regardless of their labels.
    pub(super) fn within(mut self, scope: &Scope) -> Self {
        match &mut self {
            Self::Quotas(quotas) => {
                quotas.retain(|quota| scope.is_about(Kind::Quota, &quota.namespace, &quota.name));
            }
            Self::Groups(groups) => {
                groups.retain(|copied| scope.is_about(Kind::Group, "", &copied.group.record.name));
            }
        }
        self
    }

    /// How many objects they are, and how many amounts they show and were copied for them; with all that they hold, or
    /// only with their own numbers.
    pub(super) fn size(&self, whole: bool) -> (usize, usize) {
        match self {
            Self::Quotas(quotas) => {
                let metadata = quotas.metadata_bytes() / BYTES_PER_AMOUNT;
                let shown = if whole { quotas.amounts() } else { quotas.limits() };
                (quotas.len(), shown + quotas.sums() + metadata)
            }
            Self::Groups(groups) => {
                let amounts = |copied: &render::group::Copied| match whole {
                    true => copied.amounts(),
                    false => render::group::amounts_of(&copied.group),
                };
                (groups.len(), groups.iter().map(amounts).sum())
            }
        }
    }

    /// Their views, made with pauses: with all that they hold, or only with their own numbers.
    pub(super) fn views(self, whole: bool, turn: &Turn) -> Box<dyn Iterator<Item = View> + '_> {
        match self {
            Self::Quotas(quotas) => Box::new(quotas.into_views(whole).map(View::Quota)),
            Self::Groups(groups) => {
                let views = groups.into_iter().map(move |copied| match whole {
                    true => copied.seen(|| turn.pause()),
                    false => copied.without_members(),
                });
                Box::new(views.map(View::Group))
            }
        }
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
            let (groups, last) = some_groups_of(state, &after.1, limit, &scope.reader);
            let next = last.map(|last| Position(Name::default(), last));
            (Copied::Groups(groups), next)
        }
    }
}

/// The groups after a name that the caller may read, with their members, limited by `limit` and by their work; and the
/// last of those that were looked at, if there are more.
fn some_groups_of(
    state: &state::State,
    after: &str,
    limit: usize,
    reader: &Reader,
) -> (Vec<render::group::Copied>, Option<Name>) {
    let (page, more) = state.groups_page(after, limit);
    let mut copied = Vec::new();
    let (mut places, mut amounts, mut last) = (0, 0, None);
    for group in page {
        if places > GROUP_PLACES || amounts > GROUP_AMOUNTS {
            return (copied, last);
        }
        last = Some(group.record.name.clone());
        // The members are looked at, whether the caller may read them or not.
        places += 1 + if reader.reads_all() { 0 } else { group.members };
        if let Some(group) = render::group::Copied::for_reader(state, group, reader) {
            places += group.places();
            amounts += group.amounts();
            copied.push(group);
        }
    }
    (copied, last.filter(|_| more))
}
