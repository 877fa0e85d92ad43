//! The lines of a watch that wait for its client: so many, and so many bytes.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::{Stream, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Lines that wait for a slow client. When there are so many, the watch waits, and later sends only the newest state of
/// each object.
const WAITING: usize = 64;

/// Bytes of the lines that wait. A longer line waits alone.
const WAITING_BYTES: u32 = 256 << 10;

/// A line, and its share of the bytes that may wait.
type Waiting = (Bytes, OwnedSemaphorePermit);

/// The sending end.
#[derive(Clone)]
pub(super) struct Sender {
    lines: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// A channel for lines. Its receiving end is the body of the response.
pub(super) fn channel() -> (Sender, impl Stream<Item = Result<Bytes, Infallible>>) {
    let (lines, waiting) = mpsc::channel::<Waiting>(WAITING);
    let room = Arc::new(Semaphore::new(WAITING_BYTES as usize));
    let body = stream::unfold(waiting, async |mut waiting| {
        let (line, _) = waiting.recv().await?;
        Some((Ok(line), waiting))
    });
    (Sender { lines, room }, body)
}

impl Sender {
    /// Sends a line, once there is room for it. When the client disconnects, the waiting lines are dropped, so there is
    /// room, and this line is dropped, too.
    pub(super) async fn send(&self, line: Bytes) {
        let bytes = u32::try_from(line.len()).map_or(WAITING_BYTES, |len| len.min(WAITING_BYTES));
        if let Ok(room) = self.room.clone().acquire_many_owned(bytes).await {
            let _ = self.lines.send((line, room)).await;
        }
    }

    /// Waits until the client has disconnected.
    pub(super) async fn closed(&self) {
        self.lines.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    fn line(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    #[tokio::test]
    async fn the_lines_that_wait_for_a_client_are_few_bytes() {
        let (sender, lines) = channel();
        let mut lines = Box::pin(lines);
        let half = WAITING_BYTES as usize / 2;
        for _ in 0..2 {
            assert!(sender.send(line(half)).now_or_never().is_some());
        }
        let third = sender.send(line(1)).now_or_never();
        assert!(third.is_none(), "there is no room");
        assert_eq!(lines.next().await.unwrap().unwrap().len(), half);
        assert!(sender.send(line(half)).now_or_never().is_some());

        // A line that is longer than all of the room waits for all of it.
        let longest = || line(10 * WAITING_BYTES as usize);
        assert!(sender.send(longest()).now_or_never().is_none());
        for _ in 0..2 {
            lines.next().await.unwrap().unwrap();
        }
        assert!(sender.send(longest()).now_or_never().is_some());
        assert!(sender.send(line(1)).now_or_never().is_none());
        drop(lines);
        sender.closed().await;
        assert!(sender.send(line(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn the_lines_that_wait_for_a_client_are_few() {
        let (sender, _lines) = channel();
        for _ in 0..WAITING {
            assert!(sender.send(line(1)).now_or_never().is_some());
        }
        assert!(sender.send(line(1)).now_or_never().is_none());
    }
}
