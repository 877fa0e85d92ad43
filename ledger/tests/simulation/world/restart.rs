//! The daemon ends, and starts again.

use quota_journal::simulation::{Crash, Faults};
use quota_ledger::replay;

use super::World;
use crate::{
    account::{Checked, Unread, ensure},
    daemon::Daemon,
};

/// After this many failed starts in a row, a start is tried without faults.
const STARTS: u32 = 5;

impl World {
    /// The daemon has died, or has to: after a failed write or sync it answers no more requests.
    pub(super) fn fail(&mut self, error: &quota_journal::Error) -> Checked {
        ensure!(is_simulated(error), "I4: {error}");
        let power = self.random.chance(self.settings.power_loss);
        let crash = if power { Crash::PowerLoss } else { Crash::Kill };
        self.start(crash)
    }

    /// A clean stop: everything pending is made durable, then the journal is closed.
    pub(crate) fn stop(&mut self) -> Checked {
        while self.daemon.as_ref().is_some_and(|daemon| !daemon.is_idle()) {
            let lives = self.daemon.as_ref().map(|daemon| daemon.durable);
            self.decide()?;
            self.hear();
            self.sync()?;
            // The daemon has died meanwhile.
            if self.daemon.as_ref().map(|daemon| daemon.durable) < lives {
                return Ok(());
            }
        }
        self.report.count("clean stop");
        let Some(daemon) = self.daemon.take() else {
            return Ok(());
        };
        match daemon.journal.close() {
            Ok(_) => self.start(Crash::Kill),
            Err(error) => self.fail(&error),
        }
    }

    fn faults(&mut self) -> Faults {
        if self.is_calm {
            return Faults::default();
        }
        let settings = self.settings.clone();
        let mut at = |permille, calls| match self.random.chance(permille) {
            true => Some(1 + self.random.below(calls)),
            false => None,
        };
        let often = if settings.crash_every == 0 { 0 } else { 900 };
        Faults {
            crash_at: at(often, 2 * settings.crash_every),
            fail_sync_at: at(settings.fail_sync, 150),
            fail_write_at: at(settings.fail_write, 150),
            capacity: at(settings.no_space, 20_000).map(|more| self.disk.used() + more),
            syncs_lie: false,
        }
    }

    /// Starts the daemon again, as often as necessary, and compares its state with the account.
    pub(crate) fn start(&mut self, crash: Crash) -> Checked {
        self.daemon = None;
        self.session.close();
        self.clients.daemon_died();
        let mut crash = crash;
        for tries in 0.. {
            self.report.count(match crash {
                Crash::Kill => "process kill",
                Crash::PowerLoss => "power loss",
            });
            self.disk.reboot(crash, Faults::default());
            if crash == Crash::Kill && !self.is_calm && self.random.chance(self.settings.flip) {
                self.flip()?;
            }
            let faults = if tries < STARTS { self.faults() } else { Faults::default() };
            self.disk.inject(faults);
            let started = Daemon::start(&self.disk, &self.settings);
            let error = match started {
                Ok((daemon, recovery)) => {
                    ensure!(
                        recovery.damaged_snapshots.is_empty(),
                        "I6: {:?}",
                        recovery.damaged_snapshots
                    );
                    if self.verbose {
                        println!("start at {} after {crash:?}", recovery.durable.sequence);
                    }
                    self.mark("start", recovery.durable.sequence);
                    self.account.recovered(&recovery.durable, &daemon.state)?;
                    self.daemon = Some(daemon);
                    if !self.random.chance(300) {
                        return Ok(());
                    }
                    match self.read_all() {
                        Ok(()) => return Ok(()),
                        Err(Unread::Wrong(why)) => return Err(why),
                        Err(Unread::Error(error)) => replay::Error::Journal(error),
                    }
                }
                Err(error) => error,
            };
            ensure!(is_simulated_start(&error), "I4: it does not start: {error}");
            self.report.count("start failed");
            self.daemon = None;
            if self.random.chance(self.settings.power_loss) {
                crash = Crash::PowerLoss;
            }
        }
        Ok(())
    }

    pub(crate) fn read_all(&self) -> Result<(), Unread> {
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        self.account.read_all(&daemon.reader).map(|_| ())
    }

    /// A bit flips while the daemon is down, on a copy of the disk: it is either harmless, or refused.
    fn flip(&mut self) -> Checked {
        let flipped = self.disk.copy();
        let Some((path, offset)) = flipped.flip() else {
            return Ok(());
        };
        let place = format!("bit flip at {} {offset}: ", path.display());
        match Daemon::start(&flipped, &self.settings) {
            Err(replay::Error::Journal(error)) if error.is_damage() => {
                self.report.count("bit flip, refused");
                Ok(())
            }
            Err(error) => Err(format!("I4: {place}{error}")),
            Ok((daemon, recovery)) => {
                let mut account = self.account.clone();
                let found = account.recovered(&recovery.durable, &daemon.state);
                found.map_err(|why| format!("{place}{why}"))?;
                match account.read_all(&daemon.reader) {
                    Ok(_) => self.report.count("bit flip, no harm"),
                    Err(Unread::Error(error)) if error.is_damage() => {
                        self.report.count("bit flip, refused when read");
                    }
                    Err(Unread::Error(error)) => return Err(format!("I4: {place}{error}")),
                    Err(Unread::Wrong(why)) => return Err(format!("{place}{why}")),
                }
                Ok(())
            }
        }
    }
}

pub(super) fn is_simulated(error: &quota_journal::Error) -> bool {
    matches!(error, quota_journal::Error::Io { .. } | quota_journal::Error::Poisoned { .. })
}

fn is_simulated_start(error: &replay::Error) -> bool {
    match error {
        replay::Error::Journal(error) => is_simulated(error),
        replay::Error::Snapshot { source, .. } => {
            matches!(source, quota_core::state::ImageError::Io(_))
        }
        replay::Error::Entries { .. } => false,
    }
}
