//! Appends to the stream and reads from it.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, Message, StatusCode};
use futures::StreamExt as _;
use quota_replication::Reply;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::Names;

/// Most messages, and about how many bytes, that are read at once.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// How long reading waits for the next message of a batch.
const READ_WAIT: Duration = Duration::from_millis(500);
/// How long handing a message to the connection may take; after it nothing is known of it.
const SEND_WAIT: Duration = Duration::from_secs(1);

/// Messages with their sequences, in order.
pub(crate) type Messages = Vec<(u64, Vec<u8>)>;

/// What comes from the servers.
#[derive(Debug)]
pub(crate) enum ServerMessage {
    /// A reply to an append that expected this sequence. There may be several to one.
    Reply(u64, Reply),
    /// What a read has brought; none: nobody answered.
    Read(Option<Messages>),
    /// There is something new in the log.
    Hint,
}

/// The stream of one log, by one connection.
#[derive(Clone)]
pub struct Log {
    client: Client,
    names: Arc<Names>,
    inbox: Arc<str>,
    heard: mpsc::UnboundedSender<ServerMessage>,
}

#[derive(Deserialize)]
struct Ack {
    stream: Option<String>,
    seq: Option<u64>,
    error: Option<AckError>,
}

#[derive(Deserialize)]
struct AckError {
    err_code: Option<u64>,
}

/// What servers call a message that does not follow the expected sequence.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

impl Log {
    /// Begins to listen for replies and hints.
    ///
    /// # Errors
    /// The client is closed.
    pub(crate) async fn open(
        client: Client,
        names: Names,
    ) -> Result<(Self, mpsc::UnboundedReceiver<ServerMessage>), async_nats::SubscribeError> {
        let (heard, hears) = mpsc::unbounded_channel();
        let inbox: Arc<str> = client.new_inbox().into();
        // All replies are listened to, not only the first: a server that does not lead any more may be the quicker one.
        let mut replies = client.subscribe(format!("{inbox}.*")).await?;
        let mut hints = client.subscribe(names.hint.clone()).await?;
        let log = Self {
            client,
            names: Arc::new(names),
            inbox,
            heard: heard.clone(),
        };
        let stream = log.names.stream.clone();
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    reply = replies.next() => reply.map(|reply| understood(&reply, &stream)),
                    hint = hints.next() => hint.map(|_| Some(ServerMessage::Hint)),
                };
                let Some(next) = next else { return };
                if let Some(next) = next
                    && heard.send(next).is_err()
                {
                    return;
                }
            }
        });
        Ok((log, hears))
    }

    /// Sends an append on its way. What comes of it is heard, or nothing is.
    pub(crate) fn publish(&self, expected: u64, bytes: &[u8]) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Stream", self.names.stream.as_str());
        headers.insert("Nats-Expected-Last-Sequence", expected.to_string().as_str());
        let (client, subject) = (self.client.clone(), self.names.log.clone());
        let reply = format!("{}.{expected}", self.inbox);
        let payload = bytes.to_vec().into();
        tokio::spawn(async move {
            let sent = client.publish_with_reply_and_headers(subject, reply, headers, payload);
            // A message that could not be sent is like one that was lost.
            let _ = tokio::time::timeout(SEND_WAIT, sent).await;
        });
    }

    /// Tells followers that there is something new.
    pub(crate) fn hint(&self) {
        let (client, subject) = (self.client.clone(), self.names.hint.clone());
        tokio::spawn(async move {
            let sent = client.publish(subject, bytes::Bytes::new());
            let _ = tokio::time::timeout(SEND_WAIT, sent).await;
        });
    }

    /// Reads from a sequence on. Any replica of the stream may answer: it is late at most.
    pub(crate) fn read(&self, from: u64) {
        let log = self.clone();
        tokio::spawn(async move {
            let messages = match log.batch(from).await {
                Some(messages) if messages.first().is_some_and(|(first, _)| *first > from) => {
                    // Messages can get lost on their way here. Only if the stream begins later are they gone.
                    match log.first_sequence().await {
                        Some(first) if first > from => Some(messages),
                        _ => None,
                    }
                }
                messages => messages,
            };
            let _ = log.heard.send(ServerMessage::Read(messages));
        });
    }

    async fn batch(&self, from: u64) -> Option<Messages> {
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.ok()?;
        let request =
            serde_json::json!({"seq": from, "batch": BATCH, "max_bytes": BATCH_BYTES}).to_string();
        let subject = format!("$JS.API.DIRECT.GET.{}", self.names.stream);
        self.client
            .publish_with_reply(subject, inbox, request.into())
            .await
            .ok()?;
        let mut messages = Messages::new();
        loop {
            let Ok(Some(answer)) = tokio::time::timeout(READ_WAIT, answers.next()).await else {
                // What came without a gap can be used.
                return (!messages.is_empty()).then_some(messages);
            };
            match answer.status {
                None => {}
                Some(StatusCode::NO_RESPONDERS) => return None,
                // The end of the batch, or no such message.
                Some(_) => return Some(messages),
            }
            let sequence = sequence(&answer)?;
            let follows = messages.last().is_none_or(|(last, _)| last + 1 == sequence);
            if !follows {
                return Some(messages);
            }
            messages.push((sequence, answer.payload.to_vec()));
        }
    }

    async fn first_sequence(&self) -> Option<u64> {
        let subject = format!("$JS.API.STREAM.INFO.{}", self.names.stream);
        let answer = self
            .client
            .request(subject, bytes::Bytes::new())
            .await
            .ok()?;
        let info: serde_json::Value = serde_json::from_slice(&answer.payload).ok()?;
        info["state"]["first_seq"].as_u64()
    }

    /// Goes to another server: this one may be cut off from the others.
    pub(crate) async fn reconnect(&self) {
        let _ = tokio::time::timeout(SEND_WAIT, self.client.force_reconnect()).await;
    }
}

