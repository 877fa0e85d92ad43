//! The lines of an input that may pause. They are read in the background, so that received lines can be sent meanwhile.

use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Instant,
};

use bytes::{Bytes, BytesMut};

/// The size of a chunk, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// The maximum number of chunks that are read ahead.
const CHUNKS_AHEAD: usize = 16;

/// The lines of an input.
pub(super) struct Feed {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Received bytes that were not returned yet.
    buffer: BytesMut,
    /// The number of bytes at the begin of the buffer that contain no line end.
    looked_at: usize,
    /// Whether the input has ended.
    ended: bool,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line with its line end, which only the last line may lack.
    Line(Bytes),
    /// No complete line until the deadline.
    Pause,
    /// A line that is too long; nothing was consumed.
    TooLong,
    /// The input has ended.
    End,
}

impl Feed {
    /// Starts a thread that reads the input. The thread ends with the input, or at its next chunk after the feed was
    /// dropped.
    pub(super) fn of(mut input: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
        thread::spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let read = match input.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(length) => {
                        chunk.truncate(length);
                        Ok(chunk)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.send(read).is_err() || failed {
                    return;
                }
            }
        });
        Self {
            chunks,
            buffer: BytesMut::new(),
            looked_at: 0,
            ended: false,
        }
    }

    /// The next line of less than `longest` bytes. Waits until `deadline`; without one, for as long as necessary.
    pub(super) fn line(&mut self, longest: usize, deadline: Option<Instant>) -> io::Result<Next> {
        loop {
            let ahead = self.buffer.get(self.looked_at..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', ahead) {
                let length = self.looked_at + end + 1;
                return Ok(self.give(length, longest));
            }
            self.looked_at = self.buffer.len();
            if self.looked_at >= longest {
                return Ok(Next::TooLong);
            }
            if self.ended {
                return Ok(match self.buffer.len() {
                    0 => Next::End,
                    length => self.give(length, longest),
                });
            }
            if !self.more(deadline)? {
                return Ok(Next::Pause);
            }
        }
    }

    /// The rest of the input, if it has at most `most` bytes.
    pub(super) fn rest(&mut self, most: usize) -> io::Result<Option<Bytes>> {
        while !self.ended && self.buffer.len() <= most {
            self.more(None)?;
        }
        self.looked_at = 0;
        Ok((self.buffer.len() <= most).then(|| self.buffer.split().freeze()))
    }

    /// The bytes that were received and not returned yet.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer
    }

    fn give(&mut self, length: usize, longest: usize) -> Next {
        self.looked_at = 0;
        match length < longest {
            true => Next::Line(self.buffer.split_to(length).freeze()),
            false => Next::TooLong,
        }
    }

    /// Receives the next chunk. Returns false if none arrived until the deadline.
    fn more(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        let received = match deadline {
            None => self
                .chunks
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => {
                let wait = deadline.saturating_duration_since(Instant::now());
                self.chunks.recv_timeout(wait)
            }
        };
        match received {
            Ok(chunk) => self.buffer.extend_from_slice(&chunk?),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => self.ended = true,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_until_a_time_is_told_that_nothing_came() {
        let (reader, writer) = io::pipe().unwrap();
        let mut feed = Feed::of(reader);
        // It has come already.
        let now = Some(Instant::now());
        assert_eq!(feed.line(10, now).unwrap(), Next::Pause);
        drop(writer);
        assert_eq!(feed.line(10, None).unwrap(), Next::End);
    }
}
