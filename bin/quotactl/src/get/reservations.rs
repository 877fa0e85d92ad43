//! `get reservations`: what is promised, to whom, until when.

use serde_json::Value;

use super::List;
use crate::{
    address::Address,
    age,
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
        reservation::name(reservation)
    }

    fn table(&self, session: &Session, reservations: &[Value], wide: bool) -> Outcome<Table> {
        Ok(table(reservations, session.scope.all, wide))
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

fn table(reservations: &[Value], all: bool, wide: bool) -> Table {
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
        let state = text(reservation, "/state");
        let expiration = text(reservation, "/expirationTime");
        let created = text(reservation, "/createdTime");
        let mut row = Vec::with_capacity(titles.len());
        if all {
            row.push(text(reservation, "/namespace").to_owned());
        }
        row.push(text(reservation, "/reservedBy/uid").to_owned());
        row.push(reservation::holder(reservation));
        row.push(reservation::amounts(reservation));
        row.push(state.to_owned());
        // Only what is pending has an end before it.
        row.push(if state == "pending" {
            age::until(expiration, now)
        } else {
            String::new()
        });
        row.push(age::age(created, now));
        if wide {
            row.extend([created.to_owned(), expiration.to_owned()]);
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
        let ended = json!({"reservedBy": {"uid": "u2"}, "reserved": {}, "state": "released"});
        let text = table(&[pending, ended], false, true).render(false);
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
