//! The daemon that a command speaks to: the typed client, whose errors are told as commands end with them. Answers are
//! also given as they came, for programs that read them.

use std::{io::BufReader, io::Read, time::Duration};

use http::{Method, StatusCode};
use quota_client::http::{self as api, Address, Call, Error, Events, Options, Retry};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    args::Global,
    config::Connection,
    failure::{Failure, Outcome},
    problem,
    session::items,
};

/// How often a piece is sent to a daemon that is too busy to take it.
const PATIENT: Retry = Retry {
    busy_attempts: 10,
    connection_attempts: 1,
    longest_wait: Duration::from_secs(10),
};

/// Talks to one daemon.
pub(crate) struct Client {
    /// Makes each call once: who waits at a terminal decides what to do about an error.
    once: api::Client,
    patient: api::Client,
}

/// An answer that is no error.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its headers.
    pub(crate) headers: http::HeaderMap,
    /// Its body; null if it has none.
    pub(crate) body: Value,
}

impl Client {
    /// A client for a server.
    pub(crate) fn new(connection: &Connection, global: &Global) -> Outcome<Self> {
        let options = Options {
            token: connection.token.clone(),
            ca: connection.ca.clone(),
            identity: connection.cert.clone().zip(connection.key.clone()),
            timeout: global.timeout.get(),
            retry: Retry::NEVER,
            change_reason: global.reason.clone(),
            user_agent: concat!("quotactl/", env!("CARGO_PKG_VERSION")).to_owned(),
        };
        let once = api::Client::new(&connection.server, options);
        let once = once.map_err(|error| problem::failure(&error, None))?;
        let patient = once.with_retry(PATIENT);
        Ok(Self { once, patient })
    }

    /// Asks for something.
    pub(crate) fn get(&self, address: &Address) -> Outcome<Value> {
        Ok(self.send(Method::GET, address, None, &[])?.body)
    }

    /// Asks for something of a type. Also gives the answer as it came.
    pub(crate) fn get_as<T: DeserializeOwned>(&self, address: &Address) -> Outcome<(Value, T)> {
        let answer = self.get(address)?;
        let read = read(&answer)?;
        Ok((answer, read))
    }

    /// Asks for a list of things of a type. Also gives the answer as it came.
    pub(crate) fn list_as<T: DeserializeOwned>(
        &self,
        address: &Address,
        limit: Option<usize>,
    ) -> Outcome<(Value, Vec<T>)> {
        let answer = self.list(address, limit)?;
        let read = read_items(&answer)?;
        Ok((answer, read))
    }

    /// Asks for a list, page by page; at most `limit` items.
    pub(crate) fn list(&self, address: &Address, limit: Option<usize>) -> Outcome<Value> {
        let mut items = Vec::new();
        let mut answer = self.walk(address, limit.unwrap_or(usize::MAX), |found| {
            items.extend(found);
            Ok(())
        })?;
        answer["items"] = Value::Array(items);
        Ok(answer)
    }

    /// Asks for a list of at most `most` items, and gives its pages to `take`. Answers the last page without its items.
    pub(crate) fn walk(
        &self,
        address: &Address,
        most: usize,
        mut take: impl FnMut(Vec<Value>) -> Outcome,
    ) -> Outcome<Value> {
        let mut last = Value::Null;
        for page in self.once.pages(address.clone(), most) {
            last = page.map_err(|error| problem::failure(&error, address.namespace()))?;
            if let Some(Value::Array(found)) = last.get_mut("items").map(Value::take) {
                take(found)?;
            }
        }
        Ok(last)
    }

    /// Sends a JSON body, or none.
    pub(crate) fn send_json(
        &self,
        method: Method,
        address: &Address,
        body: Option<&Value>,
    ) -> Outcome<Reply> {
        let bytes = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        self.send(method, address, body.map(|_| "application/json"), &bytes)
    }

    /// Sends a body of a type.
    pub(crate) fn send(
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
        reply(self.once.send(&call), address)
    }

    /// Sends a piece of many, which is safe to repeat: again and again to a daemon that is too busy.
    pub(crate) fn send_patiently(
        &self,
        address: &Address,
        content_type: &str,
        body: Vec<u8>,
    ) -> Outcome<Reply> {
        let call = Call::new(Method::POST, address).body(content_type, body);
        reply(self.patient.send(&call.repeatable()), address)
    }

    /// Opens a stream of server-sent events, which may last for ever.
    pub(crate) fn stream(
        &self,
        address: &Address,
        last_event_id: Option<&str>,
    ) -> Outcome<Events<BufReader<impl Read + use<>>>> {
        let opened = self.once.stream(address, last_event_id);
        opened.map_err(|error| problem::failure(&error, address.namespace()))
    }

    /// Downloads bytes, however many there are.
    pub(crate) fn download(&self, address: &Address) -> Outcome<BufReader<impl Read + use<>>> {
        let opened = self.once.download(address);
        opened.map_err(|error| problem::failure(&error, address.namespace()))
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.once.server()
    }

    /// What the `Authorization` header says, if there is one.
    pub(crate) fn authorization(&self) -> Outcome<Option<String>> {
        let header = self.once.authorization();
        header.map_err(|error| problem::failure(&error, None))
    }
}

fn reply(sent: Result<api::Reply, Error>, address: &Address) -> Outcome<Reply> {
    let failed = |error: Error| problem::failure(&error, address.namespace());
    let sent = sent.map_err(failed)?;
    Ok(Reply {
        body: match sent.body.is_empty() {
            true => Value::Null,
            false => sent.json().map_err(failed)?,
        },
        status: sent.status,
        headers: sent.headers,
    })
}

/// An answer as what it stands for.
pub(crate) fn read<T: DeserializeOwned>(answer: &Value) -> Outcome<T> {
    T::deserialize(answer).map_err(|error| {
        Failure::general(format!("an answer of another form: {error}"))
            .hint("quotactl version shows the versions of both sides")
    })
}

/// The items of a list as what they stand for.
pub(crate) fn read_items<T: DeserializeOwned>(answer: &Value) -> Outcome<Vec<T>> {
    items(answer).iter().map(read).collect()
}
