//! The calls of the API, by subject.

use std::{collections::VecDeque, io::BufRead, marker::PhantomData};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quota_semantics::{Period, Timestamp, quota::Manifest, resource::ResourceList};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{Call, Client, Error, Events, Method, StatusCode};
use crate::wire::{
    AsOf, Cluster, Denial, Entry, EventsAnswer, Explanation, Group, GroupUsage, GroupUsageHistory,
    NamespaceUsage, Object, Quota, RelistAnswer, RelistRequest, Report, Reservation,
    ReserveRequest, Status, Usage, UsageHistory, Verdict,
};

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
            let what = "returned a response that does not match the request";
            return Err(self.unexpected(StatusCode::OK, what));
        }
        Ok(Batch { results, as_of: answer.as_of, lagging: answer.lagging })
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

impl Client {
    /// A group with its usage and members.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist.
    pub fn group(&self, name: &str) -> Result<Group, Error> {
        self.get(&Address::of(["v1", "groups", name]))
    }

    /// The groups, sorted by name, without the names of their members. `selector` is a label selector, as in
    /// `team=a,tier!=test`.
    pub fn groups(&self, selector: Option<&str>) -> Items<'_, Group> {
        let address = Address::of(["v1", "groups"]);
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates or updates a group. A result of [`group`](Self::group) can be changed and sent back; its status is
    /// ignored.
    ///
    /// # Errors
    /// [`Error::Refused`] if the group is not valid (`problem.errors` names each field), [`Error::Conflict`] if its
    /// resourceVersion is outdated.
    pub fn set_group(&self, group: &Group) -> Result<Group, Error> {
        let address = Address::of(["v1", "groups", &group.name]);
        let call = Call::new(Method::PUT, &address).json(group)?;
        let call = match group.resource_version.is_empty() {
            true => call.repeatable(),
            false => call,
        };
        self.send(&call)?.json()
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist; also if the response to an earlier attempt was lost.
    pub fn delete_group(&self, name: &str) -> Result<(), Error> {
        let address = Address::of(["v1", "groups", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }

    /// The usage of a group, and of each of its members.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group does not exist at that time.
    pub fn group_usage(&self, name: &str, when: When) -> Result<GroupUsage, Error> {
        self.get(&when.added_to(Address::of(["v1", "groups", name, "usage"])))
    }

    /// The usage of a group between two times, with the members of each moment: as
    /// [`usage_history`](Self::usage_history).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the group exists neither now nor in this period.
    pub fn group_usage_history(
        &self,
        name: &str,
        from: Timestamp,
        to: Option<Timestamp>,
        step: Option<Period>,
    ) -> Result<GroupUsageHistory, Error> {
        let address = Address::of(["v1", "groups", name, "usage", "history"]);
        let address = address.with("from", from).with_some("to", to);
        self.get(&address.with_some("step", step))
    }
}

impl Client {
    /// The status of the daemon, and the caller's identity.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn status(&self) -> Result<Status, Error> {
        self.get(&Address::of(["v1", "status"]))
    }

    /// The cluster, as the called node sees it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the daemon is not in a cluster.
    pub fn cluster(&self) -> Result<Cluster, Error> {
        self.get(&Address::of(["v1", "cluster"]))
    }

    /// The entries of a namespace, or of all, in order, from the sequence `from` on (none: from the oldest retained
    /// one).
    pub fn entries(&self, namespace: Option<&str>, from: Option<u64>) -> Items<'_, Entry> {
        let address = Address::of(["v1", "entries"]).with_some("from", from);
        self.items(address.with_some("namespace", namespace))
    }

    /// The latest denials of a namespace, or of all, newest first.
    pub fn denials(&self, namespace: Option<&str>) -> Items<'_, Denial> {
        self.items(Address::list(namespace, "denials"))
    }

    /// The counted objects of a namespace, or of all; only those of `resource`, as in `deployments.apps`, if it is
    /// given.
    pub fn objects(
        &self,
        namespace: Option<&str>,
        resource: Option<&str>,
    ) -> Items<'_, Object<'static>> {
        self.items(Address::list(namespace, "objects").with_some("resource", resource))
    }

