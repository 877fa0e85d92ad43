//! One request by HTTP/1.1 over any connection, byte for byte as a test wants it.

use std::io::{self, Read, Write};

/// What is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body; null if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Sends a request and reads its answer: as many bytes as it says that it has, otherwise all until the connection ends.
/// Sent are these headers and `content-length`, and `host` unless it is one of them. So a connection that stays open can
/// be used again.
pub fn exchange(
    stream: &mut (impl Read + Write),
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Answer> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head.push_str("host: localhost\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    // Otherwise the end may stay in the buffer of TLS.
    stream.flush()?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = text(head)?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let mut body = Vec::new();
    match length {
        Some(length) => {
            body.resize(length.parse().map_err(io::Error::other)?, 0);
            stream.read_exact(&mut body)?;
        }
        None => drop(stream.read_to_end(&mut body)?),
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| io::Error::other("no status"))?,
        head,
        body: text(body)?,
    })
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}
