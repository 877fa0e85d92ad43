//! The requirements on servers that a client connection does not reveal: they have to keep acknowledged messages.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};

/// The first version without known defects that lose or reorder acknowledged messages.
pub const LEAST: Version = Version(2, 14, 4);

/// The smallest `max_payload`: a batch of entries has to fit into a message.
pub(crate) const LEAST_PAYLOAD: u64 = 8 * 1024 * 1024;

/// A server's version. Anything after the third number is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The version in a text such as `2.14.4` or `v2.15.1-RC.1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.trim_start_matches('v').splitn(3, '.');
        let mut next = || {
            let number = numbers.next()?;
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            number.get(..digits)?.parse().ok()
        };
        Some(Self(next()?, next()?, next()?))
    }
}

/// The facts that a server reports at `/varz` and `/jsz` of its monitoring address.
#[derive(Clone, Debug, Deserialize)]
pub struct Facts {
    /// Its name.
    pub server_name: String,
    /// Its version.
    pub version: String,
    /// The largest message.
    pub max_payload: u64,
    /// The state of JetStream. Never that of `/varz`: a server that gets this request before JetStream is enabled leaves
    /// out its settings for as long as it runs.
    #[serde(skip)]
    pub jetstream: JetStream,
}

/// The state of JetStream on a server, from `/jsz`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JetStream {
    /// Whether JetStream is disabled, or not enabled yet.
    pub disabled: bool,
    /// Its settings.
    pub config: Storage,
    /// Bytes of its streams on disk.
    pub storage: u64,
    meta_cluster: Option<Group>,
}

/// The storage settings.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Storage {
    /// Whether each append is synced before it is acknowledged.
    #[serde(default)]
    pub sync_always: bool,
    /// Most bytes on disk; zero or negative: not reported.
    #[serde(default)]
    pub max_storage: i64,
}

impl Facts {
    /// The fraction of the storage that is used.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn storage_used(&self) -> Option<f64> {
        let most = self.jetstream.config.max_storage;
        (most > 0).then(|| self.jetstream.storage as f64 / most as f64)
    }
}

/// Why a server is unreliable, each with its remedy.
pub fn problems(facts: &Facts) -> Vec<String> {
    let name = &facts.server_name;
    let mut problems = Vec::new();
    let Version(major, minor, patch) = LEAST;
    if Version::parse(&facts.version).is_none_or(|version| version < LEAST) {
        problems.push(format!(
            "{name} is nats-server {}: versions before {major}.{minor}.{patch} can lose acknowledged messages; \
             upgrade it",
            facts.version
        ));
    }
    if facts.max_payload < LEAST_PAYLOAD {
        problems.push(format!(
            "{name} accepts messages of at most {} bytes: set max_payload: 8MB",
            facts.max_payload
        ));
    }
    if facts.jetstream.disabled {
        problems.push(format!("{name} has no JetStream: enable it"));
    } else if !facts.jetstream.config.sync_always {
        problems.push(format!(
            "{name} acknowledges messages before the sync: set sync_interval: always in its jetstream block"
        ));
    }
    problems
}

/// Reads the facts from a server's monitoring address, such as `http://nats-0:8222`. Blocks, for twenty seconds at most.
///
/// # Errors
/// Why the facts could not be read.
pub fn query(monitoring: &str) -> Result<Facts, String> {
    let facts: Facts = read(monitoring, "/varz", &[200])?;
    Ok(Facts { jetstream: read(monitoring, "/jsz", &[200])?, ..facts })
}

/// The condition of a server as part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It works.
    Healthy,
    /// It does not answer at its monitoring address.
    Unreachable,
    /// It runs, and does not work for the log: why.
    Unhealthy(String),
    /// It holds data of another JetStream group than the other servers: it takes no part, whatever they do.
    Apart,
}

/// What a server reports at its monitoring address.
#[derive(Clone, Debug)]
pub struct Report {
    /// The facts.
    pub facts: Facts,
    /// Why it is not healthy; none if it is.
    unhealthy: Option<String>,
}

/// The group of servers that keep one JetStream, as a server knows it.
#[derive(Clone, Debug, Default, Deserialize)]
struct Group {
    #[serde(default)]
    leader: String,
    /// The other members.
    #[serde(default)]
    replicas: Vec<Member>,
}

#[derive(Clone, Debug, Deserialize)]
struct Member {
    name: String,
}

#[derive(Deserialize)]
struct Health {
    status: String,
    #[serde(default)]
    error: String,
}

/// As [`query`], with the server's health. Blocks, for thirty seconds at most.
///
/// # Errors
/// Why the server could not be queried.
pub fn report(monitoring: &str) -> Result<Report, String> {
    let facts = query(monitoring)?;
    let health: Health = read(monitoring, "/healthz", &[200, 503])?;
    Ok(Report { facts, unhealthy: (health.status != "ok").then_some(health.error) })
}

