//! A message of the stream: delivered by a consumer, or read alone by the JetStream API.

use async_nats::{
    HeaderMap, HeaderName, HeaderValue,
    jetstream::{
        self, Context, ErrorCode,
        response::Response,
        stream::{RawMessage, Stream},
    },
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::stream;
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Ended, timestamp};
use crate::log_limiter::cut;

/// The header of an empty message that the server stores itself when it has removed the last message of a subject
/// (nats-server 2.11 and later; it reports a removal, not an event).
const MARKER: &str = "Nats-Marker-Reason";

/// Bytes of a header line that a reason quotes.
const QUOTED_BYTES: usize = 100;

/// A message with its place in the stream.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) position: MessagePosition,
    pub(super) subject: String,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
    /// Why its subject or its headers cannot be read.
    pub(super) unreadable: Option<String>,
}

impl Delivered {
    /// A message that a consumer delivered, so that the client library could read it.
    ///
    /// # Errors
    /// It does not say its place in the stream.
    pub(super) fn from_consumer(message: jetstream::Message) -> Result<Self, Ended> {
        let message = message.message;
        let position = message.reply.as_deref().and_then(MessagePosition::read);
        let position = position.ok_or(Ended::NoPlace)?;
        let status = message.status.map(|_| HAS_STATUS.to_owned());
        Ok(Self {
            position,
            unreadable: status.or_else(|| unreadable(&message.subject)),
            subject: message.subject.into_string(),
            headers: message.headers,
            payload: message.payload,
        })
    }

    /// A message as the server stores it.
    pub(super) fn from_stored(
        position: MessagePosition,
        subject: String,
        header_block: &[u8],
        payload: Bytes,
    ) -> Self {
        let (headers, error) = match read_headers(header_block) {
            Ok(headers) => (headers, None),
            Err(error) => (None, Some(error)),
        };
        Self {
            position,
            unreadable: error.or_else(|| unreadable(&subject)),
            subject,
            headers,
            payload,
        }
    }

    /// Returns true if the server stored the message itself, because it removed others.
    pub(super) fn is_marker(&self) -> bool {
        let headers = self.headers.as_ref();
        self.payload.is_empty() && headers.is_some_and(|headers| headers.get(MARKER).is_some())
    }
}

const HAS_STATUS: &str = "its headers begin with a status, as only those of the server do";

/// Why a subject cannot be read. The JetStream API replaces bytes that are not UTF-8 by U+FFFD.
fn unreadable(subject: &str) -> Option<String> {
    let is_broken = subject.contains(char::REPLACEMENT_CHARACTER);
    is_broken.then(|| {
        let quoted = cut(subject, QUOTED_BYTES);
        format!("its subject is not UTF-8: {quoted:?}")
    })
}

/// Reads a block of headers as the client library does, but refuses what the library breaks its connection over. An
/// empty block holds no headers.
fn read_headers(block: &[u8]) -> Result<Option<HeaderMap>, String> {
    if block.is_empty() {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(block) else {
        let quoted = String::from_utf8_lossy(block);
        let quoted = cut(&quoted, QUOTED_BYTES);
        return Err(format!("its headers are not UTF-8: {quoted:?}"));
    };
    let mut lines = text.lines();
    match lines.next().unwrap_or_default().strip_prefix("NATS/1.0") {
        None => return Err("its headers do not begin with NATS/1.0".to_owned()),
        Some(status) if !status.trim().is_empty() => return Err(HAS_STATUS.to_owned()),
        Some(_) => {}
    }
    let mut headers = HeaderMap::new();
    let mut lines = lines.filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let quoted = cut(line, QUOTED_BYTES);
        let Some((name, value)) = line.split_once(':') else {
            return Err(format!("a line of its headers has no colon: {quoted:?}"));
        };
        let mut value = value.trim().to_owned();
        while let Some(more) = lines.next_if(|line| line.starts_with(char::is_whitespace)) {
            value.push_str(more.trim_end());
        }
        let name: Result<HeaderName, _> = name.parse();
        let value: Result<HeaderValue, _> = value.parse();
        match (name, value) {
            (Ok(name), Ok(value)) => headers.append(name, value),
            (Err(_), _) => return Err(format!("the name of a header is invalid: {quoted:?}")),
            (_, Err(_)) => return Err(format!("the value of a header is invalid: {quoted:?}")),
        }
    }
    Ok(Some(headers))
}

/// The position of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessagePosition {
    /// Its sequence in the stream.
    pub(super) stream_sequence: u64,
    /// Its sequence among the messages delivered to this consumer.
    pub(super) consumer_sequence: u64,
    /// When the server received it.
    pub(super) time: Timestamp,
}

