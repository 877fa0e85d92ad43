//! `get reservations`: what is promised, to whom, until when.

use quota_client::{http::Address, wire::Reservation};
use serde_json::Value;

use super::List;
use crate::{
    age,
    client::read,
    failure::{Exit, Outcome},
    namespaces::everywhere,
    reservation,
    session::{Session, items, text},
    table::Table,
};

/// The pending reservations, or one in any state.
pub(super) struct Reservations<'a> {
    pub(super) uid: Option<&'a str>,
}

impl List for Reservations<'_> {
    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let namespace = session.scope.namespace();
        match self.uid {
            Some(uid) => one(session, namespace, uid),
            None if session.scope.all => everywhere(session, |namespace| {
                Ok(items(&pending(session, namespace)?).to_vec())
            }),
            None => pending(session, namespace),
        }
    }

    fn name(&self, reservation: &Value) -> String {
        format!("reservation/{}", text(reservation, "/reservedBy/uid"))
    }

    fn table(&self, session: &Session, reservations: &[Value], wide: bool) -> Outcome<Table> {
        let reservations = reservations.iter().map(read).collect::<Outcome<Vec<_>>>()?;
        Ok(table(&reservations, session.scope.all, wide))
    }

    fn ended(&self, session: &Session, reservation: &Value) -> Outcome<Option<Value>> {
        let uid = text(reservation, "/reservedBy/uid");
        match one(session, text(reservation, "/namespace"), uid) {
            Ok(ended) => Ok(Some(ended)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn one(session: &Session, namespace: &str, uid: &str) -> Outcome<Value> {
    let address = Address::in_namespace(namespace, ["reservations", uid]);
    session.client.get(&address)
}

fn pending(session: &Session, namespace: &str) -> Outcome<Value> {
    session
        .client
        .list(&Address::in_namespace(namespace, ["reservations"]), None)
}

fn table(reservations: &[Reservation<'_>], all: bool, wide: bool) -> Table {
    let mut titles = vec!["UID", "FOR", "RESERVED", "STATE", "EXPIRES", "AGE"];
    if all {
        titles.insert(0, "NAMESPACE");
    }
    if wide {
        titles.extend(["CREATED", "EXPIRATION"]);
    }
    let mut table = Table::new(&titles);
    let now = age::now();
    for reservation in reservations {
        let (created, expiration) = (reservation.created_time, reservation.expiration_time);
        let mut row = Vec::with_capacity(titles.len());
        if all {
            row.push(reservation.namespace.to_string());
        }
        row.push(reservation.reserved_by.uid.to_string());
        row.push(reservation::holder(&reservation.reserved_by));
        row.push(reservation.reserved.pretty());
        row.push(reservation.state.to_string());
        // Only what is pending has an end before it.
        row.push(match &*reservation.state {
            "pending" => age::left(expiration, now),
            _ => String::new(),
        });
        row.push(age::span(now.since(created)));
        if wide {
            row.extend([created.to_string(), expiration.to_string()]);
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reservations_say_for_what_and_until_when() {
        let pending = json!({
            "namespace": "a", "reservedBy": {"kind": "Pod", "name": "web", "uid": "u1"},
            "reserved": {"pods": "1", "requests.cpu": "2"}, "state": "pending",
            "createdTime": "2020-01-01T00:00:00Z", "expirationTime": "2020-01-01T00:00:30Z"});
        let ended = json!({"namespace": "a", "reservedBy": {"uid": "u2"}, "reserved": {}, "state": "released",
            "createdTime": "2020-01-01T00:00:00Z", "expirationTime": "2020-01-01T00:00:30Z"});
        let all = [pending, ended].map(|value| serde_json::from_value(value).unwrap());
        let text = table(&all, false, true).render(false);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0][..5],
            ["u1", "Pod/web", "pods=1,requests.cpu=2", "pending", "0s"]
        );
        assert_eq!(
            lines[0][6..],
            ["2020-01-01T00:00:00Z", "2020-01-01T00:00:30Z"]
        );
        assert_eq!(
            lines[1][..5],
            ["u2", "<none>", "<none>", "released", "<none>"]
        );
    }
}
