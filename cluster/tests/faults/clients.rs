//! Clients: each requests one reservation after the other from any node, with the same uid until it is answered.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub(crate) const HARD: u64 = 10;
const CLIENTS: u64 = 12;

/// The answers of clients, by uid.
pub(crate) type Answers = BTreeMap<String, String>;

#[derive(Default)]
struct Count {
    granted: Mutex<u64>,
    more: Condvar,
    is_over: AtomicBool,
}

pub(crate) struct Load {
    count: Arc<Count>,
    threads: Vec<JoinHandle<Answers>>,
}

/// Sends a request to a node, through a connection that is kept while it works.
pub(crate) fn ask(
    connection: &mut Option<BufReader<TcpStream>>,
    port: u16,
    line: &str,
) -> Option<String> {
    if connection.is_none() {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
        stream.set_nodelay(true).ok()?;
        *connection = Some(BufReader::new(stream));
    }
    let reader = connection.as_mut()?;
    let mut said = String::new();
    let sent = reader.get_mut().write_all(format!("{line}\n").as_bytes());
    let heard = sent.and_then(|()| reader.read_line(&mut said));
    if !matches!(heard, Ok(bytes) if bytes > 0) {
        *connection = None;
        return None;
    }
    Some(said.trim_end().to_owned())
}

impl Load {
    pub(crate) fn start(ports: [u16; 3]) -> Self {
        let count = Arc::new(Count::default());
        let threads = (0..CLIENTS).map(|client| {
            let count = count.clone();
            std::thread::spawn(move || run(client, ports, &count))
        });
        Self {
            threads: threads.collect(),
            count,
        }
    }

    /// Waits for this many further grants, for a minute at most.
    pub(crate) fn wait_for_grants(&self, number: u64) {
        let granted = self.count.granted.lock().unwrap();
        let enough = *granted + number;
        let began = Instant::now();
        let (granted, _) = self
            .count
            .more
            .wait_timeout_while(granted, Duration::from_secs(60), |granted| {
                *granted < enough
            })
            .unwrap();
        assert!(
            *granted >= enough,
            "nothing was granted for {:?}",
            began.elapsed()
        );
    }

    pub(crate) fn stop(self) -> Answers {
        self.count.is_over.store(true, Ordering::Release);
        self.threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    }
}

fn run(client: u64, ports: [u16; 3], count: &Count) -> Answers {
    let (mut answers, mut connections) = (Answers::new(), [None, None, None]);
    let mut node = usize::try_from(client % 3).unwrap();
    let mut number = 0;
    while !count.is_over.load(Ordering::Acquire) {
        // A namespace is used for this many requests, so that its quota runs full.
        let namespace = format!("ns-{client}-{}", number / (HARD + 4));
        let first = number % (HARD + 4) == 0;
        let uid = format!("u-{client}-{number}");
        let line = match first {
            true => format!("quota {namespace} {HARD}"),
            false => format!("reserve {namespace} {uid}"),
        };
        let said = loop {
            match ask(&mut connections[node], ports[node], &line).as_deref() {
                Some(said @ ("granted" | "denied")) => break said.to_owned(),
                Some("not_leader" | "overloaded" | "unknown") | None => {
                    node = (node + 1) % 3;
                    // A pause, so that clients without a leader do not take processor time from the election.
                    std::thread::sleep(Duration::from_millis(20));
                }
                Some(other) => panic!("{line}: {other}"),
            }
        };
        number += 1;
        if first {
            continue;
        }
        if said == "granted" {
            *count.granted.lock().unwrap() += 1;
            count.more.notify_all();
        }
        answers.insert(uid, said);
    }
    answers
}
