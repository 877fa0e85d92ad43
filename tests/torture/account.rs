//! What the entries amount to when they are counted as naively as possible, and who has to agree with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    COUNT, HARD_COUNT, HARD_UNITS, NAMESPACES, UNITS,
    clients::{Acknowledged, What},
    faults::last,
    producer::Published,
    support::{PATIENCE, quotad::Quotad},
};

/// How often is looked how far the daemon is.
const TICK: Duration = Duration::from_millis(20);

/// Units, and number of objects.
type Amounts = (u64, u64);

/// What one object holds or uses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    namespace: String,
    amounts: Amounts,
}

/// What the entries say of one reservation: where, and for how much.
#[derive(Default)]
struct Life {
    granted: Vec<(u64, u64)>,
    extended: Vec<u64>,
    committed: Vec<(u64, u64)>,
    ended: Vec<(&'static str, u64)>,
    /// What was committed was observed.
    is_replaced: bool,
}

/// How often the stream was emptied, and made anew.
pub(crate) struct Losses {
    pub(crate) purged: u64,
    pub(crate) recreated: u64,
}

#[derive(Default)]
pub(crate) struct Account {
    entries: u64,
    last_time: String,
    position: u64,
    resets: u64,
    gaps: u64,
    used: BTreeMap<String, Share>,
    pending: BTreeMap<String, Share>,
    /// Those of the used ones that were committed and never seen.
    committed: BTreeMap<String, Share>,
    deleted: BTreeSet<String>,
    lives: BTreeMap<String, Life>,
    wrong: Vec<String>,
}

impl Account {
    /// Counts all entries, until the daemon has reached the end of the stream. The end is read each time: a server that has
    /// just begun to lead may report an earlier end, and if it has lost its last messages the daemon reads it again.
    pub(crate) fn take(daemon: &Quotad, urls: &str) -> Self {
        let mut account = Self::default();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let last = last(urls);
            account.go_on(daemon);
            if account.position == last {
                return account;
            }
            assert!(
                Instant::now() < deadline,
                "the daemon has consumed up to {}, and the stream ends at {last}",
                account.position
            );
            std::thread::sleep(TICK);
        }
    }

    fn go_on(&mut self, daemon: &Quotad) {
        let (entries, _) = daemon.list(&format!("/v1/entries?from={}", self.entries + 1));
        for entry in entries {
            self.count(&entry);
        }
    }

    fn count(&mut self, entry: &Value) {
        let sequence = entry["sequence"].as_u64().unwrap();
        let time = entry["time"].as_str().unwrap();
        self.entries += 1;
        if sequence != self.entries {
            self.wrong.push(format!("{sequence} stands where {} should", self.entries));
        }
        let order = |time: &str| time.parse::<quota_semantics::Timestamp>().unwrap();
        if !self.last_time.is_empty() && order(time) < order(&self.last_time) {
            self.wrong.push(format!("{sequence} is earlier than before"));
        }
        time.clone_into(&mut self.last_time);
        self.apply(sequence, &entry["event"]);
    }

