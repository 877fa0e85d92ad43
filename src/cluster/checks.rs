//! What must hold before a ledger is entrusted to servers.

use quota_cluster::servers;

use crate::config;

/// Looks at all servers. One that does not answer is no reason not to start, but one not to begin a ledger.
///
/// # Errors
/// What is wrong, with what mends it.
pub(super) async fn servers(settings: &config::Cluster, must_answer: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for monitoring in settings.monitoring.clone() {
        let asked = tokio::task::spawn_blocking(move || servers::ask(&monitoring));
        match asked.await {
            Ok(Ok(facts)) => problems.extend(servers::problems(&facts)),
            Ok(Err(why)) if must_answer => problems.push(why),
            Ok(Err(why)) => tracing::warn!(why, "a server of the log does not answer"),
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
