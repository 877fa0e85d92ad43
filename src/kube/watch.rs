//! Watches of quotas and groups: lines of JSON, until the client disconnects or the time is over.

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

/// Default and maximum duration of a watch.
const DURATION: Duration = Duration::from_secs(30 * 60);
const DURATION_MAX: Duration = Duration::from_secs(60 * 60);
/// Interval between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Events that wait for a slow client. When the queue is full, the watch waits, and later sends only the newest state
/// of each object.
const WAITING: usize = 64;

/// Interval between checks for changed groups: each group is sent at most once per interval.
const GROUPS: Duration = Duration::from_secs(1);

/// Objects whose last sent version is kept. Other objects may be sent again unchanged.
const SENT_MAX: usize = 1 << 14;

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
    let (lines, events) = mpsc::channel(WAITING);
    let watch = Watch {
        kube,
        scope,
        shape,
        attachment,
        bookmarks: params.allow_watch_bookmarks,
        marks_beginning: params.send_initial_events && params.allow_watch_bookmarks,
        lines,
        sent_columns: false,
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

/// The client has disconnected.
struct Gone;

/// The version of an object that was sent to a client.
struct SentObject {
    uid: String,
    /// The digest of the object without its version.
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
    /// Whether the columns were sent: only the first event of a table has them.
    sent_columns: bool,
    sent: HashMap<Key, SentObject>,
    /// The version up to which all changes were sent to the client.
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

    /// Sends all objects.
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

    /// Records the objects that the client has already. With a selector, a later change may remove an object from the
    /// selection. And many entries that may have changed a group leave it unchanged.
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

    /// Sends the current state of the groups that count these namespaces, or of all groups.
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

    /// Sends the current state of an object, if it has changed since it was last sent.
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
            let event = |was_sent| match was_sent || !is_new {
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

    /// Sends the end of an object. An object that was created and deleted in between was never sent.
    async fn send_end(&mut self, life: &Life, began: &[String]) -> std::result::Result<(), Failed> {
        let record = &life.record;
        let object = Object::deleted(record, life.sequence);
        let uid = record.uid().to_string();
        let key = object.key();
        let was_sent = self.sent.get(&key).is_some_and(|sent| sent.uid == uid);
        if was_sent {
            self.sent.remove(&key);
        }
        if was_sent || (!began.contains(&uid) && self.scope.holds(&object)) {
            self.send("DELETED", &object).await?;
        }
        Ok(())
    }

    /// Sends the current state of an object, unless the client has it; the type of the event depends on whether an
    /// earlier state was sent.
    async fn send_state(
        &mut self,
        object: &Object,
        event: impl Fn(bool) -> &'static str,
    ) -> std::result::Result<(), Failed> {
        let digest = digest(object)?;
        let last_sent = self
            .sent
            .get(&object.key())
            .filter(|last_sent| last_sent.uid == object.uid());
        if last_sent.is_some_and(|last_sent| last_sent.digest == digest) {
            return Ok(());
        }
        let event = match last_sent {
            None if !self.scope.labels.is_empty() => "ADDED",
            last_sent => event(last_sent.is_some()),
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
        let columns = match std::mem::replace(&mut self.sent_columns, true) {
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

/// The digest of an object without its version.
fn digest(object: &Object) -> Result<blake3::Hash> {
    let mut json = object.to_json()?;
    json["metadata"]["resourceVersion"] = Value::Null;
    Ok(blake3::hash(json.to_string().as_bytes()))
}
