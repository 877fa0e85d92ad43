//! Background work: snapshots, compaction and metrics.

use std::{
    iter,
    sync::Arc,
    time::{Duration, Instant},
};

use quota_core::{
    event::QuotaRecord,
    state::{Figure, GroupFigure, GroupView, LimitView, MemberView, State, room},
};
use quota_journal::{FileReader, Retention};
use quota_ledger::replay;
use quota_semantics::{Name, Timestamp, admission::LimitKind};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{self, Config},
    enforcement::NotReported,
    fatal, intake,
    metrics::{self, Part, QuotaSource, ReservationState, RoomFigure, largest_share},
    writer::{Ledger, Unavailable},
};

/// How often the task checks whether a snapshot is due, and updates metrics.
const TICK: Duration = Duration::from_secs(1);

/// How often compaction looks for data to remove, besides after each snapshot.
const COMPACTION: Duration = Duration::from_secs(60);

/// How often the free space is looked at while relists are finished.
const DISK_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// How often the journal is looked at for a failure in the background.
const JOURNAL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The wait before a failed snapshot is retried.
const SNAPSHOT_RETRY: Duration = Duration::from_secs(60);

/// The nice value while a snapshot is written: it gets about a tenth of a busy processor.
const STEP_BACK: i32 = 10;

/// Why a snapshot was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    /// The writer has stopped or is overloaded.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// It could not be written.
    #[error("cannot write the snapshot: {0}")]
    Journal(#[from] quota_journal::Error),
    /// It could not be written.
    #[error("cannot write the snapshot: {0}")]
    Write(#[from] std::io::Error),
}

/// Maintenance of an open ledger. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Maintenance {
    ledger: Ledger,
    reader: FileReader,
    config: Arc<Config>,
}

impl Maintenance {
    /// Maintenance for this ledger.
    pub(crate) const fn new(ledger: Ledger, reader: FileReader, config: Arc<Config>) -> Self {
        Self { ledger, reader, config }
    }

