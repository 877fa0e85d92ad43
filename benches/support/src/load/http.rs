//! As much HTTP/1.1 as a load generator needs: what it sends is fixed but for a few bytes, and of an answer it
//! needs the status and the length.

use std::io;

use memchr::memmem;

use super::Answer;

/// An answer of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: &'a [u8],
    /// Bytes of all of it.
    pub bytes: usize,
    /// Whether the server ends the connection.
    pub last: bool,
}

/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Reads the answer at the beginning of these bytes; none if it is not complete yet.
///
/// # Errors
/// It is no HTTP/1.1 response with a content length.
pub fn answer(bytes: &[u8]) -> io::Result<Option<Message<'_>>> {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        if bytes.len() > HEAD_BYTES_MAX {
            return Err(malformed("an endless head"));
        }
        return Ok(None);
    };
    let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
    let status = status(head)?;
    let mut last = false;
    let mut length = None;
    for line in lines(head).skip(1) {
        if let Some(value) = field(line, b"content-length") {
            let number = std::str::from_utf8(value).ok();
            let number = number.and_then(|text| text.parse::<usize>().ok());
            length = Some(number.ok_or_else(|| malformed("a length that is no number"))?);
        } else if let Some(value) = field(line, b"connection") {
            last = value.eq_ignore_ascii_case(b"close");
        }
    }
    let length = match (status, length) {
        (204 | 304, _) => 0,
        (_, Some(length)) => length,
        (_, None) => return Err(malformed("no length")),
    };
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    Ok(Some(Message { status, body, bytes: end + 4 + length, last }))
}

/// The answer to a request that was carried out, whatever its status; none if it is not complete yet.
///
/// # Errors
/// As [`answer`].
pub fn completed(bytes: &[u8]) -> io::Result<Option<Answer>> {
    let message = answer(bytes)?;
    Ok(message.map(|message| Answer {
        bytes: message.bytes,
        status: message.status,
        done: 1,
        denied: 0,
        last: message.last,
    }))
}

fn status(head: &[u8]) -> io::Result<u16> {
    let digits = head
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .ok_or_else(|| malformed("no HTTP/1.1"))?;
    digits.iter().try_fold(0, |status: u16, digit| {
        let value = digit.checked_sub(b'0').filter(|value| *value < 10);
        let value = value.ok_or_else(|| malformed("no status"))?;
        Ok(status * 10 + u16::from(value))
    })
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end)
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let own = line.get(..name.len())?;
    let value = line.get(name.len()..)?.strip_prefix(b":")?;
    own.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_complete() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\nx: y\r\n\r\nbody";
        for end in 0..text.len() {
            assert_eq!(answer(&text[..end]).unwrap(), None, "{end}");
        }
        let read = answer(text).unwrap().unwrap();
        assert_eq!((read.status, read.body, read.last), (201, &b"body"[..], false));
        assert_eq!(read.bytes, text.len());
        let more = [text, &b"HTTP"[..]].concat();
        assert_eq!(answer(&more).unwrap().unwrap().bytes, text.len());
    }

    #[test]
    fn an_answer_without_content_has_no_body() {
        let text = b"HTTP/1.1 204 No Content\r\nconnection: Close\r\n\r\n";
        let read = answer(text).unwrap().unwrap();
        assert_eq!((read.status, read.bytes, read.last), (204, text.len(), true));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wrong in [
            "HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "SSH-2.0\r\n\r\n",
        ] {
            assert!(answer(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(answer(&vec![b'x'; HEAD_BYTES_MAX + 1]).is_err());
    }
}