fn sequence(message: &Message) -> Option<u64> {
    let headers = message.headers.as_ref()?;
    headers.get("Nats-Sequence")?.as_str().parse().ok()
}

fn understood(message: &Message, stream: &str) -> Option<ServerMessage> {
    let (_, expected) = message.subject.rsplit_once('.')?;
    let reply = match message.status {
        Some(_) => Reply::Unknown,
        None => meaning(&message.payload, stream),
    };
    Some(ServerMessage::Reply(expected.parse().ok()?, reply))
}

/// What a reply says. The sequence in the text of a refusal is not looked at: it may be behind, or ahead.
fn meaning(payload: &[u8], stream: &str) -> Reply {
    match serde_json::from_slice(payload) {
        Ok(Ack {
            error: None,
            seq: Some(sequence),
            stream: Some(name),
        }) if name == stream => Reply::Stored(sequence),
        Ok(Ack {
            error: Some(AckError {
                err_code: Some(code),
            }),
            ..
        }) if WRONG_LAST_SEQUENCE.contains(&code) => Reply::Refused(None),
        _ => Reply::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_acknowledgement_of_the_stream_says_that_something_is_stored() {
        let meaning = |text: &str| meaning(text.as_bytes(), "QL_main_0");
        assert_eq!(
            meaning(r#"{"stream":"QL_main_0","seq":7}"#),
            Reply::Stored(7)
        );
        assert_eq!(meaning(r#"{"stream":"OTHER","seq":7}"#), Reply::Unknown);
        let refused = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"QL_main_0","seq":0}"#;
        assert_eq!(meaning(refused), Reply::Refused(None));
        assert_eq!(
            meaning(r#"{"error":{"code":503,"err_code":10008}}"#),
            Reply::Unknown
        );
        assert_eq!(meaning(""), Reply::Unknown);
    }
}
