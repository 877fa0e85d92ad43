//! Watching quotas and groups: lines of JSON, for as long as the client listens.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    time::Duration,
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, header};
use quota_core::{
    event::{Actor, Sequence},
    state::State,
};
use quota_semantics::Name;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use super::{
    Kube,
    accept::Shape,
    changes::{Delta, Life},
    kind::Kind,
    object::Object,
    page::{self, Page, Position, Scope},
    params::Params,
    resource::{Key, View},
    status::{Failure, Result},
    table::{self, Attachment},
};
use crate::{watches::Slot, writer::now};

/// How long a watch lasts if its client does not say, and at most.
const DURATION: Duration = Duration::from_secs(30 * 60);
const DURATION_MAX: Duration = Duration::from_secs(60 * 60);
/// Between two bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Events that wait for a slow client; the watch waits with them, and catches up by what is the newest then.
const WAITING: usize = 64;

/// Between two looks at what has changed of groups: each is sent at most once in that time.
const GROUPS: Duration = Duration::from_secs(1);

/// Objects of which the version that the client was sent is kept. Others may be sent again unchanged.
const SENT_MAX: usize = 1 << 14;

/// The annotation of the bookmark behind what there was at the beginning.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Begins a watch.
///
/// # Errors
/// If too many are open, or what it asks for cannot be served.
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
    let (lines, events) = mpsc::channel(WAITING);
    let watch = Watch {
        kube,
        scope,
        shape,
        attachment,
        bookmarks: params.allow_watch_bookmarks,
        marks_beginning: params.send_initial_events && params.allow_watch_bookmarks,
        lines,
        has_columns: false,
        sent: HashMap::new(),
        seen: from.unwrap_or(head),
    };
    tokio::spawn(watch.run(from.is_none(), Instant::now() + lasts, slot));
    let body = Body::from_stream(Lines(events));
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

struct Lines(mpsc::Receiver<Bytes>);

impl Stream for Lines {
    type Item = std::result::Result<Bytes, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|line| line.map(Ok))
    }
}

/// The client is gone.
struct Gone;

/// The version of an object that a client was sent.
struct SentObject {
    uid: String,
    /// Of the object without its version.
    digest: blake3::Hash,
}

struct Watch {
    kube: Kube,
    scope: Scope,
    shape: Shape,
    attachment: Attachment,
    bookmarks: bool,
    marks_beginning: bool,
    lines: mpsc::Sender<Bytes>,
    /// The columns of a table are in its first event only.
    has_columns: bool,
    sent: HashMap<Key, SentObject>,
    /// The version up to which the client was sent everything.
    seen: Sequence,
}

impl Watch {
    async fn run(mut self, from_the_beginning: bool, end: Instant, _slot: Slot) {
        let (stop, closed) = (self.kube.0.stop.clone(), self.lines.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = closed.closed() => {}
            () = tokio::time::sleep_until(end) => {}
            ended = self.follow(from_the_beginning) => if let Err(Failed::Watch(failure)) = ended {
                let _ = closed.send(line("ERROR", &failure.to_json())).await;
            },
        }
    }

    async fn follow(&mut self, from_the_beginning: bool) -> std::result::Result<(), Failed> {
        if from_the_beginning {
            self.send_all().await?;
        } else if self.scope.kind == Kind::Group
            || self.scope.namespace.is_some()
            || !self.scope.labels.is_empty()
        {
            self.learn().await?;
        }
        let mut ticks = tokio::time::interval_at(Instant::now() + BOOKMARKS, BOOKMARKS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (kube, seen) = (self.kube.clone(), self.seen);
            tokio::select! {
                () = kube.0.changes.beyond(seen) => {
                    self.send_changes().await?;
                    if self.scope.kind == Kind::Group {
                        tokio::time::sleep(GROUPS).await;
                    }
                }
                _ = ticks.tick() => if self.bookmarks { self.bookmark(json!({})).await? },
            }
        }
    }

