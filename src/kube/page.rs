//! Lists of quotas and groups, a page at a time.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

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
    applied::hide_others,
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
    fairness::{BYTES_PER_AMOUNT, Permit, Turn},
};

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
