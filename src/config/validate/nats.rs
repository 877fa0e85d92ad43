//! Dependencies between the keys `nats.*`.

use quota_semantics::quota::syntax;
use quota_service::config::Finding;

use super::{Config, check};

pub(super) fn validate(config: &Config, findings: &mut Vec<Finding>) {
    let nats = &config.nats;
    findings.extend(nats.connection.validate());
    let word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
    let stream = word(&nats.stream) && !nats.stream.contains(['.', '*', '>', '/', '\\']);
    check(
        findings,
        "nats.stream",
        stream,
        "must be a word without any of . * > / \\",
    );
    check(
        findings,
        "nats.subject",
        word(&nats.subject),
        "must be one subject, as quota.objects.>",
    );
    let plain = |text: &str| word(text) && !text.contains(['*', '>']);
    check(
        findings,
        "nats.cluster",
        nats.cluster
            .as_deref()
            .is_none_or(|name| plain(name) && !name.contains('.')),
        "must be a word without any of . * >",
    );
    let prefix = &nats.control_prefix;
    check(
        findings,
        "nats.control_prefix",
        plain(prefix) && prefix.split('.').all(|word| !word.is_empty()),
        "must be the begin of a subject, as quota.control",
    );
    for resource in &nats.watermark_resources {
        let complaints = syntax::subdomain(resource);
        let holds = complaints.is_empty();
        let message = format!("{resource:?}: {}", complaints.join("; "));
        check(findings, "nats.watermark_resources", holds, message);
    }
}
