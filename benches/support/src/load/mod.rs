//! A load generator: connections that send requests as fast as they are answered, or at a set rate.
//!
//! It is independent of the protocol: a [`Talk`] writes requests and reads answers. So the same code measures a daemon
//! and the systems that it is compared with, at the same cost: one write and one read for each exchange.

mod connection;
mod course;
mod events;
pub mod http;
pub mod render;
mod reservations;
mod tally;

#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    future::Future,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime,
    task::LocalSet,
};
use tokio_util::sync::CancellationToken;

pub use events::Events;
pub use reservations::Reservations;
pub use tally::{Kind, Tally};

use connection::Line;
use course::Course;

/// What one connection says.
pub trait Talk {
    /// Appends the next request.
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind;

    /// Reads the answer at the beginning of these bytes; none if it is not complete yet.
    ///
    /// # Errors
    /// This is no answer to the request: the connection is given up.
    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>>;

    /// Appends a request that gives back something of what was taken; none if nothing is left. It is sent after
    /// the measurement.
    fn tidy(&mut self, out: &mut Vec<u8>) -> Option<Kind>;

    /// The connection broke before there was an answer.
    fn lost(&mut self) {}
}

/// What an answer says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the answer.
    pub bytes: usize,
    /// Its status, as in HTTP.
    pub status: u16,
    /// Operations that were carried out.
    pub done: u64,
    /// Operations that were refused for want of room.
    pub denied: u64,
    /// Whether the connection ends with it.
    pub last: bool,
}

/// How connections to a server are made: by its address alone without TLS.
pub trait Connect: Clone + Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + 'static;

    /// Makes one.
    ///
    /// # Errors
    /// The server cannot be reached.
    fn connect(&self) -> impl Future<Output = io::Result<Self::Stream>>;
}

impl Connect for SocketAddr {
    type Stream = TcpStream;

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// How a server is loaded.
#[derive(Clone, Debug)]
pub struct Plan<C = SocketAddr> {
    /// The server.
    pub server: C,
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// How long it runs before anything counts.
    pub warmup: Duration,
    /// How long it is measured.
    pub duration: Duration,
    /// Requests per second of all connections together; none: each asks again when it was answered.
    pub rate: Option<f64>,
    /// How long answers are waited for after the end.
    pub patience: Duration,
}

/// Runs a plan to its end, or until `stop`. `talk` makes the talk of the connection with this number.
///
/// # Errors
/// A connection cannot be made.
pub fn run<C: Connect, T: Talk + 'static>(
    plan: &Plan<C>,
    stop: &CancellationToken,
    talk: impl Fn(usize) -> T + Sync,
) -> io::Result<Tally> {
    let threads = plan.threads.clamp(1, plan.connections.max(1));
    let course = Course::new(plan, stop.clone());
    let start = Start { all_there: Barrier::new(threads), failed: AtomicBool::new(false) };
    thread::scope(|scope| {
        let worker = |number| {
            let mine = (number..plan.connections).step_by(threads);
            let (course, start, talk) = (&course, &start, &talk);
            scope.spawn(move || work(plan, course, start, mine.map(talk).collect()))
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        let mut sum = Tally::default();
        for worker in workers {
            let tally = worker.join().map_err(|_| io::Error::other("a worker ended early"))?;
            sum.add(&tally?);
        }
        Ok(sum)
    })
}

/// The moment when all are connected.
struct Start {
    all_there: Barrier,
    failed: AtomicBool,
}

fn work<C: Connect, T: Talk + 'static>(
    plan: &Plan<C>,
    course: &Course,
    start: &Start,
    talks: Vec<T>,
) -> io::Result<Tally> {
    let made = runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
        let streams = runtime.block_on(connect(&plan.server, talks.len()))?;
        Ok((runtime, streams))
    });
    if made.is_err() {
        start.failed.store(true, Ordering::SeqCst);
    }
    start.all_there.wait();
    let (runtime, streams) = made?;
    let tally = Rc::new(RefCell::new(Tally::default()));
    if start.failed.load(Ordering::SeqCst) {
        return Ok(tally.take());
    }
    let course = Rc::new(course.begin());
    let tasks = LocalSet::new();
    for (talk, stream) in talks.into_iter().zip(streams) {
        let (course, tally) = (course.clone(), tally.clone());
        let line = Line::new(plan.server.clone(), stream);
        tasks.spawn_local(connection::drive(course, talk, line, tally));
    }
    runtime.block_on(tasks);
    Ok(tally.take())
}

async fn connect<C: Connect>(server: &C, count: usize) -> io::Result<Vec<C::Stream>> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(server.connect().await?);
    }
    Ok(streams)
}
