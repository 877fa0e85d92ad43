//! `ledger replay`, `report`, `suggest` and `simulate`: the state, what was consumed in a period, limits that fit it, and
//! what other limits would have done, folded from the entries alone.

use std::{collections::BTreeMap, ops::ControlFlow};

use quota_client::wire::{
    BoundBy, LimitKind, QuotaUsage, ResourceUsage, Room, Simulation, Suggestions, Total,
};
use quota_core::{
    decide::{GroupBounds, Refusal},
    event::{Cursor, Entry},
    simulate::{self, Candidates, Subject, Unsimulated},
    state::{self, Head, LimitView, ReservationView, State},
    suggest::{Denials, Suggesting, Wish},
    time::{
        Names, Period,
        report::{Question, Report, shown},
    },
};
use quota_journal::{Hash, Offline};
use quota_ledger::{
    period,
    replay::{self, Error, Until},
};
use quota_semantics::{
    Name, Span, Timestamp, candidate::CandidateError, group, quota, resource::ResourceList,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{REPAIR, is_repairable, unfolded, unread};
use crate::{
    args::{ReportArgs as Args, Simulate, Suggest},
    failure::{Exit, Failure, Outcome},
    figures::{NamespaceFigures, available, usage_table},
    output::{Format, Output, Progress, note, to_json},
    reservation::named,
    session::{self, Scope},
    simulate::{Limits, days, ended, lines, show as show_simulation, show_suggestions},
    table::{self, Table},
    usage::show_report,
};

/// Folds the entries up to `until`, and prints the state.
pub(super) fn replay(ledger: &Offline, output: &Output, until: Option<Until>) -> Outcome {
    let until = until.unwrap_or(Until::End);
    let mut first = ledger.first_sequence();
    let mut read = Ok(());
    loop {
        let mut state = beginning(ledger, first, until)?;
        match folded(ledger, &mut state, until, |_| {}) {
            Ok(()) => {
                print(&state, output)?;
                return read;
            }
            // A snapshot behind the damage holds what the damaged entries amounted to.
            Err(Error::Journal(quota_journal::Error::Damaged(damage)))
                if is_repairable(&damage) =>
            {
                let through = damage.through.filter(|through| *through >= first);
                let failure = unread(damage.into());
                let Some(through) = through else {
                    return Err(failure);
                };
                note(failure.to_string());
                read = Err(Failure::silent(Exit::Damaged));
                first = through.saturating_add(1);
            }
            Err(error) => return Err(unfolded(error)),
        }
    }
}

/// Folds the entries after the state's head, and passes each entry to `seen`.
pub(super) fn fold(
    ledger: &Offline,
    state: &mut State,
    until: Until,
    seen: impl FnMut(&Entry),
) -> Outcome {
    folded(ledger, state, until, seen).map_err(unfolded)
}

fn folded(
    ledger: &Offline,
    state: &mut State,
    until: Until,
    mut seen: impl FnMut(&Entry),
) -> Result<(), Error> {
    let first = state.head().sequence.saturating_add(1);
    let last = match until {
        Until::Sequence(sequence) => sequence.min(ledger.last_sequence()),
        Until::End | Until::Time(_) => ledger.last_sequence(),
    };
    let progress = Progress::over("replaying", first, last);
    let mut batches = ledger.batches(first);
    replay::replay(state, &mut batches, until, |entry| {
        progress.at(entry.sequence);
        seen(entry);
    })
}

/// The empty state; or, if the entries before `first` are gone, the state of the oldest snapshot from which the rest
/// can be folded.
pub(super) fn beginning(ledger: &Offline, first: u64, until: Until) -> Outcome<State> {
    if first <= 1 {
        return Ok(State::default());
    }
    let is_damaged = first > ledger.first_sequence();
    let why = match is_damaged {
        true => format!("the entries before {first} cannot all be read"),
        false => format!("the entries before {first} were compacted away"),
    };
    let gone = || match is_damaged {
        true => Failure::new(Exit::Damaged, format!("{why}, and there is no snapshot behind them"))
            .hint(REPAIR),
        false => Failure::general(&*why).hint("read compacted entries with --archive DIRECTORY"),
    };
    let Offline::Data(data) = ledger else {
        return Err(gone());
    };
    let reader = data.reader();
    let (snapshots, damaged) = reader.snapshots().list().map_err(unread)?;
    for damage in damaged {
        note(format!("warning: {damage}"));
    }
    let reaches = |position: &quota_journal::Durable| match until {
        Until::End => true,
        Until::Sequence(sequence) => position.sequence <= sequence,
        Until::Time(time) => position.time <= time,
    };
    let usable = snapshots
        .iter()
        .find(|info| info.position.sequence.saturating_add(1) >= first && reaches(&info.position));
    let info = usable.ok_or_else(gone)?;
    note(format!("note: {why}; beginning with the snapshot of entry {}", info.position.sequence));
    replay::load(reader, info).map_err(unfolded)
}

/// A state as JSON and YAML.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct View<'a> {
    as_of: Head,
    /// BLAKE3 of the state's image: equal states have equal digests.
    digest: String,
    objects: u32,
    pending_reservations: usize,
    dead_letters: usize,
    sources: &'a BTreeMap<Name, Cursor>,
    namespaces: Vec<Namespace>,
    reservations: Vec<Pending>,
}

