//! Reservations.

use quota_semantics::{Period, resource::ResourceList};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Address, Call, Client, Error, Items, Method, StatusCode};
use crate::wire::{AsOf, Reservation, ReserveRequest, Verdict};

/// A granted reservation.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The reservation.
    pub reservation: Reservation<'static>,
    /// Whether the same request was granted before. If so, nothing more is held.
    pub replayed: bool,
}

/// The results of a batch of requests.
#[derive(Debug)]
pub struct Batch {
    /// One result per request, in order.
    pub results: Vec<Result<Grant, Error>>,
    /// The last entry of the ledger that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    pub lagging: bool,
}

impl Client {
    /// Reserves capacity for an object that will be created. A returned grant is durable.
    ///
    /// # Errors
    /// [`Error::Denied`] if a quota or group has no room, [`Error::Conflict`] if the reservation has ended, or the uid
    /// was used for another request.
    pub fn reserve(&self, namespace: &str, request: &ReserveRequest) -> Result<Grant, Error> {
        let address = Address::in_namespace(namespace, ["reservations"]);
        let call = Call::new(Method::POST, &address).json(request)?;
        let reply = self.send(&call.repeatable())?;
        let replayed = reply.headers.get("idempotency-replayed");
        Ok(Grant {
            replayed: replayed.is_some_and(|value| value == "true"),
            reservation: reply.json()?,
        })
    }

    /// Reserves for several objects; each request names its namespace. At most 1,000 requests; `atomic`: all or none,
    /// at most 100.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve) for an atomic batch, with the index of the refused request in `problem.index`.
    /// Otherwise each request has its own result.
    pub fn reserve_batch(&self, requests: &[ReserveRequest], atomic: bool) -> Result<Batch, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            atomic: bool,
            items: &'a [ReserveRequest],
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            items: Vec<Value>,
            as_of: AsOf,
            #[serde(default)]
            lagging: bool,
        }
        let address = Address::of(["v1", "reservations:batch"]);
        let items = requests;
        let call = Call::new(Method::POST, &address).json(&Body { atomic, items })?;
        let answer: Answer = self.send(&call.repeatable())?.json()?;
        let results = answer.items.iter().map(|item| self.outcome(item));
        let results: Vec<_> = results.collect();
        if results.len() != requests.len() {
            let what = "gives an answer that is not about what was asked";
            return Err(self.unexpected(StatusCode::OK, what));
        }
        Ok(Batch {
            results,
            as_of: answer.as_of,
            lagging: answer.lagging,
        })
    }

    fn outcome(&self, item: &Value) -> Result<Grant, Error> {
        let status = item.get("status").and_then(Value::as_u64);
        let status = status.and_then(|status| u16::try_from(status).ok());
        match status {
            Some(200..=299) => Ok(Grant {
                reservation: Deserialize::deserialize(item).map_err(|error| {
                    let what = format!("gives an odd reservation: {error}");
                    self.unexpected(StatusCode::OK, what)
                })?,
                replayed: item.get("replayed").and_then(Value::as_bool) == Some(true),
            }),
            status => {
                let status = status.unwrap_or_default();
                let text = item.to_string();
                Err(Error::of_answer(&self.shown, status, None, text.as_bytes()))
            }
        }
    }

    /// A reservation in any state, as long as the ledger has a record of it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no record.
    pub fn reservation(&self, namespace: &str, uid: &str) -> Result<Reservation<'static>, Error> {
        self.get(&Address::in_namespace(namespace, ["reservations", uid]))
    }

    /// The reservations of a namespace in a state: `pending` (default), `committed`, `observed`, `released` or
    /// `expired`.
    #[must_use]
    pub fn reservations(
        &self,
        namespace: &str,
        state: Option<&str>,
    ) -> Items<'_, Reservation<'static>> {
        let address = Address::in_namespace(namespace, ["reservations"]);
        self.items(address.with_some("state", state))
    }

    /// Extends a pending reservation: it expires after `ttl` from now, but never earlier than before.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the reservation has ended.
    pub fn extend(
        &self,
        namespace: &str,
        uid: &str,
        ttl: Period,
    ) -> Result<Reservation<'static>, Error> {
        let address = Address::in_namespace(namespace, ["reservations", uid, "extend"]);
        let call = Call::new(Method::POST, &address).json(&json!({ "ttl": ttl }))?;
        self.send(&call.repeatable())?.json()
    }

    /// Commits a reservation, since its object exists: the reserved amounts, or those of a smaller `reserved`, count as
    /// used.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the reservation has ended.
    pub fn commit(
        &self,
        namespace: &str,
        uid: &str,
        reserved: Option<&ResourceList>,
    ) -> Result<Reservation<'static>, Error> {
        let address = Address::in_namespace(namespace, ["reservations", uid, "commit"]);
        let mut call = Call::new(Method::POST, &address);
        if let Some(reserved) = reserved {
            call = call.json(&json!({ "reserved": reserved }))?;
        }
        self.send(&call.repeatable())?.json()
    }

    /// Releases a pending reservation, or returns the amounts of a committed one.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a source has observed the object.
    pub fn release(&self, namespace: &str, uid: &str) -> Result<(), Error> {
        let address = Address::in_namespace(namespace, ["reservations", uid]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }

    /// Checks whether a request would be granted now. Holds nothing.
    ///
    /// # Errors
    /// If the request is not valid. A request that does not fit is no error, but a [`Verdict`].
    pub fn check(
        &self,
        namespace: &str,
        request: &ReserveRequest,
    ) -> Result<Verdict<'static>, Error> {
        let address = Address::in_namespace(namespace, ["check"]);
        let call = Call::new(Method::POST, &address).json(request)?;
        self.send(&call.repeatable())?.json()
    }
}