    /// Everything that there is.
    async fn send_all(&mut self) -> std::result::Result<(), Failed> {
        let (mut after, mut version) = (Some(Position::default()), None);
        while let Some(position) = after {
            let page = self.page(position).await?;
            for object in &page.objects {
                self.send_state(object, |_| "ADDED").await?;
            }
            version.get_or_insert(page.version);
            after = page.next;
        }
        self.seen = version.unwrap_or(self.seen);
        if self.marks_beginning {
            self.bookmark(json!({INITIAL_EVENTS_END: "true"})).await?;
        }
        Ok(())
    }

    /// Objects that the client has already. With a selector, a change may be the end of an object for it; a group looks the
    /// same after many an entry that may have changed it.
    async fn learn(&mut self) -> std::result::Result<(), Failed> {
        let mut after = Some(Position::default());
        while let Some(position) = after {
            let page = self.page(position).await?;
            for object in &page.objects {
                if object.version() <= self.seen {
                    self.remember(object, digest(object)?);
                }
            }
            after = page.next;
        }
        Ok(())
    }

    async fn page(&self, after: Position) -> Result<Page> {
        let kube = &self.kube;
        kube.page(&self.scope, after, kube.chunk(), |_| Ok(()))
            .await
    }

    fn remember(&mut self, object: &Object, digest: blake3::Hash) {
        let key = object.key();
        if self.sent.len() < SENT_MAX || self.sent.contains_key(&key) {
            let uid = object.uid().to_owned();
            self.sent.insert(key, SentObject { uid, digest });
        }
    }

    async fn send_changes(&mut self) -> std::result::Result<(), Failed> {
        let Delta {
            upto,
            namespaces,
            any_group,
            lives,
        } = {
            let (scope, changes) = (&self.scope, &self.kube.0.changes);
            changes.since(scope.kind, self.seen, scope.namespace.as_ref())?
        };
        let began: Vec<_> = lives
            .iter()
            .filter(|life| life.began)
            .map(|life| life.record.uid().to_string())
            .collect();
        for life in lives.iter().filter(|life| !life.began) {
            self.send_end(life, &began).await?;
        }
        if self.scope.kind == Kind::Group {
            self.send_groups(&namespaces, any_group, &began).await?;
            self.seen = upto;
            return Ok(());
        }
        for namespace in namespaces {
            let mut after = Some(Name::default());
            while let Some(name) = after {
                let position = Some((&*namespace, &*name));
                let page = |state: &State| {
                    state.quotas_page(Some(&namespace), position, self.kube.chunk())
                };
                let ((quotas, more), head) = self.kube.read(page).await?;
                let last = quotas.records().next_back().filter(|_| more);
                after = last.map(|quota| quota.name.clone());
                for view in quotas.views() {
                    self.send_change(View::Quota(view), head, &began).await?;
                }
            }
        }
        self.seen = upto;
        Ok(())
    }

    /// The groups that count these namespaces, or all of them, as they are now.
    async fn send_groups(
        &mut self,
        namespaces: &[Name],
        all: bool,
        began: &[String],
    ) -> std::result::Result<(), Failed> {
        if all {
            let mut after = Some(Position::default());
            while let Some(position) = after {
                let some =
                    |state: &State| page::some_of(state, &self.scope, &position, self.kube.chunk());
                let ((copied, next), head) = self.kube.read(some).await?;
                for view in copied.views(&self.scope) {
                    self.send_change(view, head, began).await?;
                }
                after = next;
            }
            return Ok(());
        }
        let mut names = BTreeSet::new();
        for some in namespaces.chunks(self.kube.chunk()) {
            let groups = |state: &State| -> Vec<Name> {
                let groups = some.iter().flat_map(|namespace| state.groups_of(namespace));
                groups.cloned().collect()
            };
            names.extend(self.kube.read(groups).await?.0);
        }
        for name in names {
            let key = Key {
                kind: Kind::Group,
                namespace: Name::default(),
                name,
            };
            let (view, head) = self.kube.read(|state| key.view(state)).await?;
            if let Some(view) = view {
                self.send_change(view, head, began).await?;
            }
        }
        Ok(())
    }

