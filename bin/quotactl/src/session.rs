//! The context of every online command: the daemon, the namespace, the form of the output.

use std::{
    io::{BufReader, Read},
    time::Duration,
};

use http::{Method, StatusCode};
use quota_client::{
    http::{self as api, Address, Call, Error, Events, Retry},
    wire::Page,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    config::Connection,
    failure::{self, Exit, Failure, Outcome},
    output::{Output, note},
};

/// The context of a command that calls a daemon.
pub(crate) struct Session {
    /// The daemon.
    pub(crate) client: Client,
    /// The output of data.
    pub(crate) output: Output,
    /// The namespaces that the command applies to.
    pub(crate) scope: Scope,
    /// The reason of a change (`--reason`), if it was given.
    pub(crate) reason: Option<String>,
}

/// The namespaces that a command applies to.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The given namespace, from a flag, the environment or the context.
    pub(crate) given: Option<String>,
    /// Whether the namespace was given by flag. If so, manifests must not contradict it.
    pub(crate) strict: bool,
    /// Whether the command applies to all namespaces.
    pub(crate) all: bool,
}

impl Scope {
    /// The namespace, if the command applies to one.
    pub(crate) fn namespace(&self) -> &str {
        self.given.as_deref().unwrap_or("default")
    }

    /// The namespace of a list; none for a list of all namespaces.
    pub(crate) fn listed(&self) -> Option<&str> {
        (!self.all).then(|| self.namespace())
    }

    /// The namespace for a command on `what`, which belongs to one namespace.
    ///
    /// # Errors
    /// If all namespaces are selected.
    pub(crate) fn of_one(&self, what: &str) -> Outcome<&str> {
        match self.all {
            false => Ok(self.namespace()),
            true => {
                Err(Failure::usage(format!("{what} belongs to one namespace: -A cannot be used")))
            }
        }
    }

    /// The namespace to restrict a view of the whole ledger to, if any.
    pub(crate) fn filter(&self) -> Option<&str> {
        self.given.as_deref().filter(|_| !self.all)
    }

    /// The namespace of a document that may name its own.
    pub(crate) fn of_document(&self, own: Option<&str>) -> Outcome<String> {
        let own = own.filter(|own| !own.is_empty());
        match (own, &self.given) {
            (Some(own), Some(given)) if self.strict && own != given => Err(Failure::usage(
                format!("it is for namespace {own}, but --namespace {given} was given"),
            )),
            (Some(own), _) => Ok(own.to_owned()),
            (None, _) => Ok(self.of_one("a document without a namespace")?.to_owned()),
        }
    }
}

impl Session {
    /// Reports that a list is empty, as kubectl does, on standard error.
    pub(crate) fn note_empty(&self) {
        match self.scope.all {
            true => note("No resources found"),
            false => note(format!("No resources found in {} namespace.", self.scope.namespace())),
        }
    }

    /// Reports that the daemon's response may lag behind the sources.
    pub(crate) fn note_lag(&self, lagging: bool) {
        if lagging {
            note("warning: the daemon lags behind a source of events; the figures may be outdated");
        }
    }
}

/// Applies a function to each item. Each failure is printed, and the first one determines the exit code.
pub(crate) fn each<T>(
    things: impl IntoIterator<Item = T>,
    mut act: impl FnMut(T) -> Outcome,
) -> Outcome {
    let mut first = None;
    for thing in things {
        match act(thing) {
            Err(failure) if failure.exit == Exit::Done => return Err(failure),
            Err(failure) => {
                if !failure.is_silent() {
                    note(failure.to_string());
                }
                first.get_or_insert(failure.exit);
            }
            Ok(()) => {}
        }
    }
    first.map_or(Ok(()), |exit| Err(Failure::silent(exit)))
}

// Calls to the daemon: the typed client, whose errors become the failures of commands.
//
// An answer is returned both typed and as the received JSON: `-o json` and similar forms print all fields, including
// those of a newer daemon.

