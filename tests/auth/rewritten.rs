//! A tokens file that is rewritten in place while requests run.

use std::{
    fs::{self, File},
    io::Write as _,
    mem::MaybeUninit,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use quota_testkit::wait_until;
use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
    process::{Signal, kill_process},
};
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

/// Has the daemon read a file, and waits until it has read all that is in it now.
///
/// The daemon says nothing of a change that it does not take yet. So the kernel tells when it has opened the file, and
/// closed it again. Nobody else opens it meanwhile.
fn have_read(daemon: &Quotad, path: &Path) {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    let watched = WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
    inotify::add_watch(&inotify, path, watched).unwrap();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut events = inotify::Reader::new(&inotify, &mut buffer);
    for awaited in [ReadFlags::OPEN, ReadFlags::CLOSE_NOWRITE] {
        wait_until("the daemon reads the file", || match events.next() {
            Ok(event) => event.events().contains(awaited),
            Err(error) if error == Errno::AGAIN => false,
            Err(error) => panic!("{error}"),
        });
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
        // Of whole records, too, a part can be read: nothing is wrong with it then but that some are missing.
        let records: Vec<_> = text.match_indices("[[tokens]]").collect();
        assert_eq!(records.len(), tokens.len());
        for (record, _) in records {
            for cut in [record, record + 1, record + 20] {
                rewrite(&path, &text, cut, || have_read(&daemon, &path));
            }
        }
        // For so long that it is no more taken for half of something.
        let (last, _) = text.match_indices("hash").last().unwrap();
        rewrite(&path, &text, last, || {
            reload(&daemon, "the new tokens file cannot be used, the old one stays");
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
