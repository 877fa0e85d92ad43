//! The daemon's inside, without its listeners: a recovered ledger and its writer, and the intake from a stream.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use crate::support::until;
use quota_core::{
    event::{Actor, Entry, Event, Sequence},
    state::State,
};
use quota_journal::{FileJournal, Throttle};
use quota_semantics::admission::Charging;
use quotad::{
    self,
    config::{Config, WatermarkSource},
    intake::{
        nats::{self, Running, Status},
        payload::Reader,
        record::set_charging,
    },
    recovery::{Recovered, recover},
    writer::{self, Ledger, Required, Threads, Watermark},
};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// How far entries were seen, and those since the start.
type Seen = Arc<Mutex<(Sequence, Vec<Entry>)>>;

/// A ledger that is open.
pub(crate) struct Opened {
    pub(crate) ledger: Ledger,
    entries: Seen,
    threads: Threads<FileJournal>,
}

impl Opened {
    /// Opens the ledger of a directory.
    pub(crate) fn open(directory: &Path) -> Self {
        Self::open_as(directory, &Config::default())
    }

    fn open_as(directory: &Path, config: &Config) -> Self {
        let config = Config { data_dir: directory.to_owned(), ..config.clone() };
        let Recovered { state, journal, durable, .. } =
            recover(&config, Throttle::default()).unwrap();
        let options = writer::Options {
            policy: quota_core::decide::Policy::default(),
            queue: config.limits.queue.get(),
            max_batch_entries: config.journal.max_batch_entries.get(),
        };
        let watermark = Arc::new(watermark(&config));
        let failed = |error: &quota_journal::Error| panic!("{error}");
        let (ledger, threads) =
            writer::start(state, journal, durable, watermark, options, failed).unwrap();
        let entries = collect(&ledger);
        Self { ledger, entries, threads }
    }

    /// The values of `tell` for the events that were recorded since the start.
    pub(crate) async fn recorded<T>(&self, tell: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let head = self.ledger.peek(|state| state.head().sequence);
        self.ledger.wait_durable(head).await.unwrap();
        let is_seen = || (self.entries.lock().unwrap().0 >= head).then_some(());
        until("the entries are seen", is_seen).await;
        let entries = self.entries.lock().unwrap();
        entries.1.iter().filter_map(|entry| tell(&entry.event)).collect()
    }

    /// Closes it in order.
    pub(crate) async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || {
            self.ledger.close();
            self.threads.join().unwrap().close().unwrap()
        });
        closed.await.unwrap();
    }
}

/// A ledger that consumes a stream.
pub(crate) struct Daemon {
    pub(crate) ledger: Ledger,
    pub(crate) status: Status,
    opened: Opened,
    running: Running,
    stop: CancellationToken,
}

impl Daemon {
    /// Opens the ledger of a directory, and consumes what `config.nats` says.
    pub(crate) async fn start(directory: &Path, config: &Config) -> Self {
        let opened = Opened::open_as(directory, config);
        let ledger = opened.ledger.clone();
        let kinds = config.admission.charge.iter();
        let charging = Charging::new(kinds.clone().map(String::as_str)).unwrap();
        let kinds = kinds.map(|kind| kind.as_str().into()).collect();
        let source = nats::principal(&config.nats).into();
        set_charging(&ledger, &Actor::named("quotad"), &kinds, Some(&source)).await.unwrap();
        let reader = Reader::new(&config.kinds, config.quotas.adopt).with_charging(charging);
        let reader = Arc::new(reader);
        let stop = CancellationToken::new();
        let running = nats::start(config, reader, ledger.clone(), stop.clone());
        let running = running.await.unwrap();
        let status = running.status.clone();
        Self { ledger, status, opened, running, stop }
    }

    /// Stops in order.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.running.task.await.unwrap();
        self.opened.close().await;
    }

    /// Drops the intake in the middle of whatever it does.
    pub(crate) async fn abort(self) {
        self.running.task.abort();
        let _ = self.running.task.await;
        self.opened.close().await;
    }

    /// Waits until the state is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&State) -> bool) {
        until(what, || self.ledger.peek(&mut is_so).then_some(())).await;
    }

    /// Waits until everything that the stream held just now is consumed.
    pub(crate) async fn caught_up(&self) {
        let since = Some(quotad::now());
        until("the stream is caught up with", || {
            let standing = self.status.get();
            (standing.connected && standing.caught_up_to > since).then_some(())
        })
        .await;
    }

    /// As [`Opened::recorded`].
    pub(crate) async fn recorded<T>(&self, tell: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        self.opened.recorded(tell).await
    }
}

fn watermark(config: &Config) -> Watermark {
    match config.nats.watermark {
        WatermarkSource::Poll => Watermark::unknown(),
        WatermarkSource::Bridge => Watermark::published(Required {
            source: nats::principal(&config.nats).into(),
            resources: config.watermark_resources().into_iter().map(Into::into).collect(),
            since: quotad::now(),
            max_age: config.nats.max_watermark_age.span(),
        }),
    }
}

fn collect(ledger: &Ledger) -> Seen {
    let entries = Arc::new(Mutex::new((ledger.durable().sequence, Vec::new())));
    let (mut batches, into) = (ledger.watch(), entries.clone());
    tokio::spawn(async move {
        loop {
            match batches.recv().await {
                Ok(batch) => {
                    let mut seen = into.lock().unwrap();
                    seen.0 = batch.last().map_or(seen.0, |last| last.sequence);
                    seen.1.extend(batch.iter().cloned());
                }
                Err(RecvError::Closed) => return,
                Err(RecvError::Lagged(_)) => panic!("the test does not follow its ledger"),
            }
        }
    });
    entries
}
