//! Preconditions on the NATS servers that hold a ledger.

use quota_replication::jetstream::servers;
use quota_service::config::redact;

use crate::config;

/// Checks all servers. An unreachable server does not prevent a start, but it prevents the beginning of a ledger.
///
/// # Errors
/// Says what is wrong, and how to fix it.
pub(super) async fn servers(settings: &config::Cluster, must_answer: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for monitoring in settings.monitoring.clone() {
        let request = tokio::task::spawn_blocking(move || servers::query(&monitoring));
        match request.await {
            Ok(Ok(facts)) => problems.extend(servers::problems(&facts)),
            Ok(Err(why)) if must_answer => problems.push(redact(&why)),
            Ok(Err(why)) => {
                let why = redact(&why);
                tracing::warn!(why, "a server that holds the log does not answer");
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    if settings.is_unsafe {
        tracing::warn!(
            problems,
            "cluster.unsafe: these servers may lose what they acknowledged"
        );
        return Ok(());
    }
    Err(problems)
}
