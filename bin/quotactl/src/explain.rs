//! `explain`: the objects and reservations behind a number.

use quota_client::http::Address;
use quota_client::wire::{Contribution, Explanation, GroupExplanation, Kind, Usage};
use quota_semantics::{Name, quantity::Quantity};

use super::{
    age,
    args::Explain,
    failure::{Exit, Failure, Outcome},
    figures::{percent, share},
    output::note,
    session::Session,
    table::Table,
    terminal_text::one_line,
    unit::beside,
};

/// Names that any namespace may have.
const USUAL: [&str; 8] = [
    "pods",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
    "services",
    "persistentvolumeclaims",
    "requests.storage",
];

/// Shows the sums of a resource, then the objects and reservations behind them.
pub(crate) fn run(session: &Session, args: &Explain) -> Outcome {
    if let Some(name) = &args.group {
        return group(session, name, args);
    }
    let namespace = session.scope.of_one("an explanation")?;
    let address = Address::in_namespace(namespace, ["explain"])
        .with("resource", &args.resource)
        .with_some("quota", args.quota.as_ref());
    let answer =
        session.client.list::<Explanation>(&args.when.added_to(address), Some(args.limit))?;
    let explained = answer.content;
    session.note_lag(explained.lagging);
    if explained.items.is_empty() && explained.hard.is_none() {
        refuse_unknown(session, namespace, args)?;
    }
    if session.output.is_table() {
        session.output.line(one_line(&summary(&explained)))?;
    }
    session.output.answer(
        &answer.json,
        || explained.items.iter().map(name).collect(),
        |wide| {
            let of = explained.hard.as_ref().unwrap_or(&explained.used);
            table(&explained.items, (&*explained.resource, of), wide)
        },
    )
}

/// Shows a number of a group, then the objects and reservations behind it in all its namespaces.
fn group(session: &Session, name: &str, args: &Explain) -> Outcome {
    let address = Address::of(["v1", "groups", name, "explain"]).with("resource", &args.resource);
    let address = args.when.added_to(address);
    let answer = session.client.list::<GroupExplanation>(&address, Some(args.limit))?;
    let explained = answer.content;
    session.note_lag(explained.lagging);
    if session.output.is_table() {
        session.output.line(one_line(&summary_of_group(&explained)))?;
        if explained.namespaces_omitted > 0 {
            note(format!("and {} more namespaces", explained.namespaces_omitted));
        }
    }
    session.output.answer(
        &answer.json,
        || explained.items.iter().map(self::name).collect(),
        |wide| {
            let of = (&*explained.resource, &explained.hard);
            table(&explained.items, of, wide)
        },
    )
}

/// As in `pods of group company: 4 used + 1 reserved of 5 (100%)`.
fn summary_of_group(explained: &GroupExplanation) -> String {
    let GroupExplanation {
        group,
        resource,
        hard,
        used,
        reserved,
        guaranteed_to_others: others,
        ..
    } = explained;
    let show = |amount| beside(resource, amount, hard);
    let guaranteed = match others.is_zero() {
        true => String::new(),
        false => format!(" + {} guaranteed to others", show(others)),
    };
    let mut taken = used.clone();
    taken.add_assign(others);
    let share = percent(share(hard, &taken, reserved));
    format!(
        "{resource} of group {group}: {} used + {} reserved{guaranteed} of {} ({share})",
        show(used),
        show(reserved),
        show(hard)
    )
}

/// Fails if nothing counts or limits a resource of this name, and nothing could.
fn refuse_unknown(session: &Session, namespace: &str, args: &Explain) -> Outcome {
    let address = args.when.added_to(Address::in_namespace(namespace, ["usage"]));
    let usage = session.client.get::<Usage>(&address)?.content;
    let limited = usage.quotas.iter().flat_map(|quota| &quota.resources);
    let limited = limited.map(|limit| &limit.resource);
    let counted = usage.resources.iter().map(|sum| &sum.resource);
    let mut names: Vec<&str> =
        limited.chain(counted).chain(usage.room.keys()).map(|it| &**it).collect();
    names.extend(USUAL);
    if names.contains(&&*args.resource) {
        return Ok(());
    }
    let failure = Failure::new(
        Exit::NotFound,
        format!("unknown resource {}: nothing counts or limits it in {namespace}", args.resource),
    );
    Err(match closest(&args.resource, &names) {
        Some(meant) => failure.hint(format!("did you mean {meant}?")),
        None => failure.hint("quotactl get usage --all shows the resources that there are"),
    })
}

/// The name that is nearest to a mistyped one, if any is near.
fn closest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let distances = names.iter().map(|name| (strsim::osa_distance(typed, name), *name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 || distance * 4 <= typed.len()).then_some(name)
}

fn name(part: &Contribution) -> String {
    match part.kind {
        Kind::Object | Kind::Commit => format!("{}/{}", part.resource, part.name),
        Kind::Reservation => format!("reservation/{}", part.uid),
    }
}

/// As in `requests.cpu of quota compute in team-a: 3 used + 1 reserved of 10 (40%)`.
fn summary(explained: &Explanation) -> String {
    let Explanation { namespace, quota, resource, hard, used, reserved, .. } = explained;
    let of = quota.as_ref().map(|quota| format!(" of quota {quota}")).unwrap_or_default();
    let limit = hard.as_ref().map(|hard| {
        let share = percent(share(hard, used, reserved));
        format!(" of {} ({share})", beside(resource, hard, hard))
    });
    format!(
        "{resource}{of} in {namespace}: {} used + {} reserved{}",
        beside(resource, used, hard.as_ref().unwrap_or(used)),
        beside(resource, reserved, hard.as_ref().unwrap_or(used)),
        limit.unwrap_or_default()
    )
}

/// Parts of an amount as a table; `of` is the resource and an amount in whose unit they are shown.
fn table(parts: &[Contribution], (resource, of): (&str, &Quantity), wide: bool) -> Table {
    let now = age::now();
    let kind = |part: &Contribution| match part.kind {
        Kind::Object => "object".to_owned(),
        Kind::Commit => "commit".to_owned(),
        Kind::Reservation => "reservation".to_owned(),
    };
    let expires = |part: &Contribution| match part.expiration_time {
        Some(time) => age::left(time, now),
        None => "-".to_owned(),
    };
    let namespace = |part: &Contribution| {
        let namespace = part.namespace.as_ref();
        namespace.map(Name::to_string).unwrap_or_default()
    };
    let has_namespaces = parts.iter().any(|part| part.namespace.is_some());
    Table::of(
        parts,
        &[
            (has_namespaces, "NAMESPACE", &namespace),
            (true, "KIND", &kind),
            (true, "RESOURCE", &|it| it.resource.to_string()),
            (true, "NAME", &|it| it.name.to_string()),
            (true, ">AMOUNT", &|it| beside(resource, &it.amount, of)),
            (true, "?>ENTRY", &|it| it.sequence.to_string()),
            (true, "?EXPIRES", &expires),
            (wide, "UID", &|it| it.uid.to_string()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_resource_is_answered_with_the_one_meant() {
        let names = ["pods", "requests.cpu", "requests.memory"];
        for (typed, meant) in [
            ("pdos", Some("pods")),
            ("request.cpu", Some("requests.cpu")),
            ("requests.memroy", Some("requests.memory")),
            ("widgets.example.com", None),
        ] {
            assert_eq!(closest(typed, &names), meant, "{typed}");
        }
    }
}