/// The limits on retries of a piece while the daemon is busy.
const PATIENT: Retry =
    Retry { busy_attempts: 10, connection_attempts: 1, longest_wait: Duration::from_secs(10) };

/// A client of one daemon.
pub(crate) struct Client {
    /// Makes each call once: the user at the terminal decides about a retry.
    once: api::Client,
    patient: api::Client,
    /// Whether failures show all figures.
    wide: bool,
}

/// The response to a query.
#[derive(Clone, Debug)]
pub(crate) struct Answer<T> {
    /// The received JSON; of a list, all pages as one.
    pub(crate) json: Value,
    /// The content of the JSON, typed.
    pub(crate) content: T,
}

/// A successful response to a call.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: http::HeaderMap,
    /// The body as received; null if there is none.
    pub(crate) json: Value,
}

impl Reply {
    /// The body, typed.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Outcome<T> {
        read(&self.json)
    }
}

impl Client {
    /// A client for a connection.
    pub(crate) fn new(connection: &Connection, wide: bool) -> Outcome<Self> {
        let once = api::Client::new(&connection.server, connection.options.clone());
        let once = once.map_err(|error| failure::failure(&error, None))?;
        let patient = once.with_retry(PATIENT);
        Ok(Self { once, patient, wide })
    }

    /// Sends a `GET` request. Returns the response typed, too.
    pub(crate) fn get<T: DeserializeOwned>(&self, address: &Address) -> Outcome<Answer<T>> {
        Answer::read(self.get_json(address)?)
    }

    /// Sends a `GET` request. Returns the received JSON.
    pub(crate) fn get_json(&self, address: &Address) -> Outcome<Value> {
        Ok(self.send(Method::GET, address, None, &[])?.json)
    }

    /// Reads a list page by page; at most `limit` items. `T` is the list as a whole, as in [`Page`].
    pub(crate) fn list<T: DeserializeOwned>(
        &self,
        address: &Address,
        limit: Option<usize>,
    ) -> Outcome<Answer<T>> {
        Answer::read(self.list_json(address, limit)?)
    }

    /// Reads a list as received, all pages as one. `asOf` is that of the first page, since that page lacks later
    /// changes.
    pub(crate) fn list_json(&self, address: &Address, limit: Option<usize>) -> Outcome<Value> {
        let mut items = Vec::new();
        let (mut last, mut first_as_of, mut lagging) = (Value::Null, None, false);
        for page in self.once.pages(address.clone(), limit.unwrap_or(usize::MAX)) {
            last = page.map_err(|error| failure::failure(&error, address.namespace()))?;
            if let Some(Value::Array(found)) = last.get_mut("items").map(Value::take) {
                items.extend(found);
            }
            if first_as_of.is_none() {
                first_as_of = last.get("asOf").cloned();
            }
            lagging |= last.get("lagging") == Some(&Value::Bool(true));
        }
        last["items"] = Value::Array(items);
        if let Some(as_of) = first_as_of {
            last["asOf"] = as_of;
        }
        if lagging {
            last["lagging"] = true.into();
        }
        Ok(last)
    }

    /// Reads a list that may not fit into memory, and passes its pages to `take`.
    pub(crate) fn walk<T: DeserializeOwned>(
        &self,
        address: &Address,
        mut take: impl FnMut(Page<T>) -> Outcome,
    ) -> Outcome {
        for page in self.once.pages(address.clone(), usize::MAX) {
            let page = page.map_err(|error| failure::failure(&error, address.namespace()))?;
            take(read(&page)?)?;
        }
        Ok(())
    }

    /// Sends a JSON body.
    pub(crate) fn send_json(
        &self,
        method: Method,
        address: &Address,
        body: &impl Serialize,
    ) -> Outcome<Reply> {
        let bytes =
            serde_json::to_vec(body).map_err(|error| Failure::general(error.to_string()))?;
        self.send(method, address, Some("application/json"), &bytes)
    }

