//! The world: events in the order of their times, and what goes wrong between them.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    sync::Arc,
};

use planted::Bug;
use quota_journal::{Hash, StoredBatch};
use quota_replication::{Action, Identity, Kind, LedgerId, Message, NodeName, Position, Reply};
use quota_semantics::Timestamp;

use super::{
    account::{Account, Checked},
    clients::{Answer, Client, Job, Op, Said},
    process::Process,
    stream::{Arrived, Origin, Stream},
};
use quota_simulation::{Random, Report};

const NODES: usize = 3;
const CLIENTS: usize = 4;
/// Faults happen up to then.
const TROUBLED: u64 = 12_000;
/// By then everything has to have come to rest.
const LONGEST: u64 = TROUBLED + 60_000;
/// More events than a world has that makes any progress.
const MOST: u64 = 200_000;
/// How long a client waits for an answer.
const PATIENCE: u64 = 2_500;

#[derive(Debug)]
enum Event {
    Tick(usize, u64),
    Publish(Arc<[u8]>, Origin),
    Commit(u64),
    Reply(Origin, Reply),
    /// What a read from this sequence on brings to this process; false: nothing.
    Read(usize, u64, u64, bool),
    Request(usize, Job),
    Answer(Answer),
    /// A client asks, or asks again, unless it has asked more often since.
    Ask(usize, u64),
    Start(usize),
    Fault,
}

struct Node {
    replica: Vec<StoredBatch>,
    /// Where it stood in the stream when that was last written down.
    position: Position,
    process: Option<Process>,
    paused_until: u64,
    cut_until: u64,
    /// Difference of its clock, in milliseconds.
    offset: i64,
    lives: u64,
}

/// How often things go wrong, in a thousand.
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
    /// By time, then in the order in which they came up.
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
    "position lost",
    "stream leader changed",
    "uncommitted tail lost",
    "refused by a deposed server",
    "publish lost",
    "publish late",
    "publish delivered twice",
    "acknowledgement lost",
    "node cut off",
    "ambiguous append",
    "resolved as stored",
    "refused, then stored",
    "fence lost",
    "leader deposed",
    "handed over",
    "granted",
    "denied",
    "expired",
];

