//! The stream on the server.

use std::time::Duration;

use async_nats::jetstream::{
    self, ErrorCode,
    context::GetStreamErrorKind,
    stream::{ClusterInfo, Config, PeerInfo, StorageType, Stream},
};

use super::{Ended, Intake};

/// A follower that was in contact with its leader this recently follows no other one: nats-server waits for at least
/// 4 seconds before an election (`minElectionTimeout` in its `raft.go`), and the two exchange messages
/// every second.
const LEASE: Duration = Duration::from_secs(3);

/// Finds the stream, or creates it if the configuration says so. The leader of the stream's replicas answers.
pub(super) async fn find(intake: &Intake) -> Result<Stream, Ended> {
    let context = jetstream::new(intake.client.clone());
    let name = &intake.settings.stream;
    match context.get_stream(name).await {
        Err(error) if is_missing(&error.kind()) => {}
        found => {
            let stream = found.map_err(Ended::failed("find the stream"))?;
            return match is_led(stream.cached_info().cluster.as_ref()) {
                true => Ok(stream),
                false => Err(Ended::Alone),
            };
        }
    }
    if !intake.settings.create_stream {
        return Err(Ended::Missing(name.clone()));
    }
    let config = Config {
        name: name.clone(),
        subjects: vec![intake.settings.subject.clone()],
        storage: StorageType::File,
        ..Config::default()
    };
    let created = context.create_stream(config).await;
    let created = created.map_err(Ended::failed("create the stream"))?;
    tracing::info!(stream = name, "created the stream");
    Ok(created)
}

/// Whether the server that sent this information led the stream's replicas at that time: it has just heard from so many
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
    let has_sources = config
        .sources
        .as_ref()
        .is_some_and(|sources| !sources.is_empty());
    config.subjects == [subject] && config.mirror.is_none() && !has_sources
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
        ClusterInfo {
            replicas: replicas.iter().map(replica).collect(),
            ..ClusterInfo::default()
        }
    }

    #[test]
    fn a_leader_has_just_heard_from_most_of_those_who_have_copies() {
        let (now, just, long_ago, gone, never) = (
            (1e-9, false),
            (2.9, false),
            (4.0, false),
            (0.1, true),
            (0.0, false),
        );
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
