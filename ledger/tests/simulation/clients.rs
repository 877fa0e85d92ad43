//! Clients: their requests, the repetition of unanswered requests, and the answers that they remember.

use std::collections::{BTreeMap, BTreeSet};

use quota_core::decide::{Basis, QuotaChange, Request};
use quota_semantics::{Name, uid::Uid};

use super::{
    account::{Checked, ensure},
    daemon::{Op, Said},
    settings::Settings,
    things::{footprint, namespace, reserve_request, spec, uid},
};
use quota_testkit::simulation::Random;

/// Objects are numbered, and a number fits into a byte.
const OBJECTS: u8 = 240;

/// A client, which waits for one answer at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// The request without an answer yet, with its number.
    pub(crate) pending: Option<(u64, Op)>,
    /// Whether the request is in the daemon's queue, as far as the client can tell.
    pub(crate) is_sent: bool,
}

/// The shared state of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    pub(crate) all: Vec<Client>,
    /// Creations that were requested, by object.
    pub(crate) created: BTreeMap<u8, Request>,
    /// Granted creations, and the entry of each.
    granted: BTreeMap<u8, u64>,
    /// Objects for which an update was requested.
    updated: BTreeSet<u8>,
    numbers: BTreeMap<Uid, u8>,
    next: u8,
    number: u64,
    repeated: bool,
}

impl Clients {
    pub(crate) fn new(count: u64) -> Self {
        Self { all: (0..count).map(|_| Client::default()).collect(), ..Self::default() }
    }

    /// Whether the last request of a client is a repetition.
    pub(crate) const fn is_repeated(&self) -> bool {
        self.repeated
    }

    pub(crate) fn is_granted(&self, number: u8) -> bool {
        self.granted.contains_key(&number)
    }

    /// The daemon has died: requests in flight may have been decided or not.
    pub(crate) fn daemon_died(&mut self) {
        for client in &mut self.all {
            client.is_sent = false;
        }
    }

    /// The next request of a client.
    pub(crate) fn ask(
        &mut self,
        client: usize,
        random: &mut Random,
        settings: &Settings,
    ) -> Option<(u64, Op)> {
        if self.all[client].is_sent {
            return None;
        }
        self.repeated = self.all[client].pending.is_some();
        if self.all[client].pending.is_none() {
            self.number += 1;
            let op = self.op(random, settings);
            self.all[client].pending = Some((self.number, op));
        }
        self.all[client].is_sent = true;
        self.all[client].pending.clone()
    }

    fn op(&mut self, random: &mut Random, settings: &Settings) -> Op {
        let space = u8::try_from(random.below(settings.namespaces)).unwrap_or(0);
        match random.below(20) {
            0..=5 => Op::Reserve(self.create(space, random, settings)),
            6 => Op::ReserveAll((0..2).map(|_| self.create(space, random, settings)).collect()),
            7..=8 => {
                let request = self.create(space, random, settings);
                // A reservation that has ended is decided anew for an API server, so another grant replaces the first
                // one.
                self.updated.insert(self.next);
                Op::Admit(Request { ttl: None, ..request })
            }
            9 => Op::Check(self.create(space, random, settings)),
            10..=11 => {
                self.again(random).map_or_else(|| quota(space, random, settings), Op::Reserve)
            }
            12 => {
                // The ledger remembers one reservation of an object: an update replaces the creation.
                let number = self.requested_before(random);
                self.granted.remove(&number);
                self.updated.insert(number);
                let footprint = footprint(random.below(5), true, false);
                let basis = Basis::Update { version: 1 + random.below(20) };
                Op::Reserve(reserve_request(
                    number,
                    self.space(number, space),
                    None,
                    footprint,
                    basis,
                    settings.ttl,
                ))
            }
            13..=14 => {
                let number = self.requested_before(random);
                Op::Release(self.space(number, space), number)
            }
            15 => {
                let number = self.requested_before(random);
                Op::Extend(
                    self.space(number, space),
                    number,
                    1 + random.within(0, 2 * settings.ttl),
                )
            }
            16 => {
                let number = self.requested_before(random);
                Op::Commit(self.space(number, space), number)
            }
            17..=18 => quota(space, random, settings),
            _ => {
                Op::DeleteQuota(namespace(space), Name::from(format!("quota-{}", random.below(3))))
            }
        }
    }

