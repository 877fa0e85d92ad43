//! The requests of clients, and their answers.

use super::{
    super::{
        account::Checked,
        clients::{Answer, Job, Op, Said},
    },
    Event, NODES, PATIENCE, TROUBLED, World,
};

impl World {
    pub(super) fn request(&mut self, node: usize, job: Job) -> Checked {
        let Some(process) = &mut self.nodes[node].process else {
            return Ok(());
        };
        let life = process.life;
        if let Err(job) = process.submit(job) {
            let answer = Answer { job, said: Said::NotLeader, basis: 0 };
            self.after(2, Event::Answer(answer));
            return Ok(());
        }
        self.with(node, life, |_, _| {})
    }

    pub(super) fn send_answers(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            let delay = self.delay();
            match self.loses() {
                true => self.report.count("answer lost"),
                false => self.after(delay, Event::Answer(answer)),
            }
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) -> Checked {
        let Answer { job, said, basis } = answer;
        // The answer counts as sent even if no client waits for it any more.
        if let (Op::Reserve(number), Said::Granted) = (&job.op, said) {
            self.account.granted.insert(*number);
        }
        let client = &mut self.clients[job.client];
        if client.number != job.number || client.op.is_none() {
            return Ok(());
        }
        if said == Said::NotLeader {
            let attempts = client.attempts;
            self.after(50, Event::Ask(job.client, attempts));
            return Ok(());
        }
        if basis < client.acknowledged_before {
            return Err(format!(
                "{:?} was answered {said:?} from the state at entry {basis}, when {} was acknowledged",
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
        let attempts = client.attempts;
        self.account.acknowledged = self.account.acknowledged.max(basis);
        let pause = self.random.below(120);
        self.after(pause, Event::Ask(job.client, attempts));
        Ok(())
    }

    pub(super) fn ask(&mut self, number: usize, attempts: u64) {
        let client = &mut self.clients[number];
        if client.attempts != attempts || client.is_done {
            return;
        }
        client.attempts += 1;
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
        let (request, attempts) = (client.number, client.attempts);
        let node = usize::try_from(self.random.below(NODES as u64)).unwrap();
        let job = Job { client: number, number: request, op };
        let delay = self.delay();
        if !self.loses() {
            self.after(delay, Event::Request(node, job));
        }
        self.after(PATIENCE, Event::Ask(number, attempts));
    }
}
