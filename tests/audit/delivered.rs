//! Checkpoints that are delivered to a directory and to an HTTP server, and held against each other by `quotactl`.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Output,
    sync::{Arc, Mutex},
};

use quota_checkpoint::{key::PublicKey, note};
use tempfile::TempDir;

use super::{checkpoints::quotactl, observe, set_quota, support::quotad::Quotad, support::until};

/// A server that keeps what it is sent, once it has answered with all of these.
struct Collector {
    url: String,
    kept: Arc<Mutex<Vec<String>>>,
    refusals: Arc<Mutex<VecDeque<u16>>>,
}

impl Collector {
    fn start(refusals: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            url: format!("http://{}/checkpoints", listener.local_addr().unwrap()),
            kept: Arc::default(),
            refusals: Arc::new(Mutex::new(refusals.iter().copied().collect())),
        };
        let (kept, refusals) = (collector.kept.clone(), collector.refusals.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let (kept, refusals) = (kept.clone(), refusals.clone());
                std::thread::spawn(move || serve(stream, &kept, &refusals));
            }
        });
        collector
    }

    fn kept(&self) -> Vec<String> {
        self.kept.lock().unwrap().clone()
    }
}

/// Answers what comes over one connection.
fn serve(stream: TcpStream, kept: &Mutex<Vec<String>>, refusals: &Mutex<VecDeque<u16>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if line == "\r\n" => break,
                Ok(1..) => head.push(line.to_ascii_lowercase()),
                _ => return,
            }
        }
        assert!(head[0].starts_with("post /checkpoints "), "{head:?}");
        let length = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length:"))
            .map(|length| length.trim().parse().unwrap());
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        let refusal = refusals.lock().unwrap().pop_front();
        if refusal.is_none() {
            kept.lock().unwrap().push(String::from_utf8(body).unwrap());
        }
        let status = refusal.unwrap_or(204);
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn signing(path: &Path, more: &[String]) -> Quotad {
    let mut arguments = vec![
        "--checkpoint.key_file=key",
        "--checkpoint.file=checkpoints",
        "--checkpoint.every_entries=1",
    ];
    arguments.extend(more.iter().map(String::as_str));
    Quotad::start(path, &arguments)
}

fn keygen(path: &Path) -> PublicKey {
    let keygen = ["ledger", "keygen", "key", "--origin", "ledger.example.com"];
    assert!(quotactl(path, &keygen).status.success());
    fs::read_to_string(path.join("key.pub"))
        .unwrap()
        .parse()
        .unwrap()
}

fn metric(quotad: &Quotad, name: &str) -> Option<f64> {
    let (_, metrics) = quotad.ask_admin("/metrics");
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}

fn of(name: &str, place: &str) -> String {
    format!("quota_ledger_checkpoint_{name}{{place=\"{place}\"}}")
}

/// Waits until a place has the checkpoint of this sequence, or a later one.
async fn delivered(quotad: &Quotad, place: &str, sequence: u64) {
    let name = of("delivered_sequence", place);
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let is_there = || metric(quotad, &name).filter(|there| *there >= sequence as f64);
    until("it is delivered", is_there).await;
}

