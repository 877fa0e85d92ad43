//! Responses whose body is still to be read.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::Failure;

/// The idle timeout of a response body.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A response of which the head has arrived, and the part of the body that was read.
#[derive(Debug)]
pub struct Answer {
    body: Body,
    read: Vec<u8>,
}

impl Answer {
    pub(super) const fn new(body: Body) -> Self {
        Self { body, read: Vec::new() }
    }

    /// The whole body.
    ///
    /// # Errors
    /// It is longer than so many bytes, or breaks off.
    pub async fn body(mut self, max_bytes: usize) -> Result<Bytes, Failure> {
        while self.read_more(max_bytes).await? {}
        Ok(self.into_read())
    }

    /// Reads what arrives next of the body. False: it was over.
    ///
    /// # Errors
    /// The body is longer than so many bytes, or breaks off.
    pub(crate) async fn read_more(&mut self, max_bytes: usize) -> Result<bool, Failure> {
        let room = max_bytes - self.read.len();
        let announced =
            usize::try_from(http_body::Body::size_hint(&self.body).lower()).unwrap_or(usize::MAX);
        if announced > room {
            return Err(Failure::TooLong(max_bytes));
        }
        self.read.reserve(announced);
        let frame = tokio::time::timeout(PAUSE_TIMEOUT, self.body.frame()).await;
        let frame = frame.map_err(|_| Failure::Unreachable("the answer stopped".to_owned()))?;
        let Some(frame) = frame else {
            return Ok(false);
        };
        let frame = frame.map_err(|error| Failure::unreachable(&error))?;
        if let Ok(data) = frame.into_data() {
            if data.len() > room {
                return Err(Failure::TooLong(max_bytes));
            }
            self.read.extend_from_slice(&data);
        }
        Ok(true)
    }

    /// How many bytes of the body were read.
    pub(crate) const fn read_bytes(&self) -> usize {
        self.read.len()
    }

    /// What was read of the body.
    pub(crate) fn into_read(self) -> Bytes {
        self.read.into()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::kubernetes::{Access, Client, JSON};

    /// Reads a body of at most 8 bytes from a server that sends this response.
    async fn read(answer: &'static str) -> Result<Bytes, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let client = Client::new(Access::plain(&url)).unwrap();
        let opened = client.open("/api", JSON).await.unwrap();
        let body = opened.body(8).await;
        server.await.unwrap();
        body
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_not_read_to_its_end() {
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n12345678").await;
        assert_eq!(body.unwrap(), "12345678");
        // The server says so before it sends any of it.
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await;
        assert_eq!(body, Err(Failure::TooLong(8)));
        let body = read(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n",
        )
        .await;
        assert_eq!(body, Err(Failure::TooLong(8)));
        let body = read("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n1234").await;
        assert!(matches!(body, Err(Failure::Unreachable(_))), "{body:?}");
    }
}