    fn apply(&mut self, sequence: u64, event: &Value) {
        let uid = event["uid"].as_str().unwrap_or_default();
        let share = |resources: &Value| Share {
            namespace: event["namespace"].as_str().unwrap().to_owned(),
            amounts: amounts(resources),
        };
        match event["type"].as_str().unwrap() {
            "QuotaSet" => {}
            "SourceReset" => {
                self.resets += 1;
                self.position = 0;
            }
            "SourceGapped" => self.gaps += 1,
            "ObjectObserved" => {
                if self.deleted.contains(uid) {
                    self.wrong.push(format!("{sequence}: {uid} was deleted"));
                }
                let seen = share(&event["footprint"]["resources"]);
                self.used.insert(uid.to_owned(), seen);
                self.replace_commit(uid);
                self.end_if(event["endsReservation"] == true, uid, "observed", sequence);
            }
            "ObjectRefreshed" => {
                self.end_if(event["endsReservation"] == true, uid, "observed", sequence);
            }
            "ObjectDeleted" => {
                self.used.remove(uid);
                self.replace_commit(uid);
                self.deleted.insert(uid.to_owned());
                self.end_if(self.pending.contains_key(uid), uid, "observed", sequence);
            }
            "ReservationGranted" => {
                let granted = share(&event["footprint"]["resources"]);
                let units = granted.amounts.0;
                self.life(uid).granted.push((sequence, units));
                let namespace = granted.namespace.clone();
                self.pending.insert(uid.to_owned(), granted);
                self.fits(sequence, &namespace);
            }
            "ReservationExtended" => self.life(uid).extended.push(sequence),
            "ReservationCommitted" => {
                let committed = share(&event["resources"]);
                self.life(uid).committed.push((sequence, committed.amounts.0));
                self.committed.insert(uid.to_owned(), committed.clone());
                self.used.insert(uid.to_owned(), committed);
                self.end_if(true, uid, "committed", sequence);
            }
            "ReservationReleased" => self.end_if(true, uid, "released", sequence),
            "ReservationExpired" => self.end_if(true, uid, "expired", sequence),
            // How far it was consumed before it was reset.
            "SourceAdvanced" if event["source"] == "OBJECTS/former" => {}
            "SourceAdvanced" => {
                let position = event["cursor"]["position"].as_u64().unwrap();
                if position <= self.position {
                    self.wrong.push(format!("{sequence}: message {position} is consumed again"));
                }
                self.position = position;
            }
            _ => self.wrong.push(format!("{sequence}: unexpected {event}")),
        }
    }

    fn end_if(&mut self, ends: bool, uid: &str, how: &'static str, sequence: u64) {
        if !ends {
            return;
        }
        self.life(uid).ended.push((how, sequence));
        if self.pending.remove(uid).is_none() {
            self.wrong.push(format!("{sequence}: {uid} is {how}, and was not pending"));
        }
    }

    /// A source has the last word on an object that its holder said exists.
    fn replace_commit(&mut self, uid: &str) {
        if self.committed.remove(uid).is_some() {
            self.life(uid).is_replaced = true;
        }
    }

    fn life(&mut self, uid: &str) -> &mut Life {
        self.lives.entry(uid.to_owned()).or_default()
    }

    fn fits(&mut self, sequence: u64, namespace: &str) {
        let (used, pending) = (sum(&self.used, namespace), sum(&self.pending, namespace));
        let counted = (used.0 + pending.0, used.1 + pending.1);
        if counted.0 > HARD_UNITS || counted.1 > HARD_COUNT {
            self.wrong.push(format!("{sequence}: granted {counted:?} in {namespace}"));
        }
    }

    pub(crate) fn grants(&self) -> usize {
        self.lives.values().map(|life| life.granted.len()).sum()
    }

    pub(crate) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Dense, in the order of time, nothing twice, nothing over a limit when it was granted.
    pub(crate) fn is_in_order(&self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        for (uid, life) in &self.lives {
            assert_eq!(life.granted.len(), 1, "grants of {uid}");
            assert!(life.ended.len() <= 1, "{uid}: {:?}", life.ended);
        }
    }

    /// Messages that were lost stand in the entries as such, and a stream that began anew as one.
    pub(crate) fn shows_losses(&self, losses: &Losses) {
        let Losses { purged, recreated } = *losses;
        // A server that is killed may itself forget that a purged stream had messages.
        assert!(self.resets >= recreated.min(1), "{} resets", self.resets);
        let shown = self.gaps + self.resets;
        assert!(shown >= purged.min(1), "{} gaps", self.gaps);
        let gaps = self.gaps;
        assert!(purged + recreated > 0 || gaps == 0, "{gaps} gaps");
    }

