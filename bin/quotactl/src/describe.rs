//! `describe`: one object in detail; `explain`: one number. For a quota, the output of `kubectl describe quota` with a
//! column for reserved amounts.

use quota_client::{
    http::Address,
    wire::{
        Contribution, Explanation, GroupExplanation, Holder, Kind, Namespace, Page, Quota,
        QuotaReservation, Reservation, Usage,
    },
};
use quota_semantics::{Name, quantity::Quantity};
use serde_json::{Value, json};

use crate::{
    args::Explain,
    failure::{Exit, Failure, Outcome},
    figures::{NamespaceFigures, Units, beside, limit_name, percent, share, usage_table},
    get::{fetch_quotas, lists, scopes},
    output::note,
    reservation as held,
    session::Session,
    table::{self, Table, one_line},
};

/// Describes one quota, or all of a namespace or of all namespaces.
pub(crate) fn quotas(session: &Session, name: Option<&str>) -> Outcome {
    let (answer, lagging) = fetch_quotas(session, name)?;
    let quotas = answer.content;
    if quotas.is_empty() {
        session.note_empty();
    }
    session.note_lag(lagging);
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    let texts: Vec<_> = quotas.iter().map(describe).collect();
    match texts.is_empty() {
        true => Ok(()),
        false => session.output.line(texts.join("\n\n\n")),
    }
}

/// kubectl's explanation of a scope.
fn explanation(scope: &str) -> Option<&'static str> {
    Some(match scope.split(' ').next()? {
        "Terminating" => {
            "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being actively terminated by the system."
        }
        "NotTerminating" => {
            "Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate."
        }
        "BestEffort" => {
            "Matches all pods that do not have resource requirements set. These pods have a best effort quality of service."
        }
        "NotBestEffort" => {
            "Matches all pods that have at least one resource requirement set. These pods have a burstable or guaranteed quality of service."
        }
        "PriorityClass" => "Matches all pods that have a priority class named here.",
        "CrossNamespacePodAffinity" => {
            "Matches all pods that have affinity terms about pods of other namespaces."
        }
        "VolumeAttributesClass" => {
            "Matches all volume claims that have a volume attributes class named here."
        }
        _ => return None,
    })
}

fn describe(quota: &Quota<'_>) -> String {
    let mut rows = vec![
        ["Resource", "Used", "Reserved", "Hard"].map(str::to_owned),
        ["--------", "----", "--------", "----"].map(str::to_owned),
    ];
    let limits = quota.limits();
    let units = Units::of(limits.iter().map(|limit| (limit.resource, limit.hard)));
    for limit in &limits {
        let show = |amount: &Quantity| units.show(limit.resource, amount);
        let [used, reserved] =
            [limit.used, limit.reserved].map(|it| it.map_or_else(|| "0".to_owned(), show));
        rows.push([limit.resource.to_owned(), used, reserved, show(limit.hard)]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    // kubectl's columns begin at the same place in the heading and in the table.
    let [first, used, reserved] = [width(0).max("Namespace:".len()), width(1), width(2)];

    let scopes = scopes(quota);
    let mut lines = vec![
        format!("{:first$}  {}", "Name:", quota.metadata.name),
        format!("{:first$}  {}", "Namespace:", quota.metadata.namespace),
    ];
    if !scopes.is_empty() {
        lines.push(format!("{:first$}  {}", "Scopes:", scopes.join(", ")));
        let explained = scopes.iter().filter_map(|scope| explanation(scope));
        lines.extend(explained.map(|text| format!(" * {text}")));
    }
    lines.extend(
        rows.iter().map(|[a, b, c, d]| format!("{a:first$}  {b:used$}  {c:reserved$}  {d}")),
    );
    lines.extend(reservations(quota));
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    lines.join("\n")
}

/// The lines for a quota's pending reservations.
fn reservations(quota: &Quota<'_>) -> Vec<String> {
    let pending = &quota.status.reservations;
    if pending.is_empty() {
        return Vec::new();
    }
    let now = table::now();
    let line = |reservation: &QuotaReservation<'_>| {
        let uid = &reservation.reserved_by.uid;
        let holder = match held::holder(&reservation.reserved_by).as_str() {
            "" => uid.to_string(),
            holder => format!("{holder} ({uid})"),
        };
        let expires = table::left(reservation.expiration_time, now);
        let limits = quota.limits();
        let shown = |(resource, amount): (&Name, &Quantity)| {
            let limit = limits.iter().find(|limit| limit.resource == &**resource);
            let hard = limit.map_or(amount, |limit| limit.hard);
            format!("{resource}={}", beside(resource, amount, hard))
        };
        let amounts = reservation.reserved.iter().map(shown);
        let amounts = amounts.collect::<Vec<_>>().join(",");
        format!("  {holder}: {amounts}, expires in {expires}")
    };
    let heading = std::iter::once("Reservations:".to_owned());
    let omitted = quota.status.reservations_omitted;
    let rest = (omitted > 0).then(|| format!("  and up to {omitted} more"));
    heading.chain(pending.iter().map(line)).chain(rest).collect()
}

/// The number of denials that are shown.
const DENIALS: usize = 5;

/// Describes a namespace.
pub(crate) fn namespace(session: &Session, name: Option<&str>) -> Outcome {
    let own = session.scope.of_one("a description")?;
    let name = name.unwrap_or(own);
    let client = &session.client;
    let answer = client.get::<Usage>(&Address::in_namespace(name, ["usage"]))?;
    let usage = answer.content;
    let address = Address::in_namespace(name, ["reservations"]);
    let pending = client.list::<Page<Reservation<'static>>>(&address, None)?;
    let denied = lists::fetch_denials(session, Some(name), DENIALS)?;
    let denials = &denied.content.items;
    let is_limited = !usage.quotas.is_empty() || !usage.room.is_empty();
    if !is_limited && usage.resources.is_empty() && denials.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("namespace {name} not found: it has no quotas, usage or denials"),
        )
        .hint("quotactl top lists those that have quotas"));
    }
    session.note_lag(usage.lagging);
    if session.output.is_structured() {
        let items = |list: &Value| list["items"].clone();
        return session.output.value(&json!({
            "usage": answer.json,
            "reservations": items(&pending.json),
            "denials": items(&denied.json),
        }));
    }
    let output = &session.output;
    output.line(format!("Namespace:  {name}"))?;
    let about = client.get::<Namespace>(&Address::of(["v1", "namespaces", name]))?.content;
    let labels = about.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let groups = about.groups.iter().map(ToString::to_string);
    for (title, values) in [
        ("Labels:", labels.collect::<Vec<_>>()),
        ("Groups:", groups.collect()),
        ("Bound by:", bound_by(&usage)),
    ] {
        if !values.is_empty() {
            output.line(one_line(&format!("{title:11} {}", values.join(", "))))?;
        }
    }
    let usage = usage_table(&[NamespaceFigures::from(&usage)], false, false);
    output.section("Usage", &usage)?;
    output.section("Pending reservations", &pending_table(&pending.content.items))?;
    output.section("Latest denials", &lists::denials_table(denials, false, false))
}