/// The usage of a namespace.
#[derive(Debug, Serialize)]
struct Namespace {
    namespace: Name,
    resources: Vec<Total>,
    quotas: Vec<QuotaUsage>,
    room: BTreeMap<Name, Room>,
}

/// A pending reservation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    namespace: Name,
    reserved_by: Holder,
    reserved: ResourceList,
    created_time: Timestamp,
    expiration_time: Timestamp,
}

#[derive(Debug, Serialize)]
struct Holder {
    kind: Name,
    name: Box<str>,
    uid: String,
}

impl From<ReservationView> for Pending {
    fn from(view: ReservationView) -> Self {
        let reservation = view.reservation;
        Self {
            namespace: reservation.namespace.clone(),
            reserved_by: Holder {
                kind: reservation.kind.clone(),
                name: reservation.name.clone(),
                uid: reservation.uid.to_string(),
            },
            reserved: view.held,
            created_time: reservation.created,
            expiration_time: reservation.expiration,
        }
    }
}

/// Prints a state.
fn print(state: &State, output: &Output) -> Outcome {
    let view = view(state);
    match output.format {
        Format::Json | Format::Yaml => output.value(&view),
        Format::Name => view
            .namespaces
            .iter()
            .try_for_each(|usage| output.line(format!("namespace/{}", usage.namespace))),
        Format::Csv => {
            let usages: Vec<_> = view.namespaces.iter().map(NamespaceFigures::from).collect();
            output.table(&usage_table(&usages, true, true))
        }
        Format::Table | Format::Wide => {
            output.line(format!(
                "entry {} at {}, digest {}\nobjects: {}, pending reservations: {}, dead letters: {}",
                view.as_of.sequence,
                view.as_of.time,
                view.digest,
                view.objects,
                view.pending_reservations,
                view.dead_letters
            ))?;
            let usages = view.namespaces.iter();
            let usages: Vec<_> = usages.map(NamespaceFigures::from).collect();
            let tables = [usage_table(&usages, true, true), pending(&view.reservations)];
            for table in tables.iter().filter(|table| !table.is_empty()) {
                output.line("")?;
                output.table(table)?;
            }
            Ok(())
        }
    }
}

