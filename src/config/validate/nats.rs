//! Dependencies between the keys `nats.*`.

use quota_semantics::syntax;
use quota_service::{config::Finding, rules};

use super::Config;

pub(super) fn validate(config: &Config, findings: &mut Vec<Finding>) {
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
