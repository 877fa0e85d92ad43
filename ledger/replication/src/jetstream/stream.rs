//! The stream of a replicated log: its creation, and the settings that it must have.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use async_nats::{
    Client, HeaderMap,
    jetstream::{
        self, Context,
        stream::{
            Config, DiscardPolicy, RawMessageErrorKind, RetentionPolicy, StorageType, Stream,
        },
    },
};
use futures::StreamExt as _;
use quota_journal::Durable;
use quota_semantics::Timestamp;

use super::{Offset, servers::LEAST_PAYLOAD, since_boot, wall};
use crate::protocol::{DecodeError, Identity, Kind, LedgerId, Message, NodeName};

/// The metadata key that holds the removed nodes.
const REMOVED: &str = "quota-ledger-removed";

/// How often a change of the metadata is repeated if others overwrite it.
const CHANGES: usize = 5;

/// How long to wait before checking whether a change holds.
const SETTLE: Duration = Duration::from_millis(100);

/// The error code for a stream that does not exist.
const NOT_FOUND: u64 = 10059;

/// What is said of servers of which none leads the stream.
const WITHOUT_LEADER: &str = "have no leader of the stream at present";

/// The state of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The clock of the server that answered: it leads the stream, and dates its messages.
    pub clock: Option<Offset>,
    /// Its creation time, in the format of the servers.
    pub created: String,
    /// Its first message.
    pub first: u64,
    /// Its last message; 0: it never had any.
    pub last: u64,
    /// The number of its messages.
    pub messages: u64,
    /// The bytes of its messages.
    pub bytes: u64,
    /// Most bytes that it may hold; none: no limit of its own.
    pub limit: Option<u64>,
    /// The removed nodes, for which no messages are kept.
    pub removed: BTreeSet<String>,
}

impl Found {
    /// The used fraction of its limit.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn used(&self) -> Option<f64> {
        let limit = self.limit?;
        Some(self.bytes as f64 / limit as f64)
    }

    /// The new first message, if no node needs the messages before `bound`, and about `keep` bytes are kept in any
    /// case. None: no message can be removed.
    pub fn purged(&self, bound: u64, keep: u64) -> Option<u64> {
        let spare = u128::from(self.bytes.saturating_sub(keep));
        let messages = spare * u128::from(self.messages) / u128::from(self.bytes.max(1));
        let messages = u64::try_from(messages).unwrap_or(u64::MAX);
        let first = self.first.saturating_add(messages).min(bound);
        (first > self.first).then_some(first)
    }
}

/// The used fraction of the storage that the account may use, by its fullest tier; none if that is not limited.
///
/// # Errors
/// [`Error::Server`], also if the client has no permission for the request.
pub async fn account_used(client: &Client) -> Result<Option<f64>, Error> {
    let answer = client.request("$JS.API.INFO", bytes::Bytes::new()).await;
    let answer = answer.map_err(|error| server(&error))?;
    let account = serde_json::from_slice(&answer.payload).map_err(|error| server(&error))?;
    Ok(used_of(&account))
}

fn used_of(account: &serde_json::Value) -> Option<f64> {
    let used = |tier: &serde_json::Value| {
        // Without a limit servers report -1.
        let most = tier["limits"]["max_storage"].as_f64()?;
        (most > 0.0).then_some(tier["storage"].as_f64()? / most)
    };
    let tiers = account["tiers"].as_object();
    let tiers = tiers.into_iter().flat_map(|tiers| tiers.values());
    tiers.chain([account]).filter_map(used).reduce(f64::max)
}

/// Reads the state of the stream.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub async fn look(client: &Client, names: &Names) -> Result<Found, Error> {
    let subject = format!("$JS.API.STREAM.INFO.{}", names.stream);
    let requested = since_boot();
    let answer = client.request(subject, bytes::Bytes::new()).await;
    let answered = since_boot();
    let answer = answer.map_err(|error| server(&error))?;
    let info: serde_json::Value =
        serde_json::from_slice(&answer.payload).map_err(|error| server(&error))?;
    if info["error"]["err_code"] == NOT_FOUND {
        return Err(Error::Missing(names.stream.clone()));
    }
    if is_without_leader(&info) {
        return Err(Error::Unavailable(WITHOUT_LEADER));
    }
    let state = &info["state"];
    let number = |name: &str| state[name].as_u64();
    let found = || {
        Some(Found {
            clock: info["ts"]
                .as_str()
                .and_then(|time| time.parse().ok())
                .map(|time| Offset::between(requested, time, answered)),
            created: info["created"].as_str()?.to_owned(),
            first: number("first_seq")?,
            last: number("last_seq")?,
            messages: number("messages")?,
            bytes: number("bytes")?,
            // Without a limit servers report -1.
            limit: info["config"]["max_bytes"].as_u64().filter(|most| *most > 0),
            removed: removed(info["config"]["metadata"][REMOVED].as_str()),
        })
    };
    found().ok_or_else(|| server(&info))
}

