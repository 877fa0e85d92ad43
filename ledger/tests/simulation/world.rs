//! One simulated world: a daemon on a disk that crashes, clients, a stream, a clock. All of it follows from a seed.

mod outside;
mod restart;

use quota_core::{
    decide,
    event::{Entry, Event, Reservation},
    state::State,
};
use quota_journal::{
    Durable,
    simulation::{Crash, SimDisk},
};
use quota_ledger::replay;
use quota_semantics::{Span, Timestamp};

use super::{
    account::{Account, Checked, Sight, ensure},
    clients::Clients,
    daemon::{Answer, Daemon, Job, Op, Recipient, Said},
    session::Session,
    settings::Settings,
    stream::{Cluster, Stream},
};
use quota_testkit::simulation::{Random, Report};
use restart::is_simulated;

/// The number of steps between comparisons of everything with the account.
const COMPARE_EVERY: u64 = 16;

/// A world.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) settings: Settings,
    pub(crate) disk: SimDisk,
    pub(crate) account: Account,
    pub(crate) clients: Clients,
    pub(crate) stream: Stream,
    pub(crate) cluster: Cluster,
    pub(crate) session: Session,
    pub(crate) daemon: Option<Daemon>,
    /// The wall clock, in seconds.
    pub(crate) clock: i64,
    /// Whether there are no more faults.
    pub(crate) is_calm: bool,
    /// Whether everything that happens is printed.
    pub(crate) verbose: bool,
    pub(crate) report: Report,
    trace: blake3::Hasher,
}

/// Events that have to happen in a run of many seeds: every kind of fault, and every kind of result.
const EXPECTED: &[&str] = &[
    "process kill",
    "power loss",
    "sync failed",
    "write failed",
    "disk full",
    "unsynced writes lost",
    "unsynced writes reordered",
    "names lost",
    "database suffix lost",
    "database does not open",
    "bit flip, no harm",
    "bit flip, refused",
    "bit flip, refused when read",
    "start failed",
    "clean stop",
    "clock forward",
    "clock back",
    "answer lost",
    "request repeated",
    "queue full",
    "message delivered twice",
    "messages out of order",
    "message not delivered",
    "consumer lost",
    "stream purged",
    "stream lost a range",
    "stream lost its tail",
    "stream recreated",
    "granted",
    "denied",
    "expired",
    "snapshot",
    "epochs removed",
    "gap recorded",
];

impl quota_testkit::simulation::World for World {
    const EXPECTED: &'static [&'static str] = EXPECTED;
    const ENOUGH: u64 = 2_000;
    const KEPT: &'static str = include_str!("seeds.txt");

    fn new(seed: u64, verbose: bool) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings::draw(&mut random);
        Self {
            disk: SimDisk::new(random.next()),
            clients: Clients::new(settings.clients),
            settings,
            random,
            account: Account::default(),
            stream: Stream::default(),
            cluster: Cluster::default(),
            session: Session::closed(0),
            daemon: None,
            clock: 1_000_000,
            is_calm: false,
            verbose,
            report: Report::default(),
            trace: blake3::Hasher::new(),
        }
    }

    fn run(&mut self) -> Checked {
        self.start(Crash::Kill)?;
        for step in 0..self.settings.steps {
            self.step()?;
            if step.is_multiple_of(COMPARE_EVERY)
                && let Some(daemon) = &self.daemon
            {
                self.account.compare(&daemon.state)?;
            }
        }
        self.report.add("step", self.settings.steps);
        self.settle()?;
        self.report_faults();
        Ok(())
    }

    fn trace(&self) -> String {
        self.trace.finalize().to_hex().to_string()
    }

    fn report(&self) -> &Report {
        &self.report
    }
}

impl World {
    fn mark(&mut self, what: &str, number: u64) {
        self.trace.update(what.as_bytes());
        self.trace.update(&number.to_le_bytes());
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(Span::from_seconds(self.clock))
    }

