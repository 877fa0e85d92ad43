//! The end of a world: there are no more faults, and the world has to come to rest in a correct state.

use std::{path::Path, sync::Arc};

use quota_journal::simulation::{Crash, Faults};

use super::{
    account::{Checked, Unread, ensure},
    settings::DIRECTORY,
    stream::is_versioned,
    things::{namespace, uid},
    world::World,
};

/// The number of steps after which the world has to be at rest.
const STEPS: u32 = 3000;

impl World {
    pub(crate) fn settle(&mut self) -> Checked {
        self.is_calm = true;
        let faults = &mut self.settings.stream;
        (faults.duplicate, faults.reorder, faults.drop) = (0, 0, 0);
        self.disk.inject(Faults::default());
        if self.random.chance(500)
            || self.daemon.as_ref().is_none_or(|daemon| daemon.reader.poisoned().is_some())
        {
            self.start(Crash::PowerLoss)?;
        }
        let now = self.now();
        for sighting in self.cluster.list() {
            self.stream.publish(now, Some(sighting));
        }
        self.come_to_rest()?;
        self.compare_with_the_truth()?;
        self.stop()?;
        match self.read_all() {
            Ok(()) => {}
            Err(Unread::Wrong(why)) => return Err(why),
            Err(Unread::Error(error)) => return Err(format!("I4: at rest: {error}")),
        }
        self.account.fold_again()?;
        self.verify()
    }

    /// Liveness: requests are answered, the stream is consumed, expired reservations are settled.
    fn come_to_rest(&mut self) -> Checked {
        for _ in 0..STEPS {
            for client in 0..self.clients.all.len() {
                if self.clients.all[client].pending.is_some() {
                    self.ask_again(client);
                }
            }
            self.deliver()?;
            self.deliver()?;
            self.decide()?;
            self.hear();
            self.sync()?;
            self.poll();
            self.clock += 1;
            if self.is_at_rest() {
                return Ok(());
            }
        }
        let daemon = self.daemon.as_ref();
        let pending = daemon.map(|daemon| daemon.state.pending_count());
        Err(format!(
            "liveness: not at rest: {pending:?} pending, stream at {} of {}, idle {:?}",
            self.session.position,
            self.stream.last,
            daemon.map(super::daemon::Daemon::is_idle),
        ))
    }

    fn is_at_rest(&self) -> bool {
        let answered = self.clients.all.iter().all(|client| client.pending.is_none());
        answered
            && self.session.is_settled(&self.stream)
            && self
                .daemon
                .as_ref()
                .is_some_and(|daemon| daemon.is_idle() && daemon.state.pending_count() == 0)
    }

    /// I2: the ledger has the objects of the producer. I12: lost messages are reported as gaps.
    fn compare_with_the_truth(&self) -> Checked {
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        let state = &daemon.state;
        for (number, truth) in &self.cluster.objects {
            let uid = uid(*number);
            let object = state.object(&namespace(truth.namespace), &uid);
            ensure!(
                object.is_some() == truth.is_alive,
                "I2: {uid} should be alive: {}",
                truth.is_alive
            );
            let Some(object) = object else {
                continue;
            };
            ensure!(
                *object.footprint == truth.footprint,
                "I2: {uid} counts for {:?}",
                object.footprint
            );
            ensure!(
                !is_versioned(*number) || object.version == truth.version,
                "I2: {uid} is at {}",
                object.version
            );
        }
        let source = &self.account.fold.source;
        for position in 1..=self.stream.last {
            match self.stream.messages.get(&position) {
                None => ensure!(
                    source.is_gap(position) || source.position >= position,
                    "I12: message {position} is missing"
                ),
                Some(message) if message.sighting.is_none() => {
                    let counted = source.rejected.contains(&position);
                    ensure!(counted, "I8: message {position} was not consumed");
                }
                Some(_) => ensure!(
                    !source.is_gap(position),
                    "I12: message {position} is there, but was reported as lost"
                ),
            }
        }
        self.account.compare(state)
    }

    /// The deep check finds no damage.
    fn verify(&mut self) -> Checked {
        self.daemon = None;
        self.disk.reboot(Crash::PowerLoss, Faults::default());
        let archive = self.settings.options.archive.as_deref();
        let found = quota_journal::verify(
            Arc::new(self.disk.clone()),
            Path::new(DIRECTORY),
            archive,
            1,
            &(),
        );
        let found = found.map_err(|error| format!("I6: {error}"))?;
        ensure!(found.damages.is_empty(), "I6: {:?}", found.damages);
        Ok(())
    }
}