    /// Sends events, one JSON object per line. Accepted events are durable. Sending the same events again is safe.
    ///
    /// # Errors
    /// As [`send`](Self::send). Events that cannot be parsed are no error, but `rejected` in the response.
    pub fn send_events(&self, lines: Vec<u8>) -> Result<EventsAnswer, Error> {
        let address = Address::of(["v1", "events"]);
        let call = Call::new(Method::POST, &address).body("application/x-ndjson", lines);
        self.send(&call.repeatable())?.json()
    }

    /// Requests that publishers relist these resources, or all if none is given.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the daemon reads no stream.
    pub fn relist(&self, resources: &[String]) -> Result<RelistAnswer, Error> {
        let address = Address::of(["v1", "relist"]);
        let mut call = Call::new(Method::POST, &address);
        if !resources.is_empty() {
            call = call.json(&RelistRequest { resources: resources.to_vec() })?;
        }
        self.send(&call.repeatable())?.json()
    }
}

impl Client {
    /// A quota with its usage.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the quota does not exist.
    pub fn quota(&self, namespace: &str, name: &str) -> Result<Quota<'static>, Error> {
        self.get(&Address::in_namespace(namespace, ["quotas", name]))
    }

    /// The quotas of a namespace, or of all, sorted by namespace and name. `selector` is a label selector, as in
    /// `team=a,tier!=test`.
    pub fn quotas(
        &self,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Items<'_, Quota<'static>> {
        let address = Address::list(namespace, "quotas");
        self.items(address.with_some("labelSelector", selector))
    }

    /// Creates or updates a quota. The quota is in force once the call returns.
    ///
    /// The call is idempotent unless the manifest has a resourceVersion, which changes with each update.
    ///
    /// # Errors
    /// [`Error::Refused`] if the manifest is not valid (`problem.errors` names each field), [`Error::Conflict`] if its
    /// resourceVersion is outdated.
    pub fn set_quota(
        &self,
        namespace: &str,
        name: &str,
        manifest: &Manifest,
    ) -> Result<Quota<'static>, Error> {
        let address = Address::in_namespace(namespace, ["quotas", name]);
        let call = Call::new(Method::PUT, &address).json(manifest)?;
        let call = match manifest.metadata.resource_version.is_empty() {
            true => call.repeatable(),
            false => call,
        };
        self.send(&call)?.json()
    }

    /// Deletes a quota.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the quota does not exist; also if the response to an earlier attempt was lost.
    pub fn delete_quota(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let address = Address::in_namespace(namespace, ["quotas", name]);
        self.send(&Call::new(Method::DELETE, &address)).map(drop)
    }
}

/// The point in time of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// The present.
    #[default]
    Now,
    /// After the last entry that is not later than this time.
    At(Timestamp),
    /// After the entry with this sequence.
    Sequence(u64),
}

impl When {
    /// The address with the query parameters for this point in time.
    pub(super) fn added_to(self, address: Address) -> Address {
        match self {
            Self::Now => address,
            Self::At(time) => address.with("at", time),
            Self::Sequence(sequence) => address.with("sequence", sequence),
        }
    }
}

impl Client {
    /// The usage of a namespace, and the remaining amount of each of its limits.
    ///
    /// # Errors
    /// [`Error::Refused`] if the entries of that time are no longer retained.
    pub fn usage(&self, namespace: &str, when: When) -> Result<Usage, Error> {
        self.get(&when.added_to(Address::in_namespace(namespace, ["usage"])))
    }

    /// The usage between two times, in parts of the length `step`. Default of `to`: now; of `step`: a hundredth of the
    /// span.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn usage_history(
        &self,
        namespace: &str,
        from: Timestamp,
        to: Option<Timestamp>,
        step: Option<Period>,
    ) -> Result<UsageHistory, Error> {
        let address = Address::in_namespace(namespace, ["usage", "history"]);
        let address = address.with("from", from).with_some("to", to);
        self.get(&address.with_some("step", step))
    }

    /// What was consumed between two times. `by` is `namespace`, `group`, `label:KEY`, `kind` or `workload`; default of
    /// `to`: now.
    ///
    /// # Errors
    /// As [`usage`](Self::usage).
    pub fn report(
        &self,
        from: Timestamp,
        to: Option<Timestamp>,
        by: &str,
    ) -> Result<Report, Error> {
        let address = Address::of(["v1", "report"]).with("from", from);
        self.get(&address.with_some("to", to).with("by", by))
    }

    /// The namespaces whose names contain `search`, the fullest first.
    pub fn namespaces(&self, search: Option<&str>, when: When) -> Items<'_, NamespaceUsage> {
        let address = Address::of(["v1", "usage"]).with_some("search", search);
        self.items(when.added_to(address))
    }

    /// The objects and reservations behind a number: of a quota, of a group that counts the namespace, or of the
    /// namespace as a whole. The largest ones, as many as a page holds.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no such quota or group exists, or it does not limit the resource.
    pub fn explain(
        &self,
        namespace: &str,
        resource: &str,
        quota: Option<&str>,
        when: When,
    ) -> Result<Explanation, Error> {
        let address = Address::in_namespace(namespace, ["explain"]).with("resource", resource);
        self.get(&when.added_to(address.with_some("quota", quota)))
    }
}

