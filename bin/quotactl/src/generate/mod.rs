//! `generate`: configuration that an installation needs in addition to the daemon.

mod audit;
mod bridge;
mod certs;
mod kubeconfig;
mod man;
mod monitoring;
mod webhook;

#[cfg(test)]
mod tests;

use super::{args::Generate, config::Connection, failure::Outcome, output::Output};

/// Runs a `generate` command.
pub(crate) fn run(
    command: &Generate,
    output: &Output,
    connection: impl FnOnce() -> Outcome<Connection>,
) -> Outcome {
    match command {
        Generate::Webhook(wanted) => webhook::run(wanted, output),
        Generate::Audit(wanted) => audit::run(wanted, output),
        Generate::Bridge(wanted) => bridge::run(wanted, output),
        Generate::Kubeconfig => kubeconfig::run(&connection()?, output),
        Generate::Certs(wanted) => certs::run(wanted, output),
        Generate::Man { directory } => man::run(directory, output),
        Generate::Alerts(wanted) => monitoring::alerts(wanted, output),
        Generate::Dashboard => monitoring::dashboard(output),
        Generate::Servicemonitor(wanted) => monitoring::service_monitor(wanted, output),
    }
}