fn view(state: &State) -> View<'_> {
    let namespaces: Vec<_> = state.namespaces("").cloned().collect();
    View {
        as_of: state.head(),
        digest: Hash::from_bytes(state.digest()).to_string(),
        objects: state.object_count(),
        pending_reservations: state.pending_count(),
        dead_letters: state.dead_letters().count(),
        sources: state.sources(),
        reservations: namespaces
            .iter()
            .flat_map(|namespace| state.pending(namespace))
            .map(Pending::from)
            .collect(),
        namespaces: namespaces.iter().map(|namespace| usage(state, namespace)).collect(),
    }
}

/// The usage of a namespace in a state.
fn usage(state: &State, namespace: &Name) -> Namespace {
    let totals = state.totals(namespace);
    let mut names = totals.used.clone();
    names.add(&totals.reserved);
    let of = |list: &ResourceList, name: &str| list.get(name).cloned().unwrap_or_default();
    let sums = names.names().map(|name| Total {
        resource: name.clone(),
        used: of(&totals.used, name),
        reserved: of(&totals.reserved, name),
    });
    let quotas = state.quotas(namespace).into_iter().map(|quota| QuotaUsage {
        name: quota.record.name.clone(),
        resources: quota.figures.into_iter().map(figure).collect(),
    });
    Namespace {
        namespace: namespace.clone(),
        resources: sums.collect(),
        quotas: quotas.collect(),
        room: room(state, namespace),
    }
}

/// The room in a namespace of a state.
fn room(state: &State, namespace: &Name) -> BTreeMap<Name, Room> {
    let limits: Vec<LimitView> = state.limits_view(namespace).views().collect();
    let room = state::room(&limits).into_iter();
    let shown = room.map(|(resource, state::Room { bound_by, figure })| {
        let limit = &figure.figure;
        let others = figure.guaranteed_to_others.clone();
        let room = Room {
            available: figure.available(),
            bound_by: BoundBy {
                kind: bound_by.kind,
                name: bound_by.name.clone(),
                hard: limit.hard.clone(),
                used: Some(limit.used.clone().unwrap_or_default()),
                reserved: Some(limit.reserved.clone()),
                guaranteed_to_others: Some(others).filter(|others| !others.is_zero()),
            },
        };
        (resource.clone(), room)
    });
    shown.collect()
}

impl<'a> From<&'a Namespace> for NamespaceFigures<'a> {
    fn from(usage: &'a Namespace) -> Self {
        Self {
            namespace: &usage.namespace,
            totals: &usage.resources,
            quotas: &usage.quotas,
            room: &usage.room,
        }
    }
}

fn figure(figure: quota_core::state::Figure) -> ResourceUsage {
    let used = figure.used.unwrap_or_default();
    ResourceUsage {
        resource: figure.resource,
        available: available(&figure.hard, &used, &figure.reserved),
        hard: figure.hard,
        used: Some(used),
        reserved: figure.reserved,
        guaranteed_to_others: None,
    }
}

fn pending(reservations: &[Pending]) -> Table {
    let mut table = Table::new(&["NAMESPACE", "RESERVATION", "FOR", "RESERVED", "EXPIRATION"]);
    for reservation in reservations {
        let holder = &reservation.reserved_by;
        table.row([
            reservation.namespace.to_string(),
            holder.uid.clone(),
            named(&holder.kind, &holder.name),
            reservation.reserved.pretty(),
            reservation.expiration_time.to_string(),
        ]);
    }
    table
}