    /// An object as it is now, if it has changed since the client was sent it.
    async fn send_change(
        &mut self,
        view: View,
        head: Sequence,
        began: &[String],
    ) -> std::result::Result<(), Failed> {
        let set_since = view.entry() > self.seen;
        let object = self.kube.object(view, head);
        let is_older = object.version() <= self.seen;
        if is_older || !self.scope.is_about(&object.key()) {
            return Ok(());
        }
        if self.scope.labels.matches(object.labels()) {
            let is_new = began.iter().any(|uid| uid == object.uid());
            let event = |known| match known || !is_new {
                true => "MODIFIED",
                false => "ADDED",
            };
            return self.send_state(&object, event).await;
        }
        if self.sent.remove(&object.key()).is_some() || set_since {
            self.send("DELETED", &object).await?;
        }
        Ok(())
    }

    /// An object is gone. One that came and went meanwhile, was never sent.
    async fn send_end(&mut self, life: &Life, began: &[String]) -> std::result::Result<(), Failed> {
        let record = &life.record;
        let object = Object::deleted(record, life.sequence);
        let uid = record.uid().to_string();
        let key = object.key();
        let known = self.sent.get(&key).is_some_and(|known| known.uid == uid);
        if known {
            self.sent.remove(&key);
        }
        if known || (!began.contains(&uid) && self.scope.holds(&object)) {
            self.send("DELETED", &object).await?;
        }
        Ok(())
    }

    /// An object as it is now, unless the client was sent it so; the type of the event depends on whether it was sent before.
    async fn send_state(
        &mut self,
        object: &Object,
        event: impl Fn(bool) -> &'static str,
    ) -> std::result::Result<(), Failed> {
        let digest = digest(object)?;
        let known = self
            .sent
            .get(&object.key())
            .filter(|known| known.uid == object.uid());
        if known.is_some_and(|known| known.digest == digest) {
            return Ok(());
        }
        let event = match known {
            None if !self.scope.labels.is_empty() => "ADDED",
            known => event(known.is_some()),
        };
        self.remember(object, digest);
        self.send(event, object).await
    }

    async fn send(&mut self, event: &str, object: &Object) -> std::result::Result<(), Failed> {
        let json = match self.shape {
            Shape::Whole => object.to_json()?,
            Shape::Metadata => table::partial(&object.to_json()?, "meta.k8s.io/v1"),
            Shape::Table(version) => {
                let row = table::row(object, self.attachment, version, now())?;
                let version_of = object.manifest.metadata().resource_version.clone();
                self.table(version, &version_of, vec![row])
            }
        };
        self.line(line(event, &json)).await
    }

    fn table(&mut self, version: &str, resource_version: &str, rows: Vec<Value>) -> Value {
        let columns = match std::mem::replace(&mut self.has_columns, true) {
            true => Value::Null,
            false => table::columns(self.scope.kind),
        };
        json!({
            "kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": resource_version},
            "columnDefinitions": columns, "rows": rows,
        })
    }

    async fn bookmark(&mut self, annotations: Value) -> std::result::Result<(), Failed> {
        let seen = self.seen.to_string();
        let mut metadata = json!({"resourceVersion": seen, "creationTimestamp": null});
        if annotations
            .as_object()
            .is_some_and(|annotations| !annotations.is_empty())
        {
            metadata["annotations"] = annotations;
        }
        let (kind, api_version) = (self.scope.kind.name(), self.scope.kind.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": {}, "status": {}});
        let json = match self.shape {
            Shape::Whole => object,
            Shape::Metadata => table::partial(&object, "meta.k8s.io/v1"),
            Shape::Table(version) => self.table(version, &seen, Vec::new()),
        };
        self.line(line("BOOKMARK", &json)).await
    }

    async fn line(&mut self, line: Bytes) -> std::result::Result<(), Failed> {
        self.lines
            .send(line)
            .await
            .map_err(|_| Failed::Client(Gone))
    }
}

/// Why a watch ends.
enum Failed {
    Client(Gone),
    Watch(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Watch(failure)
    }
}

fn line(event: &str, object: &Value) -> Bytes {
    let mut line = json!({"type": event, "object": object}).to_string();
    line.push('\n');
    line.into()
}

/// Of the object without its version.
fn digest(object: &Object) -> Result<blake3::Hash> {
    let mut json = object.to_json()?;
    json["metadata"]["resourceVersion"] = Value::Null;
    Ok(blake3::hash(json.to_string().as_bytes()))
}