fn verify(path: &Path, arguments: &str) -> (i32, String, String) {
    let mut all = vec!["checkpoint", "verify", "--public-key", "key.pub"];
    all.extend(arguments.split_whitespace());
    let Output {
        status,
        stdout,
        stderr,
    } = quotactl(path, &all);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_reach_a_directory_and_a_server_also_after_failures() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let key = keygen(path);
    let collector = Collector::start(&[503, 302]);
    let places = [
        "--checkpoint.copy_dir=copies".to_owned(),
        format!("--checkpoint.http_url={}", collector.url),
    ];
    // There is no directory yet: the daemon reports that, and retries.
    let quotad = signing(path, &places);
    set_quota(&quotad);
    let last = observe(&quotad, "w", 1);
    let waits = || metric(&quotad, &of("undelivered", "directory")).filter(|count| *count > 0.0);
    until("a copy waits", waits).await;
    fs::create_dir(path.join("copies")).unwrap();
    delivered(&quotad, "directory", last).await;
    delivered(&quotad, "http", last).await;
    assert_eq!(metric(&quotad, &of("undelivered", "http")), Some(0.0));
    let failures = metric(&quotad, "quota_ledger_checkpoint_failures_total").unwrap();
    assert!(failures >= 3.0, "{failures}");
    let more = observe(&quotad, "v", 1);
    delivered(&quotad, "http", more).await;
    assert_eq!(quotad.stop().code(), Some(0));

    // Both have what the file has, in the form that is signed.
    let stored = quota_checkpoint::read_all(&path.join("checkpoints")).unwrap();
    assert_eq!(collector.kept(), stored.notes);
    let copies = fs::read_dir(path.join("copies")).unwrap();
    let mut copies: Vec<_> = copies.map(|entry| entry.unwrap().path()).collect();
    copies.sort();
    let copied: Vec<_> = copies
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    assert_eq!(copied, stored.notes);
    for text in &copied {
        note::verify(text, &key).unwrap();
    }
    fs::write(path.join("collected"), collector.kept().join("\n")).unwrap();
    let (code, out, err) = verify(path, "copies collected checkpoints");
    assert_eq!(code, 0, "{err}");
    let count = stored.notes.len();
    assert!(
        out.starts_with(&format!(
            "consistent: {count} checkpoints of ledger.example.com"
        )),
        "{out}"
    );
    let (code, out, err) = verify(path, "copies --ledger data -o json");
    assert_eq!(code, 0, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&report["consistent"], &report["checkpoints"]),
        (&true.into(), &count.into())
    );

    // What was signed last is delivered again at the next start: nobody knows whether it was before.
    let last = stored.notes.last().unwrap();
    fs::remove_file(copies.last().unwrap()).unwrap();
    let quotad = signing(path, &places);
    delivered(&quotad, "directory", note::read(last).unwrap().sequence).await;
    assert_eq!(quotad.stop().code(), Some(0));
    assert_eq!(&fs::read_to_string(copies.last().unwrap()).unwrap(), last);
}

#[test]
fn checkpoints_that_contradict_each_other_or_the_ledger_are_told() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    keygen(path);
    let fill = |names: &[&str]| {
        let quotad = signing(path, &[]);
        set_quota(&quotad);
        for name in names {
            observe(&quotad, name, 1);
        }
        assert_eq!(quotad.stop().code(), Some(0));
    };
    // Each run signs at its end, if not before.
    fill(&["a", "b"]);
    fill(&["c"]);
    let first = fs::read_to_string(path.join("checkpoints")).unwrap();
    fs::rename(path.join("checkpoints"), path.join("first")).unwrap();
    fs::rename(path.join("data"), path.join("other")).unwrap();
    fill(&["x", "y"]);
    fill(&["z"]);
    let refused = |arguments: &str, why: &str| {
        let (code, out, err) = verify(path, arguments);
        assert_eq!((code, out.as_str()), (4, ""), "{arguments}: {err}");
        assert!(err.contains(why), "{arguments}: {err}");
    };
    assert_eq!(verify(path, "first").0, 0);
    assert_eq!(verify(path, "first --ledger other").0, 0);
    refused("first checkpoints", "as if there were two ledgers");
    refused("first --ledger data", "does not extend");

    // The last one is before the others, as if the ledger had become shorter.
    let stored = quota_checkpoint::read_all(&path.join("first")).unwrap();
    let (last, before) = stored.notes.split_last().unwrap();
    assert!(!before.is_empty());
    fs::write(
        path.join("shrunk"),
        format!("{last}\n{}\n", before.join("\n")),
    )
    .unwrap();
    refused("shrunk", "had become shorter");
    let moved = first.replacen("\ntime 20", "\ntime 19", 1);
    fs::write(path.join("forged"), moved).unwrap();
    refused("forged", "is wrong");
    fs::write(path.join("cut"), &first[..first.len() - 4]).unwrap();
    refused("cut", "cut off");
    fs::write(path.join("empty"), "").unwrap();
    refused("empty", "no checkpoint");
    refused("first missing", "No such file");
    fs::create_dir(path.join("nothing")).unwrap();
    refused("nothing", "no checkpoint");
    let (code, out, _) = verify(path, "first checkpoints -o json");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["consistent"]), (4, &false.into()));
    assert!(!report["damages"].as_array().unwrap().is_empty());
}