/// Whether a server describes its replica of a stream that no server leads: it does not know whether others go on with
/// the stream, or have no such stream at all.
fn is_without_leader(info: &serde_json::Value) -> bool {
    info["cluster"]["name"].is_string() && !info["cluster"]["leader"].is_string()
}

fn removed(metadata: Option<&str>) -> BTreeSet<String> {
    let names = metadata.unwrap_or_default().split(',');
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Changes the set of removed nodes, until `change` has nothing to change. Servers support no conditional update of a
/// stream: a concurrent change by another node may overwrite this one, so the result is checked.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub async fn change_removed(
    client: &Client,
    names: &Names,
    change: impl Fn(&mut BTreeSet<String>) -> bool,
) -> Result<(), Error> {
    let context = jetstream::new(client.clone());
    for _ in 0..CHANGES {
        let stream = get(&context, names).await?;
        let mut config = stream.cached_info().config.clone();
        let mut nodes = removed(config.metadata.get(REMOVED).map(String::as_str));
        if !change(&mut nodes) {
            return Ok(());
        }
        let nodes: Vec<_> = nodes.into_iter().collect();
        config.metadata.insert(REMOVED.to_owned(), nodes.join(","));
        let changed = context.update_stream(config).await;
        changed.map_err(|error| server(&error))?;
        tokio::time::sleep(SETTLE).await;
    }
    let why = format!("{REMOVED} was overwritten {CHANGES} times: try again");
    Err(Error::Server(why))
}

/// Removes all messages before this one.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub async fn purge(client: &Client, names: &Names, first: u64) -> Result<(), Error> {
    let context = jetstream::new(client.clone());
    let stream = get(&context, names).await?;
    let purged = stream.purge().sequence(first).await;
    purged.map(drop).map_err(|error| server(&error))
}

/// Deletes the stream, to recreate it.
///
/// # Errors
/// [`Error::Server`].
pub async fn delete(client: &Client, names: &Names) -> Result<(), Error> {
    let context = jetstream::new(client.clone());
    let deleted = context.delete_stream(&names.stream).await;
    deleted.map(drop).map_err(|error| server(&error))
}

/// Why the stream cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not exist.
    #[error("there is no stream {0}")]
    Missing(String),
    /// It holds another ledger, which would begin a second time.
    #[error("the stream {0} holds another ledger already")]
    Exists(String),
    /// It has wrong settings.
    #[error("the stream {stream} cannot hold a ledger: {}", .problems.join("; "))]
    Unfit {
        /// The stream.
        stream: String,
        /// The wrong settings, with the right ones.
        problems: Vec<String>,
    },
    /// The servers cannot answer at present; a request that changes something may have had an effect. It can be repeated.
    #[error(
        "the servers of the log {0}, for example since they elect a leader, which takes 4 to 9 seconds"
    )]
    Unavailable(&'static str),
    /// Fewer servers take part in JetStream than the stream has replicas.
    #[error("too few servers take part in JetStream for the replicas of the stream")]
    TooFewServers,
    /// A server answered with an error.
    #[error("the request for the stream failed: {0}")]
    Server(String),
}

/// The meaning of an error of the client library or of a server. The library has one error type per request, and all of
/// them have the same texts.
pub(crate) fn server(error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    let says = |texts: &[&str]| texts.iter().any(|part| text.contains(part));
    match () {
        // 10008: JetStream is temporarily unavailable; 10118: no leader. Without a stream's leader nobody receives
        // messages of its subject.
        () if says(&["error code 10008", "error code 10118", "\"err_code\":10008"])
            || says(&["no responders", "no stream found for given subject"]) =>
        {
            Error::Unavailable("have no leader at present")
        }
        () if says(&["timed out", "timeout"]) => Error::Unavailable("do not answer at present"),
        // 10005: no suitable peers for placement; 10023, 10074: insufficient resources, insufficient replicas.
        () if says(&["error code 10005", "error code 10023", "error code 10074"]) => {
            Error::TooFewServers
        }
        () => Error::Server(text),
    }
}

