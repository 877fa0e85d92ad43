//! Watches: events from a version on, bookmarks, and what goes wrong with them.

use std::{collections::HashMap, io, time::Duration};

use axum::{
    body::{Body, Bytes},
    response::{IntoResponse as _, Response},
};
use futures::StreamExt as _;
use http::header;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{Target, shown};
use crate::fake_api::world::{Fault, Logged, Request, SILENCE, World};

/// How often a watch says how far it is, and how long before its end.
const BOOKMARKS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(2));

/// Servers before this minor version say in a bookmark when the kind has last changed, and not how far the cluster is.
const PROGRESS_SINCE: u32 = 31;

pub(super) fn watch(
    world: &World,
    target: Target,
    query: &HashMap<String, String>,
    metadata_only: bool,
    request: Request,
    fault: Option<Fault>,
) -> Response {
    let from: u64 = query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
    let seconds = query.get("timeoutSeconds").and_then(|text| text.parse().ok());
    let (send, receive) = mpsc::channel::<Result<Bytes, io::Error>>(256);
    let watcher = Watcher {
        world: world.clone(),
        target,
        metadata_only,
        position: from,
        lists: request == Request::WatchList,
        fault,
        before_cut: 0,
        until: Instant::now() + Duration::from_secs(seconds.unwrap_or(1800)),
        send,
    };
    tokio::spawn(watcher.run());
    let pieces = futures::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|piece| (piece, receive))
    });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, Body::from_stream(pieces.fuse())).into_response()
}

struct Watcher {
    world: World,
    target: Target,
    metadata_only: bool,
    position: u64,
    lists: bool,
    fault: Option<Fault>,
    /// How many objects are sent before [`Fault::Cut`].
    before_cut: usize,
    until: Instant,
    send: mpsc::Sender<Result<Bytes, io::Error>>,
}

/// The watch is over.
struct Over;

impl Watcher {
    async fn run(mut self) {
        let _ = self.watch().await;
    }

    async fn watch(&mut self) -> Result<(), Over> {
        let mut changes = self.world.changes();
        let generation = self.world.lock().generation;
        if self.fault == Some(Fault::Silent) {
            tokio::time::sleep(SILENCE).await;
            return Ok(());
        }
        if self.lists {
            self.list().await?;
        }
        if self.fault == Some(Fault::Expired) || self.position < self.world.lock().compacted {
            return self.expired().await;
        }
        let (began, from) = (Instant::now(), self.position);
        let mut bookmarks = vec![self.until - BOOKMARKS.1.min(self.until - began)];
        let mut next = began + BOOKMARKS.0;
        while next < self.until {
            bookmarks.push(next);
            next += BOOKMARKS.0;
        }
        bookmarks.sort_by(|a, b| b.cmp(a));
        loop {
            let (events, reached, said, is_cut, is_expired) = {
                let inner = self.world.lock();
                let (reached, _) = inner.visible();
                let start = inner.log.partition_point(|logged| logged.revision <= self.position);
                let wanted = |logged: &&Logged| {
                    let namespace = self.target.namespace.as_ref();
                    logged.object.kind == self.target.kind.name()
                        && logged.revision <= reached
                        && namespace.is_none_or(|it| logged.object.namespace == *it)
                };
                let events: Vec<_> = inner.log[start..].iter().filter(wanted).cloned().collect();
                let changed = inner.log.iter().rfind(wanted).map(|last| last.revision);
                let said = match inner.minor >= PROGRESS_SINCE {
                    true => Some(reached),
                    false => changed.filter(|changed| *changed > from),
                };
                (
                    events,
                    reached,
                    said,
                    inner.generation != generation,
                    self.position < inner.compacted,
                )
            };
            if is_cut {
                return self.cut().await;
            }
            if is_expired {
                return self.expired().await;
            }
            for event in events {
                let object = shown(&event.object, self.metadata_only);
                self.event(event.event, &object).await?;
                self.position = event.revision;
            }
            // From a version of the future on nothing is said.
            let is_future = self.position > reached;
            self.position = self.position.max(reached);
            let bookmark = bookmarks.last().copied().unwrap_or(self.until);
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(bookmark), if !bookmarks.is_empty() => {
                    bookmarks.pop();
                    if let Some(said) = said
                        && !is_future
                    {
                        self.bookmark(said, false).await?;
                    }
                }
                () = tokio::time::sleep_until(self.until) => return Ok(()),
                () = self.send.closed() => return Ok(()),
            }
        }
    }

    async fn list(&mut self) -> Result<(), Over> {
        let (revision, objects) = {
            let inner = self.world.lock();
            let (revision, objects) = inner.visible();
            let kind = self.target.kind.name();
            let namespace = self.target.namespace.as_ref();
            let objects = objects.values().filter(|object| {
                object.kind == kind && namespace.is_none_or(|it| object.namespace == *it)
            });
            (revision, objects.cloned().collect::<Vec<_>>())
        };
        self.before_cut = objects.len() / 2;
        for (index, object) in objects.iter().enumerate() {
            if self.fault == Some(Fault::Unreadable) && index == objects.len() / 2 {
                self.event("ADDED", r#"{"metadata":{"name":7}}"#).await?;
                continue;
            }
            self.event("ADDED", &shown(object, self.metadata_only)).await?;
        }
        self.position = revision;
        if self.fault == Some(Fault::Empty) {
            // No bookmark ends the list: as servers that have the feature switched off.
            tokio::time::sleep(SILENCE).await;
        }
        self.bookmark(revision, true).await
    }

    /// A bookmark as a real server sends it, with what stands in for the rest of the object.
    async fn bookmark(&mut self, revision: u64, ends_list: bool) -> Result<(), Over> {
        let annotations = match ends_list {
            true => json!({"k8s.io/initial-events-end": "true"}),
            false => Value::Null,
        };
        let object = json!({
            "kind": self.target.kind.kind, "apiVersion": self.target.kind.api_version(),
            "metadata": {"resourceVersion": revision.to_string(), "creationTimestamp": null, "annotations": annotations},
            "spec": {"containers": null}, "status": {},
        });
        self.event("BOOKMARK", &object.to_string()).await
    }

    async fn event(&mut self, event: &str, object: &str) -> Result<(), Over> {
        let is_object = event != "BOOKMARK";
        let mut line = match self.fault {
            Some(Fault::Unreadable) if is_object && !self.lists => {
                self.fault = None;
                format!("{{\"type\":\"{event}\",\"object\":{{\"metadata\":{{\"name\":7}}}}}}\n")
            }
            _ => format!("{{\"type\":\"{event}\",\"object\":{object}}}\n"),
        };
        let may_be_cut = self.fault == Some(Fault::Cut) && is_object;
        let is_cut = may_be_cut && self.before_cut == 0;
        if may_be_cut {
            self.before_cut = self.before_cut.saturating_sub(1);
        }
        if is_cut {
            let half = line.len() / 2;
            line.truncate(half);
        }
        self.send.send(Ok(line.into())).await.map_err(|_| Over)?;
        match is_cut {
            true => {
                let _ = self.cut().await;
                Err(Over)
            }
            false => Ok(()),
        }
    }

    async fn cut(&mut self) -> Result<(), Over> {
        let cut = Err(io::Error::other("cut as planned"));
        self.send.send(cut).await.map_err(|_| Over)
    }

    async fn expired(&mut self) -> Result<(), Over> {
        let expired = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"});
        let line = format!("{{\"type\":\"ERROR\",\"object\":{expired}}}\n");
        self.send.send(Ok(line.into())).await.map_err(|_| Over)
    }
}
