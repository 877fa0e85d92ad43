//! `describe namespace`: its limits, pending reservations, what was denied lately.

use quota_client::http::Address;
use quota_client::wire::{Denial, Reservation, Usage};
use serde_json::{Value, json};

use crate::{
    age, denials,
    failure::{Exit, Failure, Outcome},
    figures::{self, usage_table},
    reservation,
    session::Session,
    table::Table,
};

/// Denials that are shown.
const DENIALS: usize = 5;

/// Describes a namespace.
pub(crate) fn namespace(session: &Session, name: Option<&str>) -> Outcome {
    let name = name.unwrap_or_else(|| session.scope.namespace());
    let client = &session.client;
    let (answer, usage): (_, Usage) = client.get_as(&Address::in_namespace(name, ["usage"]))?;
    let address = Address::in_namespace(name, ["reservations"]);
    let (pending_answer, pending): (_, Vec<Reservation<'static>>) =
        client.list_as(&address, None)?;
    let (denials_answer, denied) = denials::ask(session, Some(name), DENIALS)?;
    if usage.quotas.is_empty() && usage.resources.is_empty() && denied.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("nothing is known of namespace {name}"),
        )
        .hint("quotactl top lists those that have quotas"));
    }
    session.note_lag(&answer);
    if session.output.is_structured() {
        let items = |list: &Value| list["items"].clone();
        return session.output.value(&json!({
            "usage": answer,
            "reservations": items(&pending_answer),
            "denials": items(&denials_answer),
        }));
    }
    session.output.line(format!("Namespace:  {name}"))?;
    section(
        session,
        "Usage",
        &usage_table(&[figures::Usage::from(usage)], false, false),
    )?;
    section(session, "Pending reservations", &reservations(&pending))?;
    section(session, "Latest denials", &latest(&denied))
}

fn section(session: &Session, title: &str, table: &Table) -> Outcome {
    session.output.line(format!("\n{title}:"))?;
    match table.is_empty() {
        true => session.output.line("<none>"),
        false => session.output.table(table),
    }
}

fn latest(denials: &[Denial]) -> Table {
    denials::table(denials, false, false)
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
