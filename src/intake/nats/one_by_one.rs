//! Reads messages one by one, by the JetStream API: its answers are JSON that holds the bytes of headers and payload in
//! base64.
//!
//! When a consumer delivers a message whose headers or subject the client library cannot read, the library drops the
//! connection with all messages behind it, or its task panics; a status in the headers makes it skip the message. So
//! such a message would be delivered for ever. Read like this, it is a rejected event like any other.

use async_nats::jetstream::{
    self, Context, ErrorCode,
    response::Response,
    stream::{RawMessage, Stream},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::stream;
use serde::{Deserialize, Serialize};

use super::{
    Ended,
    message::{Delivered, MessagePosition},
    stream::timestamp,
};

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
