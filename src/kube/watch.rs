//! Watches of quotas and groups: lines of JSON, until the client disconnects or the time is over.
//!
//! A watch looks for changes at intervals, and makes its lines in the turn of its principal. For a client that does not
//! read it holds few lines: it goes on from its position once the client has read them.

mod events;
mod lines;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};
use quota_core::{
    event::{Actor, Sequence},
    state::State,
};
use quota_semantics::Name;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use self::{
    events::{ClientState, EventMaker, Manner, Purpose, Span, Versions, line},
    lines::{Gone, Sender},
};
use super::{
    Kube,
    accept::Shape,
    changes::{CHANGES_AT_ONCE, Delta},
    kind::Kind,
    page::{self, Copied, Position, Scope},
    params::Params,
    resource::{Key, View},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{
    large::{BYTES_PER_AMOUNT, Permit, Turn},
    watches::Slot,
};

/// Default and maximum duration of a watch.
const DURATION: Duration = Duration::from_secs(30 * 60);
const DURATION_MAX: Duration = Duration::from_secs(60 * 60);
/// Interval between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Pauses between two searches for changes: each object is sent at most once per pause.
const QUOTAS: Duration = Duration::from_millis(250);
const GROUPS: Duration = Duration::from_secs(1);

/// Namespaces, and amounts, that are read while the state is locked once.
const NAMESPACES_AT_ONCE: usize = 100;
const QUOTA_AMOUNTS: usize = 10_000;
const GROUP_AMOUNTS: usize = 2_000;

/// The annotation of the bookmark after the initial objects.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Begins a watch.
///
/// # Errors
/// Too many watches are open, or the request cannot be served.
pub(super) async fn watch(
    kube: Kube,
    actor: &Actor,
    scope: Scope,
    shape: Shape,
    params: Params,
) -> Result<Response> {
    params.check_watch()?;
    let attachment = Attachment::parse(&params.include_object)?;
    let slot = kube.0.watches.open(actor);
    let slot = slot.map_err(|full| Failure::too_many(full.to_string()))?;
    let ((), head) = kube.read(|_| ()).await?;
    let from = params.version()?;
    if let Some(version) = from.filter(|version| *version > head) {
        return Err(Failure::not_yet(version, head));
    }
    let from = from.filter(|_| !params.send_initial_events);
    if let Some(version) = from {
        let namespace = scope.namespace.as_ref();
        kube.0.changes.since(scope.kind, version, namespace)?;
    }
    let requested = params.timeout_seconds.filter(|seconds| *seconds > 0);
    let lasts = requested
        .map_or(DURATION, Duration::from_secs)
        .min(DURATION_MAX);
    let (lines, body) = lines::channel();
    let seen = from.unwrap_or(head);
    let manner = Manner {
        scope: Arc::new(scope),
        shape,
        attachment,
    };
    let watch = Watch {
        kube,
        manner: Arc::new(manner),
        permit: Permit::to_watch(&actor.principal),
        bookmarks: params.allow_watch_bookmarks,
        marks_beginning: params.send_initial_events && params.allow_watch_bookmarks,
        lines,
        client: ClientState::default(),
        span: Span { seen, upto: seen },
    };
    tokio::spawn(watch.run(from.is_none(), Instant::now() + lasts, slot));
    let body = Body::from_stream(body);
    let mut response = body.into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    Ok(response)
}

struct Watch {
    kube: Kube,
    manner: Arc<Manner>,
    permit: Permit,
    bookmarks: bool,
    marks_beginning: bool,
    lines: Sender,
    client: ClientState,
    span: Span,
}

impl Watch {
    async fn run(mut self, from_the_beginning: bool, end: Instant, _slot: Slot) {
        let (stop, closed) = (self.kube.0.stop.clone(), self.lines.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = closed.closed() => {}
            () = tokio::time::sleep_until(end) => {}
            ended = self.follow(from_the_beginning) => if let Err(Failed::Watch(failure)) = ended {
                let _ = closed.send(line("ERROR", failure.to_json())).await;
            },
        }
    }

    async fn follow(&mut self, from_the_beginning: bool) -> std::result::Result<(), Failed> {
        let scope = self.manner.scope.clone();
        if from_the_beginning {
            self.send_all().await?;
        } else if scope.kind == Kind::Group || scope.namespace.is_some() || !scope.labels.is_empty()
        {
            // With a selector, a later change may remove an object from the selection. And many entries that may have
            // changed a group leave it unchanged.
            self.send_objects(Purpose::Known).await?;
        }
        let pause = match scope.kind {
            Kind::Quota => QUOTAS,
            Kind::Group => GROUPS,
        };
        let mut ticks = tokio::time::interval_at(Instant::now() + BOOKMARKS, BOOKMARKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (kube, seen) = (self.kube.clone(), self.span.seen);
            tokio::select! {
                () = kube.0.changes.beyond(seen) => {
                    self.send_changes().await?;
                    tokio::time::sleep(pause).await;
                }
                _ = ticks.tick() => if self.bookmarks { self.bookmark(json!({})).await? },
            }
        }
    }

    /// Sends all objects.
    async fn send_all(&mut self) -> std::result::Result<(), Failed> {
        let ((), head) = self.kube.read(|_| ()).await?;
        self.span = Span {
            seen: head,
            upto: head,
        };
        self.send_objects(Purpose::Initial).await?;
        if self.marks_beginning {
            self.bookmark(json!({INITIAL_EVENTS_END: "true"})).await?;
        }
        Ok(())
    }

    /// Sends events about all objects of the scope.
    async fn send_objects(&mut self, purpose: Purpose) -> std::result::Result<(), Failed> {
        let scope = self.manner.scope.clone();
        let mut after = Some(Position::default());
        while let Some(position) = after {
            let some = |state: &State| page::some_of(state, &scope, &position, self.kube.chunk());
            let ((copied, next), head) = self.kube.read(some).await?;
            let versions = Versions::of(&self.span, head, purpose);
            let last = self.send_copied(copied, versions, purpose).await?;
            after = last.map(Position::from).or(next);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends events about copied objects; returns the last of them if enough lines were made before the end. Then the rest is
    /// copied again, since the client may take long to read the lines.
    async fn send_copied(
        &mut self,
        copied: Copied,
        versions: Versions,
        purpose: Purpose,
    ) -> std::result::Result<Option<Key>, Failed> {
        let copied = copied.within(&self.manner.scope);
        let (_, amounts) = copied.size();
        self.make(amounts, move |maker| maker.each(copied, &versions, purpose))
            .await
    }

    /// Makes lines, in the turn of the principal if they are about many amounts, and sends them.
    async fn make<R: Send + 'static>(
        &mut self,
        amounts: usize,
        work: impl FnOnce(&mut EventMaker<'_>) -> Result<R> + Send + 'static,
    ) -> std::result::Result<R, Failed> {
        let mut client = std::mem::take(&mut self.client);
        let (kube, manner, span) = (self.kube.clone(), self.manner.clone(), self.span);
        let make = move |turn: &Turn| {
            let made = work(&mut EventMaker {
                kube: &kube,
                manner: &manner,
                client: &mut client,
                turn,
                span,
            });
            (made, client)
        };
        let (made, client) = self.permit.make(amounts, make).await;
        self.client = client;
        for line in std::mem::take(&mut self.client.lines) {
            self.lines.send(line).await?;
        }
        Ok(made?)
    }

    async fn send_changes(&mut self) -> std::result::Result<(), Failed> {
        let scope = self.manner.scope.clone();
        let namespace = scope.namespace.as_ref();
        let Delta { upto, any_group } =
            self.kube
                .0
                .changes
                .since(scope.kind, self.span.seen, namespace)?;
        self.span.upto = upto;
        let touched = self.touched().await?;
        self.send_deletions().await?;
        match scope.kind {
            Kind::Group if any_group => self.send_objects(Purpose::Change).await?,
            Kind::Group => {
                let namespaces: Vec<_> = touched.into_iter().map(|(_, name)| name).collect();
                self.send_groups(&namespaces).await?;
            }
            Kind::Quota => self.send_quotas(&touched).await?,
        }
        self.span.seen = upto;
        Ok(())
    }

    /// The namespaces in which quotas or figures have changed, each with its last change, in the order of the changes.
    async fn touched(&self) -> Result<Vec<(Sequence, Name)>> {
        let namespace = self.manner.scope.namespace.as_ref();
        let (mut touched, mut names) = (Vec::new(), HashSet::new());
        let mut after = self.span.seen;
        loop {
            let some = self.kube.0.changes.touched(after, namespace)?;
            let is_all = some.len() < CHANGES_AT_ONCE;
            after = some.last().map_or(after, |(last, _)| *last);
            // A namespace that has changed again meanwhile is sent again in the next round.
            touched.extend(
                some.into_iter()
                    .filter(|(_, name)| names.insert(name.clone())),
            );
            if is_all {
                return Ok(touched);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn send_deletions(&mut self) -> std::result::Result<(), Failed> {
        let Span { seen, upto } = self.span;
        let scope = self.manner.scope.clone();
        let mut after = seen;
        while after < upto {
            let changes = &self.kube.0.changes;
            let (deletions, until) =
                changes.deleted(scope.kind, (after, upto), scope.namespace.as_ref())?;
            let bytes = |it: &super::changes::Deletion| it.record.metadata_bytes();
            let bytes: usize = deletions.iter().map(bytes).sum();
            let amounts = deletions.len() + bytes / BYTES_PER_AMOUNT;
            let make = move |maker: &mut EventMaker<'_>| maker.deletions(&deletions);
            after = self.make(amounts, make).await?.unwrap_or(until);
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends the current state of the quotas of these namespaces.
    async fn send_quotas(
        &mut self,
        touched: &[(Sequence, Name)],
    ) -> std::result::Result<(), Failed> {
        let (mut rest, mut after) = (touched, Name::default());
        while !rest.is_empty() {
            let some = |state: &State| some_quotas_of(state, rest, &after, self.kube.chunk());
            let ((copied, count, last), head) = self.kube.read(some).await?;
            let some = rest.iter().take(NAMESPACES_AT_ONCE).cloned();
            let versions = Versions {
                most: head,
                of_namespaces: some.map(|(changed, name)| (name, changed)).collect(),
            };
            let stopped = self.send_copied(copied, versions, Purpose::Change).await?;
            let place = |key: &Key| rest.iter().position(|(_, name)| *name == key.namespace);
            (rest, after) = match stopped {
                Some(key) => (&rest[place(&key).unwrap_or(0)..], key.name),
                None => (&rest[count..], last),
            };
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends the current state of the groups that count these namespaces.
    async fn send_groups(&mut self, namespaces: &[Name]) -> std::result::Result<(), Failed> {
        let mut names = BTreeSet::new();
        for some in namespaces.chunks(NAMESPACES_AT_ONCE) {
            let groups = |state: &State| -> Vec<Name> {
                let groups = some.iter().flat_map(|namespace| state.groups_of(namespace));
                groups.cloned().collect()
            };
            names.extend(self.kube.read(groups).await?.0);
        }
        let names: Vec<_> = names.into_iter().collect();
        let mut rest = &names[..];
        while !rest.is_empty() {
            let some = |state: &State| some_groups_of(state, rest);
            let ((copied, count), head) = self.kube.read(some).await?;
            let versions = Versions::of(&self.span, head, Purpose::Change);
            let stopped = self.send_copied(copied, versions, Purpose::Change).await?;
            let place = |key: Key| rest.iter().position(|name| *name == key.name);
            let sent = stopped.and_then(place).map_or(count, |place| place + 1);
            rest = &rest[sent..];
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn bookmark(&mut self, annotations: Value) -> std::result::Result<(), Failed> {
        let seen = self.span.seen.to_string();
        let mut metadata = json!({"resourceVersion": seen, "creationTimestamp": null});
        if annotations
            .as_object()
            .is_some_and(|annotations| !annotations.is_empty())
        {
            metadata["annotations"] = annotations;
        }
        let kind = self.manner.scope.kind;
        let (kind, api_version) = (kind.name(), kind.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": {}, "status": {}});
        let json = match self.manner.shape {
            Shape::Whole => object,
            Shape::Metadata => table::partial(&object, "meta.k8s.io/v1"),
            Shape::Table(version) => self.client.table(&self.manner, version, &seen, Vec::new()),
        };
        Ok(self.lines.send(line("BOOKMARK", json)).await?)
    }
}

/// The first quotas of these namespaces, of the first one those after a name. Also how many of the namespaces are
/// complete, and the last copied quota of the next one.
fn some_quotas_of(
    state: &State,
    namespaces: &[(Sequence, Name)],
    after: &Name,
    limit: usize,
) -> (Copied, usize, Name) {
    let (mut copied, mut amounts) = (Vec::new(), 0);
    for (place, (_, namespace)) in namespaces.iter().enumerate() {
        if place >= NAMESPACES_AT_ONCE || amounts > QUOTA_AMOUNTS {
            return (Copied::Quotas(copied), place, Name::default());
        }
        let from = if place == 0 { &**after } else { "" };
        let after = Some((&**namespace, from));
        let (quotas, more) = state.quotas_page(Some(namespace), after, limit);
        amounts += 1 + quotas.amounts() + quotas.metadata_bytes() / BYTES_PER_AMOUNT;
        let last = quotas.records().next_back().filter(|_| more);
        let last = last.map(|quota| quota.name.clone());
        copied.push(quotas);
        if let Some(last) = last {
            return (Copied::Quotas(copied), place, last);
        }
    }
    let count = namespaces.len();
    (Copied::Quotas(copied), count, Name::default())
}

/// The first of these groups, and how many of the names they are.
fn some_groups_of(state: &State, names: &[Name]) -> (Copied, usize) {
    let (mut views, mut amounts) = (Vec::new(), 0);
    for (place, name) in names.iter().enumerate() {
        if amounts > GROUP_AMOUNTS {
            return (Copied::Groups(views), place);
        }
        let key = Key {
            kind: Kind::Group,
            namespace: Name::default(),
            name: name.clone(),
        };
        let view = key.view(state);
        amounts += 1 + view.as_ref().map_or(0, View::work);
        views.extend(view);
    }
    (Copied::Groups(views), names.len())
}

/// Why a watch ends.
enum Failed {
    Client(Gone),
    Watch(Failure),
}

impl From<Gone> for Failed {
    fn from(gone: Gone) -> Self {
        Self::Client(gone)
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Watch(failure)
    }
}
