//! `ledger simulate`: the simulation of other limits, on a directory.

use std::ops::ControlFlow;

use quota_client::wire::{LimitKind, Simulation};
use quota_core::{
    decide::{GroupBounds, Refusal},
    simulate::{self, Candidates, Subject, Unsimulated},
    time::Period,
};
use quota_journal::Offline;
use quota_ledger::replay::{self as ledger_replay, Until};
use quota_semantics::{Span, Timestamp, candidate::CandidateError};

use super::{replay, report, unfolded};
use crate::{
    age,
    args::Simulate,
    client,
    failure::{Exit, Failure, Outcome},
    output::{Output, to_json},
    progress::Progress,
    session::Scope,
    simulate::{Limits, days, ended, lines, show},
};

/// Simulates limits over a period of the ledger.
pub(super) fn run(ledger: &Offline, output: &Output, scope: &Scope, args: &Simulate) -> Outcome {
    let limits = Limits::load(scope, args)?;
    let (from, to) = args.period.resolve(age::now(), Some(days(14)))?;
    // The period is `[from, to)`.
    let until = |time: Timestamp| Until::Time(time.minus(Span::from_nanoseconds(1)));
    let mut state = report::base(ledger, Period { from, to })?;
    replay::fold(ledger, &mut state, until(from), |_| {})?;
    let before = state.head().sequence;
    let mut candidates = Candidates::default();
    for candidate in limits.candidates.clone() {
        candidates.add(candidate);
    }
    candidates.deleted = limits.delete.iter().map(subject).collect();
    let bounds = GroupBounds::default();
    let begun = simulate::Simulation::begin(state, from, candidates, Vec::new(), &bounds);
    let mut simulation = begun.map_err(|refused| unset(&limits, refused))?;
    let progress = Progress::slowly_over("simulating", before + 1, ledger.last_sequence());
    let mut differs = None;
    let mut batches = ledger.batches(before + 1);
    let read = ledger_replay::entries(&mut batches, before, until(to), |entry| {
        progress.at(entry.sequence);
        match simulation.step(entry) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                differs = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    drop(progress);
    read.map_err(unfolded)?;
    let outcome = match differs {
        None => simulation.finish(to),
        Some(error) => Err(error.into()),
    };
    let outcome = outcome.map_err(|error| {
        let exit = match error {
            Unsimulated::NotReproducible(_) => Exit::Conflict,
            Unsimulated::Unknown(_) => Exit::NotFound,
        };
        Failure::new(exit, error.to_string())
    })?;
    let json = to_json(&outcome)?;
    let simulation: Simulation = client::read(&json)?;
    show(output, &simulation, &json)?;
    ended(&simulation, args.fail_on_refusal)
}

fn subject(name: &quota_client::wire::LimitName) -> Subject {
    let is_quota = name.kind == LimitKind::ResourceQuota;
    Subject { namespace: name.namespace.clone().filter(|_| is_quota), name: name.name.clone() }
}

/// The failure for candidates that cannot be set.
fn unset(limits: &Limits, refused: Vec<(usize, Refusal)>) -> Failure {
    let wrong = refused.into_iter().flat_map(|(number, refusal)| {
        let error = match refusal {
            Refusal::Invalid(errors) => CandidateError::Invalid(errors),
            other => CandidateError::Unreadable(other.to_string()),
        };
        match limits.document(number) {
            Some(document) => lines(document, error),
            None => vec![error.to_string()],
        }
    });
    Failure {
        figures: Some(wrong.collect::<Vec<_>>().join("\n")),
        ..Failure::general("the limits are not valid")
    }
}
