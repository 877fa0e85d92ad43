//! A watch: one JSON value per line.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::Failure;

/// Longest line that is read, in bytes; etcd holds no object of more than 1.5 MiB.
const LINE_MAX_BYTES: usize = 64 << 20;

/// The lines of a watch. What follows the last newline when it ends is cut off, and not a line.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// How far the buffer was searched for a newline.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// The next line; none: the server has ended the watch.
    ///
    /// # Errors
    /// The connection broke, or nothing came for as long as `idle`.
    pub async fn next(&mut self, idle: Duration) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(Some(line));
            }
            if self.buffer.len() > LINE_MAX_BYTES {
                let why = format!("an event is longer than {LINE_MAX_BYTES} bytes");
                return Err(Failure::Unreadable(why));
            }
            let frame = tokio::time::timeout(idle, self.body.frame()).await;
            let frame = frame.map_err(|_| Failure::Silent)?;
            let Some(frame) = frame else {
                return Ok(None);
            };
            let frame = frame.map_err(|error| Failure::unreachable(&error))?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn buffered(&mut self) -> Option<Bytes> {
        let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + at + 1).freeze();
        self.searched = 0;
        Some(line)
    }
}
