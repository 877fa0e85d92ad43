//! The recorded history of a real Kubernetes control plane: at each checkpoint every number is the one that the real
//! quota controller had. What the files hold says `tests/vectors/HISTORY.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemon;
mod recording;
use quota_testkit as support;

use std::sync::Arc;

use bytes::Bytes;
use quota_core::{
    decide::{self, Verdict},
    event::Actor,
    source::Observation,
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{Span, Timestamp};
use quotad::intake::payload::Reader;

use recording::{Recording, compare};

/// A ledger that takes in the lines as the daemon does, at the times of the recording.
struct Ledger {
    state: State,
    reader: Arc<Reader>,
    actor: Arc<Actor>,
}

impl Ledger {
    fn new() -> Self {
        Self {
            state: State::default(),
            reader: Arc::new(Reader::new(&std::collections::BTreeMap::new(), true)),
            actor: Actor::named("recording"),
        }
    }

    fn take_in(&mut self, line: &str, now: Timestamp) {
        for event in self.reader.read(Bytes::copy_from_slice(line.as_bytes()), now) {
            let incoming = event.expect("every recorded event is understood");
            let Some(Observation::Sighting(sighting)) = incoming.observation else {
                continue;
            };
            if let Verdict::Accepted(events) = decide::observe(&self.state, sighting) {
                self.record(events, now);
            }
        }
    }

    fn record(&mut self, events: Vec<quota_core::event::Event>, now: Timestamp) {
        let mut open = OpenBatch::default();
        WriteTransaction::new(&mut self.state, &mut open, now).record(&self.actor, events);
    }

    fn reach(&mut self, now: Timestamp) {
        let due = decide::due(&self.state, now, now, Span::from_seconds(3600));
        self.record(due.collect(), now);
    }
}

#[test]
fn every_checkpoint_has_the_numbers_of_the_real_controller() {
    let recording = Recording::load();
    let mut ledger = Ledger::new();
    let mut compared = 0;
    let mut lines = recording.lines.iter();
    let mut now = Timestamp::EPOCH;
    let mut taken = 0;
    for checkpoint in &recording.checkpoints {
        for line in lines.by_ref().take(checkpoint.after_line - taken) {
            ledger.take_in(line, now);
        }
        taken = checkpoint.after_line;
        now = checkpoint.time;
        ledger.reach(now);
        compared += compare(checkpoint, |namespace, name| {
            let view = ledger.state.quota(namespace, name)?;
            let used = |figure: quota_core::state::Figure| Some((figure.resource, figure.used?));
            Some(view.figures.into_iter().filter_map(used).collect())
        });
    }
    assert_eq!(compared, 789, "values compared");
}

#[test]
fn the_sums_after_all_lines_do_not_depend_on_when_the_quotas_came() {
    let recording = Recording::load();
    let is_quota = |line: &&String| line.contains(r#""kind":"ResourceQuota""#);
    let (quotas, others): (Vec<&String>, Vec<&String>) = recording.lines.iter().partition(is_quota);
    let end = recording.checkpoints.last().unwrap();
    let mut in_order = Ledger::new();
    for line in &recording.lines {
        in_order.take_in(line, Timestamp::EPOCH);
    }
    let mut quotas_last = Ledger::new();
    for line in others.into_iter().chain(quotas) {
        quotas_last.take_in(line, Timestamp::EPOCH);
    }
    for ledger in [&mut in_order, &mut quotas_last] {
        ledger.reach(end.time);
    }
    for namespace in in_order.state.namespaces("") {
        let figures = |ledger: &Ledger| {
            ledger
                .state
                .quotas_view(namespace)
                .figures()
                .map(|(_, figures)| figures)
                .collect::<Vec<_>>()
        };
        assert_eq!(figures(&in_order), figures(&quotas_last), "{namespace}");
    }
}