/// Entries as they become durable, without gaps or duplicates. After an error the next entry is requested over a new
/// connection: callers that continue after a [transient](Error::is_transient) error should pause before.
pub struct Watch<'a> {
    client: &'a Client,
    address: Address,
    last: Option<String>,
    open: Option<Events<Box<dyn BufRead + Send>>>,
}

impl Watch<'_> {
    fn entry(&mut self) -> Result<Entry, Error> {
        let events = match &mut self.open {
            Some(events) => events,
            closed => {
                // What comes between a first connection that breaks early and the next one must not be missed.
                if self.last.is_none() {
                    self.last = Some(self.client.status()?.as_of.sequence.to_string());
                }
                let stream = self.client.open_stream(&self.address, self.last.as_deref())?;
                closed.insert(stream)
            }
        };
        loop {
            let event = events.next_event();
            let broken =
                |why: String| Error::Unreachable { server: self.client.server.clone(), why };
            let event = event.map_err(|error| broken(error.to_string()))?;
            let event = event.ok_or_else(|| broken("the daemon ended the stream".to_owned()))?;
            let odd = |error: serde_json::Error| {
                let what = format!("sends an entry of another form: {error}");
                self.client.unexpected(StatusCode::OK, what)
            };
            let data: Value = serde_json::from_str(&event.data).map_err(odd)?;
            // Other events move the position from which the stream is resumed, but are no entries.
            if data.get("event").is_some() {
                return serde_json::from_value(data).map_err(odd);
            }
        }
    }

    /// Closes the stream; the next one continues after its last id.
    fn close(&mut self) {
        let events = self.open.take();
        if let Some(id) = events.as_ref().map(Events::last_id).filter(|id| !id.is_empty()) {
            self.last = Some(id.to_owned());
        }
    }
}

impl Iterator for Watch<'_> {
    type Item = Result<Entry, Error>;

    /// Blocks until an entry is durable, or an error occurs. Never returns `None`.
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.entry().inspect_err(|_| self.close()))
    }
}

impl Client {
    /// The entries of a namespace, or of all, from the sequence `from` on (none: from now on). The stream is opened
    /// when the first entry is requested.
    pub fn watch(&self, namespace: Option<&str>, from: Option<u64>) -> Watch<'_> {
        Watch {
            client: self,
            address: Address::of(["v1", "watch"]).with_some("namespace", namespace),
            // A stream goes on behind the last one seen, which for a given beginning is the one before it.
            last: from.map(|from| from.saturating_sub(1).to_string()),
            open: None,
        }
    }

    fn open_stream(
        &self,
        address: &Address,
        last: Option<&str>,
    ) -> Result<Events<Box<dyn BufRead + Send>>, Error> {
        let request = self.stream_request(address, last)?;
        Ok(Events::new(Box::new(self.open(request)?)))
    }
}

// Lists that are requested page by page.

/// The maximum number of items that one request asks for.
const PAGE_ITEMS: usize = 500;

/// The pages of a list, as received. Each page is requested when it is needed. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Pages<'a> {
    client: &'a Client,
    address: Address,
    left: usize,
    next: Next,
}

#[derive(Clone, Debug)]
enum Next {
    First,
    Behind(String),
    None,
}

