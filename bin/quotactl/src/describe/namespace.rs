//! `describe namespace`: its limits, pending reservations and latest denials.

use quota_client::http::Address;
use quota_client::wire::{Page, Reservation, Usage};
use serde_json::{Value, json};

use crate::{
    age, denials,
    failure::{Exit, Failure, Outcome},
    figures::usage_table,
    reservation,
    session::Session,
    table::Table,
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
    if usage.quotas.is_empty() && usage.resources.is_empty() && denials.is_empty() {
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
    let usage = usage_table([(name, &*usage.resources, &*usage.quotas)], false, false);
    output.section("Usage", &usage)?;
    output.section(
        "Pending reservations",
        &reservations(&pending.content.items),
    )?;
    output.section("Latest denials", &denials::table(denials, false, false))
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
