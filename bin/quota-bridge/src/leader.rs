//! The work of the bridge while it publishes, and the reasons to stop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_nats::Client as Nats;
use futures::StreamExt as _;
use quota_semantics::{Name, Timestamp, admission::Charging, object::GroupResource};
use quota_service::health::{Check, Health};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    config::{Config, ListMode},
    kind::{AWAITED_EVERY, Limited, Lists, Shared},
    kinds::{Kinds, Registry, Wanted, groups, quotas},
    kubernetes::Client,
    lease::Held,
    line::{self, Progress, RelistIds},
    metrics,
    publisher::{Ended, Identity, Publisher, Queue, Status, Stream},
    status::StatusWriter,
    watermarks::{self, Watermarks},
    webhook::Rules,
};

/// The interval of the check whether the publisher has taken over.
const TICK: Duration = Duration::from_millis(10);

/// Sets the metric of the leader until it is dropped, also when a future is cancelled because the Lease was lost.
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
        metrics::watermarks_missing(0);
    }
}

/// The work of the leading bridge.
pub(crate) struct Leader {
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) nats: Nats,
    pub(crate) cluster_uid: String,
    /// The Kubernetes version of the API server: major and minor.
    pub(crate) version: (u32, u32),
    pub(crate) check: Check,
    /// The writer of the status of groups, if one is configured.
    pub(crate) status: Option<Arc<StatusWriter>>,
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
    /// Publishes until the publisher ends. `status` shows the publisher's progress.
    pub(crate) async fn lead(&self, status: Arc<Status>, lease: Option<Held>) -> Ended {
        let instance = uuid::Uuid::new_v4().to_string();
        let bytes = u32::try_from(self.config.queue.bytes.bytes()).unwrap_or(u32::MAX);
        let (queue, lines) = Queue::new(self.config.queue.lines.get(), bytes);
        let registry = Registry::default();
        let watermarks = Watermarks::default();
        let (await_watermarks, awaited) = watch::channel(());
        let subject = format!("{}.{}", self.config.nats.subject_prefix, self.config.cluster);
        let identity = Identity {
            instance: instance.clone(),
            cluster_uid: self.cluster_uid.clone(),
            adopt_cluster: self.config.adopt_cluster,
            lease: lease.clone(),
        };
        let lost = registry.clone();
        let publisher = Publisher::new(
            Stream::new(self.nats.clone(), &self.config.nats.stream, &subject),
            identity,
            status.clone(),
            watermarks.clone(),
            move || lost.lost(),
        );
        let shared = Arc::new(Shared {
            client: self.client.clone(),
            queue,
            ids: RelistIds::new(&instance),
            config: self.config.clone(),
            watch_list: self.watch_list(),
            charging: self.charging(),
            lists: Lists::new(self.config.list.concurrency),
            limited: Limited::default(),
            watermarks,
            awaited,
            publisher: status.clone(),
        });
        let kinds = Kinds::new(
            shared.clone(),
            registry.clone(),
            self.wanted(),
            self.config.namespaces.iter().map(|it| Name::from(it.as_str())).collect(),
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
            tasks.spawn(listen(self.nats.clone(), self.control_subject("relist"), relist));
            let wake = move |_: Ignored| {
                let _ = await_watermarks.send(());
            };
            tasks.spawn(listen(self.nats.clone(), self.control_subject("watermarks"), wake));
            let (limits, limited_kinds) = watch::channel(None);
            if let Some(rules) = self.rules() {
                tasks.spawn(async move { rules.run(limited_kinds).await });
            }
            if let Some(status) = self.status.clone() {
                tasks.spawn(async move { status.run().await });
            }
            self.publish_progress(&shared, &instance, &limits, lease.as_ref()).await;
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

    /// Whether lists are requested as the initial events of watches.
    fn watch_list(&self) -> bool {
        match self.config.list.mode {
            ListMode::Auto => self.version >= (1, 34),
            ListMode::Pages => false,
            ListMode::Watch => true,
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

    /// The writer of the webhook's rules, if one is configured.
    fn rules(&self) -> Option<Rules> {
        let Wanted { include, charge, .. } = self.wanted();
        Some(Rules {
            client: self.client.clone(),
            webhook: self.config.webhook.rules.clone()?,
            include,
            charge,
        })
    }

    /// Queues the watermarks of all kinds, after the lines before them. Whenever quotas and groups have watermarks, sends
    /// the kinds that are `limited` to `limits`, whether or not other kinds have watermarks.
    async fn publish_progress(
        &self,
        shared: &Shared,
        instance: &str,
        limits: &watch::Sender<Option<BTreeSet<GroupResource>>>,
        lease: Option<&Held>,
    ) {
        let Shared { queue, limited, watermarks, publisher: status, .. } = shared;
        let mut awaited = shared.awaited.clone();
        let every = self.config.watermark.every.get();
        let always = reported_always(&self.wanted());
        let names: BTreeSet<Name> = always.iter().map(GroupResource::name).collect();
        let mut awaited_since = None;
        let mut listed = Listed::default();
        let mut absent = KnownAbsent::default();
        let mut losses = 0;
        loop {
            // Before the watermarks are read: if messages are lost meanwhile, the publisher drops these watermarks.
            if std::mem::replace(&mut losses, watermarks.losses()) != losses {
                (listed, absent) = (Listed::default(), KnownAbsent::default());
            }
            let progress = watermarks.progress();
            let missing = watermarks.missing();
            let is_complete = !watermarks.is_empty() && first_of(&missing, &always).is_none();
            // Before an adoption ends, it has listed every kind that the bridge may list.
            if is_complete && missing.iter().all(|kind| watermarks.is_refused(kind)) {
                listed.note(queue.pushed());
            }
            if listed.take(status.published()) {
                status.listed();
            }
            if watermarks.are_known(&[quotas(), groups()]) {
                let kinds = Some(limited.get());
                limits.send_if_modified(|before| {
                    let changed = *before != kinds;
                    *before = kinds;
                    changed
                });
            }
            self.check.set(match watermarks.is_empty() {
                true => Health::Failed("discovery has not succeeded yet".to_owned()),
                false => health(&missing, &always),
            });
            metrics::watermarks_missing(missing.len());
            ages(&progress);
            metrics::queue_lines(queue.queued());
            awaited_since = awaited_since.filter(|since| !are_all_after(*since, &progress, &names));
            let news = absent.leave_out(progress, &names);
            // Versions may have passed those of a lost history, and the watermarks may be of the new one.
            if let Some(lease) = lease {
                lease.confirm().await;
            }
            for line in line::bookmarks(&self.cluster_uid, instance, &news) {
                if queue.push_unless_lost(line, losses).await.is_err() {
                    return;
                }
            }
            // Until all watermarks exist, or later ones that were requested, the others wait for the next message.
            let wait = match is_complete && awaited_since.is_none() {
                true => every,
                false => every.min(AWAITED_EVERY),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = awaited.changed() => awaited_since = Some(status.on_their_clock(watermarks::now())),
            }
        }
    }
}

/// The health of a leader without watermarks of these kinds.
///
/// The leader is not ready without the watermarks of kinds that are reported `always`. All others are watched because of
/// quotas: the author of a quota may name a kind that the bridge must not list, and shall not make the bridge unready for
/// everybody.
fn health(missing: &[GroupResource], always: &BTreeSet<GroupResource>) -> Health {
    let Some(first) = missing.first() else {
        return Health::Passed;
    };
    let say = |kind: &GroupResource| {
        let count = missing.len();
        format!("{count} kinds have no watermark yet: {kind}")
    };
    match first_of(missing, always) {
        Some(kind) => Health::Failed(say(kind)),
        None => Health::Lagging(say(first)),
    }
}

/// The kinds that are reported whatever quotas limit: those that are always watched, and those that the operator
/// includes, charges or excludes. Excluded ones are reported as absent.
fn reported_always(wanted: &Wanted) -> BTreeSet<GroupResource> {
    let mut kinds = wanted.independent_of_quotas();
    kinds.extend(wanted.exclude.iter().cloned());
    kinds
}

/// The first missing kind that is reported `always`.
fn first_of<'a>(
    missing: &'a [GroupResource],
    always: &BTreeSet<GroupResource>,
) -> Option<&'a GroupResource> {
    missing.iter().find(|kind| always.contains(*kind))
}

/// The kinds that an earlier bookmark has reported as absent.
///
/// Each report of an absent kind is recorded in the ledger. The authors of quotas may name many kinds that nobody serves,
/// and nobody waits for their watermarks, so one report by each leader is enough.
#[derive(Debug, Default)]
struct KnownAbsent(BTreeSet<Name>);

impl KnownAbsent {
    /// The progress without the known absent kinds that are not reported `always`.
    fn leave_out(
        &mut self,
        mut progress: BTreeMap<Name, Progress>,
        always: &BTreeSet<Name>,
    ) -> BTreeMap<Name, Progress> {
        let is_once = |kind: &Name, progress: &Progress| {
            matches!(progress, Progress::Absent { .. }) && !always.contains(kind)
        };
        let once = progress.iter().filter(|(kind, of)| is_once(kind, of));
        let once = once.map(|(kind, _)| kind.clone()).collect();
        let known = std::mem::replace(&mut self.0, once);
        progress.retain(|kind, of| !(is_once(kind, of) && known.contains(kind)));
        progress
    }
}

/// Whether the lists of all kinds that the bridge may list are published.
///
/// The lists were queued before their watermarks. The queue may never be empty again, so lines are counted.
#[derive(Debug, Default)]
struct Listed(Option<u64>);

impl Listed {
    /// Every such kind is listed, and `pushed` lines were queued. A number that was noted before is kept.
    fn note(&mut self, pushed: u64) {
        self.0.get_or_insert(pushed);
    }

    /// Whether the `published` lines contain all lists.
    fn take(&mut self, published: u64) -> bool {
        self.0.take_if(|pushed| *pushed <= published).is_some()
    }
}

/// Whether the watermarks of all kinds that are reported `always` are later than this time.
fn are_all_after(
    since: Timestamp,
    progress: &BTreeMap<Name, Progress>,
    always: &BTreeSet<Name>,
) -> bool {
    let mut always = always.iter().filter_map(|kind| progress.get(kind));
    always.all(|progress| match progress {
        Progress::Watermark { watermark, .. } => *watermark > since,
        Progress::Absent { .. } | Progress::Failing { .. } => true,
    })
}

fn ages(progress: &BTreeMap<Name, Progress>) {
    let now = watermarks::now();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_listed_is_published_some_time_although_there_is_always_more() {
        let mut listed = Listed::default();
        let ticks = (1..7).map(|tick| {
            let pushed = tick * 10;
            listed.note(pushed);
            listed.take(pushed - 15.min(pushed))
        });
        let expected = [false, false, true, false, false, true];
        assert_eq!(ticks.collect::<Vec<_>>(), expected);
        assert!(!listed.take(u64::MAX));
    }

    /// The authors of quotas invent names, and the ledger records each report of an absent kind.
    #[test]
    fn an_absent_kind_that_only_a_quota_names_is_reported_once() {
        let kinds = |names: &[&'static str]| names.iter().copied().map(Name::from).collect();
        let always = kinds(&["pods", "services"]);
        let watermark = Progress::Watermark {
            watermark: Timestamp::EPOCH,
            version: "7".to_owned(),
            failing: None,
        };
        let absent = Progress::Absent { absent: true };
        let progress = |widgets: Option<&Progress>| -> BTreeMap<Name, Progress> {
            let all =
                [("pods", Some(&watermark)), ("services", Some(&absent)), ("widgets.x.y", widgets)];
            let all = all.into_iter();
            all.filter_map(|(kind, of)| Some((Name::from(kind), of?.clone()))).collect()
        };
        let mut known = KnownAbsent::default();
        let mut reported = |widgets: Option<&Progress>| -> Vec<Name> {
            let reported = known.leave_out(progress(widgets), &always);
            reported.into_keys().collect()
        };
        let (all, known) =
            (["pods", "services", "widgets.x.y"].as_slice(), ["pods", "services"].as_slice());
        for (widgets, expected) in [
            (Some(&absent), all),
            (Some(&absent), known),
            // It was served for a while, or no quota named it.
            (Some(&watermark), all),
            (Some(&watermark), all),
            (Some(&absent), all),
            (Some(&absent), known),
            (None, known),
            (Some(&absent), all),
        ] {
            assert_eq!(reported(widgets), expected, "{widgets:?}");
        }
    }

    /// A daemon may wait for a kind that the operator excludes, but for none that only quotas name.
    #[test]
    fn kinds_that_only_quotas_name_are_not_waited_for() {
        let kind = |name| GroupResource::new("", name);
        let wanted = Wanted { exclude: BTreeSet::from([kind("services")]), ..Wanted::default() };
        let always = reported_always(&wanted);
        assert!(always.contains(&kind("services")) && always.contains(&groups()));
        assert_eq!(first_of(&[kind("secrets")], &always), None);
        let missing = [kind("secrets"), kind("pods")];
        assert_eq!(first_of(&missing, &always), Some(&missing[1]));
        let at =
            |watermark| Progress::Watermark { watermark, version: String::new(), failing: None };
        let progress = BTreeMap::from([
            (Name::from("pods"), at(Timestamp::MAX)),
            (Name::from("secrets"), at(Timestamp::EPOCH)),
            (Name::from("services"), Progress::Absent { absent: true }),
        ]);
        let mut names: BTreeSet<_> = always.iter().map(GroupResource::name).collect();
        assert!(are_all_after(Timestamp::EPOCH, &progress, &names));
        names.insert(Name::from("secrets"));
        assert!(!are_all_after(Timestamp::EPOCH, &progress, &names));
    }

    /// Whoever writes quotas chooses what is watched besides.
    #[test]
    fn a_kind_that_only_quotas_name_does_not_keep_the_leader_from_being_ready() {
        let kind = |name| GroupResource::new("", name);
        let always = BTreeSet::from([kind("pods"), kind("services")]);
        let of = |names: &[&'static str]| {
            let missing: Vec<_> = names.iter().copied().map(kind).collect();
            health(&missing, &always)
        };
        assert_eq!(of(&[]), Health::Passed);
        let lagging = "1 kinds have no watermark yet: secrets";
        assert_eq!(of(&["secrets"]), Health::Lagging(lagging.to_owned()));
        let failed = "2 kinds have no watermark yet: services";
        assert_eq!(of(&["secrets", "services"]), Health::Failed(failed.to_owned()));
    }
}