impl quota_simulation::World for World {
    const BUGS: &'static [Bug] = Bug::CLUSTER;
    const EXPECTED: &'static [&'static str] = EXPECTED;
    const ENOUGH: u64 = 500;

    fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::new(seed);
        let genesis = Message {
            ledger: LedgerId::from_bytes([1; 16]),
            partition: 0,
            epoch: 0,
            node: name(0),
            instance: 0,
            expected: 0,
            previous: Hash::GENESIS,
            kind: Kind::Genesis {
                sequence: 0,
                time: Timestamp::EPOCH,
            },
        };
        let mut often = |most: u64| match random.chance(500) {
            true => random.below(most),
            false => 0,
        };
        let (lost, late, twice) = (often(150), often(100), often(100));
        let faults = (0..7).filter(|_| random.chance(600)).collect();
        let odds = Odds {
            lost,
            late,
            twice,
            faults,
            fault_every: 100 + random.below(2_000),
        };
        let node = |random: &mut Random| Node {
            replica: Vec::new(),
            position: Position::NOTHING,
            process: None,
            paused_until: 0,
            cut_until: 0,
            offset: random.within(-3_000, 3_000),
            lives: 0,
        };
        let client = Client {
            op: None,
            number: 0,
            asked: 0,
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

    fn plant(bug: Option<Bug>) {
        planted::plant(bug);
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
            Event::Ask(client, asked) => {
                self.ask(client, asked);
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
        let identity = Identity {
            node: name(number),
            instance: life,
            partition: 0,
        };
        node.process = Some(Process::start(
            identity,
            node.position.clone(),
            &node.replica,
            self.now,
        ));
        self.after(1, Event::Tick(number, life));
        Ok(())
    }

    fn tick(&mut self, node: usize, life: u64) -> Checked {
        let wall = self.wall(node);
        self.with(node, life, |process, now| process.member.tick(now, wall))?;
        if let Some(process) = self.alive(node, life) {
            let next = process
                .member
                .next_tick()
                .saturating_sub(self.now)
                .clamp(10, 100);
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

    /// Has a process do something, then decide, then carry out what comes of it.
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
        let after = process.member.counts();
        let answers = process.decide(now, wall);
        self.report
            .add("ambiguous append", after.ambiguous - before.ambiguous);
        self.report
            .add("resolved as stored", after.resolved - before.resolved);
        self.report.add(
            "refused, then stored",
            after.false_refusals - before.false_refusals,
        );
        self.report
            .add("fence lost", after.lost_fences - before.lost_fences);
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
        let Node {
            process, replica, ..
        } = &mut self.nodes[number];
        let Some(process) = process else {
            return Ok(());
        };
        let life = process.life;
        match action {
            Action::Publish { expected, bytes } => self.publish(bytes, (number, life, expected)),
            Action::Read { from } => {
                let is_answered = !self.is_cut(number) && !self.loses();
                let delay = if is_answered { self.delay() } else { 500 };
                self.after(delay, Event::Read(number, life, from, is_answered));
            }
            Action::Apply(batch) => {
                if !process.apply(&batch, replica) {
                    return Err(format!(
                        "n{number}: the replica has another batch {}",
                        batch.batch.first_sequence
                    ));
                }
            }
            Action::Lead { .. } => {
                process.lead();
                self.report.count("led");
            }
            Action::Committed(batch) => {
                // The process may be killed when its replica has the batch, and nobody the answers.
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

    fn is_cut(&self, node: usize) -> bool {
        self.nodes[node].cut_until > self.now
    }

    fn loses(&mut self) -> bool {
        self.is_troubled() && self.random.chance(self.odds.lost)
    }

    fn publish(&mut self, bytes: Arc<[u8]>, origin: Origin) {
        if self.is_cut(origin.0) || self.loses() {
            return self.report.count("publish lost");
        }
        if self.stream.stale_until > self.now && self.random.chance(500) {
            // It may name any number: behind, or ahead by what will never be committed.
            self.report.count("refused by a deposed server");
            let last = self.random.below(self.stream.last() + 3);
            let delay = self.delay();
            self.after(delay, Event::Reply(origin, Reply::Refused(Some(last))));
            if self.random.chance(200) {
                return;
            }
        }
        let mut delay = self.delay();
        if self.is_troubled() && self.random.chance(self.odds.late) {
            self.report.count("publish late");
            delay += self.random.below(5_000);
        }
        if self.is_troubled() && self.random.chance(self.odds.twice) {
            self.report.count("publish delivered twice");
            let later = delay + self.random.below(3_000);
            self.after(later, Event::Publish(bytes.clone(), origin));
        }
        self.after(delay, Event::Publish(bytes, origin));
    }

    fn arrives(&mut self, bytes: Arc<[u8]>, origin: Origin) -> Checked {
        let delay = self.delay();
        match self.stream.arrives(self.now, bytes, origin) {
            Arrived::Nobody => {
                if self.random.chance(500) {
                    self.reply(origin, Reply::Unknown);
                }
            }
            Arrived::Refused(last) => self.reply(origin, Reply::Refused(Some(last))),
            Arrived::Proposed => {
                let is_slow = self.is_troubled() && self.random.chance(self.odds.late);
                let more = if is_slow { self.random.below(3_000) } else { 0 };
                self.after(delay + more, Event::Commit(self.stream.term));
            }
        }
        Ok(())
    }

    fn commits(&mut self, term: u64) -> Checked {
        if let Some((origin, reply)) = self.stream.commit(term) {
            self.reply(origin, reply);
        }
        Ok(())
    }

    fn reply(&mut self, origin: Origin, reply: Reply) {
        if self.is_cut(origin.0) || self.loses() {
            return self.report.count("acknowledgement lost");
        }
        let mut delay = self.delay();
        if self.is_troubled() && self.random.chance(self.odds.late) {
            delay += self.random.below(4_000);
        }
        self.after(delay, Event::Reply(origin, reply));
    }

    fn reads(&mut self, node: usize, life: u64, from: u64, is_answered: bool) -> Checked {
        let lags = self.is_troubled() && self.random.chance(300);
        let lag = if lags { self.random.below(4) } else { 0 };
        let messages = is_answered.then(|| self.stream.read(from, lag));
        self.with(node, life, |process, now| {
            process.member.read(now, messages.as_deref());
        })?;
        // From time to time the position is written down.
        if self.random.chance(100)
            && let Some(process) = &self.nodes[node].process
            && process.member.in_flight_since().is_none()
        {
            self.nodes[node].position = process.member.position().clone();
        }
        Ok(())
    }

    fn request(&mut self, node: usize, job: Job) -> Checked {
        let Some(process) = &mut self.nodes[node].process else {
            return Ok(());
        };
        let life = process.life;
        if let Err(job) = process.submit(job) {
            let answer = Answer {
                job,
                said: Said::NotLeader,
                basis: 0,
            };
            self.after(2, Event::Answer(answer));
            return Ok(());
        }
        self.with(node, life, |_, _| {})
    }

    fn send_answers(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            let delay = self.delay();
            match self.loses() {
                true => self.report.count("answer lost"),
                false => self.after(delay, Event::Answer(answer)),
            }
        }
    }

    fn answered(&mut self, answer: Answer) -> Checked {
        let Answer { job, said, basis } = answer;
        // Also if nobody waits for it any more, it has left.
        if let (Op::Reserve(number), Said::Granted) = (&job.op, said) {
            self.account.granted.insert(*number);
        }
        let client = &mut self.clients[job.client];
        if client.number != job.number || client.op.is_none() {
            return Ok(());
        }
        if said == Said::NotLeader {
            let asked = client.asked;
            self.after(50, Event::Ask(job.client, asked));
            return Ok(());
        }
        if basis < client.acknowledged_before {
            return Err(format!(
                "{:?} was answered {said:?} by what was known at entry {basis}, when {} was acknowledged",
                job.op, client.acknowledged_before
            ));
        }
        match (&job.op, said) {
            (Op::Reserve(number), Said::Granted) => {
                self.report.count("granted");
                client.granted.push(*number);
            }
            (Op::Reserve(_), Said::Denied) => self.report.count("denied"),
            (Op::SetQuota, Said::Done) => self.has_quota = true,
            _ => {}
        }
        client.op = None;
        client.number += 1;
        let asked = client.asked;
        self.account.acknowledged = self.account.acknowledged.max(basis);
        let pause = self.random.below(120);
        self.after(pause, Event::Ask(job.client, asked));
        Ok(())
    }

    fn ask(&mut self, number: usize, asked: u64) {
        let client = &mut self.clients[number];
        if client.asked != asked || client.is_done {
            return;
        }
        client.asked += 1;
        if client.op.is_none() {
            if self.now >= TROUBLED + 2_000 {
                client.is_done = true;
                return;
            }
            let op = match self.random.below(10) {
                _ if number == 0 && !self.has_quota => Op::SetQuota,
                _ if !self.has_quota => Op::Read,
                0 | 1 if !client.granted.is_empty() => {
                    let at = self.random.below(client.granted.len() as u64);
                    Op::Release(client.granted.swap_remove(usize::try_from(at).unwrap()))
                }
                2 => Op::Read,
                _ => {
                    self.next_uid += 1;
                    Op::Reserve(self.next_uid)
                }
            };
            client.op = Some(op);
            client.acknowledged_before = self.account.acknowledged;
        }
        let op = client.op.clone().expect("there is one");
        let (request, asked) = (client.number, client.asked);
        let node = usize::try_from(self.random.below(NODES as u64)).unwrap();
        let job = Job {
            client: number,
            number: request,
            op,
        };
        let delay = self.delay();
        if !self.loses() {
            self.after(delay, Event::Request(node, job));
        }
        self.after(PATIENCE, Event::Ask(number, asked));
    }

    fn kill(&mut self, node: usize, down: u64) {
        let killed = &mut self.nodes[node];
        killed.process = None;
        killed.paused_until = 0;
        self.after(down, Event::Start(node));
    }

    fn fault(&mut self) {
        if !self.is_troubled() {
            self.stream.heal();
            for node in &mut self.nodes {
                (node.paused_until, node.cut_until) = (0, 0);
            }
            return;
        }
        let every = self.odds.fault_every;
        let next = 1 + self.random.below(every);
        self.after(next, Event::Fault);
        if self.odds.faults.is_empty() {
            return;
        }
        let node = usize::try_from(self.random.below(NODES as u64)).unwrap();
        let (now, span) = (self.now, self.random.below(5_000));
        match self.random.one_of(&self.odds.faults.clone()) {
            0 => {
                self.report.count("process killed");
                self.kill(node, 50 + span / 3);
            }
            1 => {
                self.report.count("position lost");
                self.nodes[node].position = Position::NOTHING;
                self.kill(node, 50);
            }
            2 => {
                self.report.count("process paused");
                self.nodes[node].paused_until = now + span;
            }
            3 => {
                self.report.count("stream leader changed");
                if self.stream.change_leader(now, &mut self.random) > 0 {
                    self.report.count("uncommitted tail lost");
                }
            }
            4 => {
                self.report.count("node cut off");
                self.nodes[node].cut_until = now + span;
            }
            5 => {
                self.stream.stale_until = now + span / 2;
            }
            _ => {
                let leads = |node: &Node| node.process.as_ref().is_some_and(Process::leads);
                if let Some(leader) = self.nodes.iter_mut().find(|node| leads(node)) {
                    leader.process.as_mut().unwrap().hand_over(name(node));
                }
            }
        }
    }
}

fn short(event: &Event) -> String {
    match event {
        Event::Publish(bytes, (node, _, expected)) => {
            let kind = Message::decode(bytes).map(|message| match message.kind {
                Kind::Group(batch) => format!("group {}", batch.batch.first_sequence),
                Kind::Fence(_) => format!("fence {}", message.epoch),
                Kind::Handover { to } => format!("handover to {to}"),
                kind => format!("{kind:?}"),
            });
            format!("publish of n{node} behind {expected}: {kind:?}")
        }
        other => format!("{other:?}"),
    }
}
