//! Lists of quotas and groups, a page at a time.

use std::{collections::BTreeMap, sync::Arc};

use axum::response::{IntoResponse, Response};
use http::header;
use quota_core::{event::Sequence, state};
use serde::Serialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Kube,
    accept::Shape,
    copied::{Copied, some_of},
    kind::Kind,
    object::Object,
    params::Params,
    resource::{CopiedView, Key},
    scope::{Position, Scope},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    clock::now,
    large::{BYTES_PER_AMOUNT, Permit, Turn},
};

/// Most amounts in one list, counting limits and the reservations' amounts for them; the rest is left for `continue`.
pub(super) const LIST_WORK: usize = 200_000;

/// What is made of the objects of a page, one after the other.
pub(super) trait PageBuilder: Send + 'static {
    /// The result.
    type Output: Send + 'static;

    /// Adds an object.
    fn add(&mut self, object: &Object, turn: &Turn) -> Result<()>;

    /// The result, with the version of the page, and the position where the next page begins.
    fn end(self, version: Sequence, next: Option<Position>, turn: &Turn) -> Result<Self::Output>;
}

/// A list. Of its objects only the text is kept.
pub(super) struct Listing {
    kind: Kind,
    shape: Shape,
    attachment: Attachment,
    entries: Vec<Box<RawValue>>,
}

impl Listing {
    pub(super) fn new(kind: Kind, shape: Shape, params: &Params) -> Result<Self> {
        Ok(Self {
            kind,
            shape,
            attachment: shape.attachment(params)?,
            entries: Vec::new(),
        })
    }

    /// The item of an object, or its row of a table.
    fn entry(&self, object: &Object) -> Result<Value> {
        let mut json = object.to_json()?;
        if let (Shape::Whole, Some(json)) = (self.shape, json.as_object_mut()) {
            json.remove("apiVersion");
            json.remove("kind");
        }
        let cells = || table::cells(object, now());
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
}

impl PageBuilder for Listing {
    type Output = Vec<u8>;

    fn add(&mut self, object: &Object, turn: &Turn) -> Result<()> {
        let entry = self.entry(object)?;
        turn.pause();
        let text = to_raw_value(&entry).map_err(|error| Failure::internal(&error))?;
        self.entries.push(text);
        Ok(())
    }

    fn end(self, version: Sequence, next: Option<Position>, turn: &Turn) -> Result<Vec<u8>> {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let Some(next) = next {
            metadata["continue"] = next.token()?.into();
        }
        let kind = (self.kind.name(), self.kind.api_version());
        let columns = || table::columns(self.kind);
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

    /// Makes something of the objects of a scope after a position, in the turn of the principal if they show many
    /// amounts. The state is locked for a few objects at a time, so that no job waits for long; meanwhile they are only
    /// copied. The version is that of the first few.
    pub(super) async fn page<M: PageBuilder>(
        &self,
        permit: &Permit,
        scope: &Arc<Scope>,
        mut after: Position,
        limit: usize,
        check: impl Fn(Sequence) -> Result<()>,
        making: M,
    ) -> Result<M::Output> {
        let mut filling = Filling {
            making,
            limit,
            count: 0,
            work: 0,
            last: None,
        };
        let mut version = None;
        loop {
            let (mut copied, mut objects, mut amounts) = (Vec::new(), 0, 0);
            let more = loop {
                let some = |state: &state::State| some_of(state, scope, &after, self.chunk());
                let ((some, next), head) = self.read(some).await?;
                check(head)?;
                version.get_or_insert(head);
                let some = some.within(scope);
                let (more_objects, more_amounts) = some.size();
                objects += more_objects;
                amounts += more_amounts + more_objects * scope.labels.weight();
                copied.push((some, head));
                let Some(next) = next else { break false };
                after = next;
                let is_much = filling.work + amounts > LIST_WORK;
                if is_much || filling.count + objects > limit {
                    break true;
                }
                tokio::task::yield_now().await;
            };
            let (kube, scope) = (self.clone(), scope.clone());
            let version = version.unwrap_or_default();
            let make = move |turn: &Turn| {
                let is_full = filling.fill(&kube, &scope, copied, turn)?;
                if is_full || !more {
                    let next = filling.last.filter(|_| is_full);
                    return filling.making.end(version, next, turn).map(Made::Page);
                }
                Ok(Made::Part(filling))
            };
            match permit.make(amounts, make).await? {
                Made::Page(made) => return Ok(made),
                Made::Part(part) => filling = part,
            }
        }
    }
}

/// A page, or a part of one.
enum Made<M: PageBuilder> {
    Page(M::Output),
    Part(Filling<M>),
}

/// A page that is being made.
struct Filling<M> {
    making: M,
    /// Most objects.
    limit: usize,
    count: usize,
    /// The amounts of the objects.
    work: usize,
    /// The last object.
    last: Option<Position>,
}

impl<M: PageBuilder> Filling<M> {
    /// Adds the objects of the scope; answers whether the page is full and there are more.
    fn fill(
        &mut self,
        kube: &Kube,
        scope: &Scope,
        copied: Vec<(Copied, Sequence)>,
        turn: &Turn,
    ) -> Result<bool> {
        for (some, head) in copied {
            for view in some.views(turn) {
                turn.pause();
                let work = view.work();
                let object = kube.object(view, head);
                if !scope.labels.matches(object.labels()) {
                    continue;
                }
                self.work += work;
                let is_much = self.work > LIST_WORK && self.count > 0;
                if self.count == self.limit || is_much {
                    return Ok(true);
                }
                self.making.add(&object, turn)?;
                self.count += 1;
                self.last = Some(Position::of(&object));
            }
        }
        Ok(false)
    }
}