    /// Runs until `stop`: stores snapshots, compacts, and updates metrics.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut last =
            Snapshotted { sequence: self.newest_snapshot(), at: Instant::now(), failed: None };
        let mut compacted = Instant::now();
        let mut was_low = false;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let is_low = self.ledger.is_disk_low();
            // Compaction may free space.
            let has_become_low = is_low && !was_low;
            was_low = is_low;
            let mut compaction_due = has_become_low || compacted.elapsed() >= COMPACTION;
            let durable = self.ledger.durable().sequence;
            if !is_low && last.is_outdated(Instant::now(), durable, &self.config.snapshot) {
                match self.snapshot().await {
                    Ok(sequence) => {
                        last = Snapshotted { sequence, at: Instant::now(), failed: None };
                        // Compaction can remove only entries that a snapshot covers.
                        compaction_due = true;
                    }
                    Err(error) => {
                        tracing::error!(%error, "no snapshot");
                        metrics::snapshot_failed();
                        last.failed = Some(Instant::now());
                    }
                }
            }
            if compaction_due {
                compacted = Instant::now();
                self.compact().await;
            }
            if self.ledger.decides() {
                // Ending objects needs space, which the next compaction may make.
                tokio::select! {
                    () = self.finish_relists() => {}
                    () = self.until_disk_low() => {}
                }
            }
            self.record_figures().await;
        }
    }

    /// Whether the newest snapshot lacks durable entries.
    pub(crate) fn has_news(&self) -> bool {
        self.ledger.durable().sequence > self.newest_snapshot()
    }

    fn newest_snapshot(&self) -> u64 {
        let stats = self.reader.stats().ok();
        let newest =
            stats.and_then(|stats| stats.snapshots.last().map(|info| info.position.sequence));
        newest.unwrap_or(0)
    }

    /// Stores a snapshot of the present state, and answers its sequence. Grants go on meanwhile.
    ///
    /// # Errors
    /// The snapshot cannot be taken or written.
    pub(crate) async fn snapshot(&self) -> Result<u64, SnapshotError> {
        let started = Instant::now();
        let (image, position) = self.ledger.image().await?;
        let reader = self.reader.clone();
        let keep = self.config.snapshot.keep.get() as usize;
        let store = move || {
            // A snapshot must not contain entries that the ledger may still lose.
            reader.sync()?;
            replay::store(&reader.snapshots(), &image, position, keep)
        };
        let info = behind_requests(store).await??;
        let sequence = info.position.sequence;
        metrics::snapshot_stored(started.elapsed(), sequence, seconds(super::now()));
        tracing::info!(sequence, bytes = info.bytes, "snapshot stored");
        Ok(sequence)
    }

    async fn compact(&self) {
        let retention = Retention {
            max_age: self.config.retention.max_age.map(config::Period::span),
            max_bytes: self.config.retention.max_bytes.as_ref().map(|size| size.bytes()),
        };
        if retention == Retention::default() {
            return;
        }
        let started = Instant::now();
        let reader = self.reader.clone();
        let before = reader.kept_from();
        // By ledger time: a clock that is wrong must not remove entries that the ledger itself does not take for old.
        let now = super::now().min(self.ledger.durable().time);
        // Compaction pauses as snapshots do, but takes locks that the write-ahead log needs, so it must not run at a
        // lower priority.
        let compacted = tokio::task::spawn_blocking(move || reader.compact(now, &retention));
        match compacted.await {
            Ok(Ok(done)) => {
                let removed = done.kept_from.saturating_sub(before);
                metrics::compaction_done(started.elapsed(), removed, seconds(super::now()));
                if done.epochs > 0 {
                    tracing::info!(
                        epochs = done.epochs,
                        bytes = done.bytes,
                        kept_from = done.kept_from,
                        "compacted"
                    );
                }
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "compaction failed");
                metrics::compaction_failed();
            }
            Err(error) => tracing::error!(%error, "compaction failed"),
        }
    }

    /// Ends the process when a background thread of the journal has failed: nothing may be written for long, so that the
    /// writer would not notice.
    pub(crate) async fn watch_journal(self) {
        let mut ticks = tokio::time::interval(JOURNAL_CHECK_INTERVAL);
        loop {
            ticks.tick().await;
            if let Some(error) = self.reader.poisoned() {
                fatal::journal_stopped(&error);
            }
        }
    }

    /// Finishes relists whose finishing was interrupted by a crash or the end of a request.
    async fn finish_relists(&self) {
        if let Err(error) = intake::record::finish(&self.ledger).await {
            tracing::warn!(%error, "a relist cannot be finished");
        }
    }

    async fn until_disk_low(&self) {
        let mut ticks = tokio::time::interval(DISK_CHECK_INTERVAL);
        while !self.ledger.is_disk_low() {
            ticks.tick().await;
        }
    }

    async fn record_figures(&self) {
        metrics::ledger_last_sequence(self.ledger.durable().sequence);
        let oldest = self.ledger.peek(|state| {
            metrics::relists_open(state.relist_count() as u64);
            metrics::uid_collisions(state.uid_collisions() as u64);
            metrics::ended_reservations_bytes(state.ended_bytes() as u64);
            let held = state.held_count(super::now()) as u64;
            let pending = state.pending_count() as u64 - held;
            metrics::reservations(ReservationState::Held, held);
            metrics::reservations(ReservationState::Pending, pending);
            metrics::reservations(ReservationState::Committed, state.committed_count() as u64);
            state.oldest_pending()
        });
        let age = oldest.map_or(0, |oldest| super::now().since(oldest).nanoseconds());
        metrics::oldest_reservation_age(Duration::from_nanos(u64::try_from(age).unwrap_or(0)));
        let reader = self.reader.clone();
        if let Ok(Ok(stats)) = tokio::task::spawn_blocking(move || reader.stats()).await {
            metrics::ledger_bytes(Part::CommitLog, stats.wal_bytes);
            metrics::ledger_bytes(Part::Epochs, stats.epochs_bytes);
            metrics::ledger_bytes(Part::Snapshots, stats.snapshot_bytes);
            metrics::ledger_bytes(Part::Archive, stats.archive_bytes);
        }
    }
}

/// The newest snapshot.
struct Snapshotted {
    sequence: u64,
    at: Instant,
    /// When a later snapshot failed.
    failed: Option<Instant>,
}

impl Snapshotted {
    /// Whether another snapshot is due.
    fn is_outdated(&self, now: Instant, durable: u64, rules: &config::Snapshot) -> bool {
        let since = |then: Instant| now.saturating_duration_since(then);
        // The cause of a failure is likely to persist for a while.
        if self.failed.is_some_and(|failed| since(failed) < SNAPSHOT_RETRY) {
            return false;
        }
        let new_entries = durable.saturating_sub(self.sequence);
        new_entries >= rules.every_entries.get()
            || (new_entries > 0 && since(self.at) >= rules.every.get())
    }
}

/// Runs on a separate thread with low priority, so that request threads take precedence. Nothing waits for the result,
/// and the work holds no lock that requests need.
async fn behind_requests<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<T> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("maintenance".to_owned()).spawn(move || {
        // On other systems this would lower the priority of the whole process.
        if cfg!(target_os = "linux") {
            let _ = rustix::process::nice(STEP_BACK);
        }
        let _ = done.send(run());
    })?;
    result.await.map_err(std::io::Error::other)
}

fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.nanoseconds() / 1_000_000_000).unwrap_or(0)
}

/// Reports quotas to the scrape: one namespace per lock of the state, and a few groups per lock.
pub(crate) struct Quotas(pub Ledger);

