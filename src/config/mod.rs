//! The configuration of `quotad`: [`schema`] defines the keys, the shipped `config.toml` describes them. Layers,
//! unknown keys and the command line are in `quota_service::config`.

pub mod schema;

#[cfg(test)]
mod tests;

use quota_replication::protocol::NodeName;
use quota_semantics::{admission::Charging, syntax};
pub use quota_service::config::{
    Command, Effective, Invocation, LogFormat, Origin, ParsePeriodError, ParseSizeError, Period,
    Problem, Problems, Size, Sources, Task, load, parse, redact,
};
use quota_service::{config::Finding, rules};
use tracing_subscriber::EnvFilter;

pub use schema::{
    ALL_KINDS, Checkpoint, Cluster, Config, Nats, RESERVATION_RESOURCES_MAX, Snapshot,
    WatermarkSource,
};

impl quota_service::config::Schema for Config {
    const PROGRAM: &'static str = "quotad";
    const VERSION: &'static str = env!("BUILD_VERSION");
    const ABOUT: &'static str =
        "An event-sourced quota ledger with Kubernetes ResourceQuota semantics";
    const EXIT_CODES: &'static str = "Exit codes: 0 stopped cleanly, 1 runtime failure, 2 usage, 3 configuration, \
         4 ledger damaged, 5 poisoned (a write or fsync failed)";
    const PREFIX: &'static str = "QUOTAD_";
    const DEFAULT_FILE: &'static str = "config.toml";
    const SHIPPED: &'static str = include_str!("../../config.toml");

    const COMMANDS: &'static [Command] = &[Command {
        name: "demo",
        about: "Start with a made-up past, in a temporary directory, for a first look",
        run: crate::demo::main,
    }];

    fn validate(&self) -> Vec<quota_service::config::Finding> {
        validate(self)
    }

    fn warnings(&self) -> Vec<quota_service::config::Finding> {
        warnings(self)
    }
}

// Rules that the types of values cannot express: ranges, and keys that require or exclude each other.

/// Warns about valid settings that may admit more callers than intended.
fn warnings(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let demands = config.tls.client_ca.is_some();
    let is_asked_for = config.admission.listen.is_some() || config.tls.api;
    let has_tokens = config.auth.tokens_file.is_some();
    let of_audits = match has_tokens {
        true => "Audit events need a token with the role reserve there",
        false => "Audit events are refused there, since auth.tokens_file is not set either",
    };
    rules! { findings;
        "admin.listen": !config.admin.listen.ip().is_unspecified() =>
            "tells names of namespaces and quotas, and amounts, on all addresses of this host, to everybody";
        "admission.listen": config.admission.listen.is_none() || demands =>
            format!("takes reviews from everybody who reaches it, since tls.client_ca is not set: they can hold \
             capacity. {of_audits}");
        "tls.client_ca": !demands || is_asked_for =>
            "requests no certificate: neither admission.listen is set, which requires one, nor tls.api";
        "tls.client_ca": !(demands && config.tls.api) || has_tokens =>
            "keeps nobody away from the API: its callers may show a certificate and need none. What a certificate may \
             do belongs in auth.tokens_file, which is not set, so that everybody may do everything";
        "auth.allow_anonymous_non_loopback": !config.auth.allow_anonymous_non_loopback || has_tokens =>
            "lets everybody who reaches the API do everything, if it listens on others than loopback";
    }
    findings
}

/// All problems of values that are well-formed individually.
fn validate(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    listeners(config, &mut findings);
    nats_rules(config, &mut findings);
    periods(config, &mut findings);
    traces(config, &mut findings);
    sizes(config, &mut findings);
    counts(config, &mut findings);
    webhook(config, &mut findings);
    names(config, &mut findings);
    checkpoint_rules(config, &mut findings);
    cluster_rules(config, &mut findings);
    findings
}

