//! The work of the bridge while it publishes, and the reasons to stop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_nats::Client as Nats;
use futures::StreamExt as _;
use quota_semantics::{Name, Timestamp, admission::Charging, object::GroupResource};
use quota_service::health::Check;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    clock,
    config::{Config, ListMode},
    kind::{Limited, Lists, Settings, Shared},
    kinds::{Kinds, Registry},
    kubernetes::Client,
    line::{self, Progress, RelistIds},
    metrics,
    needed::Wanted,
    publisher::{Ended, Identity, Publisher, Status, Stream},
    queue::Queue,
    rules::Rules,
    status::StatusWriter,
    watermarks::Watermarks,
};

/// How often the bridge checks whether the publisher has taken over.
const TICK: Duration = Duration::from_millis(10);

/// Metrics say that this bridge leads, until it is dropped: also when the Lease is lost in the middle of something.
struct LeadingGauge;

impl LeadingGauge {
    fn begin() -> Self {
        metrics::leader(true);
        Self
    }
}

impl Drop for LeadingGauge {
    fn drop(&mut self) {
        metrics::leader(false);
    }
}

/// What a leader needs.
pub(crate) struct Leader {
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) nats: Nats,
    pub(crate) cluster_uid: String,
    /// The server's Kubernetes version, major and minor.
    pub(crate) version: (u32, u32),
    pub(crate) check: Check,
    /// Who keeps the status of groups, if that is this bridge's task.
    pub(crate) status: Option<Arc<StatusWriter>>,
}

/// What the progress of a leader is read from, and where it goes.
struct Reporting<'a> {
    queue: &'a Queue,
    watermarks: &'a Watermarks,
    awaited: watch::Receiver<()>,
    instance: &'a str,
    status: &'a Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RelistRequest {
    resources: BTreeSet<String>,
}

/// A request without content.
#[derive(Default, Deserialize)]
struct Ignored {}

impl Leader {
    /// Publishes until something ends it. `status` tells others how that goes.
    pub(crate) async fn lead(&self, status: Arc<Status>) -> Ended {
        let instance = uuid::Uuid::new_v4().to_string();
        let bytes = u32::try_from(self.config.queue.bytes.bytes()).unwrap_or(u32::MAX);
        let (queue, lines) = Queue::new(self.config.queue.lines.get(), bytes);
        let registry = Registry::default();
        let watermarks = Watermarks::default();
        let limited = Limited::default();
        let (await_watermarks, awaited) = watch::channel(());
        let subject = format!(
            "{}.{}",
            self.config.nats.subject_prefix, self.config.cluster
        );
        let identity = Identity {
            instance: instance.clone(),
            cluster_uid: self.cluster_uid.clone(),
            adopt_cluster: self.config.adopt_cluster,
        };
        let all = registry.clone();
        let publisher = Publisher::new(
            Stream::new(self.nats.clone(), &self.config.nats.stream, &subject),
            identity,
            status.clone(),
            move || all.relist(&BTreeSet::new()),
        );
        let shared = Arc::new(Shared {
            client: self.client.clone(),
            queue: queue.clone(),
            ids: RelistIds::new(&instance),
            settings: self.settings(),
            charging: self.charging(),
            lists: Lists::new(self.config.list.concurrency),
            limited: limited.clone(),
            watermarks: watermarks.clone(),
            awaited: awaited.clone(),
            publisher: status.clone(),
        });
        let kinds = Kinds::new(
            shared,
            registry.clone(),
            self.wanted(),
            self.config
                .namespaces
                .iter()
                .map(|it| Name::from(it.as_str()))
                .collect(),
            self.config.watch.discovery.get(),
        );
        let work = async {
            while !status.took_over() {
                tokio::time::sleep(TICK).await;
            }
            let _leads = LeadingGauge::begin();
            let mut tasks = JoinSet::new();
            tasks.spawn(kinds.run());
            let relist = move |request: RelistRequest| {
                tracing::info!(resources = ?request.resources, "relist requested");
                metrics::relist_requested();
                registry.relist(&request.resources);
            };
            tasks.spawn(listen(
                self.nats.clone(),
                self.control_subject("relist"),
                relist,
            ));
            let wake = move |_: Ignored| {
                let _ = await_watermarks.send(());
            };
            tasks.spawn(listen(
                self.nats.clone(),
                self.control_subject("watermarks"),
                wake,
            ));
            let (limits, limited_kinds) = watch::channel(None);
            if let Some(rules) = self.rules() {
                tasks.spawn(async move { rules.run(limited_kinds).await });
            }
            if let Some(status) = self.status.clone() {
                tasks.spawn(async move { status.run().await });
            }
            let reporting = Reporting {
                queue: &queue,
                watermarks: &watermarks,
                awaited: awaited.clone(),
                instance: &instance,
                status: &status,
            };
            let listed = || {
                let now = Some(limited.get());
                limits.send_if_modified(|before| {
                    let changed = *before != now;
                    *before = now;
                    changed
                });
            };
            self.publish_progress(reporting, listed).await;
        };
        tokio::select! {
            ended = publisher.run(lines) => ended,
            () = work => Ended::Idle,
        }
    }

