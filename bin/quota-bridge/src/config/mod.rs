//! The configuration of `quota-bridge`: [`schema`] defines the keys, the shipped `bridge.toml` documents them.

pub(crate) mod schema;
mod validate;

use quota_service::config::{Finding, Schema};

pub(crate) use schema::{Config, Lease, ListMode};

impl Schema for Config {
    const PROGRAM: &'static str = "quota-bridge";
    const VERSION: &'static str = env!("BUILD_VERSION");
    const ABOUT: &'static str =
        "Publishes the objects of a Kubernetes API to NATS, for the quota ledger";
    const EXIT_CODES: &'static str = "Exit codes: 0 stopped cleanly, 1 runtime failure (also: another publisher has \
         taken over), 2 usage, 3 configuration";
    const PREFIX: &'static str = "QUOTA_BRIDGE_";
    const DEFAULT_FILE: &'static str = "bridge.toml";
    const SHIPPED: &'static str = include_str!("../../bridge.toml");

    fn validate(&self) -> Vec<Finding> {
        validate::validate(self)
    }
}

#[cfg(test)]
mod tests {
    use quota_service::config::{Sources, entries, leaves_of_defaults, load};

    use super::*;

    #[test]
    fn the_shipped_file_holds_every_key_with_its_default_and_a_comment() {
        let described = entries::<Config>();
        let mut keys: Vec<_> = described.iter().map(|entry| entry.key.clone()).collect();
        keys.sort();
        let expected: Vec<_> = leaves_of_defaults::<Config>().into_keys().collect();
        assert_eq!(keys, expected);
        for entry in described {
            assert!(!entry.comment.is_empty(), "{} has no comment", entry.key);
        }
    }

    #[test]
    fn what_cannot_work_is_named() {
        let flags = [
            ("api", "http://127.0.0.1:8001"),
            ("kubeconfig", "kubeconfig.yaml"),
            ("cluster", "a.b"),
            ("resources.include", "Pods"),
            ("resources.charge", "pods"),
            ("lease.renew", "20s"),
            ("list.page", "0"),
            ("status.quotad", "http://10.0.0.1:8480"),
            ("status.token_file", "token"),
            ("nats.url", "nats://a"),
        ];
        let sources = Sources {
            file: Some("/dev/null".into()),
            environment: Vec::new(),
            flags: flags.map(|(key, text)| (key.into(), text.into())).into(),
        };
        let problems = load::<Config>(&sources).unwrap_err();
        let keys: Vec<_> = problems.0.iter().filter_map(|it| it.key.clone()).collect();
        let expected = [
            "list.page",
            "kubeconfig",
            "cluster",
            "resources.include",
            "resources.charge",
            "lease.renew",
            "status.quotad",
        ];
        assert_eq!(keys, expected);
    }
}
