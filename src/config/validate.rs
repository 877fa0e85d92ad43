//! Rules that the types of values cannot express: ranges, and keys that require or exclude each other.

use quota_semantics::{admission::Charging, syntax};
use tracing_subscriber::EnvFilter;

use quota_service::{config::Finding, rules};

use super::{ALL_KINDS, Config, Period, RESERVATION_RESOURCES_MAX, Size};

mod checkpoint;
mod cluster;
mod nats;

/// Warns about valid settings that may admit more callers than intended.
pub(super) fn warnings(config: &Config) -> Vec<Finding> {
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
            "asks nobody for a certificate: neither admission.listen is set, which demands one, nor tls.api";
        "tls.client_ca": !(demands && config.tls.api) || has_tokens =>
            "keeps nobody away from the API: its callers may show a certificate and need none. What a certificate may \
             do belongs in auth.tokens_file, which is not set, so that everybody may do everything";
        "auth.allow_anonymous_non_loopback": !config.auth.allow_anonymous_non_loopback || has_tokens =>
            "lets everybody who reaches the API do everything, if it listens on others than loopback";
    }
    findings
}

/// All problems of values that are well-formed individually.
pub(super) fn validate(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    listeners(config, &mut findings);
    nats::validate(config, &mut findings);
    periods(config, &mut findings);
    traces(config, &mut findings);
    sizes(config, &mut findings);
    counts(config, &mut findings);
    webhook(config, &mut findings);
    names(config, &mut findings);
    checkpoint::validate(config, &mut findings);
    cluster::validate(config, &mut findings);
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
        (
            "nats.connect_timeout",
            config.nats.connection.connect_timeout,
        ),
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
        (
            "retention.max_age",
            config.retention.max_age.unwrap_or(Period::from_secs(1)),
        ),
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
    let bodies = (limits.request_body_bytes)
        .max(limits.events_body_bytes)
        .max(Size::from_mib(8));
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
            "needs tls.client_ca: without it no certificate is asked for";
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
