//! `describe namespace`: its limits, pending reservations and latest denials.

use quota_client::http::Address;
use quota_client::wire::{Namespace, Page, Reservation, Usage};
use serde_json::{Value, json};

use crate::{
    age, denials,
    failure::{Exit, Failure, Outcome},
    figures::{NamespaceFigures, limit_name, usage_table},
    reservation,
    session::Session,
    table::Table,
    terminal_text::one_line,
};

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
    let denied = denials::fetch(session, Some(name), DENIALS)?;
    let denials = &denied.content.items;
    let is_limited = !usage.quotas.is_empty() || !usage.room.is_empty();
    if !is_limited && usage.resources.is_empty() && denials.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("nothing is known of namespace {name}"),
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
    let about = client
        .get::<Namespace>(&Address::of(["v1", "namespaces", name]))?
        .content;
    let labels = about
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
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
    output.section(
        "Pending reservations",
        &reservations(&pending.content.items),
    )?;
    output.section("Latest denials", &denials::table(denials, false, false))
}

/// What binds each resource of which nothing is left, as in `pods: group/company`.
fn bound_by(usage: &Usage) -> Vec<String> {
    let full = usage
        .room
        .iter()
        .filter(|(_, room)| !room.available.is_positive());
    let named = full.map(|(resource, room)| {
        let limit = limit_name(room.bound_by.kind, &room.bound_by.name);
        format!("{resource}: {limit}")
    });
    named.collect()
}

fn reservations(pending: &[Reservation<'_>]) -> Table {
    let mut table = Table::new(&["UID", "FOR", "RESERVED", "EXPIRES"]);
    let now = age::now();
    for reservation in pending {
        let holder = &reservation.reserved_by;
        table.row([
            holder.uid.to_string(),
            reservation::holder(holder),
            reservation.reserved.pretty(),
            age::left(reservation.expiration_time, now),
        ]);
    }
    table
}
