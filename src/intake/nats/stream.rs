//! The stream on the server, and whether it is still the one that the cursor refers to.

use std::time::Duration;

use async_nats::jetstream::{
    self, ErrorCode,
    context::{CreateStreamErrorKind, GetStreamErrorKind},
    stream::{ClusterInfo, Config, PeerInfo, RetentionPolicy, StorageType, Stream},
};
use quota_core::{
    event::Cursor,
    source::{self, Identity},
};
use quota_semantics::{Name, Timestamp};

use super::{Ended, Intake, one_by_one::MessageReader};

/// A follower that was in contact with its leader this recently follows no other one: nats-server waits for at least
/// 4 seconds before an election (`minElectionTimeout` in its `raft.go`), and the two exchange messages
/// every second.
const LEASE: Duration = Duration::from_secs(3);

/// With fewer replicas, the loss of one server stops the events, and with them all grants.
const REPLICAS: usize = 3;

/// Finds the stream, or creates it if the configuration says so. The leader of the stream's replicas answers.
///
/// # Errors
/// The stream cannot be found or created, or does not keep messages that were consumed.
pub(super) async fn find(intake: &Intake) -> Result<Stream, Ended> {
    let context = jetstream::new(intake.client.clone());
    let name = &intake.settings.stream;
    match context.get_stream(name).await {
        Err(error) if is_missing(&error.kind()) => {}
        found => {
            let stream = found.map_err(Ended::failed("find the stream"))?;
            let info = stream.cached_info();
            if let Some(retention) = unfit(&info.config) {
                return Err(Ended::Retention(name.clone(), retention));
            }
            return match is_led(info.cluster.as_ref()) {
                true => Ok(stream),
                false => Err(Ended::Alone),
            };
        }
    }
    if !intake.settings.create_stream {
        return Err(Ended::Missing(name.clone()));
    }
    create(intake, &context).await
}

/// Creates the stream. For a node of a cluster it has three replicas, or one if the server is none of a cluster.
async fn create(intake: &Intake, context: &jetstream::Context) -> Result<Stream, Ended> {
    let name = &intake.settings.stream;
    let config = |num_replicas| Config {
        name: name.clone(),
        subjects: vec![intake.settings.subject.clone()],
        storage: StorageType::File,
        num_replicas,
        ..Config::default()
    };
    // A test cluster has fewer.
    let replicas = intake.cluster_replicas.unwrap_or(1).min(REPLICAS);
    let created = match context.create_stream(config(replicas)).await {
        Err(error) if is_alone(&error.kind()) => context.create_stream(config(1)).await,
        created => created,
    };
    let created = created.map_err(Ended::failed("create the stream"))?;
    let replicas = created.cached_info().config.num_replicas;
    tracing::info!(stream = name, replicas, "created the stream");
    Ok(created)
}

/// Returns true if the server is not in a cluster, so that its streams cannot have replicas. If servers of its cluster
/// are only missing now, the stream is created later.
fn is_alone(kind: &CreateStreamErrorKind) -> bool {
    matches!(kind, CreateStreamErrorKind::JetStream(error)
        if error.error_code() == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED)
}

/// Logs that the loss of one server stops all grants, if this daemon is a node of a cluster.
pub(super) fn report_few_replicas(intake: &Intake, stream: &Stream) {
    let replicas = stream.cached_info().config.num_replicas;
    if intake.cluster_replicas.is_some() && replicas < REPLICAS {
        tracing::warn!(
            stream = %intake.source,
            replicas,
            "the stream has fewer than {REPLICAS} replicas: without one of its servers nothing is granted"
        );
    }
}

/// The retention of the stream, if it does not keep messages that were consumed.
fn unfit(config: &Config) -> Option<&'static str> {
    match config.retention {
        RetentionPolicy::Limits => None,
        RetentionPolicy::Interest => Some("interest"),
        RetentionPolicy::WorkQueue => Some("workqueue"),
    }
}

/// Whether the server that sent this information led the stream's replicas at that time: it has just heard from enough of them
/// of the replicas that the remaining ones are too few to elect another leader. A leader that is cut off goes on
/// answering for ten seconds, or for minutes, as if its end of the stream were the current one.
fn is_led(cluster: Option<&ClusterInfo>) -> bool {
    let replicas = cluster.map_or(&[][..], |cluster| &cluster.replicas);
    // For a replica that it has never heard from the server reports zero.
    let is_heard =
        |peer: &&PeerInfo| !peer.offline && peer.active > Duration::ZERO && peer.active < LEASE;
    let heard = 1 + replicas.iter().filter(is_heard).count();
    heard > replicas.len().div_ceil(2)
}

fn is_missing(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Whether the stream only accepts subjects that this ledger consumes, so that a missing position is a lost message.
pub(super) fn is_all_ours(config: &Config, subject: &str) -> bool {
    let has_sources = config.sources.as_ref().is_some_and(|sources| !sources.is_empty());
    config.subjects == [subject] && config.mirror.is_none() && !has_sources
}

/// A time given by the server.
pub(super) fn timestamp(nanoseconds: i128) -> Timestamp {
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// The identity of one incarnation of a stream: its creation time.
pub(super) fn incarnation(stream: &Stream) -> Name {
    Name::from(timestamp(stream.cached_info().created.unix_timestamp_nanos()).to_string())
}

/// Compares a stream with the recorded cursor; fetches the last consumed message if necessary.
pub(super) async fn identify(
    stream: &Stream,
    messages: &MessageReader,
    cursor: Option<&Cursor>,
) -> Result<Identity, Ended> {
    let last = stream.cached_info().state.last_sequence;
    let identity = source::identify(cursor, &incarnation(stream), last);
    let (Identity::Held, Some(cursor)) = (identity, cursor) else {
        return Ok(identity);
    };
    let message = messages.at(cursor.position).await?;
    let held = message.as_ref().map(|message| (message.position.time, &*message.payload));
    Ok(source::is_what_was_consumed(cursor, held))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader's information on the other replicas: the time since it last heard from each, and whether it is offline.
    fn cluster(replicas: &[(f64, bool)]) -> ClusterInfo {
        let replica = |&(seconds, offline): &(f64, bool)| PeerInfo {
            active: Duration::from_secs_f64(seconds),
            offline,
            ..PeerInfo::default()
        };
        ClusterInfo { replicas: replicas.iter().map(replica).collect(), ..ClusterInfo::default() }
    }

    #[test]
    fn a_leader_has_just_heard_from_most_of_those_who_have_copies() {
        let (now, just, long_ago, gone, never) =
            ((1e-9, false), (2.9, false), (4.0, false), (0.1, true), (0.0, false));
        for replicas in [
            &[][..],
            &[now],
            &[now, just],
            &[just, long_ago],
            &[gone, now],
            &[never, now],
            &[now, just, long_ago, gone],
        ] {
            assert!(is_led(Some(&cluster(replicas))), "{replicas:?}");
        }
        for replicas in [
            &[long_ago][..],
            &[never],
            &[long_ago, long_ago],
            &[gone, gone],
            &[never, gone],
            &[now, gone, long_ago, never],
            // With an even number of replicas, half of them is not a majority.
            &[now, long_ago, long_ago],
        ] {
            assert!(!is_led(Some(&cluster(replicas))), "{replicas:?}");
        }
        assert!(is_led(None), "a server that is not in a cluster");
    }
}