fn listeners(config: &Config, findings: &mut Vec<Finding>) {
    let guarded = config.auth.tokens_file.is_some() || config.auth.allow_anonymous_non_loopback;
    let clash = "is the address of another listener as well";
    let is_taken = |address: std::net::SocketAddr, other: std::net::SocketAddr| {
        address.port() != 0 && address == other
    };
    rules! { findings;
        "listen": config.listen.ip().is_loopback() || guarded =>
            "serves others than this host without tokens: set auth.tokens_file, or say that this is \
             wanted by auth.allow_anonymous_non_loopback = true";
        "admin.listen": !is_taken(config.admin.listen, config.listen) => clash;
    }
    if let Some(address) = config.admission.listen {
        let is_free = !is_taken(address, config.listen) && !is_taken(address, config.admin.listen);
        rules! { findings; "admission.listen": is_free => clash; }
    }
}

fn periods(config: &Config, findings: &mut Vec<Finding>) {
    let limits = &config.limits;
    let reservations = &config.reservations;
    let positive: [(&'static str, Period); 14] = [
        ("nats.connect_timeout", config.nats.connection.connect_timeout),
        ("nats.max_backoff", config.nats.connection.max_backoff),
        ("nats.poll_interval", config.nats.poll_interval),
        ("nats.max_watermark_age", config.nats.max_watermark_age),
        ("nats.relist_interval", config.nats.relist_interval),
        ("reservations.default_ttl", reservations.default_ttl),
        ("reservations.max_ttl", reservations.max_ttl),
        ("snapshot.every", config.snapshot.every),
        ("limits.header_timeout", limits.header_timeout),
        ("limits.request_timeout", limits.request_timeout),
        ("limits.body_timeout", limits.body_timeout),
        ("limits.keep_alive", limits.keep_alive),
        ("retention.max_age", config.retention.max_age.unwrap_or(Period::from_secs(1))),
        ("shutdown.grace", config.shutdown.grace),
    ];
    for (key, period) in positive {
        rules! { findings; key: !period.is_zero() => "must be longer than 0s"; }
    }
    rules! { findings;
        "reservations.default_ttl": reservations.default_ttl <= reservations.max_ttl =>
            format!("is longer than reservations.max_ttl ({})", reservations.max_ttl);
    }
}

fn sizes(config: &Config, findings: &mut Vec<Finding>) {
    const KIB: Size = Size::from_bytes(1024);
    const MIB: Size = Size::from_mib(1);
    const GIB: Size = Size::from_mib(1024);
    let limits = &config.limits;
    // The webhook's body limit is the least that has to fit.
    let bodies = (limits.request_body_bytes).max(limits.events_body_bytes).max(Size::from_mib(8));
    macro_rules! within {
        ($($section:ident.$key:ident: $least:expr, $most:expr;)*) => {
            [$((concat!(stringify!($section), ".", stringify!($key)), config.$section.$key, $least, $most)),*]
        };
    }
    let ranges = within! {
        nats.max_message_bytes: KIB, Size::from_mib(64);
        limits.request_body_bytes: KIB, GIB;
        limits.events_body_bytes: KIB, GIB;
        limits.bodies_bytes: bodies, Size::from_mib(64 * 1024);
        journal.segment_bytes: MIB, GIB;
        journal.epoch_bytes: MIB, Size::from_mib(64 * 1024);
    };
    for (key, size, least, most) in ranges {
        let is_inside = (least..=most).contains(&size);
        rules! { findings; key: is_inside => format!("must be from {least} to {most}, is {size}"); }
    }
}

fn counts(config: &Config, findings: &mut Vec<Finding>) {
    macro_rules! at_most {
        ($($section:ident.$key:ident: $most:expr,)*) => {
            [$((concat!(stringify!($section), ".", stringify!($key)), config.$section.$key.get(), $most)),*]
        };
    }
    let most = at_most! {
        groups.max: 100_000,
        groups.max_depth: 64,
        groups.max_per_namespace: 1000,
        nats.fetch_messages: 100_000,
        reservations.max_pending: 100_000_000,
        reservations.max_pending_per_namespace: 100_000_000,
        reservations.max_pending_per_principal: 100_000_000,
        journal.max_batch_entries: 1_000_000,
        limits.connections: 1_000_000,
        limits.queue: 1_000_000,
        limits.page: 100_000,
        limits.watch_streams: 100_000,
        limits.watch_streams_per_principal: 100_000,
        limits.reservation_resources: RESERVATION_RESOURCES_MAX,
        limits.resources_per_namespace: 100_000,
        limits.limits_per_quota: 100_000,
        limits.quotas_per_namespace: 100_000,
        limits.metrics_series: 1_000_000,
    };
    for (key, count, most) in most {
        rules! { findings; key: count <= most => format!("must be at most {most}, is {count}"); }
    }
}

fn webhook(config: &Config, findings: &mut Vec<Finding>) {
    let tls = &config.tls;
    let calls = config.admission.listen.is_some();
    let ratio = config.admission.warn_ratio;
    rules! { findings;
        "tls.key": tls.cert.is_some() == tls.key.is_some() => "goes together with tls.cert";
        "admission.listen": !calls || tls.cert.is_some() =>
            "needs tls.cert and tls.key: the API server calls webhooks by TLS only";
        "tls.allowed_names": tls.client_ca.is_some() || tls.allowed_names.is_empty() =>
            "needs tls.client_ca: without it the daemon requests no certificate";
        "tls.allowed_names": !(calls && tls.client_ca.is_some() && tls.allowed_names.is_empty()) =>
            "is needed with tls.client_ca and admission.listen: a CA often signs more than the API server's \
             certificate";
        "tls.api": !tls.api || tls.cert.is_some() => "needs tls.cert and tls.key";
        "admission.warn_ratio": (0.0..=1.0).contains(&ratio) => "must be from 0 to 1";
    }
}

/// Keys in `groups.object_labels`: each is recorded with every object that has it.
const OBJECT_LABELS: usize = 16;

fn object_labels(config: &Config, findings: &mut Vec<Finding>) {
    let keys = &config.groups.object_labels;
    rules! { findings;
        "groups.object_labels": keys.len() <= OBJECT_LABELS =>
            format!("has {} keys; at most {OBJECT_LABELS}", keys.len());
    }
    for key in keys {
        let wrong = syntax::qualified_name(key);
        rules! { findings;
            "groups.object_labels": wrong.is_empty() => format!("{key:?} is no key of a label: {}", wrong.join("; "));
        }
    }
}

fn names(config: &Config, findings: &mut Vec<Finding>) {
    object_labels(config, findings);
    for resource in &config.admission.charge {
        rules! { findings;
            "admission.charge": is_dns_name(resource) =>
                format!("{resource:?} is no resource such as \"deployments.apps\"");
        }
        if let Err(error) = Charging::new([resource.as_str()]) {
            findings.push(("admission.charge", error.to_string()));
        }
    }
    for resource in &config.admission.count {
        rules! { findings;
            "admission.count": resource == ALL_KINDS || is_dns_name(resource) =>
                format!("{resource:?} is no resource such as \"deployments.apps\", nor \"*\"");
        }
    }
    for (kind, plural) in &config.kinds {
        let (name, group) = kind.split_once('.').unwrap_or((kind, "core"));
        let is_kind = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && is_dns_name(group);
        let is_plural = is_dns_name(plural) && !plural.contains('.');
        rules! { findings;
            "kinds": is_kind => format!("{kind:?} is no kind such as \"Widget.example.com\"");
            "kinds": is_plural => format!("{plural:?} is no plural such as \"widgets\"");
        }
    }
    rules! { findings; "data_dir": !config.data_dir.as_os_str().is_empty() => "must name a directory"; }
    if let Err(error) = EnvFilter::try_new(&config.log.level) {
        findings.push(("log.level", format!("is no level or filter: {error}")));
    }
}

/// Lower-case labels separated by dots (RFC 1123 subdomain).
fn is_dns_name(text: &str) -> bool {
    syntax::subdomain(text).is_empty()
}

/// Whether the text is an http or https URL.
fn is_address(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some()
    })
}

