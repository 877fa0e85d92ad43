//! The configuration of `quotad`: [`schema`] defines the keys, the shipped `config.toml` describes them.

pub mod schema;
mod validate;

#[cfg(test)]
mod tests;

pub use quota_service::config::{
    Command, Effective, Invocation, LogFormat, Origin, ParsePeriodError, ParseSizeError, Period,
    Problem, Problems, Size, Sources, Task, load, parse, redact,
};
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
        validate::validate(self)
    }

    fn warnings(&self) -> Vec<quota_service::config::Finding> {
        validate::warnings(self)
    }
}
