//! The stream, as the publisher uses it.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap, Request, RequestErrorKind,
    jetstream::{self, ErrorCode, context::GetStreamErrorKind, stream::LastRawMessageErrorKind},
};
use bytes::Bytes;
use quota_semantics::Timestamp;
use serde::Deserialize;

use super::{Last, MessageId};
use crate::{lease::Mark, line};

/// The maximum size of a message's headers, in bytes.
const HEADERS_BYTES: usize = 4096;

/// The size of messages that the servers have to accept, in bytes: that of the longest line.
const MESSAGE_BYTES: usize = line::MAX_BYTES + HEADERS_BYTES;

/// The server's error code for a message that is longer than the stream accepts.
const MESSAGE_TOO_LONG: u64 = 10_054;

/// The timeout for storing a message.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The server's error codes for a message that does not follow the expected one. A server with replicas returns the
/// second code while an earlier message is in flight.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10_071, 10_164];

/// The header that names the cluster whose objects a message holds.
const CLUSTER_UID: &str = "Quota-Cluster-Uid";

/// The header with the mark of the publisher's Lease.
const LEASE: &str = "Quota-Lease";

/// Servers before this version support streams with replicas, but accept two messages with the same expected sequence.
const REPLICAS_SINCE: (u64, u64) = (2, 10);

/// A stream that must not be published to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The stream discards messages.
    #[error(
        "the stream {0} has max_msgs_per_subject set: all objects come on one subject, and most would be removed"
    )]
    FewPerSubject(String),
    /// The server does not refuse messages that it must refuse.
    #[error(
        "the stream {0} has replicas, and nats-server {1} takes two messages of which one has to be refused: \
         2.10 or later is needed"
    )]
    OldServer(String, String),
    /// The stream or the server refuses long messages.
    #[error(
        "the stream {0} has to take messages of {needed} bytes, since an object is not split: {1}",
        needed = MESSAGE_BYTES
    )]
    ShortMessages(String, String),
}

/// The reason why the stream cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The stream is unsuitable.
    Unfit(Unfit),
    /// The stream does not exist.
    Missing(String),
    /// The stream cannot be read now.
    Unreachable(String),
}

/// The last message of the subject.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) last: Last,
    pub(super) cluster_uid: Option<String>,
    /// The mark of the Lease of the message's publisher.
    pub(super) mark: Option<Mark>,
    /// The time at which the server stored the message.
    pub(super) time: Timestamp,
}

/// The outcome of a message.
#[derive(Debug)]
pub(super) enum PublishOutcome {
    Stored(u64),
    Refused,
    /// The message is longer than the servers accept. No retry can help.
    TooLong(Unfit),
    Failed(String),
}

#[derive(Deserialize)]
struct Ack {
    #[serde(default)]
    seq: u64,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// One subject of a stream.
#[derive(Clone)]
pub struct Stream {
    client: Client,
    jetstream: jetstream::Context,
    name: String,
    subject: String,
}

impl Stream {
    /// The subject of the stream `name`.
    pub fn new(client: Client, name: &str, subject: &str) -> Self {
        Self {
            jetstream: jetstream::new(client.clone()),
            client,
            name: name.to_owned(),
            subject: subject.to_owned(),
        }
    }

