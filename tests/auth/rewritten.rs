//! A tokens file that is rewritten in place while requests run.

use std::{
    fs::{self, File},
    io::Write as _,
    net::TcpStream,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Daemon, create, exchange};

/// Asks until it is over; how often it was answered.
fn ask(api: &str, token: &str, is_over: &AtomicBool) -> u32 {
    let mut answered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let stream = TcpStream::connect(api).unwrap();
        let (status, answer) = exchange(stream, token, "GET", "/v1/quotas", None);
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
        .map(|number| create(&path, &format!("--principal p{number} --role read -A")))
        .collect();
    let text = fs::read_to_string(&path).unwrap();
    let mut daemon = Daemon::start(directory.path(), &["--auth.tokens_file=tokens.toml"]);
    let (api, is_over) = (daemon.api.clone(), AtomicBool::new(false));
    let answered = thread::scope(|scope| {
        let asking = tokens.iter().map(|token| {
            let (api, is_over) = (&api, &is_over);
            scope.spawn(move || ask(api, token, is_over))
        });
        let asking: Vec<_> = asking.collect();
        let end = End(&is_over);
        let pid = Pid::from_child(&daemon.child);
        let look = || kill_process(pid, Signal::HUP).unwrap();
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
            daemon.reload("the new tokens file cannot be used, the old one stays");
        });
        // It goes on with what is whole.
        create(&path, "--principal late --role read -A");
        daemon.reload("a new tokens file is in force");
        drop(end);
        let answered = asking.into_iter().map(|asking| asking.join().unwrap());
        answered.collect::<Vec<_>>()
    });
    assert!(answered.iter().all(|count| *count > 0), "{answered:?}");
    let log = daemon.stop();
    assert!(!log.contains("request refused"), "{log}");
}