/// The conditions of the servers that sent these reports, in the same order; none: a server did not answer.
pub fn conditions(reports: &[Option<Report>]) -> Vec<Condition> {
    let groups = reports.iter().flatten().filter_map(|report| {
        let group = report.facts.jetstream.meta_cluster.as_ref()?;
        let name = &report.facts.server_name;
        let others = group.replicas.iter().map(|member| &member.name);
        // Only the leader of a group knows who belongs to it.
        (group.leader == *name).then(|| others.chain([name]).collect::<Vec<_>>())
    });
    let members = groups.max_by_key(Vec::len);
    let condition = |report: &Option<Report>| {
        let Some(report) = report else {
            return Condition::Unreachable;
        };
        let name = &report.facts.server_name;
        let is_apart = members.as_ref().is_some_and(|all| !all.contains(&name));
        match &report.unhealthy {
            _ if report.facts.jetstream.disabled => {
                Condition::Unhealthy("JetStream is disabled".to_owned())
            }
            _ if is_apart => Condition::Apart,
            Some(why) => Condition::Unhealthy(why.clone()),
            None => Condition::Healthy,
        }
    };
    reports.iter().map(condition).collect()
}

fn read<T: DeserializeOwned>(monitoring: &str, path: &str, expected: &[u16]) -> Result<T, String> {
    let url = format!("{}{path}", monitoring.trim_end_matches('/'));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(10)))
        .http_status_as_error(false)
        .build()
        .into();
    let answer = agent.get(&url).call();
    let mut answer = answer.map_err(|error| format!("{url}: {error}"))?;
    if !expected.contains(&answer.status().as_u16()) {
        return Err(format!("{url}: status {}", answer.status().as_u16()));
    }
    answer.body_mut().read_json().map_err(|error| format!("{url}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, max_payload: u64, sync_always: bool) -> Facts {
        Facts {
            server_name: "s1".to_owned(),
            version: version.to_owned(),
            max_payload,
            jetstream: JetStream {
                config: Storage { sync_always, max_storage: 1000 },
                storage: 910,
                ..JetStream::default()
            },
        }
    }

    #[test]
    fn a_server_that_may_forget_is_refused_with_the_mend() {
        assert_eq!(problems(&facts("2.14.4", LEAST_PAYLOAD, true)), [""; 0]);
        assert_eq!(problems(&facts("2.15.1-RC.2", LEAST_PAYLOAD, true)), [""; 0]);
        for (wrong, mend) in [
            (facts("2.14.3", LEAST_PAYLOAD, true), "upgrade"),
            (facts("unknown", LEAST_PAYLOAD, true), "upgrade"),
            (facts("2.15.1", 1 << 20, true), "max_payload: 8MB"),
            (facts("2.15.1", LEAST_PAYLOAD, false), "sync_interval: always"),
        ] {
            let found = problems(&wrong);
            assert_eq!(found.len(), 1);
            assert!(found[0].contains(mend), "{found:?}");
        }
    }

    #[test]
    fn servers_that_do_not_work_for_the_log_are_found() {
        let report = |name: &str, leader: &str, members: &[&str]| {
            let member = |name: &&str| Member { name: (*name).to_owned() };
            let mut facts = facts("2.15.1", LEAST_PAYLOAD, true);
            name.clone_into(&mut facts.server_name);
            facts.jetstream.meta_cluster = Some(Group {
                leader: leader.to_owned(),
                replicas: members.iter().map(member).collect(),
            });
            Some(Report { facts, unhealthy: None })
        };
        let [a, b] = [report("a", "a", &["b", "c"]), report("b", "a", &["a", "c"])];
        let c = report("c", "a", &["a", "b"]);
        let all = [a.clone(), b.clone(), c.clone()];
        assert_eq!(conditions(&all), vec![Condition::Healthy; 3]);
        // Two servers that lost their data have begun a group without the third.
        let apart = [report("a", "a", &["b"]), b.clone(), c];
        assert_eq!(conditions(&apart), [Condition::Healthy, Condition::Healthy, Condition::Apart]);
        // During an election nobody knows the members.
        let electing = [report("a", "", &["b"]), b.clone(), None];
        assert_eq!(
            conditions(&electing),
            [Condition::Healthy, Condition::Healthy, Condition::Unreachable]
        );
        let (mut full, mut off) = (a, b);
        if let (Some(full), Some(off)) = (&mut full, &mut off) {
            full.unhealthy = Some("no space left on device".to_owned());
            off.facts.jetstream.disabled = true;
        }
        let is_unhealthy = |condition: &Condition| matches!(condition, Condition::Unhealthy(_));
        assert!(conditions(&[full, off]).iter().all(is_unhealthy));
    }

    #[test]
    fn what_is_used_is_a_share_of_what_may_be() {
        let mut facts = facts("2.15.1", LEAST_PAYLOAD, true);
        assert_eq!(facts.storage_used(), Some(0.91));
        facts.jetstream.config = Storage::default();
        assert_eq!(facts.storage_used(), None);
    }

    #[test]
    fn versions_compare_by_their_numbers() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("2.9.10") < parse("2.14.4"));
        assert!(parse("v2.14.4-preview") == LEAST);
        assert_eq!(Version::parse("2.14"), None);
    }
}
