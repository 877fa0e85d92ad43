//! The world: events in the order of their times, and the faults between them.

mod faults;
mod network;
mod requests;

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use quota_journal::{Hash, StoredBatch};
use quota_replication::protocol::{
    Action, Identity, Kind, LedgerId, Message, NodeName, PendingPosition, Position, Reply, Role,
};
use quota_semantics::Timestamp;

use super::{
    account::{Account, Checked},
    clients::{Answer, Client, Job},
    process::Process,
    stream::{Origin, Stream},
};
use quota_testkit::simulation::{Random, Report};

const NODES: usize = 3;
const CLIENTS: usize = 4;
/// The time until which faults happen.
const TROUBLED: u64 = 12_000;
/// The time by which the world has to be at rest.
const LONGEST: u64 = TROUBLED + 60_000;
/// More events than any world that makes progress has.
const MOST: u64 = 200_000;
/// How long a client waits for an answer.
const PATIENCE: u64 = 2_500;

#[derive(Debug)]
enum Event {
    Tick(usize, u64),
    Publish(Arc<[u8]>, Origin),
    Commit(u64),
    Reply(Origin, Reply),
    /// The result of a read from this sequence arrives at this process; false: no result.
    Read(usize, u64, u64, bool),
    Request(usize, Job),
    Answer(Answer),
    /// A client sends a request, or repeats it, unless it has sent more requests since.
    Ask(usize, u64),
    Start(usize),
    Fault,
}

struct Node {
    replica: Vec<StoredBatch>,
    /// The number of its synced batches.
    synced: usize,
    pending: PendingPosition,
    /// Its position in the stream when that was last stored.
    position: Position,
    process: Option<Process>,
    paused_until: u64,
    cut_until: u64,
    barred_until: u64,
    /// The last message of the server that is cut off together with the node, and answers its reads; none: the node is
    /// alone.
    cut_off_with: Option<u64>,
    /// Difference of its clock, in milliseconds.
    offset: i64,
    lives: u64,
}

/// Probabilities of faults, in a thousand.
struct Odds {
    lost: u64,
    late: u64,
    twice: u64,
    faults: Vec<u8>,
    fault_every: u64,
}

pub(crate) struct World {
    random: Random,
    odds: Odds,
    now: u64,
    /// By time, then in the order of their creation.
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    stream: Stream,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    account: Account,
    next_uid: u64,
    has_quota: bool,
    verbose: bool,
    trace: u64,
    report: Report,
}

fn name(node: usize) -> NodeName {
    format!("n{node}").parse().unwrap()
}

/// Events that have to happen in a run of many seeds.
const EXPECTED: &[&str] = &[
    "process killed",
    "process paused",
    "power of a node lost",
    "unsynced tail of a replica lost",
    "position lost",
    "stream leader changed",
    "uncommitted tail lost",
    "refused by a deposed server",
    "publish lost",
    "publish late",
    "publish delivered twice",
    "acknowledgement lost",
    "node cut off",
    "read from a server that is cut off",
    "ambiguous append",
    "resolved as stored",
    "refused, then stored",
    "fence lost",
    "fence given up",
    "leader deposed",
    "handed over",
    "granted",
    "denied",
    "expired",
];

