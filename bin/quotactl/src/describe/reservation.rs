//! `describe reservation`: its amounts and its state.

use quota_client::wire::{Holder, Reservation};

use crate::{
    age, failure::Outcome, reservation as held, session::Session, table::Table,
    terminal_text::one_line,
};

/// Describes a reservation, in any state.
pub(crate) fn reservation(session: &Session, uid: &str) -> Outcome {
    let address = held::one(session, [uid])?;
    let answer = session.client.get::<Reservation<'static>>(&address)?;
    let reservation = answer.content;
    session.note_lag(reservation.lagging);
    if session.output.is_structured() {
        return session.output.value(&answer.json);
    }
    for (name, value) in lines(&reservation) {
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

fn lines(reservation: &Reservation<'_>) -> Vec<(&'static str, String)> {
    let now = age::now();
    let ago = |time| format!("{time} ({})", age::ago(time, now));
    let Holder {
        api_version,
        kind,
        name,
        uid,
    } = &reservation.reserved_by;
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
            lines.push(("Expires", format!("{time} (in {})", age::left(time, now))));
        }
    }
    lines
}
