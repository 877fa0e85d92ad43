//! Every call to the disk in turn is where the process is killed, or fails.

use std::{collections::BTreeMap, path::Path, sync::Mutex};

use tempfile::TempDir;

use crate::{
    session::{End, Step, Told, ask, daemon, missing, script, verify},
    support::{
        in_memory,
        quotad::Quotad,
        shim::{Fault, inject},
    },
};

/// Sessions that run at a time; they wait more than they work.
const WORKERS: usize = 6;

/// Between the calls that are tried by default, of one kind of fault.
const STEP: u64 = 601;

const FILLING: usize = 130;

/// The beginning of a session: a ledger with sealed epochs, snapshots and a tail that nobody closed, or nothing.
struct Before {
    directory: TempDir,
    told: Told,
}

impl Before {
    fn nothing() -> Self {
        Self { directory: in_memory(), told: Told::default() }
    }

    fn some_life() -> Self {
        let mut before = Self::nothing();
        let path = before.directory.path().to_owned();
        for (name, filling) in [("one", 140), ("two", 60)] {
            let started = Quotad::try_start(&path, &mut daemon(&path)).unwrap();
            let steps = script(name, filling);
            assert!(ask(&started, &steps, &mut before.told, |_| {}));
            match name {
                "one" => assert_eq!(started.stop().code(), Some(0)),
                _ => started.kill(),
            }
        }
        before
    }
}

/// One session with a fault at one call.
struct Run {
    fault: Fault,
    n: u64,
    /// Where it fired: the operation, and the file.
    fired: Option<(String, String)>,
    end: End,
}

impl Run {
    fn of(before: &Before, fault: Fault, n: u64) -> (Self, Vec<String>) {
        let place = in_memory();
        let path = place.path();
        copy(before.directory.path(), path);
        let said = path.join("said");
        let mut command = daemon(path);
        inject(&mut command, path, fault, n, &said);
        let mut told = before.told.clone();
        let steps = script("now", FILLING);
        let mut answered = 0;
        let end = match Quotad::try_start(path, &mut command) {
            Err(ended) => ended.status.into(),
            Ok(started) => {
                ask(&started, &steps, &mut told, |_| answered += 1);
                started.stop().into()
            }
        };
        let fired = std::fs::read_to_string(&said).ok().map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let operation = words.next().unwrap().to_owned();
            let file = words.next().unwrap_or_default().replace(path.to_str().unwrap(), "");
            (operation, file)
        });
        let run = Self { fault, n, fired, end };
        let unanswered = (answered < steps.len()).then_some(told.unanswered.as_str());
        let mut wrong = run.wrong_end(unanswered);
        wrong.extend(look(path, &told, steps.get(answered)));
        if !wrong.is_empty() {
            wrong.extend(errors(path));
            if std::env::var_os("QUOTAD_FAULTS_KEEP").is_some() {
                wrong.push(format!("kept in {}", place.keep().display()));
            }
        }
        (run, wrong)
    }

    fn name(&self) -> String {
        let Self { fault, n, fired, .. } = self;
        format!("{fault:?} at call {n}, {fired:?}")
    }

    /// A process that is not killed stops in order, or exits with 5.
    fn wrong_end(&self, unanswered: Option<&str>) -> Vec<String> {
        let all_answered = unanswered.is_none();
        let right = match (&self.end, &self.fired) {
            (End::Code(0), None) => all_answered,
            (End::Signal(9), Some(_)) => self.fault.kills(),
            (End::Code(5), Some(_)) => !self.fault.kills(),
            // What is not needed for durability may fail.
            (End::Code(0), Some((operation, file))) => all_answered && !is_vital(operation, file),
            _ => false,
        };
        if right {
            return Vec::new();
        }
        vec![format!("ended with {:?}; unanswered: {unanswered:?}", self.end)]
    }
}