/// The settings of the stream.
pub fn config(names: &Names, replicas: usize) -> Config {
    Config {
        name: names.stream.clone(),
        subjects: vec![names.log.clone()],
        num_replicas: replicas,
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        // A full stream refuses new messages; it never drops old ones.
        discard: DiscardPolicy::New,
        deny_delete: true,
        allow_direct: true,
        // Duplicates are detected by the expected sequence, not by a message id.
        duplicate_window: Duration::from_millis(100),
        ..Config::default()
    }
}

/// The settings of a stream that could lose, change or reorder messages, with the right ones.
pub fn problems(config: &Config, names: &Names, replicas: usize) -> Vec<String> {
    let mut problems = Vec::new();
    let mut must = |holds: bool, problem: &str| {
        if !holds {
            problems.push(problem.to_owned());
        }
    };
    must(
        config.subjects == [names.log.clone()],
        &format!("its only subject must be {}", names.log),
    );
    must(
        config.num_replicas >= replicas,
        &format!("num_replicas is {}, and must be {replicas}", config.num_replicas),
    );
    must(config.storage == StorageType::File, "its storage must be file");
    must(config.retention == RetentionPolicy::Limits, "its retention must be limits");
    must(config.discard == DiscardPolicy::New, "discard must be new");
    must(config.deny_delete, "deny_delete must be on");
    must(config.allow_direct, "allow_direct must be on");
    must(config.max_age.is_zero(), "max_age must be unlimited");
    must(config.max_messages_per_subject <= 0, "max_msgs_per_subject must be unlimited");
    must(config.max_messages <= 0, "max_msgs must be unlimited: a full stream refuses appends");
    must(
        config.max_message_size <= 0
            || u64::try_from(config.max_message_size).is_ok_and(|most| most >= LEAST_PAYLOAD),
        &format!("max_msg_size must be unlimited, or at least {LEAST_PAYLOAD} bytes"),
    );
    must(!config.no_ack, "no_ack must be off");
    must(!config.sealed, "it is sealed");
    must(
        config.mirror.is_none() && config.sources.as_ref().is_none_or(Vec::is_empty),
        "it must have no mirror and no sources",
    );
    must(!config.allow_rollup, "allow_rollup_hdrs must be off");
    problems
}

/// Checks the settings of the stream.
///
/// # Errors
/// [`Error`].
pub async fn check(client: &Client, names: &Names, replicas: usize) -> Result<(), Error> {
    find(&jetstream::new(client.clone()), names, replicas).await.map(drop)
}

async fn find(context: &Context, names: &Names, replicas: usize) -> Result<Stream, Error> {
    let stream = get(context, names).await?;
    let problems = problems(&stream.cached_info().config, names, replicas);
    if problems.is_empty() {
        return Ok(stream);
    }
    Err(Error::Unfit { stream: names.stream.clone(), problems })
}

/// The message of this sequence; none if the stream does not hold it.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub async fn message(
    client: &Client,
    names: &Names,
    sequence: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let context = jetstream::new(client.clone());
    let stream = get(&context, names).await?;
    match stream.get_raw_message(sequence).await {
        Ok(message) => Ok(Some(message.payload.to_vec())),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(server(&error)),
    }
}

/// The stream.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub(crate) async fn get(context: &Context, names: &Names) -> Result<Stream, Error> {
    use jetstream::{ErrorCode, context::GetStreamErrorKind};
    let found = context.get_stream(&names.stream).await;
    let found = found.map_err(|error| match error.kind() {
        GetStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Error::Missing(names.stream.clone())
        }
        _ => server(&error),
    })?;
    match &found.cached_info().cluster {
        Some(cluster) if cluster.leader.is_none() => Err(Error::Unavailable(WITHOUT_LEADER)),
        _ => Ok(found),
    }
}

/// Appends a message behind the message `expected`, unless another one follows there already. Returns whether this is
/// the message that follows, also if an earlier attempt stored it.
///
/// # Errors
/// [`Error::Server`]: the message may be stored.
pub(crate) async fn append(
    context: &Context,
    stream: &Stream,
    names: &Names,
    expected: u64,
    message: Vec<u8>,
) -> Result<bool, Error> {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Stream", names.stream.as_str());
    headers.insert("Nats-Expected-Last-Sequence", expected.to_string().as_str());
    let payload = message.clone().into();
    let sent = context.publish_with_headers(names.log.clone(), headers, payload);
    let refused = match sent.await {
        Ok(acknowledged) => acknowledged.await.err(),
        Err(error) => Some(error),
    };
    // Whatever the reply was: the stored message decides.
    match stream.get_raw_message(expected.saturating_add(1)).await {
        Ok(stored) => Ok(stored.payload[..] == message[..]),
        Err(error) => Err(match refused {
            Some(refused) => server(&refused),
            None => server(&error),
        }),
    }
}

