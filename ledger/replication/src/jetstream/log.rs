//! Appends to the stream and reads from it.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, Message, StatusCode, Subscriber};
use futures::{FutureExt as _, StreamExt as _};
use quota_journal::{Batch, Durable, Error, Journal};
use quota_semantics::Timestamp;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use super::{Handle, Names, driver::Request, servers::LEAST_PAYLOAD, stream};
use crate::protocol::Reply;

/// Most messages of one read, and about how many bytes.
const BATCH: usize = 256;
const FETCH_BYTES: usize = 16 * 1024 * 1024;
/// How long a read waits for the next message of a batch.
const READ_WAIT: Duration = Duration::from_millis(500);
/// How long the server that leads the stream may take to return one message, which may have megabytes.
const COMPARE_WAIT: Duration = Duration::from_secs(5);
/// How long handing a message to the connection may take; afterwards its fate is unknown.
const SEND_WAIT: Duration = Duration::from_secs(1);

/// A message as a server returned it.
#[derive(Debug)]
pub(crate) struct LogMessage {
    pub(crate) sequence: u64,
    /// When the stream stored it, by the clock of the server that led the stream.
    pub(crate) time: Option<Timestamp>,
    pub(crate) bytes: Vec<u8>,
}

/// The result of a read.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order of their sequences.
    pub(crate) messages: Vec<LogMessage>,
    /// Whether the server had no more messages.
    pub(crate) is_all: bool,
}

/// A message from the servers.
#[derive(Debug)]
pub(crate) enum ServerMessage {
    /// A reply to an append that expected this sequence. One append may have several replies.
    Reply(u64, Reply),
    /// The result of a read; none: no server answered.
    Read(Option<Found>),
    /// There are new messages in the log.
    Hint,
}

/// The stream of one log, through one connection.
#[derive(Clone)]
pub struct Log {
    client: Client,
    names: Arc<Names>,
    /// The subject prefix of replies to appends.
    replies: Arc<str>,
    /// The sequences from which to read.
    reads: mpsc::UnboundedSender<u64>,
}

/// The messages from the servers.
pub(crate) struct ServerMessages {
    stream: String,
    replies: Subscriber,
    hints: Subscriber,
    found: mpsc::UnboundedReceiver<Option<Found>>,
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

/// The error codes of a message that does not follow the expected sequence.
const WRONG_LAST_SEQUENCE: [u64; 2] = [10071, 10164];

impl ServerMessages {
    /// The next message; none: the client is closed.
    pub(crate) async fn next(&mut self) -> Option<ServerMessage> {
        loop {
            tokio::select! {
                reply = self.replies.next() => {
                    let understood = understood(&reply?, &self.stream);
                    if understood.is_some() {
                        return understood;
                    }
                }
                hint = self.hints.next() => return hint.map(|_| ServerMessage::Hint),
                found = self.found.recv() => return found.map(ServerMessage::Read),
            }
        }
    }
}

impl Log {
    /// Subscribes to replies and hints. The log is the stream that was made at `created`; none: at an unknown time.
    ///
    /// # Errors
    /// The client is closed.
    pub(crate) async fn open(
        client: Client,
        names: Names,
        created: Option<Timestamp>,
    ) -> Result<(Self, ServerMessages), async_nats::SubscribeError> {
        // All replies are received, not only the first: a server that no longer leads may answer first.
        let inbox: Arc<str> = client.new_inbox().into();
        let replies = client.subscribe(format!("{inbox}.*")).await?;
        let hints = client.subscribe(names.hint.clone()).await?;
        // One subscription for all reads: servers propagate each subscription to each other.
        let answers_to = client.new_inbox();
        let answers = client.subscribe(format!("{answers_to}.*")).await?;
        let (reads, to_read) = mpsc::unbounded_channel();
        let (found_in, found) = mpsc::unbounded_channel();
        let messages = ServerMessages { stream: names.stream.clone(), replies, hints, found };
        let log = Self { client, names: Arc::new(names), replies: inbox, reads };
        let reader = Reader {
            client: log.client.clone(),
            names: log.names.clone(),
            created,
            answers_to,
            answers,
            number: 0,
        };
        tokio::spawn(reader.run(to_read, found_in));
        Ok((log, messages))
    }

