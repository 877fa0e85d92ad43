//! `ledger replay`: the state, folded from the entries alone.

use std::collections::BTreeMap;

use quota_client::wire::{BoundBy, QuotaUsage, ResourceUsage, Room, Total};
use quota_core::{
    event::{Cursor, Entry},
    state::{self, Head, LimitView, ReservationView, State},
};
use quota_journal::{Hash, Offline};
use quota_ledger::replay::{self, Error, Until};
use quota_semantics::{Name, Timestamp, resource::ResourceList};
use serde::Serialize;

use super::{REPAIR, is_repairable, unfolded, unread};
use crate::{
    failure::{Exit, Failure, Outcome},
    figures::{NamespaceFigures, available, usage_table},
    output::{Format, Output, note},
    progress::Progress,
    reservation::named,
    table::Table,
};

/// Folds the entries up to `until`, and prints the state.
pub(super) fn run(ledger: &Offline, output: &Output, until: Option<Until>) -> Outcome {
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
