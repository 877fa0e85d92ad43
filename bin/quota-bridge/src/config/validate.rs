//! Checks beyond the types of values: ranges, and keys that require or exclude each other.

use quota_client::server::may_send_token;
use quota_semantics::{admission::Charging, object::GroupResource};
use quota_service::{config::Finding, rules};
use tracing_subscriber::EnvFilter;

use super::Config;
use crate::needed::is_possible;

/// All errors in a configuration whose values are well-formed.
pub(super) fn validate(config: &Config) -> Vec<Finding> {
    let mut findings = config.nats.connection.validate();
    api(config, &mut findings);
    nats(config, &mut findings);
    resources(config, &mut findings);
    lease(config, &mut findings);
    certificates(config, &mut findings);
    status(config, &mut findings);
    let room = config.queue.bytes.bytes();
    rules! { findings;
        "queue.bytes": (1 << 20..=1 << 30).contains(&room) => "is not between 1MiB and 1GiB";
        "log.level": EnvFilter::try_new(&config.log.level).is_ok() => "is no level or filter";
    }
    findings
}

fn api(config: &Config, findings: &mut Vec<Finding>) {
    rules! { findings;
        "kubeconfig": config.api.is_none() || config.kubeconfig.is_none() => "cannot be used together with api";
        "context": config.context.is_none() || config.kubeconfig.is_some() => "goes together with kubeconfig";
    }
}

fn nats(config: &Config, findings: &mut Vec<Finding>) {
    let is_token = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !text.is_empty() && text.chars().all(fits)
    };
    rules! { findings;
        "cluster": is_token(&config.cluster) => "is a part of a subject: letters, digits, - and _";
        "nats.url": !config.nats.url.is_empty() => "names no server";
    }
    for (key, prefix) in [
        ("nats.subject_prefix", &config.nats.subject_prefix),
        ("nats.control_prefix", &config.nats.control_prefix),
    ] {
        rules! { findings; key: prefix.split('.').all(is_token) => "is no subject"; }
    }
}

fn resources(config: &Config, findings: &mut Vec<Finding>) {
    for (key, kinds) in [
        ("resources.include", &config.resources.include),
        ("resources.exclude", &config.resources.exclude),
    ] {
        let are_kinds = kinds.iter().all(|kind| is_kind(kind));
        rules! { findings; key: are_kinds => "is no list of kinds such as deployments.apps"; }
    }
    let charged = Charging::new(config.resources.charge.iter().map(String::as_str));
    if let Err(error) = charged {
        findings.push(("resources.charge", error.to_string()));
    }
    rules! { findings; "watch.timeout": config.watch.timeout.get().as_secs() >= 1 => "is shorter than 1s"; }
}

fn lease(config: &Config, findings: &mut Vec<Finding>) {
    let lease = &config.lease;
    rules! { findings;
        "lease.renew": lease.renew < lease.duration => "is not shorter than lease.duration";
        "lease.retry": lease.retry < lease.renew => "is not shorter than lease.renew";
        "lease.duration": lease.duration.get().as_secs() >= 1 => "is shorter than 1s";
    }
}

fn certificates(config: &Config, findings: &mut Vec<Finding>) {
    let certificates = &config.certificates;
    let is_kept = certificates.secret.is_some();
    let are_names = (certificates.names.iter())
        .all(|name| rustls::pki_types::ServerName::try_from(name.as_str()).is_ok());
    rules! { findings;
        "certificates.webhook": certificates.webhook.is_some() == is_kept => "goes together with certificates.secret";
        "certificates.names": are_names && certificates.names.is_empty() != is_kept =>
            "are DNS names, and go together with certificates.secret";
    }
}

fn status(config: &Config, findings: &mut Vec<Finding>) {
    let status = &config.status;
    let is_alone = status.token_file.is_none() && status.tls_ca.is_none();
    let shows_token =
        status.token_file.is_some() && status.quotad.as_deref().is_some_and(shows_token);
    rules! { findings;
        "status.quotad": status.quotad.is_some() || is_alone =>
            "goes together with status.token_file and status.tls_ca";
        "status.quotad": !shows_token => "would send the token in plain text to another machine: use https";
    }
}

/// Whether a token that is sent to this URL could be read on the way.
fn shows_token(url: &str) -> bool {
    let uri = url.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        !may_send_token(scheme, uri.host().unwrap_or_default())
    })
}

fn is_kind(text: &str) -> bool {
    let kind = text.parse::<GroupResource>();
    kind.is_ok_and(|kind| is_possible(&kind))
}
