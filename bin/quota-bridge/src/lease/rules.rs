//! When a Lease may be taken. Pure.
//!
//! Clocks of different machines are never compared: a Lease has ended when its record has not changed for its duration,
//! by the local clock.

use std::time::Duration;

use super::Spec;

/// What may be done with a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Another holder has it.
    Wait,
    /// It is ours.
    Renew,
    /// It is free, or its holder is gone.
    Take,
}

/// Records since when a Lease is unchanged.
#[derive(Debug, Default)]
pub(super) struct Observer(Option<(Spec, Duration)>);

impl Observer {
    /// Looks at it, and answers since when it looks so.
    pub(super) fn observe(&mut self, spec: Option<&Spec>, now: Duration) -> Duration {
        let Some(spec) = spec else {
            self.0 = None;
            return now;
        };
        match &self.0 {
            Some((seen, since)) if seen == spec => *since,
            _ => {
                self.0 = Some((spec.clone(), now));
                now
            }
        }
    }
}

/// What may be done with a Lease that looks so since then.
pub(super) fn decide(
    spec: Option<&Spec>,
    me: &str,
    since: Duration,
    now: Duration,
    duration: Duration,
) -> Decision {
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    match holder.unwrap_or_default() {
        "" => Decision::Take,
        holder if holder == me => Decision::Renew,
        _ if since + duration > now => Decision::Wait,
        _ => Decision::Take,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held(by: &str, renewed: &str) -> Spec {
        Spec {
            holder_identity: Some(by.to_owned()),
            renew_time: Some(renewed.to_owned()),
            ..Spec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_once_its_holder_did_not_renew_it() {
        let mut observer = Observer::default();
        let mut at_time = |spec: &Spec, now: u64| {
            let since = observer.observe(Some(spec), at(now));
            decide(Some(spec), "me", since, at(now), at(15))
        };
        let first = held("you", "a");
        assert_eq!(at_time(&first, 100), Decision::Wait);
        assert_eq!(at_time(&first, 114), Decision::Wait);
        let renewed = held("you", "b");
        assert_eq!(at_time(&renewed, 115), Decision::Wait, "renewed meanwhile");
        assert_eq!(at_time(&renewed, 130), Decision::Take);
        assert_eq!(at_time(&held("me", "c"), 131), Decision::Renew);
        assert_eq!(at_time(&held("", "d"), 132), Decision::Take, "released");
        assert_eq!(decide(None, "me", at(0), at(0), at(15)), Decision::Take);
    }
}