    /// Every acknowledged request is in the entries, not later than its acknowledgement.
    pub(crate) fn holds(&self, acknowledged: &[Acknowledged]) {
        let mut lost = Vec::new();
        for Acknowledged { uid, what, sequence } in acknowledged {
            let none = Life::default();
            let life = self.lives.get(uid).unwrap_or(&none);
            let in_time = |entry: u64| sequence.is_none_or(|latest| entry <= latest);
            let ended = |ways: &[&str]| {
                let mut ended = life.ended.iter();
                ended.any(|(how, entry)| ways.contains(how) && in_time(*entry))
            };
            let stands = match *what {
                What::Granted { units } => life
                    .granted
                    .first()
                    .is_some_and(|(entry, granted)| *granted == units && in_time(*entry)),
                What::Extended => life.extended.iter().any(|entry| in_time(*entry)),
                What::Committed { units } => life
                    .committed
                    .first()
                    .is_some_and(|(entry, committed)| *committed == units && in_time(*entry)),
                What::Released => ended(&["released", "expired"]),
                What::Expired => ended(&["expired"]),
            };
            if !stands {
                lost.push(format!("{uid}: {what:?} as of {sequence:?}"));
            }
        }
        assert!(lost.is_empty(), "{lost:#?}");
        let kinds =
            |wanted: fn(&What) -> bool| acknowledged.iter().filter(|one| wanted(&one.what)).count();
        assert!(kinds(|what| matches!(what, What::Granted { .. })) > 0);
        assert!(kinds(|what| matches!(what, What::Committed { .. })) > 0);
        assert!(kinds(|what| matches!(what, What::Released)) > 0);
    }

    /// Every event counted, and none twice: what is used is what was published, and what was only committed.
    pub(crate) fn agrees_with(&self, published: &Published) {
        let alive = published.objects.iter().filter_map(|(uid, state)| {
            let alive = (*state)?;
            let share = Share { namespace: alive.namespace.to_owned(), amounts: (alive.units, 1) };
            Some((uid.clone(), share))
        });
        let mut expected: BTreeMap<_, _> = alive.collect();
        for (uid, share) in &self.committed {
            assert!(!published.objects.contains_key(uid), "{uid} was published, and not seen");
            expected.insert(uid.clone(), share.clone());
        }
        assert_eq!(self.used, expected);
    }

    /// The daemon gives the same numbers, and the same end of every reservation.
    pub(crate) fn is_what_is_served(&mut self, daemon: &Quotad) {
        // Reservations go on expiring: until two looks find the ledger in the same place.
        let (quotas, pending) = loop {
            self.go_on(daemon);
            let (quotas, before) = daemon.list("/v1/quotas");
            let mut pending = Vec::new();
            let mut after = before;
            for namespace in NAMESPACES {
                let path = format!("/v1/namespaces/{namespace}/reservations");
                let (items, sequence) = daemon.list(&path);
                pending.extend(items);
                after = sequence;
            }
            if (before, after) == (self.entries, self.entries) {
                break (quotas, pending);
            }
        };
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        assert_eq!(quotas.len(), NAMESPACES.len());
        for quota in &quotas {
            let namespace = quota["metadata"]["namespace"].as_str().unwrap();
            let status = &quota["status"];
            assert_eq!(amounts(&status["used"]), sum(&self.used, namespace));
            assert_eq!(amounts(&status["reserved"]), sum(&self.pending, namespace));
        }
        let shown: BTreeMap<_, _> = pending
            .iter()
            .map(|item| {
                let share = Share {
                    namespace: item["namespace"].as_str().unwrap().to_owned(),
                    amounts: amounts(&item["reserved"]),
                };
                let uid = item["reservedBy"]["uid"].as_str().unwrap();
                (uid.to_owned(), share)
            })
            .collect();
        assert_eq!(shown, self.pending);
        self.every_reservation_is_remembered(daemon);
    }

    fn every_reservation_is_remembered(&self, daemon: &Quotad) {
        let mut fetch = daemon.asking();
        for (uid, life) in &self.lives {
            let Some((how, _)) = life.ended.first() else {
                continue;
            };
            let found = NAMESPACES.iter().find_map(|namespace| {
                fetch(&format!("/v1/namespaces/{namespace}/reservations/{uid}"))
            });
            let found = found.unwrap_or_else(|| panic!("{uid} is forgotten"));
            let state = if life.is_replaced { "observed" } else { how };
            assert_eq!(found["state"], state, "{uid}");
        }
    }
}

fn sum(shares: &BTreeMap<String, Share>, namespace: &str) -> Amounts {
    shares
        .values()
        .filter(|share| share.namespace == namespace)
        .fold((0, 0), |sum, share| (sum.0 + share.amounts.0, sum.1 + share.amounts.1))
}

fn amounts(resources: &Value) -> Amounts {
    let number = |name: &str| match resources[name].as_str() {
        Some(text) => text.parse().unwrap(),
        None => 0,
    };
    (number(UNITS), number(COUNT))
}