    /// Sends an append. Its outcome arrives as a reply, or not at all.
    pub(crate) fn publish(&self, expected: u64, bytes: &[u8]) {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Stream", self.names.stream.as_str());
        headers.insert("Nats-Expected-Last-Sequence", expected.to_string().as_str());
        let (client, subject) = (self.client.clone(), self.names.log.clone());
        let reply = format!("{}.{expected}", self.replies);
        let payload = bytes.to_vec().into();
        // A message that could not be sent is treated like a lost one.
        send(async move {
            let sent = client.publish_with_reply_and_headers(subject, reply, headers, payload);
            drop(sent.await);
        });
    }

    /// Notifies followers of new messages.
    pub(crate) fn hint(&self) {
        let (client, subject) = (self.client.clone(), self.names.hint.clone());
        send(async move { drop(client.publish(subject, bytes::Bytes::new()).await) });
    }

    /// Reads from a sequence on. Any replica of the stream may answer: at worst it lags.
    pub(crate) fn read(&self, from: u64) {
        let _ = self.reads.send(from);
    }

    /// Connects to another server: the present one may be cut off from the others.
    pub(crate) async fn reconnect(&self) {
        let _ = tokio::time::timeout(SEND_WAIT, self.client.force_reconnect()).await;
    }
}

/// Hands a message to the connection: immediately if there is room, otherwise in another task.
fn send(sending: impl Future<Output = ()> + Send + 'static) {
    let mut sending = Box::pin(sending);
    if sending.as_mut().now_or_never().is_none() {
        tokio::spawn(tokio::time::timeout(SEND_WAIT, sending));
    }
}

/// Reads the log, one read at a time.
struct Reader {
    client: Client,
    names: Arc<Names>,
    created: Option<Timestamp>,
    /// The subject prefix for the messages of reads; each read has its own subject.
    answers_to: String,
    answers: Subscriber,
    number: u64,
}

impl Reader {
    async fn run(
        mut self,
        mut to_read: mpsc::UnboundedReceiver<u64>,
        found: mpsc::UnboundedSender<Option<Found>>,
    ) {
        while let Some(from) = to_read.recv().await {
            if found.send(self.read(from).await).is_err() {
                return;
            }
        }
    }

    async fn read(&mut self, from: u64) -> Option<Found> {
        let found = self.batch(from).await?;
        if !self.are_of_stream(&found.messages).await {
            return None;
        }
        match found.messages.first() {
            Some(first) if first.sequence > from => {
                // Messages can get lost on their way here. They are gone only if the stream begins later. Other reads
                // wait for this one.
                let now = stream::look(&self.client, &self.names);
                let now = tokio::time::timeout(READ_WAIT, now).await;
                (now.ok()?.ok()?.first > from).then_some(found)
            }
            _ => Some(found),
        }
    }

    /// Whether the messages are of this stream. A server that has not learned yet that the stream was recreated answers with
    /// messages of the previous stream, which are older than this one. Messages of a restored stream are older, too, and so are
    /// the first messages of a new stream if the servers' clocks differ. Therefore the last such message is compared with that
    /// of the server that leads the stream.
    async fn are_of_stream(&self, messages: &[LogMessage]) -> bool {
        let is_older = |message: &&LogMessage| {
            let times = message.time.zip(self.created);
            times.is_none_or(|(stored, created)| stored < created)
        };
        let Some(last) = messages.iter().rfind(is_older) else {
            return true;
        };
        let stored = stream::message(&self.client, &self.names, last.sequence);
        let stored = tokio::time::timeout(COMPARE_WAIT, stored).await;
        matches!(stored, Ok(Ok(Some(stored))) if stored == last.bytes)
    }

