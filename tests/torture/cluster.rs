//! A daemon and a cluster of servers that hold three copies of the stream: what is done to them, and to the network
//! between the servers.
//!
//! One thing is not done, since nats-server 2.9.10 (Debian's) does not survive it: what the leader and the others say to
//! each other is not delivered after the others have elected another leader. A leader that had such a thing said to it
//! was seen to keep messages that the others do not have, at positions where they have others, for good. So a network
//! that delays holds things back for less than an election takes, and one that is cut for longer ends its connections;
//! nor is a leader stopped for longer.

use std::{path::Path, time::Duration};

use rustix::process::Signal;

use crate::{
    Yard,
    account::Losses,
    faults::last,
    place::Place,
    rounds::{Fired, Scene},
    support::{
        cluster::{Cluster, EVENTS, NODES},
        proxy::Mode,
        random::Random,
    },
    wait_until,
};

/// Milliseconds for which a leader is stopped, or what servers say to each other is held back, at most: half of what they wait for before they
/// elect.
const HOLD_MAX: u64 = 2000;

/// Both.
pub(crate) struct Clustered {
    place: Place,
    cluster: Cluster,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    KillLeader,
    KillFollower,
    /// And what it had stored is gone.
    WipeFollower,
    KillAll,
    KillDaemonAndLeader,
    StopLeader,
    StopFollower,
    /// The leader and the others do not hear of each other until they have another one.
    IsolateLeader,
    /// The same for the server that the daemon is connected to, until the daemon goes on.
    IsolateDaemon,
    /// No server hears of another one; what is on its way comes later.
    Scatter,
    CutRoutes,
    StepDown,
}

impl Clustered {
    pub(crate) fn prepare(directory: &Path) -> Self {
        let cluster = Cluster::start(directory.join("cluster"));
        cluster.create_stream(EVENTS);
        cluster.wait_until_current();
        let place = Place::prepare(directory, cluster.urls());
        Self { place, cluster }
    }

    fn leader(&self) -> usize {
        self.cluster.wait_for_leader(0, |_| true)
    }

    /// Kills a server, and starts it again once the others go on without it.
    fn kill(&mut self, node: usize, wipe: bool, yard: &Yard) {
        self.cluster.kill(node);
        self.goes_on_without(node, yard);
        if wipe {
            self.cluster.wipe(node);
        }
        self.cluster.start_node(node);
    }

    /// Ends the connections between a server and the others, until somebody sets its links again; returns once the
    /// others go on without it.
    fn isolate(&self, node: usize, yard: &Yard) {
        self.cut_routes(node);
        self.cluster.set_links(node, Mode::Refuse);
        // Those that were made anew before the links refused.
        self.cluster.cut_links(node);
        self.goes_on_without(node, yard);
    }

    /// Ends the connections between a server and the others. After an earlier cut the servers call themselves current
    /// before they are connected again, so this waits for a connection.
    fn cut_routes(&self, node: usize) {
        wait_until("the server has connections to the others", || self.cluster.cut_links(node) > 0);
    }

    /// Waits until the others have a leader, who takes messages.
    fn goes_on_without(&self, node: usize, yard: &Yard) {
        let cluster = &self.cluster;
        for other in cluster.others(node) {
            cluster.wait_for_leader(other, |leader| leader != node);
        }
        let urls = cluster.urls_but(node);
        let before = last(&urls);
        wait_until("messages come in", || {
            yard.wait_for_answers(10);
            last(&urls) > before
        });
    }

    /// Waits until the daemon consumes what these servers have taken by now.
    fn consumes(&self, urls: &str) {
        let wanted = last(urls);
        wait_until("the daemon consumes what comes in", || self.place.consumed() >= wanted);
    }
}

impl Scene for Clustered {
    type Fault = Fault;
    const ALL: &'static [Fault] = &[
        Fault::KillLeader,
        Fault::KillFollower,
        Fault::WipeFollower,
        Fault::KillAll,
        Fault::KillDaemonAndLeader,
        Fault::StopLeader,
        Fault::StopFollower,
        Fault::IsolateLeader,
        Fault::IsolateDaemon,
        Fault::Scatter,
        Fault::CutRoutes,
        Fault::StepDown,
    ];

    const REST: Duration = Duration::from_millis(80);
    const ANSWERS: u64 = 60;

    fn place(&mut self) -> &mut Place {
        &mut self.place
    }

    fn urls(&self) -> String {
        self.cluster.urls()
    }

    fn do_to(&mut self, fault: Fault, random: &mut Random, yard: &Yard) {
        self.settle();
        let leader = self.leader();
        let follower = (leader + 1 + random.index(NODES - 1)) % NODES;
        let while_answered =
            |random: &mut Random| yard.wait_for_answers(random.below(Self::ANSWERS));
        match fault {
            Fault::KillLeader => self.kill(leader, false, yard),
            Fault::KillFollower => self.kill(follower, false, yard),
            Fault::WipeFollower => self.kill(follower, true, yard),
            Fault::KillAll => {
                for node in 0..NODES {
                    self.cluster.kill(node);
                }
                while_answered(random);
                for node in 0..NODES {
                    self.cluster.start_node(node);
                }
            }
            Fault::KillDaemonAndLeader => {
                self.place.kill_daemon();
                self.cluster.kill(leader);
                self.place.restart_daemon();
                self.place.wait_until_ready();
                self.cluster.start_node(leader);
            }
            Fault::StopLeader => {
                self.cluster.signal(leader, Signal::STOP);
                std::thread::sleep(Duration::from_millis(random.below(HOLD_MAX)));
                self.cluster.signal(leader, Signal::CONT);
            }
            Fault::StopFollower => {
                self.cluster.signal(follower, Signal::STOP);
                while_answered(random);
                self.cluster.signal(follower, Signal::CONT);
            }
            Fault::IsolateLeader => {
                self.isolate(leader, yard);
                self.cluster.set_links(leader, Mode::Pass);
            }
            Fault::IsolateDaemon => {
                let node = self.cluster.server_of("quotad").expect("it is connected");
                self.isolate(node, yard);
                self.consumes(&self.cluster.urls_but(node));
                self.cluster.set_links(node, Mode::Pass);
            }
            Fault::Scatter => {
                for node in 0..NODES {
                    self.cluster.set_links(node, Mode::Hold);
                }
                std::thread::sleep(Duration::from_millis(random.below(HOLD_MAX)));
                for node in 0..NODES {
                    self.cluster.set_links(node, Mode::Pass);
                }
            }
            Fault::CutRoutes => self.cut_routes(leader),
            Fault::StepDown => {
                wait_until("the leader steps down", || self.cluster.steps_down(EVENTS));
                // The same server may be elected again.
                self.cluster.wait_for_leader(leader, |_| true);
            }
        }
    }

    fn settle(&mut self) {
        self.cluster.wait_until_current();
        self.consumes(&self.cluster.urls());
    }

    fn losses(_: &Fired<Fault>) -> Losses {
        Losses { purged: 0, recreated: 0 }
    }
}
