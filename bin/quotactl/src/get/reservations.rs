//! `get reservations`: the reserved amounts, their holders and their expiry.

use quota_client::{http::Address, wire::Reservation};
use serde_json::Value;

use super::{Item, List};
use crate::{
    age,
    args::{Reservations, When},
    failure::{Exit, Outcome},
    namespaces::everywhere,
    reservation,
    session::Session,
    table::Table,
};

impl Item for Reservation<'static> {
    fn identity(&self) -> String {
        format!("{}/{}", self.namespace, self.reserved_by.uid)
    }

    fn strip_head(&mut self) {
        (self.as_of, self.lagging) = (None, false);
    }
}

impl List for Reservations {
    type Item = Reservation<'static>;

    fn fetch(&self, session: &Session) -> Outcome<Value> {
        let client = &session.client;
        let pending = |namespace: &str| {
            client.list_json(&Address::in_namespace(namespace, ["reservations"]), None)
        };
        match &self.uid {
            Some(uid) => client.get_json(&reservation::one(session, [uid])?),
            None if session.scope.all => everywhere(session, When::default(), None, pending),
            None => pending(session.scope.namespace()),
        }
    }

    fn name(&self, reservation: &Reservation<'static>) -> String {
        format!("reservation/{}", reservation.reserved_by.uid)
    }

    fn table(&self, session: &Session, reservations: &[Reservation<'static>], wide: bool) -> Table {
        table(reservations, session.scope.all, wide)
    }

    fn ended(
        &self,
        session: &Session,
        reservation: &Reservation<'static>,
    ) -> Outcome<Option<Reservation<'static>>> {
        let uid = reservation.reserved_by.uid.to_string();
        match session.client.get(&one(&reservation.namespace, &uid)) {
            Ok(ended) => Ok(Some(ended.content)),
            Err(failure) if failure.exit == Exit::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn one(namespace: &str, uid: &str) -> Address {
    Address::in_namespace(namespace, ["reservations", uid])
}

fn table(reservations: &[Reservation<'_>], all: bool, wide: bool) -> Table {
    let now = age::now();
    // Only what is pending has an end before it.
    let left = |it: &Reservation<'_>| match &*it.state {
        "pending" => age::left(it.expiration_time, now),
        _ => String::new(),
    };
    Table::of(
        reservations,
        &[
            (all, "NAMESPACE", &|it| it.namespace.to_string()),
            (true, "UID", &|it| it.reserved_by.uid.to_string()),
            (true, "FOR", &|it| reservation::holder(&it.reserved_by)),
            (true, "RESERVED", &|it| it.reserved.pretty()),
            (true, "STATE", &|it| it.state.to_string()),
            (true, "EXPIRES", &left),
            (true, "?AGE", &|it| age::span(now.since(it.created_time))),
            (wide, "CREATED", &|it| it.created_time.to_string()),
            (wide, "EXPIRATION", &|it| it.expiration_time.to_string()),
        ],
    )
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