impl QuotaSource for Quotas {
    fn visit(&self, visitor: &mut dyn FnMut(&QuotaRecord, &Name, &[Figure], f64)) {
        let mut after = String::new();
        // One namespace per lock of the state, so that the scrape of many quotas does not delay the writer.
        while let Some(namespace) = self.0.peek(|state| next_namespace(state, &after)) {
            let limits = self.0.peek(|state| state.limits_view(&namespace));
            let views: Vec<LimitView> = limits.views().collect();
            let room = room(&views);
            for quota in limits.quotas.iter() {
                let figures = quota.figures();
                let bound = figures.iter().filter_map(|figure| {
                    let room = room.get(&figure.resource)?;
                    Some((&room.figure.figure, room.figure.guaranteed_to_others.to_f64()))
                });
                visitor(quota.record(), quota.owner(), &figures, largest_share(bound));
            }
            after = namespace.to_string();
        }
    }

    fn visit_room(&self, visitor: &mut dyn FnMut(&Name, &Name, &[RoomFigure])) {
        let mut after = String::new();
        while let Some(namespace) = self.0.peek(|state| next_namespace(state, &after)) {
            let limits = self.0.peek(|state| state.limits_view(&namespace));
            let views: Vec<LimitView> = limits.views().collect();
            let figures = room(&views).into_iter().map(|(resource, room)| {
                let GroupFigure { figure, guaranteed_to_others } = room.figure;
                let others = guaranteed_to_others.to_f64();
                RoomFigure {
                    resource: resource.clone(),
                    available: room.figure.available().to_f64(),
                    share: largest_share(iter::once((figure, others))),
                    kind: room.bound_by.kind,
                    name: room.bound_by.name.clone(),
                }
            });
            let figures: Vec<_> = figures.collect();
            if !figures.is_empty() {
                let owner = limits.quotas.iter().next();
                let owner = owner.map(|quota| quota.owner().clone()).unwrap_or_default();
                visitor(&namespace, &owner, &figures);
            }
            after = namespace.to_string();
        }
    }

    fn denials(&self, kind: LimitKind, namespace: &Name, name: &Name) -> u64 {
        let denials = self.0.denials();
        denials.map_or(0, |denials| denials.count(kind, namespace, name))
    }

    fn covers(&self, resource: &str) -> bool {
        self.0.enforcement().covers(resource)
    }

    fn not_reported(&self, limit: &str) -> Option<NotReported> {
        self.0.enforcement().not_reported(limit)
    }

    fn visit_groups(&self, visitor: &mut dyn FnMut(&GroupView)) {
        let page = |state: &State, after: &str| state.groups_page(after, GROUPS_AT_ONCE);
        let mut after = String::new();
        loop {
            let (groups, more) = self.0.peek(|state| page(state, &after));
            let last = groups.last().filter(|_| more);
            let last = last.map(|last| last.record.name.to_string());
            for group in groups {
                visitor(&group.view());
            }
            match last {
                Some(last) => after = last,
                None => return,
            }
        }
    }

    fn visit_members(&self, group: &str, visitor: &mut dyn FnMut(&MemberView)) {
        let page = |state: &State, after: &str| state.group_members(group, after, MEMBERS_AT_ONCE);
        let mut after = String::new();
        // A group may be deleted between two pages.
        while let Some((members, more)) = self.0.peek(|state| page(state, &after)) {
            let mut last = None;
            for member in members.views() {
                visitor(&member);
                last = Some(member.namespace.to_string());
            }
            match last.filter(|_| more) {
                Some(last) => after = last,
                None => return,
            }
        }
    }
}

/// Groups, and members of a group, that a scrape reads while the state is locked once.
const GROUPS_AT_ONCE: usize = 50;
const MEMBERS_AT_ONCE: usize = 1000;

fn next_namespace(state: &State, after: &str) -> Option<Name> {
    state.namespaces(after).next().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_after_enough_entries_or_time() {
        let rules = config::Config::default().snapshot;
        let at = Instant::now();
        let last = Snapshotted { sequence: 100, at, failed: None };
        let (many, long) = (rules.every_entries.get(), rules.every.get());
        assert!(!last.is_outdated(at, 99 + many, &rules));
        assert!(last.is_outdated(at, 100 + many, &rules));
        assert!(!last.is_outdated(at + long, 100, &rules));
        assert!(last.is_outdated(at + long, 101, &rules));
    }

    #[test]
    fn a_snapshot_that_failed_is_not_tried_again_at_every_tick() {
        let rules = config::Config::default().snapshot;
        let at = Instant::now();
        let last = Snapshotted { sequence: 100, at, failed: Some(at) };
        let due = 100 + rules.every_entries.get();
        assert!(!last.is_outdated(at + TICK, due, &rules));
        assert!(!last.is_outdated(at + SNAPSHOT_RETRY - TICK, due, &rules));
        assert!(last.is_outdated(at + SNAPSHOT_RETRY, due, &rules));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_the_thread_of_a_snapshot_steps_back() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let inside = behind_requests(nice).await.unwrap();
        assert_eq!(inside, (before + STEP_BACK).min(19));
        assert_eq!(nice(), before);
        let ended: std::io::Result<()> = behind_requests(|| panic!("on purpose")).await;
        ended.unwrap_err();
    }
}
