//! Whether decisions are made here: only while this node leads, and no more once its state is known to be wrong.

use tokio::sync::watch;

use super::{Inbox, Waiting};

/// Whether decisions are made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::writer) enum Gate {
    /// They are.
    Open,
    /// No new ones are taken; those that were taken are decided and made durable.
    Closing,
    /// None are made, and the state is that of the journal: another node decides.
    Shut,
    /// Another node leads: what was decided and is not durable is being dropped.
    Voiding,
    /// None are made, and the state holds decisions that were dropped: it has to be rebuilt.
    Void,
}

impl Inbox {
    /// Whether decisions are made, and when that changes.
    pub(in crate::writer) fn gate(&self) -> watch::Receiver<Gate> {
        self.gate.subscribe()
    }

    /// Whether decisions are made.
    pub(in crate::writer) fn is_open(&self) -> bool {
        *self.gate.borrow() == Gate::Open
    }

    /// How often decisions began to be made.
    pub(in crate::writer) fn term(&self) -> u64 {
        self.waiting.lock().term
    }

    /// From now on decisions are made. The state is that of the journal. If it is barred, none are.
    pub(in crate::writer) fn open(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.is_barred {
            return;
        }
        waiting.term += 1;
        self.set_gate(&mut waiting, Gate::Open);
        self.wake_at_once(waiting);
    }

    /// Takes no more decisions until it is opened again; those that were taken are made. The gate is shut when all of
    /// them are durable.
    pub(in crate::writer) fn begin_to_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
    }

    /// Shuts the gate for good, whoever leads: what was not decided yet is dropped.
    pub(in crate::writer) fn bar(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_barred = true;
        let dropped = std::mem::take(&mut waiting.jobs);
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
        drop(dropped);
    }

    /// Takes decisions again, since the role was not given away after all.
    pub(in crate::writer) fn stay_open(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_barred && matches!(waiting.gate, Gate::Closing | Gate::Shut) {
            self.set_gate(&mut waiting, Gate::Open);
        }
        self.wake_at_once(waiting);
    }

    /// The decider has made all decisions that it took, and they are durable. What it has put back is decided first.
    pub(in crate::writer) fn has_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Closing && waiting.jobs.is_empty() {
            self.set_gate(&mut waiting, Gate::Shut);
        }
    }

    /// The decider has dropped what was decided.
    pub(in crate::writer) fn has_voided(&self) {
        self.set_gate_from(Gate::Voiding, Gate::Void);
    }

    /// The state was rebuilt from the journal.
    pub(in crate::writer) fn is_rebuilt(&self) {
        self.set_gate_from(Gate::Void, Gate::Shut);
    }

    /// What was decided in this term and is not durable will never be.
    pub(in crate::writer) fn void(&self, term: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.term != term || !matches!(waiting.gate, Gate::Open | Gate::Closing | Gate::Shut)
        {
            return;
        }
        waiting.idle = Some(waiting.idle_now());
        let dropped = (waiting.batch.take(), std::mem::take(&mut waiting.jobs));
        self.set_gate(&mut waiting, Gate::Voiding);
        self.wake_decider(waiting);
        drop(dropped);
    }

    fn set_gate_from(&self, before: Gate, gate: Gate) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == before {
            self.set_gate(&mut waiting, gate);
        }
    }

    fn set_gate(&self, waiting: &mut Waiting, gate: Gate) {
        waiting.gate = gate;
        self.gate.send_replace(gate);
    }
}
