//! Whether this node makes decisions: only while it leads, and no more once its state proves wrong.

use tokio::sync::watch;

use super::{Inbox, Waiting};

/// Whether this node makes decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::writer) enum Gate {
    /// Decisions are made.
    Open,
    /// No new jobs are accepted; accepted ones are decided and made durable.
    Closing,
    /// No decisions are made, and the state equals the journal: another node decides.
    Shut,
    /// Another node leads: decisions that are not durable are dropped once the syncer is idle. Until then its batch may
    /// still become durable.
    Voiding,
    /// No decisions are made, and the state holds dropped decisions: it has to be rebuilt.
    Void,
}

impl Inbox {
    /// The gate, and notifications of its changes.
    pub(in crate::writer) fn gate(&self) -> watch::Receiver<Gate> {
        self.gate.subscribe()
    }

    /// Whether decisions are made.
    pub(in crate::writer) fn is_open(&self) -> bool {
        *self.gate.borrow() == Gate::Open
    }

    /// How often the gate was opened.
    pub(in crate::writer) fn term(&self) -> u64 {
        self.waiting.lock().term
    }

    /// Begins to make decisions, unless barred. The state equals the journal.
    pub(in crate::writer) fn open(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.must_not_decide() {
            return;
        }
        waiting.term += 1;
        waiting.may_stay_open = false;
        self.set_gate(&mut waiting, Gate::Open);
        self.wake_at_once(waiting);
    }

    /// Accepts no more jobs until the gate is opened again; accepted ones are decided. The gate is shut when all
    /// decisions are durable.
    pub(in crate::writer) fn begin_to_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Open {
            waiting.may_stay_open = true;
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
    }

    /// Shuts the gate for good, whichever node leads: undecided jobs are dropped.
    pub(in crate::writer) fn bar(&self) {
        self.stop_deciding(|waiting| waiting.is_barred = true);
    }

    /// As [`Inbox::bar`], until [`Inbox::resume`].
    pub(in crate::writer) fn suspend(&self) {
        self.stop_deciding(|waiting| waiting.is_suspended = true);
    }

    /// The gate can be opened again.
    pub(in crate::writer) fn resume(&self) {
        self.waiting.lock().is_suspended = false;
    }

    /// Whether the gate was shut until [`Inbox::resume`].
    pub(in crate::writer) fn is_suspended(&self) -> bool {
        self.waiting.lock().is_suspended
    }

    fn stop_deciding(&self, mark: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting.lock();
        mark(&mut waiting);
        waiting.may_stay_open = false;
        let dropped = std::mem::take(&mut waiting.jobs);
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
        drop(dropped);
    }

    /// Accepts jobs again after [`Inbox::begin_to_shut`], unless another node has led since.
    pub(in crate::writer) fn stay_open(&self) {
        let mut waiting = self.waiting.lock();
        if std::mem::take(&mut waiting.may_stay_open) {
            self.set_gate(&mut waiting, Gate::Open);
        }
        self.wake_at_once(waiting);
    }

    /// Another node is to lead: [`Inbox::stay_open`] has no effect any more.
    pub(in crate::writer) fn stay_shut(&self) {
        self.waiting.lock().may_stay_open = false;
    }

    /// The decider has made all its decisions durable. Jobs that it has put back are decided first.
    pub(in crate::writer) fn has_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Closing && waiting.jobs.is_empty() {
            self.set_gate(&mut waiting, Gate::Shut);
        }
    }

    /// The decider has dropped its decisions.
    pub(in crate::writer) fn has_voided(&self) {
        self.set_gate_from(Gate::Voiding, Gate::Void);
    }

    /// The state was rebuilt from the journal.
    pub(in crate::writer) fn is_rebuilt(&self) {
        self.set_gate_from(Gate::Void, Gate::Shut);
    }

    /// Marks decisions of this term that are not durable as void.
    pub(in crate::writer) fn void(&self, term: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.term != term || !matches!(waiting.gate, Gate::Open | Gate::Closing | Gate::Shut)
        {
            return;
        }
        let dropped = (waiting.batch.take(), std::mem::take(&mut waiting.jobs));
        if dropped.0.is_some() {
            waiting.idle = Some(waiting.idle_now());
        }
        waiting.may_stay_open = false;
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
