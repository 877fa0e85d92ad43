//! Detects the HTTP version of a connection without a handshake by its first bytes (RFC 9113, section 3.3, prior
//! knowledge).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// The prefix of every HTTP/2 connection, which no HTTP/1 request has.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes were examined. They are read again.
pub(super) struct Begun<S> {
    first: [u8; PREFACE.len()],
    /// The number of examined bytes.
    length: usize,
    /// How many of these were read again.
    again: usize,
    stream: S,
}

impl<S> Begun<S> {
    /// Whether the connection begins with HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.length == PREFACE.len() && self.first == PREFACE
    }

    /// Replaces the inner stream by one made from it.
    pub(super) fn map<T>(self, inner: impl FnOnce(S) -> T) -> Begun<T> {
        Begun {
            first: self.first,
            length: self.length,
            again: self.again,
            stream: inner(self.stream),
        }
    }
}

impl<S: AsyncRead + Unpin> Begun<S> {
    /// Reads as many bytes as needed for the detection.
    ///
    /// # Errors
    /// Those of the stream.
    pub(super) async fn read(mut stream: S) -> io::Result<Self> {
        let mut first = [0; PREFACE.len()];
        let mut length = 0;
        while length < PREFACE.len() && first[..length] == PREFACE[..length] {
            match stream.read(&mut first[length..]).await? {
                0 => break,
                more => length += more,
            }
        }
        Ok(Self {
            first,
            length,
            again: 0,
            stream,
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.first[self.again..self.length];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.again += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