    /// Makes a call without a body.
    pub(crate) fn call(&self, method: Method, address: &Address) -> Outcome<Reply> {
        self.send(method, address, None, &[])
    }

    fn send(
        &self,
        method: Method,
        address: &Address,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Outcome<Reply> {
        let mut call = Call::new(method, address);
        if let Some(content_type) = content_type {
            call = call.body(content_type, body.to_vec());
        }
        reply(self.once.send(&call), address).map_err(|failure| match self.wide {
            true => failure.widened(),
            false => failure,
        })
    }

    /// Sends one piece of a sequence. The call is idempotent, so it is retried while the daemon is busy.
    pub(crate) fn send_patiently(
        &self,
        address: &Address,
        content_type: &str,
        body: Vec<u8>,
    ) -> Outcome<Reply> {
        let call = Call::new(Method::POST, address).body(content_type, body);
        reply(self.patient.send(&call.repeatable()), address)
    }

    /// Opens a stream of server-sent events, which may never end.
    pub(crate) fn stream(
        &self,
        address: &Address,
        last_event_id: Option<&str>,
    ) -> Outcome<Events<BufReader<impl Read + use<>>>> {
        let opened = self.once.stream(address, last_event_id);
        opened.map_err(|error| failure::failure(&error, address.namespace()))
    }

    /// Downloads a body of any size.
    pub(crate) fn download(&self, address: &Address) -> Outcome<BufReader<impl Read + use<>>> {
        let opened = self.once.download(address);
        opened.map_err(|error| failure::failure(&error, address.namespace()))
    }

    /// The URL of the server.
    pub(crate) fn server(&self) -> &str {
        self.once.server_without_password()
    }
}

fn reply(sent: Result<api::Reply, Error>, address: &Address) -> Outcome<Reply> {
    let failed = |error: Error| failure::failure(&error, address.namespace());
    let sent = sent.map_err(failed)?;
    Ok(Reply {
        json: match sent.body.is_empty() {
            true => Value::Null,
            false => sent.json().map_err(failed)?,
        },
        status: sent.status,
        headers: sent.headers,
    })
}

impl<T: DeserializeOwned> Answer<T> {
    /// The response with this JSON.
    pub(crate) fn read(json: Value) -> Outcome<Self> {
        let content = read(&json)?;
        Ok(Self { json, content })
    }
}

/// Parses JSON as a type.
pub(crate) fn read<T: DeserializeOwned>(json: &Value) -> Outcome<T> {
    T::deserialize(json).map_err(|error| {
        Failure::general(format!("an answer of another form: {error}"))
            .hint("quotactl version shows the versions of both sides")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(given: Option<&str>, strict: bool) -> Scope {
        Scope { given: given.map(str::to_owned), strict, all: false }
    }

    #[test]
    fn a_document_may_name_its_namespace_but_not_contradict_the_flag() {
        assert_eq!(scope(None, false).of_document(None).unwrap(), "default");
        assert_eq!(scope(None, false).of_document(Some("a")).unwrap(), "a");
        assert_eq!(scope(Some("b"), false).of_document(Some("a")).unwrap(), "a");
        assert_eq!(scope(Some("b"), true).of_document(Some("")).unwrap(), "b");
        let failure = scope(Some("b"), true).of_document(Some("a")).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn a_document_without_a_namespace_is_not_in_all_of_them() {
        let all = Scope { all: true, ..scope(None, false) };
        assert_eq!(all.of_document(Some("a")).unwrap(), "a");
        assert_eq!(all.of_document(None).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn all_things_are_tried_and_the_first_failure_counts() {
        let mut tried = 0;
        let result = each([Ok(()), Err(Exit::Denied), Err(Exit::NotFound)], |thing| {
            tried += 1;
            thing.map_err(|exit| Failure::new(exit, "no"))
        });
        assert_eq!((tried, result.unwrap_err().exit), (3, Exit::Denied));
        assert!(each([1, 2], |_| Ok(())).is_ok());
    }
}
