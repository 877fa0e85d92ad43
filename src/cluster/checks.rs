//! What keeps a node from leading: NATS servers that cannot hold a ledger, a low disk, a wrong clock, a wrong state.
//!
//! A leader with a low disk grants nothing. With a wrong clock, reservations would expire too early or far too late.

use std::{
    collections::VecDeque,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use futures::future::join_all;
use http::Uri;
use parking_lot::Mutex;
use quota_client::wire::{ClusterNode, ClusterServer, StateDigest};
use quota_journal::Hash;
use quota_replication::{
    jetstream::{
        Offset,
        servers::{self, Condition, Report},
        since_boot, stream,
    },
    protocol::Role,
};
use quota_service::{config::redact, health::Health};
use tokio::sync::mpsc;

use super::{Cluster, DRAIN};
use crate::{config, metrics, writer::Marked};

/// How often this node checks its disk, and whether its own clock has jumped.
const LOOK: Duration = Duration::from_secs(1);

/// How often clocks are compared.
const COMPARE: Duration = Duration::from_secs(5);

/// Checks all servers. An unreachable server does not prevent a start, but it prevents the beginning of a ledger.
///
/// # Errors
/// Says what is wrong, and how to fix it.
pub(super) async fn servers(settings: &config::Cluster, must_answer: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for monitoring in settings.monitoring.clone() {
        let request = tokio::task::spawn_blocking(move || servers::query(&monitoring));
        match request.await {
            Ok(Ok(facts)) => problems.extend(servers::problems(&facts)),
            Ok(Err(why)) if must_answer => problems.push(redact(&why)),
            Ok(Err(why)) => {
                let why = redact(&why);
                tracing::warn!(why, "a server that holds the log does not answer");
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    if settings.is_unsafe {
        tracing::warn!(problems, "cluster.unsafe: these servers may lose what they acknowledged");
        return Ok(());
    }
    Err(problems)
}

impl Cluster {
    /// Bars this node from leading while its disk is low and another node can lead. If it leads, it hands over.
    pub(super) async fn watch_disk(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let is_barred = self.0.ledger.is_disk_low() && self.can_other_lead().await;
            let was_barred = self.0.is_disk_barred.swap(is_barred, Ordering::Relaxed);
            if is_barred || was_barred {
                self.set_bar();
            }
            if is_barred {
                self.hand_over(false).await;
            }
        }
    }

    async fn can_other_lead(&self) -> bool {
        self.is_any_other(can_lead).await
    }

    /// Whether the status of any other node is such.
    pub(super) async fn is_any_other(&self, such: fn(&ClusterNode) -> bool) -> bool {
        let others: Vec<_> = self.others().collect();
        let others = join_all(others.iter().map(|node| self.query(node))).await;
        others.iter().any(such)
    }
}

/// Whether a node has reported that nothing keeps it from leading.
pub(super) const fn can_lead(node: &ClusterNode) -> bool {
    node.problem.is_none()
}

/// Whether a node can give its ledger to another one: a low disk does not keep it from that.
pub(super) const fn can_give(node: &ClusterNode) -> bool {
    can_lead(node) || node.disk_low
}

impl Cluster {
    /// Compares clocks, and gives up the lead if this node's clock is wrong. The writer itself stops at the first decision
    /// for which the clock is wrong.
    pub(super) async fn watch_clock(self) {
        let mut compared: Option<Instant> = None;
        loop {
            if compared.is_none_or(|at| at.elapsed() >= COMPARE) && self.compare_clocks().await {
                compared = Some(Instant::now());
            }
            let why = self.wrong_clock();
            if why.is_some() || self.0.replica.is_suspended() {
                self.0.replica.suspend();
                self.check_clock_skew(why.or_else(|| Some("its clock has jumped".to_owned())));
                // What it has decided before may have to wait for the servers.
                let _ = tokio::time::timeout(2 * DRAIN, self.step_down()).await;
            }
            // A leader whose writer has stopped gives up the lead first, however right its clock is again.
            let leads = self.view().role == Some(Role::Leader);
            if self.wrong_clock().is_none() && !(leads && self.0.replica.is_suspended()) {
                self.0.replica.resume();
                self.check_clock_skew(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sets the time that the clocks agree on: the median of all nodes that answer, and of the server that leads the
    /// stream if their number is even or no other node answers. Returns whether there were clocks to compare with.
    async fn compare_clocks(&self) -> bool {
        let others: Vec<_> = self.others().collect();
        let requests = others.iter().map(|node| async {
            let requested = since_boot();
            let clock = self.query(node).await.clock?;
            Some(Offset::between(requested, clock, since_boot()))
        });
        let mut clocks: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
        let is_even = clocks.len() % 2 == 1;
        if is_even || clocks.is_empty() {
            match *self.0.servers_clock.lock() {
                Some(clock) => clocks.push(clock),
                None => return false,
            }
        }
        self.0.ledger.clock().agree(&clocks);
        if let Some(ahead) = self.0.ledger.clock().ahead() {
            metrics::cluster_clock_skew(ahead);
        }
        true
    }

    /// What is wrong with this node's clock.
    fn wrong_clock(&self) -> Option<String> {
        let most = self.0.settings.max_clock_skew.get().as_millis();
        match self.0.ledger.clock().ahead() {
            None => Some("its clock was not compared yet".to_owned()),
            Some(ahead) if u128::from(ahead.unsigned_abs()) > most => Some(format!(
                "its clock is {ahead} ms ahead of the other nodes' (at most {most} ms either way)"
            )),
            Some(_) => None,
        }
    }

    fn check_clock_skew(&self, why: Option<String>) {
        let mut clock = self.0.clock.lock();
        if let Some(why) = &why
            && clock.is_none()
        {
            tracing::warn!("this node cannot lead: {why}");
        }
        *clock = why;
        drop(clock);
        self.set_bar();
    }
}

/// How often the servers are checked.
const SERVERS_PERIOD: Duration = Duration::from_secs(10);

/// Longest wait after requests about the account that failed. Each one without permission is in the servers' logs.
const ACCOUNT_RETRY_MAX: Duration = Duration::from_secs(3600);

/// From this share on a server is reported as nearly full.
const NEARLY_FULL: f64 = 0.9;

/// The last check of the servers.
#[derive(Default)]
pub(super) struct Servers {
    all: Vec<(String, Condition)>,
    /// The used share of storage of the fullest server; none while unknown.
    used: Option<f64>,
}

/// What is shown of the condition of a server. The log has details, which may name what belongs to others.
const fn problem(condition: &Condition) -> Option<&'static str> {
    match condition {
        Condition::Healthy => None,
        Condition::Unreachable => Some("it does not answer at its address in cluster.monitoring"),
        Condition::Unhealthy(_) => Some(
            "it is not healthy. After a failed write, as on a full disk, its JetStream stays so until the server is \
             restarted with room on its disk",
        ),
        Condition::Apart => Some(APART),
    }
}

const APART: &str = "its JetStream has data of another group than the other servers', so it takes no part: stop it, move \
                     its JetStream store_dir aside, and start it";

/// The reports of all servers, in the order of their addresses.
async fn reports(addresses: &[String]) -> Vec<Option<Report>> {
    let requests = addresses.iter().map(|address| {
        let address = address.clone();
        async {
            let report = tokio::task::spawn_blocking(move || servers::report(&address)).await;
            report.ok()?.ok()
        }
    });
    join_all(requests).await
}

/// A server by its name, or by its address without credentials.
fn name(address: &str, report: Option<&Report>) -> String {
    if let Some(report) = report {
        return report.facts.server_name.clone();
    }
    let address = address.parse::<Uri>().ok();
    let authority = address.as_ref().and_then(Uri::authority);
    let authority = authority.map(http::uri::Authority::as_str);
    let host = authority.map(|text| text.rsplit_once('@').map_or(text, |(_, host)| host));
    host.unwrap_or("without an address").to_owned()
}

impl Cluster {
    /// Watches the servers that hold the log: a failed one, since the next failure then ends all grants; and their
    /// storage, since a full server refuses appends. Also the account and the stream, if they have limits of their own.
    pub(super) async fn watch_servers(self) {
        let shared = &self.0;
        let addresses = &shared.settings.monitoring;
        let mut names: Vec<_> = addresses.iter().map(|address| name(address, None)).collect();
        let (mut account_wait, mut account_next) = (SERVERS_PERIOD, Instant::now());
        loop {
            let found = stream::look(&shared.client, &shared.names).await;
            let mut used: Vec<_> = found.iter().filter_map(stream::Found::used).collect();
            if Instant::now() >= account_next {
                match stream::account_used(&shared.client).await {
                    Ok(of_account) => {
                        used.extend(of_account);
                        account_wait = SERVERS_PERIOD;
                    }
                    Err(_) => {
                        account_wait = (account_wait * 2).min(ACCOUNT_RETRY_MAX);
                        account_next = Instant::now() + account_wait;
                    }
                }
            }
            let reports = reports(addresses).await;
            for (name, report) in names.iter_mut().zip(&reports) {
                if let Some(Report { facts, .. }) = report {
                    name.clone_from(&facts.server_name);
                    used.extend(facts.storage_used());
                }
            }
            let all = names.iter().cloned().zip(servers::conditions(&reports));
            self.judge_servers(all.collect(), used.into_iter().reduce(f64::max));
            tokio::time::sleep(SERVERS_PERIOD).await;
        }
    }

    fn judge_servers(&self, all: Vec<(String, Condition)>, fullest: Option<f64>) {
        let mut servers = self.0.servers.lock();
        for (at, (name, condition)) in all.iter().enumerate() {
            let before = servers.all.get(at).map(|(_, before)| before);
            match condition {
                Condition::Healthy if before.is_some_and(|before| before != condition) => {
                    tracing::info!(server = name, "a server of the log works again");
                }
                Condition::Healthy => {}
                _ if before == Some(condition) => {}
                Condition::Unhealthy(why) => {
                    tracing::warn!(server = name, why, "a server of the log is not healthy");
                }
                condition => {
                    let why = problem(condition);
                    tracing::warn!(server = name, why, "a server of the log does not work");
                }
            }
        }
        metrics::cluster_servers(all.iter().map(|(_, condition)| condition));
        servers.all = all;
        if let Some(fullest) = fullest {
            metrics::cluster_storage_used(fullest);
            servers.used = Some(fullest);
        }
    }

    /// The servers, as of the last check.
    pub(super) fn servers(&self) -> Vec<ClusterServer> {
        let servers = self.0.servers.lock();
        let all = servers.all.iter().map(|(name, condition)| ClusterServer {
            name: name.clone(),
            problem: problem(condition).map(str::to_owned),
        });
        all.collect()
    }

    /// Why the stream cannot be recreated: a server that takes no part leaves too few for its replicas, and may answer
    /// with what it holds of the previous stream.
    pub(super) async fn server_apart(&self) -> Option<String> {
        let addresses = &self.0.settings.monitoring;
        let reports = reports(addresses).await;
        let all = addresses.iter().zip(&reports).zip(servers::conditions(&reports));
        let mut apart = all.filter(|(_, condition)| *condition == Condition::Apart);
        let ((address, report), _) = apart.next()?;
        let name = name(address, report.as_ref());
        Some(format!("server {name}: {APART}. Then run this command again"))
    }

    /// Whether all servers work, and have room for appends to the log. A node is ready all the same.
    pub(crate) fn storage_health(&self) -> Health {
        let servers = self.0.servers.lock();
        if let Some(used) = servers.used.filter(|used| *used > NEARLY_FULL) {
            return Health::Lagging(format!(
                "the storage of the log is {:.0} % full: at 100 % nothing is granted",
                used * 100.0
            ));
        }
        let mut all = servers.all.iter();
        let first = all.find_map(|(name, condition)| Some((name, problem(condition)?)));
        first.map_or(Health::Passed, |(name, problem)| {
            Health::Lagging(format!("server {name}: {problem}"))
        })
    }
}

/// Digests that are kept, since a node may be several digests behind another.
const KEPT: usize = 8;

/// How often the digests are compared.
const COMPARE_DIGESTS: Duration = Duration::from_secs(5);

/// The digests of this node's states, to be compared with those of other nodes at the same entries.
///
/// Chain hashes prove that all nodes have the same entries. Digests of the states prove that all nodes have derived the
/// same state from them; every node takes digests after the same batches.
#[derive(Default)]
pub(super) struct Digests {
    own: Mutex<VecDeque<StateDigest>>,
    /// How this node's state differs; set until the node restarts.
    differs: Mutex<Option<String>>,
}

impl Digests {
    /// The latest digests, oldest first.
    pub(super) fn own(&self) -> Vec<StateDigest> {
        self.own.lock().iter().cloned().collect()
    }

    /// Why this node must neither lead nor answer reads, if its state differs from that of the other nodes.
    pub(super) fn differs(&self) -> Option<String> {
        self.differs.lock().clone()
    }

    fn keep(&self, digest: StateDigest) {
        let mut own = self.own.lock();
        if own.len() == KEPT {
            own.pop_front();
        }
        own.push_back(digest);
    }
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    /// No other node has a digest at the same entry.
    NotYet,
    /// All nodes that were compared have the same state at this entry.
    Same(u64),
    /// Another node has a different state at this entry, and this node's state is not shown to be the wrong one.
    OtherDiffers(u64, String),
    /// This node's state is wrong.
    OwnDiffers(u64, String),
}

/// Compares this node's digests with those of others at the newest entry for which another node has a digest as well.
/// This node is wrong if more nodes have a different digest than have its own, or equally many and one of them leads.
fn compare(version: &str, own: &[StateDigest], others: &[ClusterNode]) -> Compared {
    let others = || {
        let same_version = |node: &&ClusterNode| node.version.as_deref() == Some(version);
        others.iter().filter(same_version)
    };
    let at = |node: &ClusterNode, sequence: u64| {
        let mut digests = node.digests.iter();
        let found = digests.find(|digest| digest.sequence == sequence);
        found.map(|digest| digest.digest.clone())
    };
    let common = own.iter().rev().find_map(|own| {
        let theirs: Vec<_> =
            others().filter_map(|node| Some((node, at(node, own.sequence)?))).collect();
        (!theirs.is_empty()).then_some((own, theirs))
    });
    let Some((own, theirs)) = common else {
        return Compared::NotYet;
    };
    let (same, other): (Vec<_>, Vec<_>) =
        theirs.into_iter().partition(|(_, digest)| *digest == own.digest);
    let Some((node, _)) = other.first() else {
        return Compared::Same(own.sequence);
    };
    let leads = other.iter().any(|(node, _)| node.role == "leader");
    // This node counts as well.
    let of_own = same.len() + 1;
    let sequence = own.sequence;
    match other.len() > of_own || (other.len() == of_own && leads) {
        true => Compared::OwnDiffers(sequence, node.name.clone()),
        false => Compared::OtherDiffers(sequence, node.name.clone()),
    }
}

impl Cluster {
    /// Takes digests, and compares them with those of the other nodes while the ledger is open.
    pub(super) async fn compare_digests(self) {
        let settings = &self.0.settings;
        let Some(marked) = self.0.replica.mark(settings.digest_interval.span()) else {
            return std::future::pending().await;
        };
        tokio::join!(self.take_digests(marked), self.compare_with_others());
    }

    async fn take_digests(&self, mut marked: mpsc::Receiver<Marked>) {
        while let Some(Marked { sequence, image }) = marked.recv().await {
            let digest = tokio::task::spawn_blocking(move || image.digest()).await;
            let digest = match digest {
                Ok(digest) => digest,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return,
            };
            self.0
                .digests
                .keep(StateDigest { sequence, digest: Hash::from_bytes(digest).to_string() });
        }
    }

    async fn compare_with_others(&self) {
        let mut compared_at = 0;
        loop {
            tokio::time::sleep(COMPARE_DIGESTS).await;
            if self.0.digests.differs().is_some() {
                // The node may have been about to lead when the difference was found.
                self.set_bar();
                self.step_down().await;
                continue;
            }
            let own = self.0.digests.own();
            let is_news = own.last().is_some_and(|last| last.sequence > compared_at);
            if !is_news {
                continue;
            }
            let others: Vec<_> = self.others().collect();
            let others = join_all(others.iter().map(|node| self.query(node))).await;
            match compare(super::VERSION, &own, &others) {
                Compared::NotYet => {}
                Compared::Same(sequence) => {
                    compared_at = sequence;
                    metrics::cluster_digest(metrics::Digest::Same);
                }
                Compared::OtherDiffers(sequence, node) => {
                    compared_at = sequence;
                    metrics::cluster_digest(metrics::Digest::OtherDiffers);
                    tracing::error!(sequence, %node, "the state of another node differs from this one's");
                }
                Compared::OwnDiffers(sequence, node) => {
                    metrics::cluster_digest(metrics::Digest::OwnDiffers);
                    self.stop_serving(sequence, &node).await;
                }
            }
        }
    }

    async fn stop_serving(&self, sequence: u64, node: &str) {
        let why = format!(
            "its state differs from that of {node} at entry {sequence}: start it again; if it differs again, empty its \
             data_dir, and it joins from another node"
        );
        tracing::error!(sequence, node, "this node stops serving: {why}");
        *self.0.digests.differs.lock() = Some(why);
        self.0.replica.bar();
        self.set_bar();
        self.step_down().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_only_low_on_disk_gives_its_ledger_but_leaves_the_lead_to_others() {
        let node = |problem: &str, disk_low| ClusterNode {
            problem: (!problem.is_empty()).then(|| problem.to_owned()),
            disk_low,
            ..ClusterNode::default()
        };
        let can = |node: ClusterNode| (can_lead(&node), can_give(&node));
        assert_eq!(can(node("", false)), (true, true));
        assert_eq!(can(node("its disk is low", true)), (false, true));
        assert_eq!(can(node("no node leads", false)), (false, false));
    }

    #[test]
    fn a_server_is_named_without_its_password() {
        let named = name("http://admin:secret@nats-0:8222", None);
        assert_eq!(named, "nats-0:8222");
        assert_eq!(name("http://nats-0:8222/", None), "nats-0:8222");
    }

    fn digest(sequence: u64, digest: &str) -> StateDigest {
        let digest = digest.to_owned();
        StateDigest { sequence, digest }
    }

    fn node(name: &str, role: &str, digests: &[StateDigest]) -> ClusterNode {
        ClusterNode {
            name: name.to_owned(),
            role: role.to_owned(),
            version: Some("1".to_owned()),
            digests: digests.to_vec(),
            ..ClusterNode::default()
        }
    }

    #[test]
    fn the_newest_entry_that_nodes_have_in_common_is_compared() {
        let own = [digest(10, "a"), digest(20, "b"), digest(30, "c")];
        let behind = node("b", "follower", &own[..2]);
        assert_eq!(compare("1", &own, &[]), Compared::NotYet);
        assert_eq!(compare("1", &own[2..], std::slice::from_ref(&behind)), Compared::NotYet);
        assert_eq!(compare("1", &own, std::slice::from_ref(&behind)), Compared::Same(20));
        // Another version may write the same state as different bytes.
        assert_eq!(compare("2", &own, &[behind]), Compared::NotYet);
    }

    #[test]
    fn the_node_is_wrong_that_differs_from_most_or_from_the_leader() {
        let (right, wrong) = ([digest(10, "a")], [digest(10, "x")]);
        let same = node("b", "follower", &right);
        let other = |role| node("c", role, &wrong);
        let differs = |own: bool| match own {
            true => Compared::OwnDiffers(10, "c".to_owned()),
            false => Compared::OtherDiffers(10, "c".to_owned()),
        };
        assert_eq!(compare("1", &right, &[same.clone(), other("leader")]), differs(false));
        assert_eq!(compare("1", &right, &[other("leader")]), differs(true));
        assert_eq!(compare("1", &right, &[other("follower")]), differs(false));
        let two = [other("follower"), other("follower")];
        assert_eq!(compare("1", &right, &two), differs(true));
        assert_eq!(compare("1", &wrong, &[same]), { Compared::OtherDiffers(10, "b".to_owned()) });
    }
}