impl MessagePosition {
    /// Parses `$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>.<consumer sequence>.<time>.<pending>`; a
    /// domain and an account may precede the stream, and further tokens may follow (the formats of NATS' ADR-15).
    pub(super) fn read(reply: &str) -> Option<Self> {
        let mut tokens = [""; 9];
        let mut count = 0;
        for token in reply.strip_prefix("$JS.ACK.")?.split('.').take(tokens.len()) {
            tokens[count] = token;
            count += 1;
        }
        let numbers = match count {
            7 => &tokens[3..6],
            9 => &tokens[5..8],
            _ => return None,
        };
        let nanoseconds = numbers[2].parse().ok()?;
        Some(Self {
            stream_sequence: numbers[0].parse().ok()?,
            consumer_sequence: numbers[1].parse().ok()?,
            time: Timestamp::from_nanoseconds(nanoseconds),
        })
    }
}

// Reads messages one by one, by the JetStream API: its answers are JSON that holds the bytes of headers and payload in
// base64.
//
// When a consumer delivers a message whose headers or subject the client library cannot read, the library drops the
// connection with all messages behind it, or its task panics; a status in the headers makes it skip the message. So
// such a message would be delivered for ever. Read like this, it is a rejected event like any other.

/// A request for one message.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Wanted<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_by_subj: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_by_subj: Option<&'a str>,
}

#[derive(Deserialize)]
struct Found {
    message: RawMessage,
}

/// Reads single messages of a stream.
#[derive(Clone)]
pub(super) struct MessageReader {
    context: Context,
    request: String,
}

impl MessageReader {
    pub(super) fn new(client: &async_nats::Client, stream: &Stream) -> Self {
        let name = &stream.cached_info().config.name;
        Self { context: jetstream::new(client.clone()), request: format!("STREAM.MSG.GET.{name}") }
    }

    /// The message at this position; none if the stream does not hold it.
    pub(super) async fn at(&self, position: u64) -> Result<Option<Delivered>, Ended> {
        let seq = Some(position);
        self.get(Wanted { seq, ..Wanted::default() }).await
    }

    /// The first message with this subject (which may have wildcards) at or after the position; none if there is none.
    pub(super) async fn next(
        &self,
        position: u64,
        subject: &str,
    ) -> Result<Option<Delivered>, Ended> {
        let wanted =
            Wanted { seq: Some(position), next_by_subj: Some(subject), ..Wanted::default() };
        self.get(wanted).await
    }

    /// The last message with this subject (which may have wildcards); none if there is none.
    pub(super) async fn last(&self, subject: &str) -> Result<Option<Delivered>, Ended> {
        let last_by_subj = Some(subject);
        self.get(Wanted { last_by_subj, ..Wanted::default() }).await
    }

    async fn get(&self, wanted: Wanted<'_>) -> Result<Option<Delivered>, Ended> {
        const WHAT: &str = "read a message of the stream";
        let response = self.context.request(self.request.clone(), &wanted).await;
        let message = match response.map_err(Ended::failed(WHAT))? {
            Response::Ok(Found { message }) => message,
            Response::Err { error } if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => {
                return Ok(None);
            }
            Response::Err { error } => return Err(Ended::failed(WHAT)(error)),
        };
        let bytes = |text: &str| BASE64_STANDARD.decode(text).map_err(Ended::failed(WHAT));
        let headers = bytes(message.headers.as_deref().unwrap_or_default())?;
        let payload = bytes(&message.payload)?;
        let position = MessagePosition {
            stream_sequence: message.sequence,
            consumer_sequence: 0,
            time: timestamp(message.time.unix_timestamp_nanos()),
        };
        let message = Delivered::from_stored(position, message.subject, &headers, payload.into());
        Ok(Some(message))
    }
}

/// After this many readable messages in a row a consumer goes on.
const READABLE: usize = 256;

