//! The lines of a watch that wait for its client: so many, and so many bytes.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures::Stream;
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

/// The receiving end: the body of the response.
pub(super) struct Lines(mpsc::Receiver<Waiting>);

/// The client has disconnected.
pub(super) struct Gone;

/// A channel for lines.
pub(super) fn channel() -> (Sender, Lines) {
    let (lines, waiting) = mpsc::channel(WAITING);
    let room = Arc::new(Semaphore::new(WAITING_BYTES as usize));
    (Sender { lines, room }, Lines(waiting))
}

impl Sender {
    /// Sends a line, once there is room for it.
    pub(super) async fn send(&self, line: Bytes) -> Result<(), Gone> {
        let bytes = u32::try_from(line.len()).map_or(WAITING_BYTES, |len| len.min(WAITING_BYTES));
        let room = tokio::select! {
            () = self.closed() => return Err(Gone),
            room = self.room.clone().acquire_many_owned(bytes) => room.map_err(|_| Gone)?,
        };
        let sent = self.lines.send((line, room)).await;
        sent.map_err(|_| Gone)
    }

    /// Waits until the client has disconnected.
    pub(super) async fn closed(&self) {
        self.lines.closed().await;
    }
}

impl Stream for Lines {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.poll_recv(cx);
        next.map(|next| next.map(|(line, _)| Ok(line)))
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
        let (sender, mut lines) = channel();
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
        assert!(sender.send(line(1)).await.is_err());
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