/// Creates the stream, and begins the ledger behind a position. After [`Error::Server`] the progress is unknown: the
/// same call continues from there.
///
/// # Errors
/// [`Error::Exists`] if another ledger has begun there; [`Error::Unfit`], [`Error::Server`].
pub async fn initialise(
    client: &Client,
    names: &Names,
    replicas: usize,
    (identity, ledger, base): (&Identity, LedgerId, Durable),
) -> Result<(), Error> {
    let context = jetstream::new(client.clone());
    let stream = match find(&context, names, replicas).await {
        Err(Error::Missing(_)) => {
            let created = context.create_stream(config(names, replicas)).await;
            created.map_err(|error| server(&error))?;
            find(&context, names, replicas).await?
        }
        found => found?,
    };
    if stream.cached_info().state.first_sequence > 1 {
        return Err(Error::Exists(names.stream.clone()));
    }
    let genesis = Message {
        ledger,
        partition: identity.partition,
        term: 0,
        node: identity.node.clone(),
        instance: identity.instance,
        expected: 0,
        previous: base.hash,
        kind: Kind::Genesis { sequence: base.sequence, time: base.time },
    };
    match append(&context, &stream, names, 0, genesis.encode()).await? {
        true => Ok(()),
        false => Err(Error::Exists(names.stream.clone())),
    }
}

/// The names of one partition. They contain its number, although there is only one so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The stream.
    pub stream: String,
    /// The subject of the log, the only one of the stream. It has no subscribers, since refused messages appear there
    /// too.
    pub log: String,
    /// The subject on which a leader announces new messages of the log.
    pub hint: String,
}

impl Names {
    /// The names of a ledger's partition. The ledger's name follows the rules of a node's.
    pub fn new(ledger: &NodeName, partition: u32) -> Self {
        Self {
            stream: format!("QL_{ledger}_{partition}"),
            log: format!("ql.{ledger}.{partition}.log"),
            hint: format!("ql.{ledger}.{partition}.hint"),
        }
    }
}

// The end of a stream that may have to be recreated, and the claim of the one node that recreates it.

/// The prefix of a claim. Readers of the log ignore a claim, since no ledger wrote it.
const CLAIM: &str = "quota-ledger makes this stream anew: ";

/// How long a claim prevents other nodes from recreating the stream.
const CLAIMED: Duration = Duration::from_secs(120);

/// How long after its claim a node may still delete the stream.
pub const REMOVABLE: Duration = Duration::from_secs(30);

/// How many messages are requested at a time: an idle leader ends the stream with heartbeats, hours of them.
const AHEAD: usize = 128;

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The position of the ledger there. None: no message in the stream determines it.
    pub end: Option<Durable>,
    /// The node that recreates the stream.
    pub claimed_by: Option<String>,
}

/// Reads the end of a stream.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`], also if a message cannot be understood.
pub async fn read(client: &Client, names: &Names, found: &Found) -> Result<Tail, Error> {
    let stream = get(&jetstream::new(client.clone()), names).await?;
    let mut tail = Tail { end: None, claimed_by: None };
    let stream = &stream;
    let backwards = futures::stream::iter((found.first.max(1)..=found.last).rev());
    let read = backwards.map(|sequence| async move {
        let message = stream.get_raw_message(sequence).await;
        message.map(|message| (sequence, message))
    });
    let mut read = pin!(read.buffered(AHEAD));
    while let Some(message) = read.next().await {
        let (sequence, message) = message.map_err(|error| server(&error))?;
        match Message::decode(&message.payload) {
            Ok(Message { kind: Kind::Genesis { sequence, time }, previous: hash, .. }) => {
                tail.end = Some(Durable { sequence, hash, time });
            }
            Ok(message) => tail.end = message.kind.into_batch().map(|batch| batch.end()),
            Err(DecodeError::Foreign) if sequence == found.last => {
                let at = i64::try_from(message.time.unix_timestamp_nanos()).unwrap_or(i64::MAX);
                let age = wall().since(Timestamp::from_nanoseconds(at)).nanoseconds();
                let is_fresh =
                    u128::try_from(age).is_ok_and(|age| age < CLAIMED.as_nanos()) || age < 0;
                let text = String::from_utf8_lossy(&message.payload);
                let claim = text.strip_prefix(CLAIM).filter(|_| is_fresh);
                tail.claimed_by = claim.map(str::to_owned);
            }
            Err(DecodeError::Foreign) => {}
            Err(error) => return Err(server(&format!("message {sequence}: {error}"))),
        }
        if tail.end.is_some() {
            break;
        }
    }
    Ok(tail)
}

