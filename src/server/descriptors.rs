//! File descriptors: every connection takes one, and so does every file of the ledger.
//!
//! If connections used up the descriptors, the ledger could not open its next file, and the daemon would have to stop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for the ledger's files, NATS and timers.
const RESERVE: u64 = 512;

/// Raises the process' limit so that `listeners` can have `connections` each, as far as permitted. Returns how many
/// each can have.
#[must_use]
pub fn connections(listeners: usize, connections: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (listeners as u64).saturating_mul(connections as u64).saturating_add(RESERVE);
    let raised = raised(&limit, wanted);
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised,
        Err(error) => {
            tracing::warn!(%error, "the limit of file descriptors cannot be raised");
            limit
        }
    };
    let fit = fit(&limit, listeners, connections);
    if fit < connections {
        tracing::warn!(
            descriptors = limit.current,
            connections = fit,
            "fewer connections are accepted than limits.connections, since file descriptors are limited (ulimit -n)"
        );
    }
    fit
}

fn raised(limit: &Rlimit, wanted: u64) -> Rlimit {
    let most = limit.maximum.unwrap_or(u64::MAX);
    Rlimit {
        current: limit.current.map(|current| current.max(wanted.min(most))),
        maximum: limit.maximum,
    }
}

/// If there are hardly any descriptors, half of them are for connections.
fn fit(limit: &Rlimit, listeners: usize, connections: usize) -> usize {
    let Some(all) = limit.current else {
        return connections;
    };
    let free = all.saturating_sub(RESERVE).max(all / 2);
    let each = free / (listeners.max(1) as u64);
    usize::try_from(each).map_or(connections, |each| each.clamp(1, connections.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: u64, maximum: u64) -> Rlimit {
        Rlimit { current: Some(current), maximum: Some(maximum) }
    }

    #[test]
    fn the_limit_is_raised_as_far_as_needed_and_permitted_and_never_lowered() {
        assert_eq!(raised(&limit(1024, 4096), 2000).current, Some(2000));
        assert_eq!(raised(&limit(1024, 4096), 9000).current, Some(4096));
        assert_eq!(raised(&limit(8000, 9000), 2000).current, Some(8000));
        let unlimited = Rlimit { current: None, maximum: None };
        assert_eq!(raised(&unlimited, 2000).current, None);
        assert_eq!(fit(&unlimited, 3, 10), 10);
    }

    #[test]
    fn the_ledger_keeps_its_descriptors() {
        assert_eq!(fit(&limit(100_000, 100_000), 3, 10_000), 10_000);
        assert_eq!(fit(&limit(4096, 4096), 2, 10_000), 1792);
        assert_eq!(fit(&limit(256, 256), 2, 10_000), 64);
        assert_eq!(fit(&limit(1, 1), 3, 10_000), 1);
    }
}