/// Reports a period, of one namespace or of all.
pub(super) fn report(
    ledger: &Offline,
    args: &Args,
    output: &Output,
    namespace: Option<&str>,
) -> Outcome {
    let (from, to) = args.period.resolve(table::now(), None)?;
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
    let rows = report.rows(&state);
    // Together they would take more memory than the report while it was made.
    drop(state);
    let report = shown(period, entries, None, rows);
    show_report(&report, &report, output)
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

/// Suggests limits of one namespace, or of all with their groups.
pub(super) fn suggest(ledger: &Offline, output: &Output, scope: &Scope, args: &Suggest) -> Outcome {
    let (from, to) = args.period.resolve(table::now(), Some(days(30)))?;
    let asked = Period { from, to };
    let mut state = base(ledger, asked)?;
    let first = state.head().sequence.saturating_add(1);
    let progress = Progress::slowly_over("suggesting", first, ledger.last_sequence());
    let visit = |entry: &Entry| {
        progress.at(entry.sequence);
        ControlFlow::Continue(())
    };
    let only = scope.filter().map(Name::from);
    let begin = |state: &State| {
        let only = only.clone();
        let namespaces: Names =
            Box::new(move |name| only.as_ref().is_none_or(|only| **only == *name));
        Suggesting::begin(state, asked, wish(args), namespaces)
    };
    let mut batches = ledger.batches(first);
    let folded = period::fold(&mut state, &mut batches, asked, begin, visit);
    drop(progress);
    let (suggesting, _) = folded.map_err(unfolded)?;
    let counting = only.as_ref().map(|namespace| state.groups_of(namespace));
    let is_shown = |group: &Name| counting.as_ref().is_none_or(|counting| counting.contains(group));
    let items = suggesting.finish(&state, &Denials::new(), is_shown);
    let json = json!({"from": from, "to": to, "items": items});
    let suggestions: Suggestions = session::read(&json)?;
    show_suggestions(output, &suggestions, &json, only.is_none(), |limit| {
        let manifest = match &limit.namespace {
            Some(namespace) => quota_manifest(&state, namespace, &limit.name),
            None => group_manifest(&state, &limit.name),
        };
        manifest.ok_or_else(|| Failure::new(Exit::NotFound, format!("{} not found", limit.name)))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the command line has it from 0 to 100"
)]
fn wish(args: &Suggest) -> Wish {
    Wish { percentile: (args.percentile * 100.0).round() as u16, headroom: args.headroom }
}

fn quota_manifest(state: &State, namespace: &str, name: &str) -> Option<Value> {
    let (record, _) = state.quota_record(namespace, name)?;
    let mut metadata = metadata(&record.metadata);
    metadata["name"] = json!(record.name);
    metadata["namespace"] = json!(record.namespace);
    Some(json!({
        "apiVersion": "v1", "kind": quota::manifest::KIND, "metadata": metadata, "spec": record.spec,
    }))
}

fn group_manifest(state: &State, name: &str) -> Option<Value> {
    let (record, _) = state.group_record(name)?;
    let mut metadata = metadata(&record.metadata);
    metadata["name"] = json!(record.name);
    for (key, text) in record.spec.extensions.to_annotations() {
        // One that says the same in other words is stored.
        let annotation = &mut metadata["annotations"][&*key];
        if annotation.is_null() {
            *annotation = json!(text);
        }
    }
    Some(json!({
        "apiVersion": group::manifest::API_VERSION, "kind": group::manifest::KIND, "metadata": metadata,
        "spec": {"selector": record.spec.selector, "quota": record.spec.quota},
    }))
}

/// The metadata of a record, as JSON.
fn metadata(text: &str) -> Value {
    let metadata = serde_json::from_str(text).ok();
    metadata.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Simulates limits over a period of the ledger.
pub(super) fn simulate(
    ledger: &Offline,
    output: &Output,
    scope: &Scope,
    args: &Simulate,
) -> Outcome {
    let limits = Limits::load(scope, args)?;
    let (from, to) = args.period.resolve(table::now(), Some(days(14)))?;
    // The period is `[from, to)`.
    let until = |time: Timestamp| Until::Time(time.minus(Span::from_nanoseconds(1)));
    let mut state = base(ledger, Period { from, to })?;
    fold(ledger, &mut state, until(from), |_| {})?;
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
    let read = replay::entries(&mut batches, before, until(to), |entry| {
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
    let simulation: Simulation = session::read(&json)?;
    show_simulation(output, &simulation, &json)?;
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