/// Claims the stream in the given state, for a node that recreates it. Only one of several concurrent claims is stored,
/// since each expects the same last message. Returns whether this one is.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`]: the claim may be stored.
pub async fn claim(
    client: &Client,
    names: &Names,
    found: &Found,
    claimant: &str,
) -> Result<bool, Error> {
    let context = jetstream::new(client.clone());
    let stream = get(&context, names).await?;
    let claim = format!("{CLAIM}{claimant}").into_bytes();
    append(&context, &stream, names, found.last, claim).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spare_is_purged_and_nothing_that_is_needed() {
        let found = Found { first: 101, messages: 100, bytes: 1_000, ..Found::default() };
        assert_eq!(found.purged(200, 1_000), None);
        assert_eq!(found.purged(200, 600), Some(141));
        assert_eq!(found.purged(130, 600), Some(130));
        assert_eq!(found.purged(100, 600), None);
        assert_eq!(Found::default().purged(9, 0), None);
        assert_eq!(removed(Some("a,b")), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        assert!(removed(None).is_empty() && removed(Some("")).is_empty());
    }

    #[test]
    fn the_fullest_tier_of_an_account_counts() {
        let tier = |used: i64, most: i64| serde_json::json!({"storage": used, "limits": {"max_storage": most}});
        assert_eq!(used_of(&tier(5, -1)), None);
        assert_eq!(used_of(&tier(5, 10)), Some(0.5));
        let mut account = tier(5, -1);
        account["tiers"] = serde_json::json!({"R1": tier(1, 10), "R3": tier(9, 10)});
        assert_eq!(used_of(&account), Some(0.9));
        assert_eq!(used_of(&serde_json::json!({"error": {}})), None);
    }

    #[test]
    fn errors_say_what_they_mean_to_an_operator() {
        let jetstream = |text: &str, code: u64| {
            format!("jetstream error: {text} (code 503, error code {code})")
        };
        for text in [
            jetstream("JetStream system temporarily unavailable", 10008),
            "request failed: timed out".to_owned(),
            "no responders: no responders available".to_owned(),
            "no stream found for given subject".to_owned(),
        ] {
            let error = server(&text);
            assert!(matches!(error, Error::Unavailable(_)), "{text}: {error}");
            assert!(!error.to_string().contains("error"), "{error}");
        }
        let placed = server(&jetstream("no suitable peers for placement", 10005));
        assert!(matches!(placed, Error::TooFewServers));
        assert!(matches!(server(&"stream name in use"), Error::Server(_)));
    }

    #[test]
    fn a_replica_without_a_leader_is_not_taken_for_the_stream() {
        let info = |cluster: serde_json::Value| serde_json::json!({ "cluster": cluster });
        let alone = serde_json::json!({"name": "quota", "replicas": [{"name": "s2"}]});
        assert!(is_without_leader(&info(alone)));
        let led = serde_json::json!({"name": "quota", "leader": "s2"});
        assert!(!is_without_leader(&info(led)));
        // A single server.
        assert!(!is_without_leader(&serde_json::json!({})));
    }

    #[test]
    fn what_is_made_is_fit_and_what_could_lose_messages_is_not() {
        let names = Names::new(&"main".parse().unwrap(), 0);
        let made = config(&names, 3);
        assert_eq!(problems(&made, &names, 3), [""; 0]);
        let changes: [fn(&mut Config); 9] = [
            |config| config.max_messages = 1_000_000,
            |config| config.max_message_size = 1024 * 1024,
            |config| config.num_replicas = 1,
            |config| config.storage = StorageType::Memory,
            |config| config.discard = DiscardPolicy::Old,
            |config| config.max_age = Duration::from_secs(60),
            |config| config.subjects.push("other".to_owned()),
            |config| config.deny_delete = false,
            |config| config.allow_direct = false,
        ];
        for change in changes {
            let mut config = made.clone();
            change(&mut config);
            assert_eq!(problems(&config, &names, 3).len(), 1, "{config:?}");
        }
    }
}
