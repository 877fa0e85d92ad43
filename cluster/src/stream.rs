//! The stream of a replicated log: how it is made, and what it must be like.

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

/// How many servers hold it.
pub const REPLICAS: usize = 3;

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
        duplicate_window: std::time::Duration::from_millis(100),
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
    fn what_is_made_is_fit_and_what_could_lose_messages_is_not() {
        let names = Names::new(&"main".parse().unwrap(), 0);
        let made = config(&names, 3);
        assert_eq!(problems(&made, &names, 3), [""; 0]);
        let changes: [fn(&mut Config); 7] = [
            |config| config.num_replicas = 1,
            |config| config.storage = StorageType::Memory,
            |config| config.discard = DiscardPolicy::Old,
            |config| config.max_age = std::time::Duration::from_secs(60),
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