    /// A new object, sometimes with the name of another.
    fn create(&mut self, space: u8, random: &mut Random, settings: &Settings) -> Request {
        self.next = (self.next + 1).min(OBJECTS);
        let number = self.next;
        let name = match random.below(4) {
            0 => u8::try_from(random.below(u64::from(number))).unwrap_or(0),
            _ => number,
        };
        let amount = random.below(5);
        let ttl = 1 + random.within(0, settings.ttl);
        let request = reserve_request(
            number,
            space,
            Some(name),
            footprint(amount, true, random.chance(300)),
            Basis::Create,
            ttl,
        );
        self.numbers.insert(request.uid.clone(), number);
        self.created.entry(number).or_insert(request).clone()
    }

    /// A request that was made before, perhaps long ago; sometimes for another amount.
    fn again(&self, random: &mut Random) -> Option<Request> {
        let request = self.created.get(&self.requested_before(random))?;
        let mut request = request.clone();
        if random.chance(200) {
            request.footprint = footprint(9, true, false).into();
        }
        Some(request)
    }

    /// An object that was requested, preferably a recent one.
    pub(crate) fn requested_before(&self, random: &mut Random) -> u8 {
        let last = u64::from(self.next);
        let back = random.below(last.min(12)).max(random.below(last) / 4);
        u8::try_from(last.saturating_sub(back)).unwrap_or(0)
    }

    pub(crate) fn space(&self, number: u8, otherwise: u8) -> u8 {
        let space = self.created.get(&number).map(|request| request.namespace.clone());
        match space.as_deref() {
            Some("team-0") => 0,
            Some("team-1") => 1,
            _ => otherwise,
        }
    }

    /// I10: an answer has arrived; it must not contradict earlier ones.
    pub(crate) fn answered(&mut self, client: usize, number: u64, said: &Said) -> Checked {
        let Some((requested, op)) = self.all[client].pending.clone() else {
            return Ok(());
        };
        // An answer to an earlier request, which was repeated since.
        if requested != number {
            return Ok(());
        }
        self.all[client] = Client::default();
        match (&op, said) {
            (Op::Reserve(request) | Op::Admit(request), said) if request.basis == Basis::Create => {
                self.granted_or_not(request, said, matches!(op, Op::Admit(_)))
            }
            (Op::ReserveAll(requests), Said::Granted(entries)) => {
                for (request, entry) in requests.iter().zip(entries) {
                    self.granted_or_not(request, &Said::Granted(vec![*entry]), false)?;
                }
                Ok(())
            }
            (
                Op::Release(space, object)
                | Op::Extend(space, object, _)
                | Op::Commit(space, object),
                Said::NotFound,
            ) => {
                let here = self.space(*object, *space) == *space;
                ensure!(
                    !here || !self.is_granted(*object),
                    "I4: the grant to {} is forgotten",
                    uid(*object)
                );
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn granted_or_not(&mut self, request: &Request, said: &Said, admits: bool) -> Checked {
        let Some(object) = self.numbers.get(&request.uid).copied() else {
            return Ok(());
        };
        if self.updated.contains(&object) {
            return Ok(());
        }
        let is_same = self.created.get(&object).is_some_and(|created| {
            created.footprint == request.footprint && created.ttl == request.ttl
        });
        let granted = self.granted.get(&object).copied();
        match (said, granted) {
            (Said::Granted(entries), None) if is_same => {
                let entry = entries.first().copied().unwrap_or(0);
                self.granted.insert(object, entry);
                Ok(())
            }
            // An API server may repeat a request after other webhooks have changed the object: it is reconsidered.
            _ if admits => Ok(()),
            (Said::Ended, Some(_)) => Ok(()),
            (Said::Granted(entries), Some(entry)) => {
                ensure!(is_same, "I10: {} is granted for something else", request.uid);
                ensure!(
                    entries == &[entry],
                    "I10: {} was granted at {entry}, and now at {entries:?}",
                    request.uid
                );
                Ok(())
            }
            (said, Some(entry)) if is_same => {
                Err(format!("I10: {} was granted at {entry}, and now is {said:?}", request.uid))
            }
            _ => Ok(()),
        }
    }
}

fn quota(space: u8, random: &mut Random, settings: &Settings) -> Op {
    let number = u8::try_from(random.below(3)).unwrap_or(0);
    Op::SetQuota(QuotaChange {
        namespace: namespace(space),
        name: Name::from(format!("quota-{number}")),
        fresh_uid: Uid::from_uuid([200 + number; 16]),
        spec: spec(random.below(settings.hard + 1), u8::try_from(random.below(4)).unwrap_or(0)),
        metadata: Box::default(),
        precondition: None,
    })
}