/// What daemons in this directory have said of errors.
fn errors(path: &Path) -> Vec<String> {
    let log = std::fs::read_to_string(path.join("quotad.log")).unwrap_or_default();
    let is_error = |line: &&str| line.contains(r#""level":"ERROR""#);
    log.lines().filter(is_error).map(str::to_owned).collect()
}

/// Whether answers depend on what fails there.
fn is_vital(operation: &str, file: &str) -> bool {
    let spare = ["/data/log/next.tmp", "/data/snapshots", "/data/denials", "/archive"];
    // Compaction goes through the epochs that are at rest, and gives up.
    let at_rest = ["/data/epochs", "/data/LEDGER.tmp"];
    let is_of = |files: &[&str]| files.iter().any(|of| file.starts_with(of));
    !(is_of(&spare) || is_of(&at_rest) || operation == "unlink" || ["", "/."].contains(&file))
}

/// Starts a daemon on what the session left, on a sound disk.
fn look(path: &Path, told: &Told, unanswered: Option<&Step>) -> Vec<String> {
    let started = match Quotad::try_start(path, &mut daemon(path)) {
        Ok(started) => started,
        Err(ended) => return vec![format!("it does not start: {ended:?}")],
    };
    let mut wrong = missing(&started, told, unanswered);
    let end = started.stop();
    if !end.success() {
        wrong.push(format!("then ended with {end}"));
    }
    if let Err(damage) = verify(path) {
        wrong.push(damage);
    }
    wrong
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The faults of one kind that fired in a session, and what was wrong after each.
struct Tried {
    session: &'static str,
    fault: Fault,
    runs: Vec<Run>,
    wrong: Vec<String>,
}

/// Tries the calls of a session in turn, `step` apart, until one is not reached any more.
fn try_calls(
    (session, before): &(&'static str, Before),
    fault: Fault,
    first: u64,
    step: u64,
) -> Tried {
    let mut tried = Tried { session, fault, runs: Vec::new(), wrong: Vec::new() };
    for number in 0.. {
        let (run, found) = Run::of(before, fault, first + step * number);
        let name = |what: String| format!("after {session}: {}: {what}", run.name());
        let found: Vec<_> = found.into_iter().map(name).collect();
        found.iter().for_each(|what| println!("{what}"));
        tried.wrong.extend(found);
        if run.fired.is_none() {
            break;
        }
        tried.runs.push(run);
    }
    tried
}

/// Tries each kind of fault in each session.
fn try_all(step: u64) -> Vec<Tried> {
    let sessions = [("nothing", Before::nothing()), ("some life", Before::some_life())];
    let kinds = || Fault::ALL.into_iter().enumerate();
    let all = sessions.iter().flat_map(|session| kinds().map(move |kind| (session, kind)));
    let left = Mutex::new(all);
    let tried = Mutex::new(Vec::new());
    let next = || left.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((session, (place, fault))) = next() {
                    // Each kind looks at other calls.
                    let first = 1 + place as u64 * 7 % step;
                    let found = try_calls(session, fault, first, step);
                    tried.lock().unwrap().push(found);
                }
            });
        }
    });
    tried.into_inner().unwrap()
}

#[test]
fn whatever_call_to_the_disk_is_the_last_or_fails_nothing_acknowledged_is_lost() {
    let step = match std::env::var("QUOTAD_FAULTS").as_deref() {
        Err(_) => STEP,
        Ok("all") => 1,
        Ok(step) => step.parse().expect("all, or a number"),
    };
    let mut wrong = Vec::new();
    let mut tried = 0;
    let mut ends: BTreeMap<(Fault, End), u64> = BTreeMap::new();
    let mut files: BTreeMap<(String, End), u64> = BTreeMap::new();
    for Tried { session, fault, runs, wrong: found } in try_all(step) {
        wrong.extend(found);
        assert!(!runs.is_empty(), "{fault:?} never fired");
        println!("after {session}: {fault:?} fired {} times", runs.len());
        for run in runs {
            tried += 1;
            *ends.entry((fault, run.end.clone())).or_default() += 1;
            let (operation, file) = run.fired.as_ref().unwrap();
            let kind: String = file.chars().filter(|char| !char.is_ascii_digit()).collect();
            let key = (format!("{operation} {kind}"), run.end.clone());
            *files.entry(key).or_default() += 1;
        }
    }
    println!("{tried} faults fired: {ends:#?}");
    if step < STEP {
        println!("{files:#?}");
    }
    assert!(wrong.is_empty(), "{} of {tried}: {wrong:#?}", wrong.len());
}