/// The messages with this subject after a position, numbered as a new consumer would number them. Ends with
/// [`Ended::Passed`] behind the stream's last message, or when a consumer may be able to go on.
pub(super) fn one_by_one(
    reader: MessageReader,
    subject: String,
    position: u64,
) -> impl futures::Stream<Item = Result<Delivered, Ended>> {
    struct Progress {
        position: u64,
        read: u64,
        readable: usize,
    }
    let begin = Progress { position, read: 0, readable: 0 };
    stream::unfold(Some(begin), move |progress| {
        let (reader, subject) = (reader.clone(), subject.clone());
        async move {
            let mut progress = progress?;
            if progress.readable >= READABLE {
                return Some((Err(Ended::Passed), None));
            }
            let next = reader.next(progress.position.saturating_add(1), &subject);
            match next.await {
                Ok(Some(mut message)) => {
                    progress.read = progress.read.saturating_add(1);
                    message.position.consumer_sequence = progress.read;
                    progress.position = message.position.stream_sequence;
                    progress.readable = match message.unreadable {
                        Some(_) => 0,
                        None => progress.readable.saturating_add(1),
                    };
                    Some((Ok(message), Some(progress)))
                }
                Ok(None) => Some((Err(Ended::Passed), None)),
                Err(ended) => Some((Err(ended), None)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(subject: &str, headers: &[u8], payload: &'static [u8]) -> Delivered {
        let position =
            MessagePosition { stream_sequence: 1, consumer_sequence: 1, time: Timestamp::EPOCH };
        Delivered::from_stored(position, subject.to_owned(), headers, Bytes::from_static(payload))
    }

    #[test]
    fn headers_are_read_or_the_reason_is_named() {
        let message =
            stored("a.b", b"NATS/1.0\r\nce-type: x\r\nlong: one\r\n  two\r\nempty:\r\n\r\n", b"{}");
        assert_eq!(message.unreadable, None);
        let headers = message.headers.unwrap();
        let value = |name: &str| headers.get(name).map(HeaderValue::as_str);
        assert_eq!(value("ce-type"), Some("x"));
        assert_eq!(value("long"), Some("one  two"));
        assert_eq!(value("empty"), Some(""));
        assert!(stored("a.b", b"", b"{}").headers.is_none());
        for (block, reason) in [
            (&b"NATS/1.0\r\nno colon\r\n\r\n"[..], "has no colon: \"no colon\""),
            (b"NATS/1.0\r\na name: x\r\n\r\n", "name of a header is invalid"),
            (b"NATS/1.0\r\n: x\r\n y\rz\r\n\r\n", "value of a header is invalid"),
            (b"NATS/1.0\r\nname: a\rb\r\n\r\n", "value of a header is invalid"),
            (b"NATS/1.0\r\nname: \xff\r\n\r\n", "not UTF-8"),
            (b"NATS/1.0 404 None\r\n\r\n", "begin with a status"),
            (b"HTTP/1.1\r\n\r\n", "do not begin with NATS/1.0"),
        ] {
            let unreadable = stored("a.b", block, b"{}").unreadable.unwrap_or_default();
            assert!(unreadable.contains(reason), "{unreadable}");
        }
        let subject = stored("a.\u{fffd}", b"", b"{}").unreadable.unwrap();
        assert!(subject.contains("subject is not UTF-8"), "{subject}");
    }

    #[test]
    fn a_marker_is_empty_and_names_its_reason() {
        let block = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: 1s\r\n\r\n";
        assert!(stored("a.b", block, b"").is_marker());
        assert!(!stored("a.b", block, b"{}").is_marker());
        assert!(!stored("a.b", b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n", b"").is_marker());
    }

    #[test]
    fn all_formats_of_a_reply_are_read() {
        let place = MessagePosition {
            stream_sequence: 17,
            consumer_sequence: 3,
            time: Timestamp::from_nanoseconds(1_790_000_000_000_000_001),
        };
        for before in ["", "_.Ac0untHash.", "hub.Ac0untHash."] {
            let reply = format!("$JS.ACK.{before}OBJECTS.c0Nsum3r.1.17.3.1790000000000000001.5");
            assert_eq!(MessagePosition::read(&reply), Some(place), "{reply}");
        }
        let long = "$JS.ACK._.Ac0untHash.OBJECTS.c0Nsum3r.1.17.3.1790000000000000001.5.r4nd0m.more";
        assert_eq!(MessagePosition::read(long), Some(place));
    }

    #[test]
    fn what_is_no_place_is_not_taken_for_one() {
        for reply in [
            "",
            "_INBOX.x.y",
            "$JS.ACK.OBJECTS.c.1.17.3.1790000000000000001",
            "$JS.ACK.OBJECTS.c.1.17.3.1790000000000000001.5.6",
            "$JS.ACK.OBJECTS.c.1.x.3.1790000000000000001.5",
            "$JS.ACK.OBJECTS.c.1.17.-3.1790000000000000001.5",
            "$JS.ACK._.h.OBJECTS.c.1.17.3.99999999999999999999.5",
        ] {
            assert_eq!(MessagePosition::read(reply), None, "{reply}");
        }
    }
}