/// What binds each resource of which nothing is left, as in `pods: group/company`.
fn bound_by(usage: &Usage) -> Vec<String> {
    let full = usage.room.iter().filter(|(_, room)| !room.available.is_positive());
    let named = full.map(|(resource, room)| {
        let limit = limit_name(room.bound_by.kind, &room.bound_by.name);
        format!("{resource}: {limit}")
    });
    named.collect()
}

fn pending_table(pending: &[Reservation<'_>]) -> Table {
    let mut table = Table::new(&["UID", "FOR", "RESERVED", "EXPIRES"]);
    let now = table::now();
    for reservation in pending {
        let holder = &reservation.reserved_by;
        table.row([
            holder.uid.to_string(),
            held::holder(holder),
            reservation.reserved.pretty(),
            table::left(reservation.expiration_time, now),
        ]);
    }
    table
}

/// Describes a reservation, in any state.
pub(crate) fn reservation(session: &Session, uid: &str) -> Outcome {
    let address = held::one(session, [uid])?;
    let answer = session.client.get::<Reservation<'static>>(&address)?;
    let reservation = answer.content;
    session.note_lag(reservation.lagging);
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    for (name, value) in reservation_lines(&reservation) {
        let line = format!("{:<12}{value}", format!("{name}:"));
        session.output.line(one_line(&line))?;
    }
    session.output.line("")?;
    let mut table = Table::new(&["RESOURCE", ">RESERVED"]);
    for (resource, amount) in reservation.reserved.iter() {
        table.row([resource.to_string(), amount.exact().to_string()]);
    }
    session.output.table(&table)
}

fn reservation_lines(reservation: &Reservation<'_>) -> Vec<(&'static str, String)> {
    let now = table::now();
    let ago = |time| format!("{time} ({})", table::ago(time, now));
    let Holder { api_version, kind, name, uid } = &reservation.reserved_by;
    let object = [api_version, kind, name].map(|text| &**text);
    let object = object.into_iter().filter(|text| !text.is_empty());
    let object = object.collect::<Vec<_>>().join(" ");
    let mut lines = vec![
        ("Uid", uid.to_string()),
        ("Namespace", reservation.namespace.to_string()),
        ("State", reservation.state.to_string()),
        ("Created", ago(reservation.created_time)),
    ];
    if !object.is_empty() {
        lines.insert(1, ("Object", object));
    }
    if let Some(detail) = &reservation.detail {
        lines.push(("Detail", detail.to_string()));
    }
    match reservation.ended_time {
        Some(time) => lines.push(("Ended", ago(time))),
        None => {
            let time = reservation.expiration_time;
            lines.push(("Expires", format!("{time} (in {})", table::left(time, now))));
        }
    }
    lines
}

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
    let now = table::now();
    let kind = |part: &Contribution| match part.kind {
        Kind::Object => "object".to_owned(),
        Kind::Commit => "commit".to_owned(),
        Kind::Reservation => "reservation".to_owned(),
    };
    let expires = |part: &Contribution| match part.expiration_time {
        Some(time) => table::left(time, now),
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quota_is_described_as_kubectl_does() {
        let quota = json!({
            "metadata": {"name": "rq", "namespace": "wire"},
            "spec": {"scopes": ["BestEffort"]},
            "status": {
                "hard": {"pods": "10", "requests.example.com/gpu": "2"},
                "used": {"pods": "3"}, "reserved": {"pods": "12"},
                "reservations": [{"reservedBy": {"kind": "Pod", "name": "w", "uid": "u"},
                    "reserved": {"pods": "12"}, "expirationTime": "2020-01-01T00:00:00Z"}]
            }
        });
        let quota: Quota<'static> = serde_json::from_value(quota).unwrap();
        assert_eq!(
            describe(&quota),
            "Name:                     rq\n\
             Namespace:                wire\n\
             Scopes:                   BestEffort\n \
             * Matches all pods that do not have resource requirements set. These pods have a best effort quality of service.\n\
             Resource                  Used  Reserved  Hard\n\
             --------                  ----  --------  ----\n\
             pods                      3     12        10\n\
             requests.example.com/gpu  0     0         2\n\
             Reservations:\n  \
             Pod/w (u): pods=12, expires in 0s"
        );
    }

    #[test]
    fn selectors_are_explained_by_their_scope() {
        assert!(explanation("PriorityClass In [high]").is_some());
        assert!(explanation("Unheard").is_none());
    }

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
