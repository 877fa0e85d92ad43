//! Dependencies between the keys `checkpoint.*`.

use quota_service::{config::Finding, rules};

use super::Config;

pub(super) fn validate(config: &Config, findings: &mut Vec<Finding>) {
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
