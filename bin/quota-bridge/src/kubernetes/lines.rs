//! A watch: one JSON value per line.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::Failure;

/// The maximum length of a line, in bytes; etcd stores objects of up to 1.5 MiB by default.
const LINE_MAX_BYTES: usize = 64 << 20;

/// The lines of a watch. Text after the last newline is incomplete, and is no line.
#[derive(Debug)]
pub struct Lines {
    body: Body,
    buffer: BytesMut,
    /// The length of the part of the buffer that was searched for a newline.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next line; none: the server has ended the watch.
    ///
    /// # Errors
    /// The connection broke, or no data arrived for `idle`.
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