    fn report_faults(&mut self) {
        let fired = self.disk.fired();
        for (what, number) in [
            ("call of the disk", fired.calls),
            ("sync failed", fired.failed_syncs),
            ("write failed", fired.failed_writes),
            ("disk full", fired.no_space),
            ("unsynced writes lost", fired.lost_writes),
            ("unsynced writes reordered", fired.reordered_writes),
            ("names lost", fired.lost_names),
            ("database suffix lost", fired.lost_pairs),
            ("database does not open", fired.broken_databases),
        ] {
            self.report.add(what, number);
        }
        self.report.add("entry", self.account.entries.len() as u64);
    }

    fn step(&mut self) -> Checked {
        self.clock += i64::from(self.random.chance(300));
        if self.random.chance(self.settings.clock_jump) {
            let jump = self.random.within(-400, 400);
            self.report.count(if jump < 0 { "clock back" } else { "clock forward" });
            self.clock += jump;
        }
        self.disturb_stream();
        if self.random.chance(self.settings.stop) {
            return self.stop();
        }
        if self.random.chance(self.settings.snapshot) {
            self.submit(Job::Image);
        }
        if self.random.chance(self.settings.compact) {
            return self.compact();
        }
        if self.random.chance(self.settings.work) {
            return self.work();
        }
        match self.random.below(10) {
            0 | 1 => self.ask(),
            2 => self.produce(),
            3 | 4 => return self.deliver(),
            5 => self.poll(),
            6 | 7 => return self.decide(),
            8 => self.hear(),
            _ => return self.sync(),
        }
        Ok(())
    }

    fn submit(&mut self, job: Job) {
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        if daemon.submit(job).is_err() {
            self.report.count("queue full");
        }
    }

    pub(crate) fn decide(&mut self) -> Checked {
        let (now, jobs) = (self.now(), 1 + usize::try_from(self.random.below(4)).unwrap_or(0));
        let doubts = self.random.chance(250);
        let Some(daemon) = &mut self.daemon else {
            return Ok(());
        };
        let account = std::cell::RefCell::new(&mut self.account);
        let (report, trace) = (std::cell::RefCell::new(&mut self.report), &mut self.trace);
        let (watermark, policy) = (daemon.watermark, self.settings.policy.clone());
        let sight = Sight { watermark, policy: &policy };
        let verbose = self.verbose;
        let mut see = |entry: &Entry, _: &State| {
            trace.update(entry.event.name().as_bytes());
            trace.update(&entry.time.nanoseconds().to_le_bytes());
            match entry.event {
                Event::ReservationExpired { .. } => report.borrow_mut().count("expired"),
                Event::SourceGapped { .. } => report.borrow_mut().count("gap recorded"),
                Event::ReservationGranted(_) => report.borrow_mut().count("granted"),
                _ => {}
            }
            if verbose {
                println!("{:>5} {} {:?}", entry.sequence, entry.event.name(), entry.event);
            }
            account.borrow_mut().follow(entry, sight)
        };
        let mut decided = |job: &Job, said: &Said| {
            if *said != Said::Denied {
                return Ok(());
            }
            report.borrow_mut().count("denied");
            match job {
                Job::Client { op: Op::Reserve(request), .. } if doubts => {
                    deserved(&account.borrow(), request, now)
                }
                _ => Ok(()),
            }
        };
        daemon.decide(now, jobs, &mut see, &mut decided)?;
        let pending = daemon.state.pending_count();
        ensure!(pending <= policy.max_pending, "I14: {pending} reservations are pending");
        Ok(())
    }