impl quota_testkit::simulation::World for World {
    const EXPECTED: &'static [&'static str] = EXPECTED;
    const ENOUGH: u64 = 500;

    fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::new(seed);
        let genesis = Message {
            ledger: LedgerId::from_bytes([1; 16]),
            partition: 0,
            term: 0,
            node: name(0),
            instance: 0,
            expected: 0,
            previous: Hash::GENESIS,
            kind: Kind::Genesis { sequence: 0, time: Timestamp::EPOCH },
        };
        let mut often = |most: u64| match random.chance(500) {
            true => random.below(most),
            false => 0,
        };
        let (lost, late, twice) = (often(150), often(100), often(100));
        let faults = (0..9).filter(|_| random.chance(600)).collect();
        let odds = Odds { lost, late, twice, faults, fault_every: 100 + random.below(2_000) };
        let node = |random: &mut Random| Node {
            replica: Vec::new(),
            synced: 0,
            pending: PendingPosition::default(),
            position: Position::NOTHING,
            process: None,
            paused_until: 0,
            cut_until: 0,
            barred_until: 0,
            cut_off_with: None,
            offset: random.within(-3_000, 3_000),
            lives: 0,
        };
        let client = Client {
            op: None,
            number: 0,
            attempts: 0,
            acknowledged_before: 0,
            granted: Vec::new(),
            is_done: false,
        };
        Self {
            nodes: (0..NODES).map(|_| node(&mut random)).collect(),
            random,
            odds,
            now: 0,
            events: BTreeMap::new(),
            count: 0,
            stream: Stream::new(genesis.encode()),
            clients: vec![client; CLIENTS],
            account: Account::default(),
            next_uid: 1,
            has_quota: false,
            verbose,
            trace: 0,
            report: Report::default(),
        }
    }

    fn run(&mut self) -> Checked {
        for node in 0..NODES {
            self.after(0, Event::Start(node));
        }
        for client in 0..CLIENTS {
            self.after(10, Event::Ask(client, 0));
        }
        let first = self.odds.fault_every;
        self.after(first, Event::Fault);
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            if self.now > LONGEST || self.count > MOST {
                return Err("it does not come to rest".to_owned());
            }
            let mut hasher = DefaultHasher::new();
            (self.trace, time, format!("{event:?}").len()).hash(&mut hasher);
            self.trace = hasher.finish();
            if self.verbose && !matches!(event, Event::Tick(..)) {
                println!("{time:>6} {}", short(&event));
            }
            self.step(event)?;
            if self.is_at_rest() {
                return self.check();
            }
        }
        Err("nothing happens any more".to_owned())
    }

    fn trace(&self) -> String {
        format!("{:016x}", self.trace)
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

impl World {
    fn is_troubled(&self) -> bool {
        self.now < TROUBLED
    }

    fn is_at_rest(&self) -> bool {
        let last = self.stream.last();
        let follows = |node: &Node| {
            let process = node.process.as_ref();
            process.is_some_and(|process| {
                process.member.position().stream == last
                    && process.member.in_flight_since().is_none()
            })
        };
        !self.is_troubled()
            && self.clients.iter().all(|client| client.is_done)
            && self.nodes.iter().all(follows)
    }

    fn check(&mut self) -> Checked {
        let state = self.account.check(&self.stream, &mut self.report)?;
        let digest = state.digest();
        for (number, node) in self.nodes.iter().enumerate() {
            let process = node.process.as_ref().expect("all are up");
            if process.state.digest() != digest {
                return Err(format!("the state of n{number} is not that of the log"));
            }
        }
        Ok(())
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.count += 1;
        self.events.insert((self.now + delay, self.count), event);
    }

    fn delay(&mut self) -> u64 {
        1 + self.random.below(4)
    }

    fn step(&mut self, event: Event) -> Checked {
        let node = match &event {
            Event::Tick(node, _)
            | Event::Read(node, ..)
            | Event::Request(node, _)
            | Event::Start(node) => *node,
            Event::Reply((node, ..), _) => *node,
            _ => NODES,
        };
        if let Some(paused) = self.nodes.get(node)
            && paused.paused_until > self.now
        {
            let wait = paused.paused_until - self.now;
            self.after(wait, event);
            return Ok(());
        }
        match event {
            Event::Start(node) => self.start(node),
            Event::Tick(node, life) => self.tick(node, life),
            Event::Publish(bytes, origin) => self.arrives(bytes, origin),
            Event::Commit(term) => self.commits(term),
            Event::Reply((node, life, expected), reply) => self.with(node, life, |process, now| {
                process.member.replied(now, expected, reply);
            }),
            Event::Read(node, life, from, is_answered) => self.reads(node, life, from, is_answered),
            Event::Request(node, job) => self.request(node, job),
            Event::Answer(answer) => self.answered(answer),
            Event::Ask(client, attempts) => {
                self.ask(client, attempts);
                Ok(())
            }
            Event::Fault => {
                self.fault();
                Ok(())
            }
        }
    }

    fn start(&mut self, number: usize) -> Checked {
        let node = &mut self.nodes[number];
        if node.process.is_some() {
            return Ok(());
        }
        node.lives += 1;
        let life = node.lives << 8 | number as u64;
        let identity = Identity { node: name(number), instance: life, partition: 0 };
        node.process =
            Some(Process::start(identity, node.position.clone(), &node.replica, self.now));
        self.after(1, Event::Tick(number, life));
        Ok(())
    }

    fn tick(&mut self, node: usize, life: u64) -> Checked {
        let wall = self.wall(node);
        let is_barred = self.nodes[node].barred_until > self.now;
        let mut gave_up = false;
        self.with(node, life, |process, now| {
            let was_candidate = process.member.role() == Role::Candidate;
            process.member.set_barred(is_barred);
            process.member.tick(now, wall);
            gave_up = was_candidate && process.member.role() == Role::Follower;
        })?;
        if gave_up {
            self.report.count("fence given up");
        }
        if let Some(process) = self.alive(node, life) {
            let next = process.member.next_tick().saturating_sub(self.now).clamp(10, 100);
            self.after(next, Event::Tick(node, life));
        }
        Ok(())
    }

    fn wall(&self, node: usize) -> Timestamp {
        let start = 1_700_000_000_000_i64;
        let millis = start + i64::try_from(self.now).unwrap() + self.nodes[node].offset;
        Timestamp::from_nanoseconds(millis * 1_000_000)
    }

    fn alive(&self, node: usize, life: u64) -> Option<&Process> {
        let process = self.nodes[node].process.as_ref();
        process.filter(|process| process.life == life)
    }

    /// Has a process act, then decide, then carry out the resulting actions.
    fn with(&mut self, number: usize, life: u64, act: impl FnOnce(&mut Process, u64)) -> Checked {
        let (now, wall) = (self.now, self.wall(number));
        let node = &mut self.nodes[number];
        let Some(process) = node.process.as_mut().filter(|process| process.life == life) else {
            return Ok(());
        };
        let before = process.member.counts();
        act(process, now);
        self.carry_out(number)?;
        let Some(process) = &mut self.nodes[number].process else {
            return Ok(());
        };
        let (applied, current) = (process.member.position().stream, process.member.current());
        if current.is_some_and(|time| self.stream.lacks(applied, time)) {
            return Err(format!(
                "n{number} lacks message {}, and counts as current at {current:?}",
                applied + 1
            ));
        }
        let after = process.member.counts();
        let answers = process.decide(now, wall);
        self.report.add("ambiguous append", after.ambiguous - before.ambiguous);
        self.report.add("resolved as stored", after.resolved - before.resolved);
        self.report.add("refused, then stored", after.false_refusals - before.false_refusals);
        self.report.add("fence lost", after.lost_fences - before.lost_fences);
        self.send_answers(answers);
        self.carry_out(number)
    }

    fn carry_out(&mut self, number: usize) -> Checked {
        loop {
            let node = &mut self.nodes[number];
            let Some(process) = &mut node.process else {
                return Ok(());
            };
            let actions = process.member.take_actions();
            if actions.is_empty() {
                return Ok(());
            }
            for action in actions {
                self.carry_out_one(number, action)?;
            }
        }
    }

    fn carry_out_one(&mut self, number: usize, action: Action) -> Checked {
        let Node { process, replica, .. } = &mut self.nodes[number];
        let Some(process) = process else {
            return Ok(());
        };
        let life = process.life;
        match action {
            Action::Publish { expected, bytes } => self.publish(bytes, (number, life, expected)),
            Action::Read { from } => {
                let is_alone = self.is_cut(number) && self.nodes[number].cut_off_with.is_none();
                let is_answered = !is_alone && !self.loses();
                let delay = if is_answered { self.delay() } else { 500 };
                self.after(delay, Event::Read(number, life, from, is_answered));
            }
            Action::Apply(batch) => {
                if !process.apply(&batch, replica) {
                    return Err(format!(
                        "n{number}: the replica has another batch {}, or lacks what is before it",
                        batch.batch.first_sequence
                    ));
                }
            }
            Action::Lead { .. } => {
                process.lead();
                self.report.count("led");
            }
            Action::Committed(batch) => {
                // The process may be killed when its replica has the batch, and the answers have not been sent.
                let answers = process.committed(batch, replica);
                self.send_answers(answers);
            }
            Action::HandedOver { .. } => {
                process.handed_over();
                self.report.count("handed over");
            }
            Action::Deposed => {
                self.report.count("leader deposed");
                self.kill(number, 100);
            }
            Action::Stop(why) => return Err(format!("n{number}: {why}")),
        }
        Ok(())
    }
}

fn short(event: &Event) -> String {
    match event {
        Event::Publish(bytes, (node, _, expected)) => {
            let kind = Message::decode(bytes).map(|message| match message.kind {
                Kind::Group(batch) => format!("group {}", batch.batch.first_sequence),
                Kind::Fence(_) => format!("fence {}", message.term),
                Kind::Handover { to } => format!("handover to {to}"),
                kind => format!("{kind:?}"),
            });
            format!("publish of n{node} behind {expected}: {kind:?}")
        }
        other => format!("{other:?}"),
    }
}