impl Pages<'_> {
    fn ask(&mut self) -> Result<Value, Error> {
        let token = match std::mem::replace(&mut self.next, Next::None) {
            Next::Behind(token) => Some(token),
            Next::First | Next::None => None,
        };
        let address = self
            .address
            .clone()
            .with("limit", self.left.min(PAGE_ITEMS))
            .with_some("continue", token.as_ref());
        let reply = self.client.send(&Call::new(Method::GET, &address))?;
        let page: Value = reply.json()?;
        let Some(items) = page.get("items").and_then(Value::as_array) else {
            let what = "gives an answer that is no list";
            return Err(self.client.unexpected(reply.status, what));
        };
        self.left = self.left.saturating_sub(items.len());
        let behind = page.get("continue").and_then(Value::as_str);
        let behind = behind.filter(|behind| !behind.is_empty());
        // A page may be empty and yet not be the last; but it cannot be the next one of itself.
        if behind.is_some() && behind == token.as_deref() {
            let what = "lists the same page again";
            return Err(self.client.unexpected(reply.status, what));
        }
        if let Some(behind) = behind
            && self.left > 0
        {
            self.next = Next::Behind(behind.to_owned());
        }
        Ok(page)
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Value, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next {
            Next::None => None,
            _ => Some(self.ask()),
        }
    }
}

/// The items of a list; pages are requested when they are needed. Ends after the first error.
#[derive(Debug)]
pub struct Items<'a, T> {
    pages: Pages<'a>,
    page: VecDeque<Value>,
    read: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Items<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.page.pop_front() {
                let item = serde_json::from_value(item);
                if item.is_err() {
                    self.page.clear();
                    self.pages.next = Next::None;
                }
                return Some(item.map_err(|error| {
                    let what = format!("lists an item of another form: {error}");
                    self.pages.client.unexpected(StatusCode::OK, what)
                }));
            }
            match self.pages.next()? {
                Err(error) => return Some(Err(error)),
                Ok(mut page) => {
                    if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                        self.page = items.into();
                    }
                }
            }
        }
    }
}

impl Client {
    /// The pages of a list of at most `most` items, as received.
    pub const fn pages(&self, address: Address, most: usize) -> Pages<'_> {
        Pages { client: self, address, left: most, next: Next::First }
    }

    /// The items of a list.
    pub const fn items<T: DeserializeOwned>(&self, address: Address) -> Items<'_, T> {
        Items { pages: self.pages(address, usize::MAX), page: VecDeque::new(), read: PhantomData }
    }
}

// Paths of the API. Segments come from users, and are percent-encoded.

/// A path below the server's address, with its query.
#[derive(Clone, Debug)]
pub struct Address {
    text: String,
    has_query: bool,
    namespace: Option<String>,
}

impl Address {
    /// The path with these segments.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for segment in segments {
            text.push('/');
            text.extend(utf8_percent_encode(segment, IN_SEGMENT));
        }
        Self { text, has_query: false, namespace: None }
    }

    /// The path below `/v1/namespaces/{namespace}`.
    pub fn in_namespace<'a>(
        namespace: &'a str,
        segments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::of(["v1", "namespaces", namespace].into_iter().chain(segments))
        }
    }

    /// The path of a list of this kind: that of a namespace, or that of all.
    pub fn list(namespace: Option<&str>, kind: &str) -> Self {
        match namespace {
            Some(namespace) => Self::in_namespace(namespace, [kind]),
            None => Self::of(["v1", kind]),
        }
    }

    /// The same path with a further query parameter.
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        encode(name, &mut self.text);
        self.text.push('=');
        encode(&value.to_string(), &mut self.text);
        self
    }

    /// The same path with a further query parameter, if there is a value.
    pub fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The namespace of the path; none for paths outside of `/v1/namespaces/{namespace}`.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Path and query.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// All characters but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// As [`ESCAPED`], without the colon, which the path `/v1/reservations:batch` contains.
const IN_SEGMENT: &AsciiSet = &ESCAPED.remove(b':');

fn encode(text: &str, into: &mut String) {
    into.extend(utf8_percent_encode(text, ESCAPED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_cannot_leave_its_segment() {
        let address = Address::in_namespace("a/../b", ["quotas", "x?y:z"])
            .with("at", "2026-11-20T10:00:00+00:00")
            .with_some("limit", Some(5))
            .with_some("continue", None::<&str>);
        assert_eq!(
            address.as_str(),
            "/v1/namespaces/a%2F..%2Fb/quotas/x%3Fy:z?at=2026-11-20T10%3A00%3A00%2B00%3A00&limit=5"
        );
    }
}