    pub(crate) fn hear(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            daemon.hear();
        }
    }

    pub(crate) fn sync(&mut self) -> Checked {
        let Some(daemon) = &mut self.daemon else {
            return Ok(());
        };
        match daemon.sync() {
            Ok(None) => Ok(()),
            Ok(Some(durably)) => {
                self.mark("durable", durably.durable.sequence);
                self.account.publish(&durably.durable);
                for answer in durably.answers {
                    self.answer(answer, &durably.durable)?;
                }
                Ok(())
            }
            Err(error) => self.fail(&error),
        }
    }

    fn answer(&mut self, answer: Answer, durable: &Durable) -> Checked {
        let head = answer.head;
        ensure!(
            head <= durable.sequence,
            "I4: an answer rests on {head}, durable is {}",
            durable.sequence
        );
        match answer.recipient {
            Recipient::Client { client, number, said } => {
                self.trace.update(format!("{said:?}").as_bytes());
                if !self.is_calm && self.random.chance(self.settings.lost_answer) {
                    self.report.count("answer lost");
                    self.clients.all[client].is_sent = false;
                    return Ok(());
                }
                self.clients.answered(client, number, &said)
            }
            Recipient::Image(image) => self.snapshot(&image, durable),
            Recipient::Session(life, answer) => {
                let caught_up = self.session.settle(life, answer);
                if let (Some(daemon), Some(time)) = (&mut self.daemon, caught_up) {
                    daemon.watermark = daemon.watermark.max(time);
                }
                Ok(())
            }
        }
    }

    fn snapshot(&mut self, image: &quota_core::state::Image, durable: &Durable) -> Checked {
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        let mut hasher = blake3::Hasher::new();
        image.write(&mut hasher).map_err(|error| error.to_string())?;
        self.account.note(durable.sequence, *hasher.finalize().as_bytes());
        let snapshots = daemon.reader.snapshots();
        match replay::store(&snapshots, image, *durable, self.settings.keep) {
            Ok(_) => {
                self.report.count("snapshot");
                Ok(())
            }
            Err(error) => self.upkeep_failed(&error),
        }
    }

    fn compact(&mut self) -> Checked {
        let now = self.now();
        let Some(daemon) = &self.daemon else {
            return Ok(());
        };
        match daemon.reader.compact(now, &self.settings.retention) {
            Ok(done) => {
                self.report.add("epochs removed", done.epochs as u64);
                Ok(())
            }
            Err(error) => self.upkeep_failed(&error),
        }
    }

    fn work(&mut self) -> Checked {
        let worked = self.daemon.as_ref().map(|daemon| daemon.journal.work());
        match worked {
            Some(Err(error)) => self.fail(&error),
            _ => Ok(()),
        }
    }

    /// A failed snapshot or compaction is logged; the daemon continues, unless it is dead.
    fn upkeep_failed(&mut self, error: &quota_journal::Error) -> Checked {
        ensure!(is_simulated(error), "I4: upkeep finds damage: {error}");
        self.report.count("upkeep failed");
        let poisoned = self.daemon.as_ref().and_then(|daemon| daemon.reader.poisoned());
        match self.disk.is_dead() || poisoned.is_some() {
            true => self.fail(error),
            false => Ok(()),
        }
    }
}

/// Whether a denial was right: if granted, the reservation would have exceeded a limit.
fn deserved(account: &Account, request: &decide::Request, now: Timestamp) -> Checked {
    let mut naive = account.fold.naive.clone();
    let uid = &request.uid;
    let fold = &account.fold;
    if request.basis != decide::Basis::Create
        || fold.is_pending(uid, &request.namespace, &request.name)
    {
        // The request would supersede another one, or raise a reservation: this simple check does not cover these
        // cases.
        return Ok(());
    }
    let reservation = Reservation {
        uid: uid.clone(),
        namespace: request.namespace.clone(),
        resource: "pods".into(),
        name: request.name.clone(),
        api_version: request.api_version.clone(),
        kind: request.kind.clone(),
        footprint: request.footprint.clone(),
        created: now,
        expiration: now,
        after_version: 0,
        requested: None,
    };
    naive.apply(&Entry {
        sequence: account.entries.len() as u64 + 1,
        time: now,
        actor: quota_core::event::Actor::named("doubt"),
        event: Event::ReservationGranted(std::sync::Arc::new(reservation)),
    });
    let over = naive.held(&request.namespace, uid).into_iter().any(|held| held.counted.is_over());
    ensure!(over, "I1: {uid} is denied although there is room");
    Ok(())
}
