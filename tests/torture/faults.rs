//! A daemon and a server: what is done to both, and to what is between them.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use async_nats::{
    HeaderMap,
    header::NATS_EXPECTED_LAST_SEQUENCE,
    jetstream::{
        Context, ErrorCode,
        context::{DeleteStreamErrorKind, PublishErrorKind},
        stream::{Config, StorageType, Stream},
    },
};
use futures::TryStreamExt as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Yard,
    account::Losses,
    place::Place,
    rounds::{Fired, Scene},
    support::{
        PATIENCE,
        nats::Server,
        proxy::{Mode, Proxy},
        random::Random,
    },
    wait_until,
};

/// The two, and the network between them.
pub(crate) struct Single {
    pub(crate) place: Place,
    server: Server,
    /// Between the daemon and the server.
    stream: Proxy,
}

impl Single {
    pub(crate) fn prepare(directory: &Path) -> Self {
        let arguments = durable(directory);
        let server = Server::start_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let stream = Proxy::start(server.address());
        let url = format!("nats://{}", stream.address());
        Self { place: Place::prepare(directory, url), server, stream }
    }
}

/// Makes the server sync before it acknowledges, if its version has the setting; else the system keeps the data.
fn durable(directory: &Path) -> Vec<String> {
    let file = directory.join("nats.conf").display().to_string();
    std::fs::write(&file, "jetstream { sync_interval: always }\n").unwrap();
    let check =
        Command::new("nats-server").args(["-t", "-c", &file]).stderr(Stdio::null()).status();
    match check.unwrap().success() {
        true => vec!["-c".to_owned(), file],
        false => Vec::new(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KillDaemon,
    KillWhileItRecovers,
    KillServer,
    KillBoth,
    StopDaemon,
    StopServer,
    CutStream,
    HoldStream,
    CutClients,
    LoseAnswers,
    DeleteConsumer,
    ClockAhead,
    ClockBack,
    Purge,
    RecreateStream,
}

/// Messages that are lost when the stream is purged, at least.
const LOST: u64 = 5;

/// Seconds that the clock jumps ahead.
const JUMP: i64 = 90;

impl Scene for Single {
    type Fault = Fault;
    const ALL: &'static [Fault] = &[
        Fault::KillDaemon,
        Fault::KillWhileItRecovers,
        Fault::KillServer,
        Fault::KillBoth,
        Fault::StopDaemon,
        Fault::StopServer,
        Fault::CutStream,
        Fault::HoldStream,
        Fault::CutClients,
        Fault::LoseAnswers,
        Fault::DeleteConsumer,
        Fault::ClockAhead,
        Fault::ClockBack,
        Fault::Purge,
        Fault::RecreateStream,
    ];

    const REST: Duration = Duration::ZERO;
    const ANSWERS: u64 = 300;

    fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    fn urls(&self) -> String {
        self.server.url()
    }

    fn do_to(&mut self, fault: Fault, random: &mut Random, yard: &Yard) {
        let Self { place, server, stream } = self;
        // Without the stream nothing is granted before it was caught up with.
        if matches!(fault, Fault::KillServer | Fault::HoldStream | Fault::Purge) {
            place.wait_until_ready();
        }
        let mut while_answered = |most| yard.wait_for_answers(random.below(most));
        match fault {
            Fault::KillDaemon => place.kill_daemon(),
            Fault::KillWhileItRecovers => place.kill_while_it_recovers(random.below(3)),
            Fault::KillServer => {
                server.kill();
                // Events cannot come in, but what is requested is still answered.
                while_answered(Self::ANSWERS);
                server.restart();
            }
            Fault::KillBoth => {
                server.kill();
                place.kill_daemon();
                place.restart_daemon();
                server.restart();
            }
            Fault::StopDaemon => pause(place.daemon().pid(), random),
            Fault::StopServer => pause(server.pid(), random),
            Fault::CutStream => wait_until("the stream is cut", || stream.cut() > 0),
            Fault::HoldStream => {
                stream.set(Mode::Hold);
                while_answered(Self::ANSWERS);
                if random.once_in(2) {
                    // Half open: the server sees the end of the connection, the daemon does not.
                    stream.cut();
                }
                stream.set(Mode::Pass);
            }
            Fault::CutClients => wait_until("clients are cut", || place.clients.cut() > 0),
            Fault::LoseAnswers => {
                let wanted = place.clients.lost_answers() + 1 + random.below(20);
                place.clients.set(Mode::LoseAnswers);
                wait_until("answers are lost", || place.clients.lost_answers() >= wanted);
                place.clients.set(Mode::Pass);
            }
            Fault::DeleteConsumer => wait_until("a consumer is deleted", || {
                let mut deleted = 0;
                on_stream(&server.url(), async |stream| {
                    deleted = delete_consumers(stream).await;
                });
                deleted > 0
            }),
            Fault::ClockAhead => place.set_clock(JUMP),
            Fault::ClockBack => place.set_clock(-JUMP),
            Fault::Purge => {
                stream.set(Mode::Hold);
                let before = last(&server.url());
                wait_until("messages come in", || {
                    yard.wait_for_answers(10);
                    last(&server.url()) >= before + LOST
                });
                on_stream(&server.url(), async |stream| {
                    stream.purge().await.unwrap();
                });
                stream.cut();
                stream.set(Mode::Pass);
                yard.losses.fetch_add(1, Ordering::SeqCst);
            }
            Fault::RecreateStream => {
                // The daemon makes a stream that it misses, and nobody else may be about it then.
                stream.set(Mode::Hold);
                recreate(&server.url());
                stream.set(Mode::Pass);
                yard.losses.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn losses(fired: &Fired<Fault>) -> Losses {
        Losses { purged: fired[&Fault::Purge], recreated: fired[&Fault::RecreateStream] }
    }
}

fn pause(process: Pid, random: &mut Random) {
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(random.below(900)));
    kill_process(process, Signal::CONT).unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn on_stream(url: &str, run: impl AsyncFnOnce(Stream)) {
    let servers: Vec<_> = url.split(',').collect();
    let context = async_nats::jetstream::new(async_nats::connect(servers).await.unwrap());
    run(context.get_stream("OBJECTS").await.unwrap()).await;
}

/// Answers how many there were.
async fn delete_consumers(stream: Stream) -> usize {
    let names: Vec<_> = stream.consumer_names().try_collect().await.unwrap();
    let mut deleted = 0;
    for name in names {
        // The daemon may have replaced it meanwhile.
        deleted += usize::from(stream.delete_consumer(&name).await.is_ok());
    }
    deleted
}

/// Position of the last message of the stream. A server that has just lost its routes may not answer the first time.
pub(crate) fn last(url: &str) -> u64 {
    let mut last = None;
    wait_until("the stream says how far it is", || {
        last = ask_last(url);
        last.is_some()
    });
    last.unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn ask_last(url: &str) -> Option<u64> {
    let servers: Vec<_> = url.split(',').collect();
    let context = async_nats::jetstream::new(async_nats::connect(servers).await.ok()?);
    let mut stream = context.get_stream("OBJECTS").await.ok()?;
    Some(stream.info().await.ok()?.state.last_sequence)
}

/// Deletes the stream and makes it anew. Where somebody else makes one meanwhile, nats-server 2.9 can be left with one
/// that takes no messages, or that begins where the old one ended; also without that it may answer nothing: then once
/// more.
#[tokio::main(flavor = "current_thread")]
async fn recreate(url: &str) {
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "never: a stream that takes messages");
        if let Err(error) = context.delete_stream("OBJECTS").await {
            // A server that is killed while the stream is made anew can be left without one.
            let is_missing = matches!(error.kind(), DeleteStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND);
            assert!(is_missing, "{error}");
        }
        let config = Config {
            name: "OBJECTS".to_owned(),
            subjects: vec!["quota.objects.>".to_owned()],
            storage: StorageType::File,
            ..Config::default()
        };
        context.get_or_create_stream(config).await.unwrap();
        if answers(&context).await {
            return;
        }
        println!("the stream that was made anew answers nothing");
    }
}

/// Whether the stream answers a message, here one that it has to refuse.
async fn answers(context: &Context) -> bool {
    let mut headers = HeaderMap::new();
    headers.insert(NATS_EXPECTED_LAST_SEQUENCE, u64::MAX.to_string().as_str());
    let publishing = async {
        let published = context.publish_with_headers("quota.objects.asked", headers, "".into());
        published.await?.await
    };
    match tokio::time::timeout(Duration::from_secs(5), publishing).await {
        Ok(Err(refused)) => refused.kind() == PublishErrorKind::WrongLastSequence,
        Ok(Ok(_)) => panic!("a message at no place was taken"),
        Err(_) => false,
    }
}