    async fn batch(&mut self, from: u64) -> Option<Found> {
        self.number += 1;
        let inbox = format!("{}.{}", self.answers_to, self.number);
        let request =
            serde_json::json!({"seq": from, "batch": BATCH, "max_bytes": FETCH_BYTES}).to_string();
        let subject = format!("$JS.API.DIRECT.GET.{}", self.names.stream);
        let sent = self.client.publish_with_reply(subject, inbox.clone(), request.into());
        let sent = tokio::time::timeout(SEND_WAIT, sent).await;
        sent.ok()?.ok()?;
        let mut found = Found::default();
        loop {
            let Ok(Some(answer)) = tokio::time::timeout(READ_WAIT, self.answers.next()).await
            else {
                // The messages before a gap can be used.
                return (!found.messages.is_empty()).then_some(found);
            };
            if *answer.subject != *inbox {
                // An answer to a read that was abandoned.
                continue;
            }
            match answer.status {
                None => {}
                Some(StatusCode::NO_RESPONDERS) => return None,
                // The end of the batch, or no message.
                Some(_) => {
                    let pending = number(&answer, "Nats-Num-Pending");
                    found.is_all = found.messages.is_empty() || pending == Some(0);
                    return Some(found);
                }
            }
            let sequence = number(&answer, "Nats-Sequence")?;
            let before = found.messages.last();
            if before.is_some_and(|last| last.sequence.saturating_add(1) != sequence) {
                return Some(found);
            }
            found.messages.push(LogMessage {
                sequence,
                time: header(&answer, "Nats-Time-Stamp").and_then(|time| time.parse().ok()),
                bytes: answer.payload.to_vec(),
            });
        }
    }
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

fn number(message: &Message, header_name: &str) -> Option<u64> {
    header(message, header_name)?.parse().ok()
}

fn understood(message: &Message, stream: &str) -> Option<ServerMessage> {
    let (_, expected) = message.subject.rsplit_once('.')?;
    let reply = match message.status {
        Some(_) => Reply::Unknown,
        None => meaning(&message.payload, stream),
    };
    Some(ServerMessage::Reply(expected.parse().ok()?, reply))
}

/// The meaning of a reply. The sequence in the text of a refusal is ignored: it may be behind, or ahead.
fn meaning(payload: &[u8], stream: &str) -> Reply {
    match serde_json::from_slice(payload) {
        Ok(Ack { error: None, seq: Some(sequence), stream: Some(name) }) if name == stream => {
            Reply::Stored(sequence)
        }
        Ok(Ack { error: Some(AckError { err_code: Some(code) }), .. })
            if WRONG_LAST_SEQUENCE.contains(&code) =>
        {
            Reply::Refused(None)
        }
        _ => Reply::Unknown,
    }
}

// The journal of a leader: an entry is durable once it is in the log. The replica writes it, and syncs later.

/// Most bytes of a batch's entries: together with the rest of the message they have to fit into `max_payload`.
pub const PAYLOAD_MAX: usize = LEAST_PAYLOAD as usize - 64 * 1024;

/// Batches are closed at about this many bytes, so that any last decision of a batch still fits into the message.
pub const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Appends each batch to the replicated log first, and to this node's replica once it is in the log. A replica is never
/// ahead of the log.
pub struct ReplicatedJournal<J> {
    replica: J,
    handle: Option<Handle>,
    batch: Option<Batch>,
}

impl<J> ReplicatedJournal<J> {
    /// A journal that accepts no batches before it is attached to a member.
    pub const fn new(replica: J) -> Self {
        Self { replica, handle: None, batch: None }
    }

    /// Attaches the journal to the log, since this member leads from now on. A batch that an earlier member left is
    /// dropped.
    pub fn attach(&mut self, handle: Handle) {
        self.handle = Some(handle);
        self.batch = None;
    }

    /// The replica, to which batches of other members are appended.
    pub const fn replica(&mut self) -> &mut J {
        &mut self.replica
    }

    /// The replica, to be closed.
    pub fn into_replica(self) -> J {
        self.replica
    }

    fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Error> {
        let handle = self.handle.as_ref().ok_or(Error::Deposed)?;
        let (answer, answered) = oneshot::channel();
        let _ = handle.requests.send(request(answer));
        // The request is dropped without an answer when this member has stopped.
        answered.blocking_recv().map_err(|_| Error::Deposed)
    }
}

impl<J: Journal> Journal for ReplicatedJournal<J> {
    /// Takes one batch, which becomes one message of the log.
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.payload.len() > PAYLOAD_MAX {
            return Err(Error::TooLarge { bytes: batch.payload.len(), limit: PAYLOAD_MAX });
        }
        if self.batch.is_some() {
            return Err(Error::OutOfOrder { why: "a batch is waiting for its sync".to_owned() });
        }
        self.batch = Some(batch);
        Ok(())
    }

    /// Waits until the batch is in the log, for any time. Without a batch it waits until no other member can lead:
    /// answers without an entry may be out of date before.
    fn sync(&mut self) -> Result<Durable, Error> {
        if let Some(batch) = self.batch.take() {
            let stored = self.ask(|stored| Request::Propose(batch, stored))?;
            self.replica.append(stored.batch)?;
        } else {
            self.ask(Request::Confirm)?;
        }
        self.replica.write()
    }
}

#[cfg(test)]
mod tests {
    use async_nats::jetstream;
    use quota_testkit::nats::Server;

    use super::*;

    /// Answers one read: with message 1, which was stored at this time.
    async fn answer(reads: &mut Subscriber, client: &Client, payload: &'static str, stored: &str) {
        let inbox = reads.next().await.unwrap().reply.unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Sequence", "1");
        headers.insert("Nats-Time-Stamp", stored);
        let sent = client.publish_with_headers(inbox, headers, payload.into());
        sent.await.unwrap();
    }

    #[tokio::test]
    async fn messages_of_the_stream_before_a_recreated_one_are_not_read() {
        let server = Server::start();
        let client = async_nats::connect(server.url()).await.unwrap();
        let names = Names::new(&"main".parse().unwrap(), 0);
        // The test itself answers reads, as a server does that lags behind the others.
        let config = jetstream::stream::Config { allow_direct: false, ..stream::config(&names, 1) };
        let context = jetstream::new(client.clone());
        context.create_stream(config).await.unwrap();
        let stored = context.publish(names.log.clone(), "new".into()).await;
        stored.unwrap().await.unwrap();
        let subject = format!("$JS.API.DIRECT.GET.{}", names.stream);
        let mut reads = client.subscribe(subject).await.unwrap();
        let created = stream::look(&client, &names).await.unwrap().created;
        let created = created.parse().ok();
        let (log, mut messages) = Log::open(client.clone(), names, created).await.unwrap();
        let (before, after) = ("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z");
        for (payload, time, is_read) in [
            ("old", before, false),
            // The stream was restored from a backup.
            ("new", before, true),
            // Only what is older than the stream is compared.
            ("old", after, true),
        ] {
            log.read(1);
            answer(&mut reads, &client, payload, time).await;
            let found = match messages.next().await {
                Some(ServerMessage::Read(found)) => found,
                other => panic!("{other:?}"),
            };
            let read = found.map(|found| found.messages[0].bytes.clone());
            let expected = is_read.then(|| payload.as_bytes().to_vec());
            assert_eq!(read, expected, "{payload} of {time}");
        }
    }

    #[test]
    fn only_an_acknowledgement_of_the_stream_says_that_something_is_stored() {
        let meaning = |text: &str| meaning(text.as_bytes(), "QL_main_0");
        assert_eq!(meaning(r#"{"stream":"QL_main_0","seq":7}"#), Reply::Stored(7));
        assert_eq!(meaning(r#"{"stream":"OTHER","seq":7}"#), Reply::Unknown);
        let refused = r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"QL_main_0","seq":0}"#;
        assert_eq!(meaning(refused), Reply::Refused(None));
        assert_eq!(meaning(r#"{"error":{"code":503,"err_code":10008}}"#), Reply::Unknown);
        assert_eq!(meaning(""), Reply::Unknown);
    }
}
