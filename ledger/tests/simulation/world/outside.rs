//! The world around the daemon: clients send requests, the cluster changes, its stream delivers and loses messages.

use super::World;
use crate::{
    account::Checked,
    daemon::{Errand, Job},
};

impl World {
    pub(super) fn ask(&mut self) {
        let client = usize::try_from(self.random.below(self.settings.clients)).unwrap_or(0);
        self.ask_again(client);
    }

    /// A client sends its next request, or repeats the one without an answer.
    pub(crate) fn ask_again(&mut self, client: usize) {
        let Some((number, op)) = self.clients.ask(client, &mut self.random, &self.settings) else {
            return;
        };
        if self.clients.is_repeated() {
            self.report.count("request repeated");
        }
        self.report.count("request");
        let job = Job::Client { client, number, op };
        let Some(Err(_)) = self.daemon.as_mut().map(|daemon| daemon.submit(job)) else {
            return;
        };
        self.report.count("queue full");
        self.clients.all[client].is_sent = false;
    }

    /// The cluster changes: usually, objects with a reservation are created, changed, and deleted.
    pub(super) fn produce(&mut self) {
        let now = self.now();
        if self.random.chance(self.settings.stream.poison) {
            self.stream.publish(now, None);
            return;
        }
        let number = self.clients.requested_before(&mut self.random);
        let sighting = match self.random.below(4) {
            0 => self.cluster.delete(number),
            _ => {
                let space = self.clients.space(number, 0);
                let wanted = self.clients.created.get(&number);
                let amount = wanted.map_or(1, |request| {
                    request.footprint.resources.get("requests.cpu").map_or(0, |q| q.to_f64() as u64)
                });
                let amount = if self.random.chance(300) { self.random.below(5) } else { amount };
                self.cluster.change(number, space, amount)
            }
        };
        if sighting.is_some() {
            self.stream.publish(now, sighting);
        }
    }

    pub(crate) fn deliver(&mut self) -> Checked {
        self.session.deliver(
            &self.stream,
            &self.settings.stream,
            &mut self.random,
            &mut self.report,
        );
        self.step_session()
    }

    fn step_session(&mut self) -> Checked {
        let Some(daemon) = &mut self.daemon else {
            return Ok(());
        };
        let Some(job) = self.session.step(&self.stream) else {
            return Ok(());
        };
        self.session.check(&job)?;
        let to = match &job {
            Job::Session(_, Errand::Record { consumed, .. }) => Some(consumed.cursor.position),
            _ => None,
        };
        match daemon.submit(job) {
            Ok(()) => self.session.taken(to),
            Err(job) => {
                self.report.count("queue full");
                self.session.put_back(job);
            }
        }
        Ok(())
    }

    pub(crate) fn poll(&mut self) {
        let now = self.now();
        let caught_up = self.session.poll(&self.stream, now);
        if let (Some(daemon), Some(time)) = (&mut self.daemon, caught_up) {
            daemon.watermark = daemon.watermark.max(time);
        }
    }

    pub(super) fn disturb_stream(&mut self) {
        let faults = self.settings.stream.clone();
        if self.random.chance(faults.disconnect) {
            self.report.count("consumer lost");
            self.session.end();
        }
        let any = !self.stream.messages.is_empty();
        if any && self.random.chance(faults.purge) {
            self.report.count("stream purged");
            self.stream.purge(&mut self.random);
        }
        if any && self.random.chance(faults.middle) {
            self.report.count("stream lost a range");
            self.stream.lose_middle(&mut self.random);
        }
        if any && self.random.chance(faults.tail) {
            self.report.count("stream lost its tail");
            self.stream.lose_tail(&mut self.random);
            self.session.end();
        }
        if self.random.chance(faults.recreate) {
            self.report.count("stream recreated");
            self.stream.recreate();
        }
    }
}