    fn control_subject(&self, request: &str) -> String {
        let Config { nats, cluster, .. } = &*self.config;
        format!("{}.{cluster}.{request}", nats.control_prefix)
    }

    fn settings(&self) -> Settings {
        let Config {
            list,
            watch,
            watermark,
            ..
        } = &*self.config;
        Settings {
            watch_list: match list.mode {
                ListMode::Auto => self.version >= (1, 34),
                ListMode::Pages => false,
                ListMode::Watch => true,
            },
            page: list.page.get(),
            relist_every: list.every.get(),
            list_idle: list.idle.get(),
            watch_timeout: watch.timeout.get(),
            watch_idle: watch.idle.get(),
            watermark_every: watermark.every.get(),
        }
    }

    fn charging(&self) -> Charging {
        let kinds = self.config.resources.charge.iter().map(String::as_str);
        let labels = self.config.resources.object_labels.iter();
        let charging = Charging::new(kinds).unwrap_or_default();
        charging.with_object_labels(labels.map(String::as_str))
    }

    fn wanted(&self) -> Wanted {
        let kinds = |names: &[String]| -> BTreeSet<GroupResource> {
            names.iter().filter_map(|name| name.parse().ok()).collect()
        };
        let resources = &self.config.resources;
        Wanted {
            include: kinds(&resources.include),
            exclude: kinds(&resources.exclude),
            charge: kinds(&resources.charge),
        }
    }

    /// Who keeps the webhook's rules, if that is this bridge's task.
    fn rules(&self) -> Option<Rules> {
        let Wanted {
            include, charge, ..
        } = self.wanted();
        Some(Rules {
            client: self.client.clone(),
            webhook: self.config.webhook.rules.clone()?,
            include,
            charge,
        })
    }

    /// Publishes the watermarks of all kinds, behind what was queued before. Calls `listed` whenever each kind has one.
    async fn publish_progress(&self, reporting: Reporting<'_>, listed: impl Fn()) {
        let Reporting {
            queue,
            watermarks,
            mut awaited,
            instance,
            status,
        } = reporting;
        let every = self.config.watermark.every.get();
        let mut awaited_since = None;
        loop {
            let progress = watermarks.progress();
            let missing = watermarks.missing();
            let is_complete = missing.is_empty() && !watermarks.is_empty();
            // The lists were queued before their watermarks; what is no longer queued precedes the next message.
            if is_complete && queue.is_empty() {
                status.listed();
                listed();
            }
            let incomplete = match missing.first() {
                _ if watermarks.is_empty() => Some("discovery has not succeeded yet".to_owned()),
                Some(first) => Some(format!(
                    "{} kinds have no watermark yet: {first}",
                    missing.len()
                )),
                None => None,
            };
            match incomplete {
                Some(why) => self.check.fail(&why),
                None => self.check.pass(),
            }
            ages(&progress);
            metrics::queue_lines(queue.len());
            for line in line::bookmarks(&self.cluster_uid, instance, &progress) {
                if queue.push(line).await.is_err() {
                    return;
                }
            }
            // Until all watermarks exist, or later ones that were requested, the others wait for the next message.
            awaited_since = awaited_since.filter(|since| !are_all_after(*since, &progress));
            let wait = match is_complete && awaited_since.is_none() {
                true => every,
                false => every.min(Duration::from_millis(500)),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = awaited.changed() => awaited_since = Some(status.on_their_clock(clock::now())),
            }
        }
    }
}

fn are_all_after(since: Timestamp, progress: &BTreeMap<Name, Progress>) -> bool {
    progress.values().all(|progress| match progress {
        Progress::Watermark { watermark, .. } => *watermark > since,
        Progress::Absent { .. } => true,
    })
}

fn ages(progress: &BTreeMap<Name, Progress>) {
    let now = clock::now();
    for (kind, progress) in progress {
        if let Progress::Watermark { watermark, .. } = progress {
            let age = now.since(*watermark).nanoseconds();
            metrics::watermark_age(kind, age as f64 / 1e9);
        }
    }
}

/// Receives the requests of quotad on a subject.
async fn listen<R: Default + DeserializeOwned>(
    nats: Nats,
    subject: String,
    mut take: impl FnMut(R),
) {
    loop {
        match nats.subscribe(subject.clone()).await {
            Ok(mut messages) => {
                while let Some(message) = messages.next().await {
                    take(serde_json::from_slice(&message.payload).unwrap_or_default());
                }
            }
            Err(error) => tracing::warn!(%error, subject, "cannot subscribe"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
