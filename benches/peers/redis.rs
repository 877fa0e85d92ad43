//! Redis: a script that checks and counts three resources, and remembers what to take back and when.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::Command,
    sync::Arc,
};

use quota_bench::load::{
    Answer, Kind, Talk,
    render::{Random, UidText, uid},
};

use super::{
    slots,
    support::process::{self, Process},
};

const RESERVE: &str = include_str!("reserve.lua");
const RELEASE: &str = include_str!("release.lua");

/// Starts one that answers when what it did is on disk.
pub fn start(directory: &Path) -> (Process, SocketAddr) {
    let address = process::loopback(process::free_port());
    let mut command = Command::new("redis-server");
    command
        .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""])
        // A rewrite in the middle would be a cost that others do not pay here.
        .args(["--auto-aof-rewrite-percentage", "0", "--dir"])
        .arg(directory);
    (process::spawn(&mut command, directory, address), address)
}

/// What all connections use.
pub struct Scripts {
    reserve: String,
    release: String,
    namespaces: usize,
    connections: usize,
    pipeline: usize,
    seed: u64,
}

impl Scripts {
    /// Loads the scripts, and sets the limits of the namespaces.
    pub fn load(
        address: SocketAddr,
        namespaces: usize,
        connections: usize,
        pipeline: usize,
        seed: u64,
    ) -> io::Result<Arc<Self>> {
        let mut stream = TcpStream::connect(address)?;
        let reserve = load(&mut stream, RESERVE)?;
        let release = load(&mut stream, RELEASE)?;
        for namespace in 0..namespaces {
            let quota = format!("q:{namespace}");
            let words = [
                "HSET",
                &quota,
                "usedPods",
                "0",
                "usedCpu",
                "0",
                "usedMemory",
                "0",
                "hardPods",
                "1000000000",
                "hardCpu",
                "1000000000000",
                "hardMemory",
                "1000000000000000",
            ];
            ask(&mut stream, &words)?;
        }
        Ok(Arc::new(Self { reserve, release, namespaces, connections, pipeline, seed }))
    }

    /// The talk of one connection.
    pub fn talk(self: &Arc<Self>, connection: usize) -> RedisTalk {
        RedisTalk {
            scripts: self.clone(),
            slots: slots(connection, self.connections, self.namespaces),
            random: Random::new(self.seed, connection),
            held: Vec::new(),
            releasing: false,
        }
    }
}

fn load(stream: &mut TcpStream, script: &str) -> io::Result<String> {
    let answer = ask(stream, &["SCRIPT", "LOAD", script])?;
    let hash = answer.lines().nth(1).map(str::to_owned);
    hash.ok_or_else(|| io::Error::other(answer))
}

fn ask(stream: &mut TcpStream, words: &[&str]) -> io::Result<String> {
    let mut out = Vec::new();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    command(&mut out, &words);
    stream.write_all(&out)?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer)?;
    let text = String::from_utf8_lossy(&answer[..length]).into_owned();
    if text.starts_with('-') || text.is_empty() {
        return Err(io::Error::other(text));
    }
    Ok(text)
}

fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.push(b'$');
        quota_bench::load::render::append_number(out, word.len());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The talk of one connection: reserves, releases, and so on; with a pipeline, so many at a time.
pub struct RedisTalk {
    scripts: Arc<Scripts>,
    slots: Vec<usize>,
    random: Random,
    held: Vec<(usize, UidText)>,
    releasing: bool,
}

impl Talk for RedisTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        if self.held.is_empty() {
            for _ in 0..self.scripts.pipeline {
                let namespace = self.slots[self.random.below(self.slots.len())];
                self.held.push((namespace, uid(&mut self.random)));
            }
        } else {
            self.releasing = true;
        }
        for (namespace, uid) in &self.held {
            let [quota, held, due] = ["q", "r", "e"].map(|kind| format!("{kind}:{namespace}"));
            let keys = [quota.as_bytes(), held.as_bytes(), due.as_bytes()];
            let script = if self.releasing { &self.scripts.release } else { &self.scripts.reserve };
            let mut words: Vec<&[u8]> = vec![b"EVALSHA", script.as_bytes(), b"3"];
            words.extend(keys);
            words.push(uid);
            if !self.releasing {
                words.extend([&b"1"[..], b"100", b"134217728", b"30"]);
            }
            command(out, &words);
        }
        if self.releasing { Kind::Release } else { Kind::Reserve }
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        if bytes.starts_with(b"-") {
            return Err(io::Error::other(String::from_utf8_lossy(bytes).into_owned()));
        }
        // Each answer is a number of one digit.
        let answers = bytes.chunks_exact(b":1\r\n".len());
        if answers.len() < self.held.len() {
            return Ok(None);
        }
        let done = answers.filter(|answer| answer == b":1\r\n").count();
        let answer = Answer {
            bytes: 4 * self.held.len(),
            status: 200,
            done: done as u64,
            denied: (self.held.len() - done) as u64,
            last: false,
        };
        if std::mem::take(&mut self.releasing) {
            self.held.clear();
        }
        Ok(Some(answer))
    }

    fn tidy(&mut self, _out: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}
