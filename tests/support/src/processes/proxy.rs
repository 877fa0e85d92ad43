//! A network that can be cut: a TCP proxy on loopback.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Bytes get through.
    Pass,
    /// Connections stand, and nothing gets through for now.
    Hold,
    /// What callers say does not get through for now.
    HoldRequests,
    /// What the server says does not get through for now.
    HoldAnswers,
    /// Bytes get through late.
    Slow,
    /// What the server says is lost, and the connection with it.
    LoseAnswers,
    /// Nobody is connected.
    Refuse,
}

/// How often a held connection is looked at.
const TICK: Duration = Duration::from_millis(2);

/// By how much bytes are late that get through slowly.
const LATE: Duration = Duration::from_millis(30);

struct Shared {
    mode: AtomicU8,
    lost_answers: AtomicU64,
    target: Mutex<SocketAddr>,
    open: Mutex<Vec<TcpStream>>,
}

/// A proxy, for as long as the process runs.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens on a free port, and connects callers to `target`.
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            mode: AtomicU8::new(Mode::Pass as u8),
            lost_answers: AtomicU64::new(0),
            target: Mutex::new(target),
            open: Mutex::new(Vec::new()),
        });
        let listening = shared.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                listening.connect(caller);
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on callers are connected to another server.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().unwrap() = target;
    }

    pub fn set(&self, mode: Mode) {
        self.shared.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// How many answers were lost.
    pub fn lost_answers(&self) -> u64 {
        self.shared.lost_answers.load(Ordering::Relaxed)
    }

    /// Ends all connections, and answers how many there were.
    pub fn cut(&self) -> usize {
        let mut open = self.shared.open.lock().unwrap();
        let ended = open.drain(..).filter(|stream| stream.shutdown(Shutdown::Both).is_ok());
        ended.count().div_ceil(2)
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, caller: TcpStream) {
        let target = *self.target.lock().unwrap();
        let Ok(server) = TcpStream::connect(target) else {
            return;
        };
        for stream in [&caller, &server] {
            let _ = stream.set_nodelay(true);
        }
        {
            let mut open = self.open.lock().unwrap();
            // Whoever refuses from now on and then cuts does not miss this one.
            if self.is(Mode::Refuse) {
                return;
            }
            // Those that have ended meanwhile need not be ended.
            open.retain(|stream| stream.peer_addr().is_ok());
            open.extend([&caller, &server].map(|stream| stream.try_clone().unwrap()));
        }
        let ways = [
            (caller.try_clone().unwrap(), server.try_clone().unwrap(), false),
            (server, caller, true),
        ];
        for (from, to, is_answer) in ways {
            let shared = self.clone();
            std::thread::spawn(move || shared.pump(from, to, is_answer));
        }
    }

    fn is(&self, mode: Mode) -> bool {
        self.mode.load(Ordering::Relaxed) == mode as u8
    }

    fn is_held(&self, is_answer: bool) -> bool {
        let one_way = match is_answer {
            true => Mode::HoldAnswers,
            false => Mode::HoldRequests,
        };
        self.is(Mode::Hold) || self.is(one_way)
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            while self.is_held(is_answer) {
                std::thread::sleep(TICK);
            }
            if self.is(Mode::Slow) {
                std::thread::sleep(LATE);
            }
            let is_lost = is_answer && self.is(Mode::LoseAnswers);
            if is_lost {
                self.lost_answers.fetch_add(1, Ordering::Relaxed);
            }
            if is_lost || to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
