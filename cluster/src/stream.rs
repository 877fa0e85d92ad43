//! The stream of a replicated log: how it is made, and what it must be like.

use std::{collections::BTreeSet, time::Duration};

use async_nats::{
    Client,
    jetstream::{
        self, Context,
        stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream},
    },
};
use quota_journal::Durable;
use quota_replication::{Identity, Kind, LedgerId, Message};

use crate::Names;

/// The key of its metadata that holds the nodes that it is not kept for.
const REMOVED: &str = "quota-ledger-removed";

/// How often a change of the metadata is made again that others have overwritten.
const CHANGES: usize = 5;

/// How long until it is looked whether a change holds.
const SETTLE: Duration = Duration::from_millis(100);

/// What servers say when there is no such stream.
const NOT_FOUND: u64 = 10059;

/// A stream as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// When it was made, as the servers write it.
    pub created: String,
    /// Its first message.
    pub first: u64,
    /// Its last message; 0: it never had one.
    pub last: u64,
    /// How many messages it holds.
    pub messages: u64,
    /// Bytes that these take.
    pub bytes: u64,
    /// Most bytes that it may take; none: it has no limit of its own.
    pub limit: Option<u64>,
    /// The nodes that it is not kept for.
    pub removed: BTreeSet<String>,
}

impl Found {
    /// How much of what it may hold it holds, as a share of 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn used(&self) -> Option<f64> {
        let limit = self.limit?;
        Some(self.bytes as f64 / limit as f64)
    }

    /// Which message is to be the first, if no node needs what is before `bound`, and about `keep` bytes stay in any case.
    /// None: nothing can go.
    #[must_use]
    pub fn purged(&self, bound: u64, keep: u64) -> Option<u64> {
        let spare = u128::from(self.bytes.saturating_sub(keep));
        let messages = spare * u128::from(self.messages) / u128::from(self.bytes.max(1));
        let messages = u64::try_from(messages).unwrap_or(u64::MAX);
        let first = self.first.saturating_add(messages).min(bound);
        (first > self.first).then_some(first)
    }
}

/// Looks at the stream.
///
/// # Errors
/// [`Error::Missing`], [`Error::Server`].
pub async fn look(client: &Client, names: &Names) -> Result<Found, Error> {
    let subject = format!("$JS.API.STREAM.INFO.{}", names.stream);
    let server = |error: &dyn std::fmt::Display| Error::Server(error.to_string());
    let answer = client.request(subject, bytes::Bytes::new()).await;
    let answer = answer.map_err(|error| server(&error))?;
    let info: serde_json::Value =
        serde_json::from_slice(&answer.payload).map_err(|error| server(&error))?;
    if info["error"]["err_code"] == NOT_FOUND {
        return Err(Error::Missing(names.stream.clone()));
    }
    let state = &info["state"];
    let number = |name: &str| state[name].as_u64();
    let found = || {
        Some(Found {
            created: info["created"].as_str()?.to_owned(),
            first: number("first_seq")?,
            last: number("last_seq")?,
            messages: number("messages")?,
            bytes: number("bytes")?,
            // Without a limit servers say -1.
            limit: info["config"]["max_bytes"]
                .as_u64()
                .filter(|most| *most > 0),
            removed: removed(info["config"]["metadata"][REMOVED].as_str()),
        })
    };
    found().ok_or_else(|| server(&info))
}

fn removed(metadata: Option<&str>) -> BTreeSet<String> {
    let names = metadata.unwrap_or_default().split(',');
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Changes which nodes it is not kept for, until `change` says that it has nothing to change. Servers know no conditional
/// change of a stream: another node that changes it at the same moment may overwrite this one, so it is looked again.
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
        let stream = context.get_stream(&names.stream).await;
        let stream = stream.map_err(|error| missing_or(&names.stream, &error))?;
        let mut config = stream.cached_info().config.clone();
        let mut nodes = removed(config.metadata.get(REMOVED).map(String::as_str));
        if !change(&mut nodes) {
            return Ok(());
        }
        let nodes: Vec<_> = nodes.into_iter().collect();
        config.metadata.insert(REMOVED.to_owned(), nodes.join(","));
        let changed = context.update_stream(config).await;
        changed.map_err(|error| Error::Server(error.to_string()))?;
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
    let stream = context.get_stream(&names.stream).await;
    let stream = stream.map_err(|error| missing_or(&names.stream, &error))?;
    let purged = stream.purge().sequence(first).await;
    purged
        .map(drop)
        .map_err(|error| Error::Server(error.to_string()))
}

/// Removes the stream, to make it anew.
///
/// # Errors
/// [`Error::Server`].
pub async fn delete(client: &Client, names: &Names) -> Result<(), Error> {
    let context = jetstream::new(client.clone());
    let deleted = context.delete_stream(&names.stream).await;
    deleted
        .map(drop)
        .map_err(|error| Error::Server(error.to_string()))
}