fn traces(config: &Config, findings: &mut Vec<Finding>) {
    let traces = &config.traces;
    rules! { findings;
        "traces.otlp_url": quota_service::traces::IS_BUILT_IN || traces.otlp_url.is_none() =>
            "this program was built without the feature otlp";
        "traces.otlp_url": traces.otlp_url.as_deref().is_none_or(is_address) => "must be an address of http or https";
        "traces.sample_ratio": (0.0..=1.0).contains(&traces.sample_ratio) => "must be between 0 and 1";
    }
}

fn checkpoint_rules(config: &Config, findings: &mut Vec<Finding>) {
    let checkpoint = &config.checkpoint;
    rules! { findings;
        "checkpoint.file": checkpoint.key_file.is_some() == checkpoint.file.is_some() =>
            "goes together with checkpoint.key_file";
    }
    let files = [
        ("checkpoint.key_file", &checkpoint.key_file),
        ("checkpoint.file", &checkpoint.file),
        ("checkpoint.copy_dir", &checkpoint.copy_dir),
    ];
    for (key, path) in files {
        rules! { findings;
            key: path.as_ref().is_none_or(|path| !path.starts_with(&config.data_dir)) =>
                "is in the data directory: who can change that could change both";
        }
    }
    let signs = checkpoint.key_file.is_some() && config.nats.url.is_some();
    let subject = checkpoint.nats_subject.as_deref();
    let is_one = subject.is_none_or(|subject| {
        signs && !subject.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '>'))
    });
    rules! { findings;
        "checkpoint.file": checkpoint.file.is_none() || checkpoint.file != checkpoint.key_file =>
            "is checkpoint.key_file";
        "checkpoint.every": !checkpoint.every.is_zero() => "must be longer than 0s";
        "checkpoint.nats_subject": is_one =>
            "must be a subject without wildcards, and needs checkpoint.key_file and nats.url";
        "checkpoint.copy_dir": checkpoint.copy_dir.is_none() || checkpoint.key_file.is_some() =>
            "needs checkpoint.key_file";
    }
}

