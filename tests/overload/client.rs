//! A client that can also do what no client should.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// How long anything may take that has to happen: a bound for hangs, not a measure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    received: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.head.contains("\r\nretry-after: ")
    }
}

impl Client {
    pub(crate) async fn connect(address: &str) -> io::Result<Self> {
        Self::connect_from(1, address).await
    }

    /// Connects from another address of this host, since each has so many ports only.
    pub(crate) async fn connect_from(host: u8, address: &str) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // Small, so that a peer that does not read is noticed.
        socket.set_recv_buffer_size(16 << 10)?;
        socket.bind(SocketAddr::from(([127, 0, 0, host], 0)))?;
        let connected = timeout(PATIENCE, socket.connect(address.parse().unwrap()));
        let stream = connected.await.expect("nobody accepts")?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes; the peer may have had enough of them.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let sent = timeout(PATIENCE, self.stream.write_all(bytes.as_ref()));
        sent.await.expect("nothing is taken any more")
    }

    /// The next answer; none if the connection ends first.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        timeout(PATIENCE, self.read_answer()).await.expect("no answer")
    }

    async fn read_answer(&mut self) -> Option<Answer> {
        let head = loop {
            let end = self.received.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let rest = self.received.split_off(end + 4);
                break String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
            }
            self.more().await?;
        };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
        while self.received.len() < length {
            self.more().await?;
        }
        let rest = self.received.split_off(length);
        let body = String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
        let status = head[9..12].parse().unwrap();
        Some(Answer { status, head, body })
    }

    /// The next piece of an answer without end.
    pub(crate) async fn more(&mut self) -> Option<&[u8]> {
        let before = self.received.len();
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.received));
        match read.await.expect("nothing comes any more") {
            Ok(1..) => Some(&self.received[before..]),
            _ => None,
        }
    }

    /// Whether the peer has ended the connection.
    pub(crate) fn is_open(&self) -> bool {
        match self.stream.try_read(&mut [0; 1]) {
            Ok(read) => read > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    pub(crate) async fn request(&mut self, method: &str, path: &str, body: &str) -> Option<Answer> {
        let head = head(method, path, body.len());
        self.send(head + body).await.ok()?;
        self.answer().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, "").await.unwrap()
    }

    pub(crate) async fn put(&mut self, path: &str, body: &str) -> Answer {
        self.request("PUT", path, body).await.unwrap()
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.request("POST", path, body).await.unwrap()
    }

    /// What a client wants that does nothing wrong: to reserve, and to release.
    pub(crate) async fn reserves(&mut self, uid: &str) {
        let answer = self.post(RESERVATIONS, &reservation(uid)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let path = format!("{RESERVATIONS}/{uid}");
        let answer = self.request("DELETE", &path, "").await.unwrap();
        assert_eq!(answer.status, 204, "{answer:?}");
    }
}

pub(crate) const RESERVATIONS: &str = "/v1/namespaces/a/reservations";

pub(crate) fn reservation(uid: &str) -> String {
    format!(
        r#"{{"reservedBy":{{"apiVersion":"v1","kind":"Pod","name":"{uid}","uid":"{uid}"}},"reserved":{{"pods":"1"}}}}"#
    )
}

pub(crate) fn head(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}
