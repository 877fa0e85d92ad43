//! What the type of a value cannot say: ranges, and keys that need or exclude each other.

use quota_client::server::may_send_token;
use quota_semantics::{admission::Charging, object::GroupResource};
use quota_service::config::Finding;
use tracing_subscriber::EnvFilter;

use super::Config;

/// Everything that is wrong with values that are well-formed each.
pub(super) fn validate(config: &Config) -> Vec<Finding> {
    let mut findings = config.nats.connection.validate();
    let mut check = |key, holds: bool, message: &str| {
        if !holds {
            findings.push((key, message.to_owned()));
        }
    };
    let exclude_each_other = config.api.is_none() || config.kubeconfig.is_none();
    check(
        "kubeconfig",
        exclude_each_other,
        "cannot be used together with api",
    );
    let needs_file = config.context.is_none() || config.kubeconfig.is_some();
    check("context", needs_file, "goes together with kubeconfig");
    let is_token = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !text.is_empty() && text.chars().all(fits)
    };
    check(
        "cluster",
        is_token(&config.cluster),
        "is a part of a subject: letters, digits, - and _",
    );
    check("nats.url", !config.nats.url.is_empty(), "names no server");
    for (key, prefix) in [
        ("nats.subject_prefix", &config.nats.subject_prefix),
        ("nats.control_prefix", &config.nats.control_prefix),
    ] {
        check(key, prefix.split('.').all(is_token), "is no subject");
    }
    for (key, kinds) in [
        ("resources.include", &config.resources.include),
        ("resources.exclude", &config.resources.exclude),
    ] {
        let wrong = kinds.iter().find(|kind| !is_kind(kind));
        let message = "is no list of kinds such as deployments.apps";
        check(key, wrong.is_none(), message);
    }
    let charged = Charging::new(config.resources.charge.iter().map(String::as_str));
    if let Err(error) = charged {
        check("resources.charge", false, &error.to_string());
    }
    let whole_seconds = config.watch.timeout.get().as_secs() >= 1;
    check("watch.timeout", whole_seconds, "is shorter than 1s");
    let lease = &config.lease;
    check(
        "lease.renew",
        lease.renew < lease.duration,
        "is not shorter than lease.duration",
    );
    check(
        "lease.retry",
        lease.retry < lease.renew,
        "is not shorter than lease.renew",
    );
    check(
        "lease.duration",
        lease.duration.get().as_secs() >= 1,
        "is shorter than 1s",
    );
    let certificates = &config.certificates;
    let is_kept = certificates.secret.is_some();
    check(
        "certificates.webhook",
        certificates.webhook.is_some() == is_kept,
        "goes together with certificates.secret",
    );
    let are_names = (certificates.names.iter())
        .all(|name| rustls::pki_types::ServerName::try_from(name.as_str()).is_ok());
    check(
        "certificates.names",
        are_names && certificates.names.is_empty() != is_kept,
        "are DNS names, and go together with certificates.secret",
    );
    let status = &config.status;
    let is_alone = status.token_file.is_none() && status.tls_ca.is_none();
    check(
        "status.quotad",
        status.quotad.is_some() || is_alone,
        "goes together with status.token_file and status.tls_ca",
    );
    let shows_token =
        status.token_file.is_some() && status.quotad.as_deref().is_some_and(shows_token);
    check(
        "status.quotad",
        !shows_token,
        "would send the token in plain text to another machine: use https",
    );
    let room = config.queue.bytes.bytes();
    let fits = (1 << 20..=1 << 30).contains(&room);
    check("queue.bytes", fits, "is not between 1MiB and 1GiB");
    let level = EnvFilter::try_new(&config.log.level);
    check("log.level", level.is_ok(), "is no level or filter");
    findings
}

/// Whether a token that is sent there can be read by others.
fn shows_token(url: &str) -> bool {
    let uri = url.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        !may_send_token(scheme, uri.host().unwrap_or_default())
    })
}

fn is_kind(text: &str) -> bool {
    text.parse::<GroupResource>().is_ok() && text.to_ascii_lowercase() == text
}
