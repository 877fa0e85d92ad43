//! The ledger: opened before anything is served, closed last.

use std::sync::Arc;

use anyhow::Context as _;
use quota_journal::{FileJournal, FileReader, Operation};
use quota_ledger::replay;
use quota_replication::jetstream::ReplicatedJournal;
use tokio_util::sync::CancellationToken;

use super::policy::policy;
use crate::{
    clock::now,
    config::{Config, WatermarkSource},
    denials,
    exit::{Exit, Failure},
    fairness::throttle,
    fatal,
    intake::nats,
    maintenance::Maintenance,
    recovery::recover,
    writer::{self, Ledger, Replica, Required, Threads, Watermark},
};

/// An open ledger, and its writer.
pub(super) struct Opened {
    pub(super) ledger: Ledger,
    pub(super) reader: FileReader,
    writer: Writer,
    /// Applies the log to the ledger while another node leads; none without a cluster.
    pub(super) replica: Option<Replica<FileJournal>>,
    denials_thread: std::thread::JoinHandle<()>,
}

/// The threads of the writer.
enum Writer {
    Alone(Threads<FileJournal>),
    OfCluster(Threads<ReplicatedJournal<FileJournal>>),
}

impl Writer {
    fn join(self) -> Result<FileJournal, quota_journal::Error> {
        match self {
            Self::Alone(threads) => threads.join(),
            Self::OfCluster(threads) => threads.join().map(ReplicatedJournal::into_replica),
        }
    }
}

/// Opens the ledger. `stop` ends the throttling of background work, since from then on a caller waits for it to end.
pub(super) async fn open(config: &Arc<Config>, stop: CancellationToken) -> Result<Opened, Failure> {
    let recovering = config.clone();
    let recovered =
        tokio::task::spawn_blocking(move || recover(&recovering, throttle::until(stop)));
    let recovered = recovered.await.context("recovery failed")?;
    let recovered = recovered.map_err(|error| {
        let exit = exit_of(&error);
        let context = match &error {
            replay::Error::Journal(quota_journal::Error::Damaged(damage)) if damage.through.is_some() => {
                "cannot open the ledger (`quotactl ledger repair --from` an archive or a backup puts damaged epochs \
                 back; ledger.start_with_damage = true serves what does not need them)"
            }
            _ => "cannot open the ledger",
        };
        Failure {
            exit,
            error: anyhow::Error::new(error).context(context),
        }
    })?;
    let watermark = Arc::new(watermark(config));
    let options = writer::Options {
        policy: policy(config)?,
        queue: config.limits.queue.get(),
        max_batch_entries: config.journal.max_batch_entries.get(),
    };
    let reader = recovered.reader;
    let file = config.data_dir.join("denials.ndjson");
    let kept = denials::start(&file, denials::Bounds::of(config));
    let (denials, denials_thread) = kept.map_err(|source| {
        fatal::at_start(quota_journal::Error::io(file, Operation::Open, source))
    })?;
    let (state, journal, durable) = (recovered.state, recovered.journal, recovered.durable);
    let failed = |error: &_| fatal::journal_stopped(error);
    let started = match config.cluster.is_on() {
        false => writer::start(state, journal, durable, watermark, options, failed)
            .map(|(ledger, threads)| (ledger, Writer::Alone(threads), None)),
        true => {
            let journal = ReplicatedJournal::new(journal);
            writer::start_following(state, journal, durable, watermark, options, failed).map(
                |(ledger, threads, replica)| (ledger, Writer::OfCluster(threads), Some(replica)),
            )
        }
    };
    let (ledger, writer, replica) = started.context("cannot start the writer")?;
    Ok(Opened {
        ledger: ledger.keeping_denials(denials).with_coverage(super::policy::coverage(config)),
        reader,
        writer,
        replica,
        denials_thread,
    })
}

/// The source of the watermark.
fn watermark(config: &Config) -> Watermark {
    if config.nats.url.is_none() {
        return Watermark::without_sources();
    }
    match config.nats.watermark {
        WatermarkSource::Poll => Watermark::unknown(),
        WatermarkSource::Bridge => Watermark::published(Required {
            source: nats::principal(&config.nats).as_str().into(),
            resources: config
                .watermark_resources()
                .iter()
                .map(|resource| resource.as_str().into())
                .collect(),
            since: now(),
            max_age: config.nats.max_watermark_age.span(),
        }),
    }
}

/// Takes a last snapshot and closes the ledger. The snapshot only makes the next start faster.
pub(super) async fn close(opened: Opened, maintenance: &Maintenance) -> Result<(), Failure> {
    if maintenance.has_news()
        && !opened.ledger.is_disk_low()
        && let Err(error) = maintenance.snapshot().await
    {
        tracing::warn!(%error, "the snapshot at shutdown failed");
    }
    let closed = tokio::task::spawn_blocking(move || {
        opened.ledger.close();
        let journal = opened.writer.join()?;
        if let Some(denials) = opened.ledger.denials() {
            denials.close();
        }
        if opened.denials_thread.join().is_err() {
            tracing::error!("the thread that keeps denials panicked");
        }
        journal.close()
    });
    let durable = closed.await.context("closing the ledger failed")?;
    let durable = durable.map_err(|error| Failure {
        exit: fatal::exit_of_stopped(&error),
        error: anyhow::Error::new(error).context("cannot close the ledger"),
    })?;
    tracing::info!(sequence = durable.sequence, hash = %durable.hash, "ledger closed");
    Ok(())
}

fn exit_of(error: &replay::Error) -> Exit {
    match error {
        replay::Error::Entries { .. } | replay::Error::Snapshot { .. } => Exit::Damaged,
        replay::Error::Journal(error) => fatal::exit_at_start(error),
    }
}
