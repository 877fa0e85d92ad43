//! The decision whether a Lease may be taken. Pure.
//!
//! Clocks of different machines are never compared: a Lease has ended when its record has not changed for its duration,
//! by the local clock.

use std::time::Duration;

use super::Spec;

/// The action that a candidate may take on a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Another holder has the Lease.
    Wait,
    /// The candidate holds the Lease, and may renew it.
    Renew,
    /// The Lease is free, or has expired.
    Take,
}

/// Records the time of the last change of a Lease.
#[derive(Debug, Default)]
pub(super) struct Observer(Option<(Spec, Duration)>);

impl Observer {
    /// Records the present spec. Returns the time of its last observed change.
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

/// The action that the candidate `me` may take on a Lease that is unchanged since `since`.
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