    /// The subject.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The last message of the subject. Also checks whether the stream is suitable.
    pub(super) async fn last(&self) -> Result<Option<Found>, StreamError> {
        let unreachable = |error: &dyn std::fmt::Display| {
            StreamError::Unreachable(format!("stream {}: {error}", self.name))
        };
        let stream = self.jetstream.get_stream(&self.name).await;
        let stream = stream.map_err(|error| match error.kind() {
            GetStreamErrorKind::JetStream(why)
                if why.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                StreamError::Missing(self.name.clone())
            }
            _ => unreachable(&error),
        })?;
        self.check(&stream.cached_info().config).map_err(StreamError::Unfit)?;
        match stream.get_last_raw_message_by_subject(&self.subject).await {
            Ok(message) => {
                let header =
                    |name: &str| message.headers.get(name).map(async_nats::HeaderValue::as_str);
                let id = header("Nats-Msg-Id").and_then(MessageId::parse);
                let time = message.time.unix_timestamp_nanos();
                Ok(Some(Found {
                    last: Last { sequence: message.sequence, id },
                    cluster_uid: header(CLUSTER_UID).map(str::to_owned),
                    mark: header(LEASE).and_then(|mark| mark.parse().ok()),
                    time: Timestamp::from_nanoseconds(i64::try_from(time).unwrap_or(i64::MAX)),
                }))
            }
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(inner)
                    if inner.error_code() == ErrorCode::NO_MESSAGE_FOUND =>
                {
                    Ok(None)
                }
                _ => Err(unreachable(&error)),
            },
        }
    }

    fn check(&self, config: &jetstream::stream::Config) -> Result<(), Unfit> {
        if config.max_messages_per_subject > 0 {
            return Err(Unfit::FewPerSubject(self.name.clone()));
        }
        let info = self.client.server_info();
        let of_stream = usize::try_from(config.max_message_size).unwrap_or(0);
        for (setting, bytes) in
            [("max_msg_size", of_stream), ("max_payload of the server", info.max_payload)]
        {
            // 0 means: not set.
            if (1..MESSAGE_BYTES).contains(&bytes) {
                return Err(self.short_messages(format!("{setting} is {bytes}")));
            }
        }
        let version = info.version;
        match config.num_replicas > 1 && is_older(&version, REPLICAS_SINCE) {
            true => Err(Unfit::OldServer(self.name.clone(), version)),
            false => Ok(()),
        }
    }

    fn short_messages(&self, why: String) -> Unfit {
        Unfit::ShortMessages(self.name.clone(), why)
    }

    /// Publishes a message that must directly follow the message `expected` on the subject.
    pub(super) async fn publish(
        &self,
        id: &MessageId,
        expected: u64,
        (cluster_uid, mark): (&str, Option<&Mark>),
        payload: Bytes,
    ) -> PublishOutcome {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id.to_string());
        headers.insert("Nats-Expected-Stream", self.name.as_str());
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        headers.insert(CLUSTER_UID, cluster_uid);
        if let Some(mark) = mark {
            headers.insert(LEASE, mark.to_string());
        }
        let request =
            Request::new().headers(headers).payload(payload).timeout(Some(PUBLISH_TIMEOUT));
        let answer = self.client.send_request(self.subject.clone(), request).await;
        let message = match answer {
            Ok(message) => message,
            Err(error) if error.kind() == RequestErrorKind::MaxPayloadExceeded => {
                return PublishOutcome::TooLong(self.short_messages(error.to_string()));
            }
            Err(error) => return PublishOutcome::Failed(error.to_string()),
        };
        match serde_json::from_slice::<Ack>(&message.payload) {
            Ok(Ack { error: None, seq }) if seq > 0 => PublishOutcome::Stored(seq),
            Ok(Ack { error: Some(Refusal { err_code, .. }), .. })
                if WRONG_LAST_SEQUENCE.contains(&err_code) =>
            {
                PublishOutcome::Refused
            }
            Ok(Ack {
                error: Some(Refusal { err_code: MESSAGE_TOO_LONG, description }), ..
            }) => PublishOutcome::TooLong(self.short_messages(description)),
            Ok(Ack { error: Some(Refusal { description, .. }), .. }) => {
                PublishOutcome::Failed(description)
            }
            _ => PublishOutcome::Failed("an answer that is none of JetStream".to_owned()),
        }
    }
}

fn is_older(version: &str, than: (u64, u64)) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse().ok());
    let (major, minor) = (numbers.next(), numbers.next());
    major.zip(minor).is_some_and(|version: (u64, u64)| version < than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_servers_are_compared_by_their_numbers() {
        for (version, older) in
            [("2.9.10", true), ("2.10.0-beta", false), ("2.15.1", false), ("x", false)]
        {
            assert_eq!(is_older(version, REPLICAS_SINCE), older, "{version}");
        }
    }
}
