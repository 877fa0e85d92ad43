//! What is done to the daemon, to the server, and to what is between them.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use async_nats::jetstream::stream::{Config, StorageType, Stream};
use futures::TryStreamExt as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Cycles, Yard,
    place::Place,
    support::{PATIENCE, proxy::Mode, random::Random},
};

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

const ALL: [Fault; 15] = [
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

/// How often each of them was done.
pub(crate) type Fired = BTreeMap<Fault, u64>;

/// Answers between two faults, at most.
const ANSWERS: u64 = 300;

/// Messages that are lost when the stream is purged, at least.
const LOST: u64 = 5;

/// Seconds that the clock jumps ahead.
const JUMP: i64 = 90;

impl Place<'_> {
    /// One fault after the other, each kind as often as the others.
    pub(crate) fn go_through(&mut self, cycles: Cycles, seed: u64, yard: &Yard) -> Fired {
        let mut random = Random::new(seed, "faults");
        let mut fired = Fired::new();
        let mut left = Vec::new();
        for cycle in 0.. {
            let over = match cycles {
                Cycles::Count(count) => cycle == count,
                Cycles::Until(end) => Instant::now() >= end,
            };
            if over {
                break;
            }
            if left.is_empty() {
                left.extend(ALL);
            }
            let fault = left.swap_remove(random.index(left.len()));
            yard.wait_for_answers(random.below(ANSWERS));
            println!("{cycle}: {fault:?}");
            self.do_to(fault, &mut random, yard);
            *fired.entry(fault).or_default() += 1;
            if self.daemon.is_none() {
                self.restart_daemon();
            }
            if matches!(cycles, Cycles::Until(_)) && cycle % 100 == 99 {
                println!("{} cycles: {fired:?}", cycle + 1);
            }
        }
        yard.wait_for_answers(500);
        let deadline = Instant::now() + PATIENCE;
        while self.archived() == 0 {
            assert!(Instant::now() < deadline, "compaction archives epochs");
            yard.wait_for_answers(100);
        }
        fired
    }

    fn do_to(&mut self, fault: Fault, random: &mut Random, yard: &Yard) {
        // Without the stream nothing is granted before it was caught up with.
        if matches!(fault, Fault::KillServer | Fault::HoldStream | Fault::Purge) {
            self.wait_until_ready();
        }
        let mut while_answered = |most| yard.wait_for_answers(random.below(most));
        match fault {
            Fault::KillDaemon => self.kill_daemon(),
            Fault::KillWhileItRecovers => self.kill_while_it_recovers(random.below(3)),
            Fault::KillServer => {
                self.server.kill();
                // Events cannot come in, but what is asked for is still answered.
                while_answered(ANSWERS);
                self.server.restart();
            }
            Fault::KillBoth => {
                self.server.kill();
                self.kill_daemon();
                self.restart_daemon();
                self.server.restart();
            }
            Fault::StopDaemon => pause(self.daemon().pid(), random),
            Fault::StopServer => pause(self.server.pid(), random),
            Fault::CutStream => self.stream.cut(),
            Fault::HoldStream => {
                self.stream.set(Mode::Hold);
                while_answered(ANSWERS);
                if random.once_in(2) {
                    // Half open: the server sees an end that the daemon was not told of.
                    self.stream.cut();
                }
                self.stream.set(Mode::Pass);
            }
            Fault::CutClients => self.clients.cut(),
            Fault::LoseAnswers => {
                self.clients.set(Mode::LoseAnswers);
                std::thread::sleep(Duration::from_millis(random.below(200)));
                self.clients.set(Mode::Pass);
            }
            Fault::DeleteConsumer => on_stream(&self.server.url(), delete_consumers),
            Fault::ClockAhead => self.set_clock(JUMP),
            Fault::ClockBack => self.set_clock(-JUMP),
            Fault::Purge => {
                self.stream.set(Mode::Hold);
                let before = last(&self.server.url());
                let deadline = Instant::now() + PATIENCE;
                while last(&self.server.url()) < before + LOST {
                    assert!(Instant::now() < deadline, "messages come in");
                    yard.wait_for_answers(10);
                }
                on_stream(&self.server.url(), async |stream| {
                    stream.purge().await.unwrap();
                });
                self.stream.cut();
                self.stream.set(Mode::Pass);
                yard.losses.fetch_add(1, Ordering::SeqCst);
            }
            Fault::RecreateStream => {
                recreate(&self.server.url());
                yard.losses.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

fn pause(process: Pid, random: &mut Random) {
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(random.below(900)));
    kill_process(process, Signal::CONT).unwrap();
}

#[tokio::main(flavor = "current_thread")]
async fn on_stream(url: &str, run: impl AsyncFnOnce(Stream)) {
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    run(context.get_stream("OBJECTS").await.unwrap()).await;
}

async fn delete_consumers(stream: Stream) {
    let names: Vec<_> = stream.consumer_names().try_collect().await.unwrap();
    for name in names {
        // The daemon may have replaced it meanwhile.
        let _ = stream.delete_consumer(&name).await;
    }
}

/// Position of the last message of the stream.
pub(crate) fn last(url: &str) -> u64 {
    let mut last = 0;
    on_stream(url, async |mut stream| {
        last = stream.info().await.unwrap().state.last_sequence;
    });
    last
}

#[tokio::main(flavor = "current_thread")]
async fn recreate(url: &str) {
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    context.delete_stream("OBJECTS").await.unwrap();
    let config = Config {
        name: "OBJECTS".to_owned(),
        subjects: vec!["quota.objects.>".to_owned()],
        storage: StorageType::File,
        ..Config::default()
    };
    // The daemon does the same if it is quicker.
    context.get_or_create_stream(config).await.unwrap();
}
