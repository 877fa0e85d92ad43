//! Dependencies between the keys `cluster.*`.

use quota_replication::protocol::NodeName;
use quota_service::{config::Finding, rules};

use super::Config;

/// Largest request body: its entries have to fit into a message together with a batch that is about to be sealed.
const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024;

pub(super) fn validate(config: &Config, findings: &mut Vec<Finding>) {
    let cluster = &config.cluster;
    let (lease, heartbeat) = (cluster.lease.get(), cluster.heartbeat.get());
    rules! { findings;
        "cluster.ledger": cluster.ledger.parse::<NodeName>().is_ok() =>
            "must have 1 to 63 characters, each a letter, a digit, - or _";
        "cluster.replicas": (1..=5).contains(&cluster.replicas) && (cluster.replicas >= 3 || cluster.is_unsafe) =>
            "must be 3 to 5: with fewer, a server that is lost takes the ledger with it";
        "cluster.lease": lease.mul_f64(1.2) <= cluster.silence.get() =>
            "must be at most five sixths of cluster.silence: clocks may differ in speed";
        "cluster.heartbeat": !heartbeat.is_zero() && heartbeat * 2 <= lease =>
            "must be longer than 0s and at most half of cluster.lease";
        "cluster.ack_wait": !cluster.ack_wait.is_zero() => "must be longer than 0s";
        "cluster.digest_interval": !cluster.digest_interval.is_zero() => "must be longer than 0s";
        "cluster.forget_after": !cluster.forget_after.is_zero() => "must be longer than 0s";
    }
    if cluster.is_on() {
        members(config, findings);
    }
}

fn members(config: &Config, findings: &mut Vec<Finding>) {
    let cluster = &config.cluster;
    let node = cluster.node.as_deref().unwrap_or_default();
    rules! { findings; "cluster.node": cluster.peers.contains_key(node) => "must be one of cluster.peers"; }
    for (name, url) in &cluster.peers {
        let scheme = match cluster.tls_cert {
            Some(_) => "https",
            None => "http",
        };
        let is_url = url.parse::<http::Uri>().is_ok_and(|url| {
            url.scheme_str() == Some(scheme) && url.authority().is_some() && url.path() == "/"
        });
        rules! { findings;
            "cluster.peers": name.parse::<NodeName>().is_ok() && is_url =>
                format!("{name} = {url:?} must be a name and an address as {scheme}://host:port");
        }
    }
    let keys = [&cluster.tls_key, &cluster.tls_ca];
    let is_complete = keys
        .iter()
        .all(|key| key.is_some() == cluster.tls_cert.is_some());
    rules! { findings;
        "cluster.token_file": cluster.token_file.is_some() => "is needed: nodes know each other by it";
        "cluster.tls_cert": is_complete => "goes together with cluster.tls_key and cluster.tls_ca";
        "limits.request_body_bytes": config.limits.request_body_bytes.bytes() <= BODY_BYTES_MAX =>
            "must be at most 4MiB in a cluster: what a request changes has to fit into a message of the log";
        "cluster.listen": cluster.listen.is_some() => "is needed: the other nodes send writes there";
    }
    let Some(listen) = cluster.listen else {
        return;
    };
    rules! { findings;
        "cluster.listen": listen.ip().is_loopback() || cluster.tls_cert.is_some() =>
            "serves others than this host: cluster.tls_cert is needed";
        "cluster.monitoring": !cluster.monitoring.is_empty() || cluster.is_unsafe =>
            "is needed: only there servers say whether they sync what they acknowledge";
    }
}
