//! Whether a history can be put in an order that respects time and in which every answer is right: the search of
//! Wing and Gong, with Lowe's memory of what was tried. It knows nothing of sequences.

use std::collections::HashSet;

use super::history::{Operation, Reply, step};

const NONE: usize = usize::MAX;

/// A call or a return, in a list from which both are taken when the operation is put in order.
struct Entry {
    operation: usize,
    /// Of a call: its return.
    returns: Option<usize>,
    before: usize,
    after: usize,
}

struct Search<'a> {
    operations: &'a [Operation],
    hard: i64,
    entries: Vec<Entry>,
    ordered: Vec<u64>,
    held: i64,
}

/// The operations of one namespace, of which nothing is held at the beginning.
pub fn is_linearizable(operations: &[Operation], hard: i64) -> bool {
    Search::new(operations, hard).run()
}

impl<'a> Search<'a> {
    fn new(operations: &'a [Operation], hard: i64) -> Self {
        let calls = operations.iter().map(|operation| (operation.called, 0));
        let returns = operations.iter().map(|operation| (operation.returned(), 1));
        let mut moments: Vec<_> = calls.enumerate().chain(returns.enumerate()).collect();
        // At the same moment calls come first, so that the two are concurrent.
        moments.sort_by_key(|(operation, (time, is_return))| (*time, *is_return, *operation));
        // The first entry is the head of the list.
        let mut entries = vec![Entry { operation: NONE, returns: None, before: NONE, after: NONE }];
        let mut calls = vec![0; operations.len()];
        for (operation, (_, is_return)) in moments {
            let place = entries.len();
            match is_return {
                0 => calls[operation] = place,
                _ => entries[calls[operation]].returns = Some(place),
            }
            entries[place - 1].after = place;
            entries.push(Entry { operation, returns: None, before: place - 1, after: NONE });
        }
        Self { operations, hard, entries, ordered: vec![0; operations.len().div_ceil(64)], held: 0 }
    }

    /// What may be held after an operation. One that was never answered may not have happened, or been denied.
    fn choices(&self, operation: usize) -> Vec<i64> {
        let Operation { request, answer, .. } = &self.operations[operation];
        match answer {
            Some((_, reply)) => step(self.held, self.hard, *request, *reply).into_iter().collect(),
            None => {
                let done = step(self.held, self.hard, *request, Reply::Done);
                done.into_iter().chain([self.held]).collect()
            }
        }
    }

    fn run(mut self) -> bool {
        let mut tried = HashSet::new();
        let mut path: Vec<(usize, i64, usize)> = Vec::new();
        let (mut at, mut choice) = (self.entries[0].after, 0);
        while self.entries[0].after != NONE {
            let Entry { operation, returns, after, .. } = self.entries[at];
            if returns.is_none() {
                // It has to be put in order before this, and cannot: what was done last was wrong.
                let Some((last, held, tried)) = path.pop() else {
                    return false;
                };
                self.held = held;
                self.put_back(last);
                (at, choice) = (last, tried + 1);
                continue;
            }
            let Some(held) = self.choices(operation).get(choice).copied() else {
                (at, choice) = (after, 0);
                continue;
            };
            self.ordered[operation / 64] |= 1 << (operation % 64);
            let is_new = tried.insert((self.ordered.clone(), held));
            if !is_new {
                self.ordered[operation / 64] &= !(1 << (operation % 64));
                choice += 1;
                continue;
            }
            path.push((at, self.held, choice));
            self.held = held;
            self.take(at);
            (at, choice) = (self.entries[0].after, 0);
        }
        true
    }

    fn take(&mut self, call: usize) {
        self.unlink(call);
        self.unlink(self.entries[call].returns.unwrap());
    }

    fn put_back(&mut self, call: usize) {
        let operation = self.entries[call].operation;
        self.ordered[operation / 64] &= !(1 << (operation % 64));
        self.link(self.entries[call].returns.unwrap());
        self.link(call);
    }

    fn unlink(&mut self, place: usize) {
        let Entry { before, after, .. } = self.entries[place];
        self.entries[before].after = after;
        if after != NONE {
            self.entries[after].before = before;
        }
    }

    fn link(&mut self, place: usize) {
        let Entry { before, after, .. } = self.entries[place];
        self.entries[before].after = place;
        if after != NONE {
            self.entries[after].before = place;
        }
    }
}
