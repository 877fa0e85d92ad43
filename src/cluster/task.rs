//! Keeps this node a member: waits for the stream, follows the log, and begins again after a deposition.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::anyhow;
use quota_journal::{Durable, StoredBatch};
use quota_replication::{
    jetstream::{ApplyError, Driver, Ended, Host, PositionFileError, stream},
    protocol::{Position, Settings},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{AHEAD, Cluster, DRAIN, checks, join};
use crate::{
    config::Period,
    exit::{Exit, Failure},
    fatal, history, metrics,
    writer::PendingDecisions,
};

/// Poll interval while there is no stream.
const LOOK: Duration = Duration::from_secs(1);

/// How often the stream is checked.
const CHECK: Duration = Duration::from_secs(5);

/// How often a follower polls for messages for which it received no hint.
const POLL: u64 = 100;

/// A running member.
pub struct Running {
    cluster: Cluster,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Running {
    /// Ends the member after `changing`, which ends when its last decisions are durable. After a few seconds the member
    /// ends in any case: a decision that does not get into the log ends only with the member.
    pub(crate) async fn end_after<T>(self, changing: impl Future<Output = T>) -> T {
        in_turn(changing, self.end()).await.0
    }

    /// Ends the member. All decisions are durable then, unless this took longer than a few seconds.
    async fn end(self) {
        let drained = tokio::time::timeout(DRAIN, self.cluster.0.replica.shut());
        if drained.await.is_err() {
            tracing::warn!("the last decisions are not in the log: they are dropped, unanswered");
        }
        self.stop.cancel();
        // Nobody aborts the task, and the process ends if it panics.
        let _ = self.task.await;
    }
}

impl Cluster {
    /// Starts the member.
    ///
    /// # Errors
    /// The servers are not fit; or the data directory is a replica whose stream is gone.
    pub async fn start(&self) -> Result<Running, Failure> {
        let refuse = |exit, why: String| Failure {
            exit,
            error: anyhow!(why).context("the cluster cannot be joined"),
        };
        checks::servers(&self.0.settings, false)
            .await
            .map_err(|why| refuse(Exit::Configuration, why))?;
        if let Err(error) = self.0.position_file.read() {
            let exit = match error {
                PositionFileError::Invalid { .. } => Exit::Damaged,
                PositionFileError::Io { .. } => Exit::Failure,
            };
            return Err(refuse(exit, error.to_string()));
        }
        let stop = CancellationToken::new();
        let compared = self.clone().compare_digests();
        fatal::spawn_until("the comparison of digests", stop.clone(), compared);
        fatal::spawn_until("the purge of the log", stop.clone(), self.clone().purge());
        let watched = self.clone().watch_disk();
        fatal::spawn_until("the watch on the nodes' disks", stop.clone(), watched);
        let watched = self.clone().watch_servers();
        fatal::spawn_until("the watch on the servers of the log", stop.clone(), watched);
        let watched = self.clone().watch_clock();
        fatal::spawn_until("the watch on the nodes' clocks", stop.clone(), watched);
        let (cluster, stopped) = (self.clone(), stop.clone());
        let task = tokio::spawn(async move {
            let _guard = fatal::EndOnPanic;
            tokio::select! {
                failure = cluster.run() => fatal::cluster_ended(&failure),
                () = stopped.cancelled() => {}
            }
        });
        Ok(Running { cluster: self.clone(), task, stop })
    }

    async fn run(&self) -> Failure {
        let mut created = match self.find_stream().await {
            Ok(created) => created,
            Err(failure) => return failure,
        };
        loop {
            let ended = match self.drive(&created).await {
                Ok(ended) => ended,
                Err(error) => return failure(Exit::Failure, error),
            };
            self.0.member.send_replace(None);
            let ended = self.or_rebuilt(ended, &created).await;
            let is_rebuilt = matches!(ended, Ended::Rebuilt);
            match ended {
                Ended::Deposed => {
                    tracing::warn!("{ended}");
                    metrics::cluster_deposed();
                }
                Ended::Rebuilt => tracing::warn!("{ended}"),
                Ended::Behind(_) => return self.join_again(&created, ended).await,
                Ended::Apply(ApplyError::Replica(error)) => fatal::journal_stopped(&error),
                Ended::Closed | Ended::Apply(ApplyError::OutOfStep { .. }) => {
                    return failure(Exit::Failure, ended);
                }
                ended => return failure(Exit::Damaged, ended),
            }
            if let Err(error) = self.forget().await {
                let exit = match error.is_damage() {
                    true => Exit::Damaged,
                    false => Exit::Failure,
                };
                return failure(exit, error);
            }
            if is_rebuilt {
                created = match self.find_stream().await {
                    Ok(created) => created,
                    Err(failure) => return failure,
                };
            }
        }
    }

    /// Why the member ended, unless it has followed another stream than the present one: a recreated stream may grow beyond
    /// the member's position before the member learns of it, and its messages do not continue those of the stream before.
    async fn or_rebuilt(&self, ended: Ended, created: &str) -> Ended {
        if !matches!(ended, Ended::Stop(_) | Ended::Diverged(_) | Ended::Behind(_)) {
            return ended;
        }
        loop {
            match stream::look(&self.0.client, &self.0.names).await {
                Ok(found) if found.created == created => return ended,
                Ok(_) | Err(stream::Error::Missing(_)) => {
                    tracing::warn!("{ended}; the stream was recreated or removed meanwhile");
                    return Ended::Rebuilt;
                }
                Err(error) => self.wait_for(format!("{ended}; {error}")),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Makes the next start copy the ledger from another node; a supervisor has to restart the process. If the stream is
    /// not the one that this node has followed, and no other node can give the ledger, all nodes may be in the same
    /// situation: they must not wait for each other.
    async fn join_again(&self, created: &str, why: Ended) -> Failure {
        let file = &self.0.position_file;
        let in_stream = file.clone().in_stream(created.to_owned());
        let is_of_other = matches!(in_stream.read(), Ok(None)) && !matches!(file.read(), Ok(None));
        if is_of_other && !self.is_any_other(checks::can_give).await {
            return failure(
                Exit::Failure,
                anyhow!(
                    "{why}. The stream was created at another time than the one that this node has followed, and no other \
                     node can give it the ledger. If the stream was restored from a backup: remove it, and recreate it \
                     from the node with the most entries (`quotactl cluster heal`)"
                ),
            );
        }
        match join::want(&self.0.data_dir) {
            Ok(()) => failure(Exit::Failure, why),
            Err(error) => failure(Exit::Failure, error),
        }
    }

    /// Follows the log, and leads, until the member ends.
    async fn drive(&self, created: &str) -> anyhow::Result<Ended> {
        let shared = &self.0;
        let file = shared.position_file.clone();
        let file = file.in_stream(created.to_owned());
        let position = match file.read()? {
            Some(position) => Some(position),
            None => self.restored_position().await?,
        };
        let host = ReplicaHost(self.clone());
        let (driver, member) = Driver::new(
            shared.client.clone(),
            shared.names.clone(),
            (self.identity(), self.settings(), shared.ledger.clock().clone()),
            (file, position),
            host,
        )
        .await?;
        shared.replica.attach(member.clone());
        created.clone_into(&mut shared.followed.lock());
        self.judge_stream(false);
        shared.member.send_replace(Some(member.clone()));
        if shared.digests.differs().is_some() {
            self.set_bar();
        }
        Ok(tokio::select! {
            ended = driver.run() => ended,
            ended = self.watch_stream(created) => ended,
        })
    }

    /// The position in a stream that was created at another time: it still counts if this stream is a restored copy of
    /// that one.
    async fn restored_position(&self) -> Result<Option<Position>, PositionFileError> {
        let shared = &self.0;
        let Some(position) = shared.position_file.read()? else {
            return Ok(None);
        };
        loop {
            match stream::message(&shared.client, &shared.names, position.stream).await {
                Ok(Some(message)) if position.is_behind(&message) => {
                    tracing::warn!("the stream was restored: it continues this replica");
                    return Ok(Some(position));
                }
                Ok(_) | Err(stream::Error::Missing(_)) => return Ok(None),
                Err(error) => self.wait_for(error.to_string()),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Discards decisions of this node that are not in the log.
    async fn forget(&self) -> Result<(), history::Error> {
        if self.0.replica.void().await == PendingDecisions::Void {
            let reader = self.0.reader.clone();
            let rebuilt = tokio::task::spawn_blocking(move || history::rebuild(reader)).await;
            let rebuilt =
                rebuilt.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
            self.0.replica.rebuild(rebuilt?);
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        let settings = &self.0.settings;
        let millis = |period: Period| u64::try_from(period.get().as_millis()).unwrap_or(u64::MAX);
        Settings {
            silence: millis(settings.silence),
            heartbeat: millis(settings.heartbeat),
            lease: millis(settings.lease),
            ack_wait: millis(settings.ack_wait),
            poll: POLL,
        }
    }

    /// Waits until there is a fit stream. Returns the stream's creation time.
    async fn find_stream(&self) -> Result<String, Failure> {
        let shared = &self.0;
        let was_replica = !matches!(shared.position_file.read(), Ok(None));
        loop {
            let replicas = shared.settings.replicas;
            let why = match stream::check(&shared.client, &shared.names, replicas).await {
                Ok(()) => match self.take_part().await {
                    Ok(created) => return Ok(created),
                    Err(error) => error.to_string(),
                },
                Err(stream::Error::Missing(stream)) if was_replica => format!(
                    "the stream {stream} is gone, and this node has a replica of its ledger: bring the servers' data back, \
                     or recreate it from the node with the most entries (`quotactl cluster heal`)"
                ),
                Err(stream::Error::Missing(stream)) => {
                    format!("there is no stream {stream}: run `quotactl cluster init` once")
                }
                Err(error @ stream::Error::Unfit { .. }) if !shared.settings.is_unsafe => {
                    return Err(failure(Exit::Configuration, error));
                }
                Err(stream::Error::Unfit { problems, .. }) => {
                    tracing::warn!(?problems, "cluster.unsafe: the stream is not fit");
                    match self.take_part().await {
                        Ok(created) => return Ok(created),
                        Err(error) => error.to_string(),
                    }
                }
                Err(error) => error.to_string(),
            };
            self.wait_for(why);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Registers this node, in case it was removed before, so that the stream is kept for it. Returns the stream's
    /// creation time.
    async fn take_part(&self) -> Result<String, stream::Error> {
        let shared = &self.0;
        let found = stream::look(&shared.client, &shared.names).await?;
        if found.removed.contains(shared.node.as_str()) {
            self.register().await?;
        }
        Ok(found.created)
    }

    fn wait_for(&self, why: String) {
        let mut waits_for = self.0.waits_for.lock();
        if *waits_for != why {
            tracing::info!("waiting: {why}");
            *waits_for = why;
        }
    }

    /// Ends when the stream is no longer the one that was made at `created`, or there has been none for [`AHEAD`]: a leader
    /// of a stream that is gone must not keep other nodes from recreating it. Meanwhile reads the clock of the servers.
    async fn watch_stream(&self, created: &str) -> Ended {
        let shared = &self.0;
        loop {
            let read = self.view().stream;
            let wait = match stream::look(&shared.client, &shared.names).await {
                Ok(found) if found.created != created => return Ended::Rebuilt,
                Ok(found) => {
                    let is_short = found.last < read;
                    self.judge_stream(is_short);
                    if let Some(clock) = found.clock {
                        *shared.servers_clock.lock() = Some(clock);
                        if let Some(member) = self.member() {
                            member.set_servers_clock(clock);
                        }
                    }
                    // A stream that has lost messages may be recreated at any moment.
                    if is_short { LOOK } else { CHECK }
                }
                Err(stream::Error::Missing(_)) => {
                    self.judge_stream(true);
                    let since = *shared.short_since.lock();
                    if since.is_some_and(|since| since.elapsed() > AHEAD) {
                        return Ended::Rebuilt;
                    }
                    LOOK
                }
                // This also happens while the stream has no leader: the last result stays in force.
                Err(_) => LOOK,
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Records whether the stream ends before the position that this node has read.
    fn judge_stream(&self, is_short: bool) {
        let mut short_since = self.0.short_since.lock();
        *short_since = match is_short {
            true => short_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        drop(short_since);
        self.set_bar();
    }
}

/// Awaits both, one after the other. If the first takes longer than [`DRAIN`], the last no longer waits for it.
async fn in_turn<F, L>(first: impl Future<Output = F>, last: impl Future<Output = L>) -> (F, L) {
    let mut first = pin!(first);
    match tokio::time::timeout(DRAIN, &mut first).await {
        Ok(first) => (first, last.await),
        Err(_) => futures::join!(first, last),
    }
}

fn failure(exit: Exit, error: impl Into<anyhow::Error>) -> Failure {
    Failure { exit, error: error.into() }
}

/// The replica, as the interface that the member needs.
struct ReplicaHost(Cluster);

impl Host for ReplicaHost {
    fn end(&self) -> Durable {
        self.0.0.replica.end()
    }

    fn synced(&self) -> Durable {
        self.0.0.reader.synced()
    }

    fn has(&self, position: &Durable) -> Result<bool, quota_journal::Error> {
        self.0.0.reader.has(position)
    }

    fn apply(&mut self, batches: Vec<StoredBatch>) -> Result<(), ApplyError> {
        self.0.0.replica.apply(batches)
    }

    fn lead(&mut self) {
        metrics::cluster_term_began();
        *self.0.0.term_began.lock() = Some(Instant::now());
        self.0.0.replica.lead();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_ends_only_with_the_member_is_waited_for_in_vain_for_a_while_only() {
        let (over, member) = oneshot::channel();
        let began = tokio::time::Instant::now();
        let both = in_turn(member, async move { over.send("dropped") }).await;
        assert_eq!(both, (Ok("dropped"), Ok(())));
        assert_eq!(began.elapsed(), DRAIN);

        let (over, member) = oneshot::channel();
        let began = tokio::time::Instant::now();
        let both = in_turn(async move { over.send("durable") }, member).await;
        assert_eq!(both, (Ok(()), Ok("durable")));
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
