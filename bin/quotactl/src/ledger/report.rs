//! `ledger report`: what was consumed in a period, from the entries alone.

use std::ops::ControlFlow;

use quota_core::{
    event::Entry,
    state::State,
    time::{
        Period,
        report::{Question, Report, shown},
    },
};
use quota_journal::Offline;
use quota_ledger::{period, replay};
use quota_semantics::{Name, Span};

use super::{unfolded, unread};
use crate::{
    age,
    args::ReportArgs as Args,
    failure::{Failure, Outcome},
    output::{Output, to_json},
    progress::Progress,
    report::show,
};

/// Reports a period, of one namespace or of all.
pub(super) fn run(
    ledger: &Offline,
    args: &Args,
    output: &Output,
    namespace: Option<&str>,
) -> Outcome {
    let (from, to) = args.period.resolve(age::now(), None)?;
    let period = Period { from, to };
    let mut state = base(ledger, period)?;
    let first = state.head().sequence.saturating_add(1);
    let progress = Progress::slowly_over("reporting", first, ledger.last_sequence());
    let mut batches = ledger.batches(first);
    let visit = |entry: &Entry| {
        progress.at(entry.sequence);
        ControlFlow::Continue(())
    };
    let begin = |state: &State| {
        let question = question(args, period, namespace.map(Name::from));
        Report::begin(question, Vec::new(), state)
    };
    let folded = period::fold(&mut state, &mut batches, period, begin, visit);
    drop(progress);
    let (report, ends) = folded.map_err(unfolded)?;
    let hash = |sequence| match ledger.batches(sequence).next_batch() {
        Some(batch) => batch.map(|batch| Some(batch.hash.to_string())),
        None => Ok(None),
    };
    let entries = period::entries(ends, hash).map_err(unread)?;
    let report = shown(period, entries, None, report.finish(&state));
    show(&report, &to_json(&report)?, output)
}

/// A state from which the period can be folded: that of the newest snapshot before it, or the empty one.
pub(super) fn base(ledger: &Offline, period: Period) -> Outcome<State> {
    let first = ledger.first_sequence();
    let mut since = None;
    if let Offline::Data(data) = ledger {
        let reader = data.reader();
        let (snapshots, _) = reader.snapshots().list().map_err(unread)?;
        let mut usable =
            snapshots.iter().filter(|info| info.position.sequence.saturating_add(1) >= first);
        for info in usable.clone().rev() {
            let is_before = info.position.time < period.from;
            if is_before
                && matches!(reader.snapshots().verify(info), Ok(None))
                && let Ok(state) = replay::load(reader, info)
            {
                return Ok(state);
            }
        }
        since = usable.next().map(|info| info.position.time);
    }
    if first <= 1 {
        return Ok(State::default());
    }
    let mut why = format!("the entries before {first} were compacted away");
    if let Some(since) = since {
        let since = since.whole_microseconds().plus(Span::from_nanoseconds(1000));
        why.push_str(&format!("; a period can begin at {since}"));
    }
    Err(Failure::general(why).hint("read compacted entries with --archive DIRECTORY"))
}

fn question(args: &Args, period: Period, namespace: Option<Name>) -> Question {
    let of_groups = args.group.as_deref().map(Name::from);
    let resources = args.resource.iter().map(|name| Name::from(&**name));
    Question {
        period,
        by: args.by.clone(),
        namespaces: Box::new(move |name, _| namespace.as_ref().is_none_or(|only| **only == *name)),
        member_of: of_groups.clone(),
        groups: Box::new(move |name| of_groups.as_ref().is_none_or(|only| **only == *name)),
        resources: (!args.resource.is_empty()).then(|| resources.collect()),
    }
}
