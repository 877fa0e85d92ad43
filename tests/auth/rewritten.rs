//! A tokens file that is rewritten in place while requests run.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{Quotad, call, create_token, reload, start, stop};

/// Asks until it is over; how often it was answered.
fn ask(daemon: &Quotad, token: &str, is_over: &AtomicBool) -> u32 {
    let mut answered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let (status, answer) = call(daemon, token, "GET", "/v1/quotas", &Value::Null);
        assert_eq!(status, 200, "{answer}");
        answered += 1;
    }
    answered
}

/// Tells those that ask that it is over, also when something went wrong.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes a file in place: empty, then the first `cut` bytes of it, then the rest; `between` happens before the rest.
fn rewrite(path: &Path, text: &str, cut: usize, between: impl FnOnce()) {
    let mut file = File::create(path).unwrap();
    file.write_all(&text.as_bytes()[..cut]).unwrap();
    between();
    file.write_all(&text.as_bytes()[cut..]).unwrap();
}

#[test]
fn valid_tokens_are_not_turned_away_while_their_file_is_rewritten_in_place() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("tokens.toml");
    let tokens: Vec<_> = (0..3)
        .map(|number| create_token(&path, &format!("--principal p{number} --role read -A")))
        .collect();
    let text = fs::read_to_string(&path).unwrap();
    let daemon = start(directory.path(), &[]);
    let is_over = AtomicBool::new(false);
    let answered = thread::scope(|scope| {
        let asking = tokens.iter().map(|token| {
            let (daemon, is_over) = (&daemon, &is_over);
            scope.spawn(move || ask(daemon, token, is_over))
        });
        let asking: Vec<_> = asking.collect();
        let end = End(&is_over);
        let look = || kill_process(daemon.pid(), Signal::HUP).unwrap();
        // Of whole records, too, a part can be read: nothing is wrong with it then but that some are missing.
        let records: Vec<_> = text.match_indices("[[tokens]]").collect();
        assert_eq!(records.len(), tokens.len());
        for (record, _) in records {
            for cut in [record, record + 1, record + 20] {
                rewrite(&path, &text, cut, look);
            }
        }
        // For so long that it is no more taken for half of something.
        let (last, _) = text.match_indices("hash").last().unwrap();
        rewrite(&path, &text, last, || {
            reload(
                &daemon,
                "the new tokens file cannot be used, the old one stays",
            );
        });
        // It goes on with what is whole.
        create_token(&path, "--principal late --role read -A");
        reload(&daemon, "a new tokens file is in force");
        drop(end);
        let answered = asking.into_iter().map(|asking| asking.join().unwrap());
        answered.collect::<Vec<_>>()
    });
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    let log = stop(daemon, directory.path());
    assert!(!log.contains("request refused"), "{log}");
}
