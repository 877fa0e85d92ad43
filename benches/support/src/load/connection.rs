//! One connection.

use std::{
    cell::RefCell,
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Answer, Connect, Talk, Tally, course::Running};

/// Room for an answer at first.
const ANSWER_BYTES: usize = 16 * 1024;

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long to wait when a server cannot be reached any more.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Asks and hears until the end, then tidies up.
pub(super) async fn drive<C: Connect, T: Talk>(
    course: Rc<Running>,
    mut talk: T,
    mut line: Line<C>,
    tally: Rc<RefCell<Tally>>,
) {
    let end = course.end.into();
    let talked = async {
        converse(&course, &mut talk, &mut line, &tally).await;
        line.tidy(&mut talk).await
    };
    match tokio::time::timeout_at(end, talked).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => tally.borrow_mut().failures += 1,
    }
}

async fn converse<C: Connect, T: Talk>(
    course: &Running,
    talk: &mut T,
    line: &mut Line<C>,
    tally: &RefCell<Tally>,
) {
    while let Some(turn) = course.turn().await {
        if line.stream.is_none() {
            match line.server.connect().await {
                Ok(stream) => line.stream = Some(stream),
                Err(_) => {
                    tally.borrow_mut().failures += 1;
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                }
            }
        }
        line.out.clear();
        let kind = talk.ask(&mut line.out);
        let heard = line.exchange(talk).await;
        let end = Instant::now();
        let mut tally = tally.borrow_mut();
        match heard {
            Ok(answer) => {
                if course.counts(end) {
                    tally.count(kind, &answer);
                }
                if course.is_timed(turn.begin) {
                    tally.time(kind, end - turn.begin, turn.late);
                }
            }
            Err(_) => {
                line.stream = None;
                talk.lost();
                tally.failures += 1;
            }
        }
    }
}

/// A connection, and what goes over it.
pub(super) struct Line<C: Connect> {
    server: C,
    /// None after the connection has broken.
    stream: Option<C::Stream>,
    out: Vec<u8>,
    bytes: Vec<u8>,
}

impl<C: Connect> Line<C> {
    pub(super) fn new(server: C, stream: C::Stream) -> Self {
        Self {
            server,
            stream: Some(stream),
            out: Vec::new(),
            bytes: Vec::with_capacity(ANSWER_BYTES),
        }
    }

    /// Sends what is to be sent, and reads the answer.
    async fn exchange<T: Talk>(&mut self, talk: &mut T) -> io::Result<Answer> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.write_all(&self.out).await?;
        stream.flush().await?;
        self.bytes.clear();
        loop {
            if self.bytes.len() == self.bytes.capacity() {
                if self.bytes.len() >= ANSWER_BYTES_MAX {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                self.bytes.reserve(self.bytes.len());
            }
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some(answer) = talk.hear(&self.bytes)? else {
                continue;
            };
            if answer.bytes != self.bytes.len() {
                return Err(io::Error::other("more was answered than was asked"));
            }
            if answer.last {
                self.stream = None;
            }
            return Ok(answer);
        }
    }

    async fn tidy<T: Talk>(&mut self, talk: &mut T) -> io::Result<()> {
        loop {
            self.out.clear();
            if talk.tidy(&mut self.out).is_none() {
                return Ok(());
            }
            self.exchange(talk).await?;
        }
    }
}