/// Why there is no stream to be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It has to be made first.
    #[error("there is no stream {0}: initialise the cluster first")]
    Missing(String),
    /// A ledger would begin a second time.
    #[error("the stream {0} holds another ledger already")]
    Exists(String),
    /// It is not as it must be.
    #[error("the stream {stream} cannot hold a ledger: {}", .problems.join("; "))]
    Unfit {
        /// The stream.
        stream: String,
        /// What is wrong, and what it should be.
        problems: Vec<String>,
    },
    /// A server did not answer, or with an error.
    #[error("asking for the stream failed: {0}")]
    Server(String),
}

/// What the stream is made with.
#[must_use]
pub fn config(names: &Names, replicas: usize) -> Config {
    Config {
        name: names.stream.clone(),
        subjects: vec![names.log.clone()],
        num_replicas: replicas,
        storage: StorageType::File,
        retention: RetentionPolicy::Limits,
        // A full stream refuses; it never forgets.
        discard: DiscardPolicy::New,
        deny_delete: true,
        allow_direct: true,
        // Messages are known by what they follow, not by an id.
        duplicate_window: Duration::from_millis(100),
        ..Config::default()
    }
}

/// Everything about a stream that could lose, change or reorder messages, with what it should be.
#[must_use]
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
        &format!(
            "num_replicas is {}, and must be {replicas}",
            config.num_replicas
        ),
    );
    must(
        config.storage == StorageType::File,
        "its storage must be file",
    );
    must(
        config.retention == RetentionPolicy::Limits,
        "its retention must be limits",
    );
    must(config.discard == DiscardPolicy::New, "discard must be new");
    must(config.deny_delete, "deny_delete must be on");
    must(config.allow_direct, "allow_direct must be on");
    must(config.max_age.is_zero(), "max_age must be unlimited");
    must(
        config.max_messages_per_subject <= 0,
        "max_msgs_per_subject must be unlimited",
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

/// Looks at the stream.
///
/// # Errors
/// [`Error`].
pub async fn check(client: &Client, names: &Names, replicas: usize) -> Result<(), Error> {
    find(&jetstream::new(client.clone()), names, replicas)
        .await
        .map(drop)
}

async fn find(context: &Context, names: &Names, replicas: usize) -> Result<Stream, Error> {
    let stream = context.get_stream(&names.stream).await;
    let stream = stream.map_err(|error| missing_or(&names.stream, &error))?;
    let problems = problems(&stream.cached_info().config, names, replicas);
    if problems.is_empty() {
        return Ok(stream);
    }
    Err(Error::Unfit {
        stream: names.stream.clone(),
        problems,
    })
}

fn missing_or(stream: &str, error: &jetstream::context::GetStreamError) -> Error {
    use jetstream::{ErrorCode, context::GetStreamErrorKind};
    match error.kind() {
        GetStreamErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Error::Missing(stream.to_owned())
        }
        _ => Error::Server(error.to_string()),
    }
}

/// Makes the stream, and has the ledger begin behind a position. After [`Error::Server`] it is not known how far that
/// came: the same call goes on from there.
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
            created.map_err(|error| Error::Server(error.to_string()))?;
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
        epoch: 0,
        node: identity.node.clone(),
        instance: identity.instance,
        expected: 0,
        previous: base.hash,
        kind: Kind::Genesis {
            sequence: base.sequence,
            time: base.time,
        },
    };
    let genesis = genesis.encode();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Expected-Stream", names.stream.as_str());
    headers.insert("Nats-Expected-Last-Sequence", "0");
    let subject = names.log.clone();
    let sent = context.publish_with_headers(subject, headers, genesis.clone().into());
    let acknowledged = match sent.await {
        Ok(acknowledged) => acknowledged.await.map(drop),
        Err(error) => Err(error),
    };
    // Whatever was said: what stands there decides.
    match stream.get_raw_message(1).await {
        Ok(first) if first.payload[..] == genesis[..] => Ok(()),
        Ok(_) => Err(Error::Exists(names.stream.clone())),
        Err(error) => Err(Error::Server(match acknowledged {
            Ok(()) => error.to_string(),
            Err(refused) => refused.to_string(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spare_is_purged_and_nothing_that_is_needed() {
        let found = Found {
            first: 101,
            messages: 100,
            bytes: 1_000,
            ..Found::default()
        };
        assert_eq!(found.purged(200, 1_000), None);
        assert_eq!(found.purged(200, 600), Some(141));
        assert_eq!(found.purged(130, 600), Some(130));
        assert_eq!(found.purged(100, 600), None);
        assert_eq!(Found::default().purged(9, 0), None);
        assert_eq!(
            removed(Some("a,b")),
            BTreeSet::from(["a".to_owned(), "b".to_owned()])
        );
        assert!(removed(None).is_empty() && removed(Some("")).is_empty());
    }

    #[test]
    fn what_is_made_is_fit_and_what_could_lose_messages_is_not() {
        let names = Names::new(&"main".parse().unwrap(), 0);
        let made = config(&names, 3);
        assert_eq!(problems(&made, &names, 3), [""; 0]);
        let changes: [fn(&mut Config); 7] = [
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
