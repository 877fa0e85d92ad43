//! Dependencies between the keys `checkpoint.*`.

use quota_service::config::Finding;

use super::{Config, check, is_address};

pub(super) fn validate(config: &Config, findings: &mut Vec<Finding>) {
    let checkpoint = &config.checkpoint;
    check(
        findings,
        "checkpoint.file",
        checkpoint.key_file.is_some() == checkpoint.file.is_some(),
        "goes together with checkpoint.key_file",
    );
    let files = [
        ("checkpoint.key_file", &checkpoint.key_file),
        ("checkpoint.file", &checkpoint.file),
        ("checkpoint.copy_dir", &checkpoint.copy_dir),
    ];
    for (key, path) in files {
        let outside = path
            .as_ref()
            .is_none_or(|path| !path.starts_with(&config.data_dir));
        check(
            findings,
            key,
            outside,
            "is in the data directory: who can change that could change both",
        );
    }
    check(
        findings,
        "checkpoint.file",
        checkpoint.file.is_none() || checkpoint.file != checkpoint.key_file,
        "is checkpoint.key_file",
    );
    check(
        findings,
        "checkpoint.every",
        !checkpoint.every.is_zero(),
        "must be longer than 0s",
    );
    let signs = checkpoint.key_file.is_some() && config.nats.url.is_some();
    let subject = checkpoint.nats_subject.as_deref();
    let is_one = subject.is_none_or(|subject| {
        signs && !subject.contains(|c: char| c.is_whitespace() || matches!(c, '*' | '>'))
    });
    check(
        findings,
        "checkpoint.nats_subject",
        is_one,
        "must be a subject without wildcards, and needs checkpoint.key_file and nats.url",
    );
    check(
        findings,
        "checkpoint.copy_dir",
        checkpoint.copy_dir.is_none() || checkpoint.key_file.is_some(),
        "needs checkpoint.key_file",
    );
    let url = checkpoint.http_url.as_deref();
    check(
        findings,
        "checkpoint.http_url",
        url.is_none_or(|url| is_address(url) && checkpoint.key_file.is_some()),
        "must be an address of http or https, and needs checkpoint.key_file",
    );
}
