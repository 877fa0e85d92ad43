//! The bounded queue between the tasks of all kinds and the publisher. Readers wait while the queue is full, and the
//! API server may end their watches.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The sender of the queue. Clones share it.
#[derive(Clone, Debug)]
pub struct Queue {
    lines: mpsc::Sender<Line>,
    bytes: Arc<Semaphore>,
    capacity: u32,
    /// The number of appended lines.
    pushed: Arc<AtomicU64>,
}

/// A queued line.
#[derive(Debug)]
pub struct Line {
    /// The event, without a newline.
    pub text: Vec<u8>,
    /// Set for the end of a relist and for watermarks, which are true only if the lines before them are in the stream:
    /// how often the stream had lost messages before the first of those lines.
    pub losses: Option<u64>,
    _room: OwnedSemaphorePermit,
}

/// The publisher has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the publisher has ended")]
pub struct Closed;

impl Queue {
    /// A queue with a capacity in lines and in bytes.
    pub fn new(lines: usize, bytes: u32) -> (Self, mpsc::Receiver<Line>) {
        let (sender, receiver) = mpsc::channel(lines);
        let queue = Self {
            lines: sender,
            bytes: Arc::new(Semaphore::new(bytes as usize)),
            capacity: bytes,
            pushed: Arc::default(),
        };
        (queue, receiver)
    }

    /// Appends a line. Waits while there is no room.
    ///
    /// # Errors
    /// The publisher has ended.
    pub async fn push(&self, text: Vec<u8>) -> Result<(), Closed> {
        self.append(text, None).await
    }

    /// Appends a line that the publisher drops if the stream has lost messages more than `losses` times by then. Waits
    /// while there is no room.
    ///
    /// # Errors
    /// The publisher has ended.
    pub async fn push_unless_lost(&self, text: Vec<u8>, losses: u64) -> Result<(), Closed> {
        self.append(text, Some(losses)).await
    }

    async fn append(&self, text: Vec<u8>, losses: Option<u64>) -> Result<(), Closed> {
        // A line that is longer than the whole queue waits until it is empty.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let room = self.bytes.clone().acquire_many_owned(length.min(self.capacity));
        let room = room.await.map_err(|_| Closed)?;
        let line = Line { text, losses, _room: room };
        self.lines.send(line).await.map_err(|_| Closed)?;
        self.pushed.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The number of appended lines; includes all lines whose [`push`](Self::push) has returned.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Acquire)
    }

    /// The number of queued lines.
    pub fn queued(&self) -> usize {
        self.lines.max_capacity() - self.lines.capacity()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_makes_readers_wait() {
        let (queue, mut lines) = Queue::new(2, 10);
        queue.push(vec![b'a'; 6]).await.unwrap();
        assert!(queue.push(vec![b'b'; 5]).now_or_never().is_none(), "too many bytes");
        queue.push(vec![b'c'; 4]).await.unwrap();
        assert!(queue.push(Vec::new()).now_or_never().is_none(), "too many lines");
        assert_eq!((queue.queued(), queue.pushed()), (2, 2));
        drop(lines.recv().await);
        assert!(queue.push(vec![b'd'; 100]).now_or_never().is_none());
        drop(lines.recv().await);
        queue.push(vec![b'd'; 100]).await.unwrap();
        drop(lines);
        assert_eq!(queue.push(Vec::new()).await, Err(Closed));
    }
}