/// Largest request body: its entries have to fit into a message together with a batch that is about to be closed.
const BODY_BYTES_MAX: u64 = 4 * 1024 * 1024;

fn cluster_rules(config: &Config, findings: &mut Vec<Finding>) {
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
    let is_complete = keys.iter().all(|key| key.is_some() == cluster.tls_cert.is_some());
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

fn nats_rules(config: &Config, findings: &mut Vec<Finding>) {
    let nats = &config.nats;
    findings.extend(nats.connection.validate());
    let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let is_plain = |text: &str| is_word(text) && !text.contains(['*', '>']);
    let is_stream = is_word(&nats.stream) && !nats.stream.contains(['.', '*', '>', '/', '\\']);
    let cluster = nats.cluster.as_deref();
    let prefix = &nats.control_prefix;
    rules! { findings;
        "nats.stream": is_stream => "must be a word without any of . * > / \\";
        "nats.subject": is_word(&nats.subject) => "must be one subject, as quota.objects.>";
        "nats.cluster": cluster.is_none_or(|name| is_plain(name) && !name.contains('.')) =>
            "must be a word without any of . * >";
        "nats.control_prefix": is_plain(prefix) && prefix.split('.').all(|word| !word.is_empty()) =>
            "must be the begin of a subject, as quota.control";
    }
    for resource in &nats.watermark_resources {
        let complaints = syntax::subdomain(resource);
        rules! { findings;
            "nats.watermark_resources": complaints.is_empty() => format!("{resource:?}: {}", complaints.join("; "));
        }
    }
}
