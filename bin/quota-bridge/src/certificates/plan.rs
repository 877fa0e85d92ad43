//! Plans changes such that the API server always trusts the certificate that quotad serves.
//!
//! A new CA is trusted before it signs, and an old CA until it expires, so a change may take any time to reach the API
//! servers and the pods. The key of an old CA is deleted.

use jiff::{SignedDuration, Timestamp};

use super::make::{self, AUTHORITY_DAYS, Pair, SERVING_DAYS};

/// The maximum number of CAs that are trusted at the same time.
const AUTHORITIES: usize = 8;

/// The content of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// The CAs, newest first.
    pub(super) authorities: Vec<String>,
    /// The key of the newest CA.
    pub(super) key: String,
    /// The serving certificate and its key.
    pub(super) serving: Pair,
}

/// The desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The CAs that the API server has to trust; written before the Secret.
    pub(super) trusted: Vec<String>,
    /// The new content of the Secret.
    pub(super) held: Held,
}

/// Plans the next change. `trusted` are the CAs that the API server trusts already. Certificates with less than a third
/// of their lifetime left are replaced.
pub(super) fn plan(
    held: &Held,
    trusted: &[String],
    names: &[String],
    now: Timestamp,
) -> Result<Plan, rcgen::Error> {
    let authority = match current(held, now) {
        Some(authority) => authority,
        None => make::authority(now)?,
    };
    let mut authorities = vec![authority.certificate.clone()];
    for other in held.authorities.iter().chain(trusted) {
        let is_good = make::expires(other).is_some_and(|end| end > now);
        if is_good && !authorities.contains(other) {
            authorities.push(other.clone());
        }
    }
    authorities.truncate(AUTHORITIES);

    let serving = &held.serving;
    let works =
        make::fits(serving) && make::verifies(&serving.certificate, &authorities, names, now);
    let is_young = || {
        let newest = std::slice::from_ref(&authority.certificate);
        make::verifies(&serving.certificate, newest, names, now + third(SERVING_DAYS))
    };
    let is_trusted = trusted.contains(&authority.certificate);
    let serving = match works && (!is_trusted || is_young()) {
        true => serving.clone(),
        false => make::serving(&authority, names, now)?,
    };
    Ok(Plan {
        trusted: authorities.clone(),
        held: Held { authorities, key: authority.key, serving },
    })
}

/// The newest CA, if it may still sign: its key matches, and more than a third of its lifetime is left.
fn current(held: &Held, now: Timestamp) -> Option<Pair> {
    let newest = held.authorities.first()?;
    let pair = Pair { certificate: newest.clone(), key: held.key.clone() };
    let is_young = make::expires(newest)? > now + third(AUTHORITY_DAYS);
    (is_young && make::fits(&pair)).then_some(pair)
}

fn third(days: u16) -> SignedDuration {
    SignedDuration::from_hours(i64::from(days) * 24 / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: SignedDuration = SignedDuration::from_hours(5 * 24);

    fn names() -> Vec<String> {
        vec!["quotad.quota-system.svc".to_owned()]
    }

    fn start() -> Timestamp {
        "2026-11-22T12:00:00Z".parse().unwrap()
    }

    /// API servers and pods: each of them has the latest state, or the one before.
    #[derive(Clone, Default)]
    struct World {
        held: Held,
        trusted: Vec<String>,
    }

    impl World {
        fn step(&mut self, names: &[String], now: Timestamp, writes: usize) {
            let plan = plan(&self.held, &self.trusted, names, now).unwrap();
            if writes > 0 {
                self.trusted = plan.trusted;
            }
            if writes > 1 {
                self.held = plan.held;
            }
        }
    }

    #[test]
    fn what_is_served_is_trusted_at_every_time() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let first = world.clone();
        let mut before = world.clone();
        let mut authorities = 1;
        // 30 years, in which the bridge often ends between its writes.
        for step in 1..(30 * 365 / 5) {
            let now = start() + STEP * step;
            let newest = world.held.authorities.first().cloned();
            world.step(&names(), now, usize::try_from(step * 7 % 5).unwrap().min(2));
            authorities += usize::from(world.held.authorities.first() != newest.as_ref());
            for seen in [&before, &world] {
                for served in [&before, &world] {
                    let certificate = &served.held.serving.certificate;
                    assert!(make::verifies(certificate, &seen.trusted, &names(), now), "at {now}");
                }
            }
            assert!(make::fits(&world.held.serving));
            assert!(world.trusted.len() <= 3, "old ones go when they are over");
            before = world.clone();
        }
        assert!((4..=6).contains(&authorities), "{authorities}");
        assert!(!world.trusted.contains(&first.trusted[0]));
    }

    #[test]
    fn nothing_changes_without_a_reason() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let before = world.clone();
        for days in [0, 1, 100, 240] {
            world.step(&names(), start() + SignedDuration::from_hours(days * 24), 2);
            assert_eq!(world.held, before.held);
            assert_eq!(world.trusted, before.trusted);
        }
    }

    #[test]
    fn what_others_destroy_is_made_again() {
        let mut world = World::default();
        world.step(&names(), start(), 2);
        let good = world.clone();
        let works = |world: &World, names: &[String]| {
            let serving = &world.held.serving;
            make::fits(serving)
                && make::verifies(&serving.certificate, &world.trusted, names, start())
        };
        type Destroy = fn(&mut World);
        let ways: [Destroy; 7] = [
            |world| world.held = Held::default(),
            |world| world.trusted.clear(),
            |world| world.held.key = "nothing".to_owned(),
            |world| world.held.serving.key = world.held.key.clone(),
            |world| world.held.serving.certificate = world.held.authorities[0].clone(),
            |world| world.held.authorities.clear(),
            |world| *world = World::default(),
        ];
        for (number, destroy) in ways.into_iter().enumerate() {
            let mut world = good.clone();
            destroy(&mut world);
            for _ in 0..3 {
                world.step(&names(), start(), 2);
            }
            assert!(works(&world, &names()), "way {number}");
            // What pods still serve stays trusted, if anybody still knows of it.
            if number == 0 || number == 5 {
                let served = &good.held.serving.certificate;
                assert!(make::verifies(served, &world.trusted, &names(), start()));
            }
        }
        let other = vec!["other.ns.svc".to_owned()];
        world.step(&other, start(), 2);
        assert!(works(&world, &other), "another name needs a new one");
        assert_eq!(world.trusted, good.trusted);
    }
}
