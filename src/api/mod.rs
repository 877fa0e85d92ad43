//! The HTTP API, `/v1`: reservations, quotas, usage, entries.
//!
//! A handler reads the request into plain data, passes a decision to the writer or reads the state, and renders the
//! response. Every refusal leaves as `application/problem+json`.

mod analysis;
mod batch;
mod check;
mod corrections;
mod entries;
pub mod events;
mod explain;
mod groups;
mod lifecycle;
mod openapi;
mod overview;
mod quotas;
mod replacing;
mod reservations;
mod routes;
mod series;
mod status;
mod watch;

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Request},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts as RequestParts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quota_client::wire::AsOf;
pub(super) use quota_client::wire::Page;
use quota_core::{
    event::Sequence,
    state::{self, Head},
    time::Period,
};
use quota_journal::{FileReader, Reader};
use quota_ledger::replay::Until;
use quota_semantics::{Name, Span, Timestamp, in_microseconds, yaml};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use entries::Readers;
#[doc(hidden)]
pub use reservations::ReserveRequest;
pub use routes::{document, routes};
pub use status::Backups;

pub(super) use crate::routes::Target;
pub use crate::{
    auth::{Caller, actor},
    intake::{NoSources, Sources},
};
use crate::{
    cluster::Cluster,
    config::Config,
    fairness::{Permit, Turn, WatchLimits, Watches},
    history::History,
    intake::payload,
    label_selector::LabelSelector,
    precondition,
    problem::{self, Problem, Reason, in_plain_words},
    server::{body::whole_body, guard::media_type},
    writer::Ledger,
};

// What handlers share: the ledger, its readers, and limits.

/// Requests that read the journal at the same time, at most half of them of one principal; others wait.
const JOURNAL_READERS: usize = 8;

/// The components of the API.
pub struct Parts {
    /// The writer, and the state that it has written.
    pub ledger: Ledger,
    /// Reads the stored entries.
    pub reader: Arc<dyn Reader>,
    /// Makes backups of the ledger.
    pub backups: Backups,
    /// States of the past.
    pub past: History,
    /// The status of the event sources.
    pub sources: Arc<dyn Sources>,
    /// Most items on a page of a list.
    pub page: usize,
    /// The open watches.
    pub watches: Arc<Watches>,
    /// Plural names of kinds that the built-in rules would get wrong, by `Kind.group` (`Kind` in the core group).
    pub kinds: BTreeMap<String, String>,
    /// Parses events.
    pub events: Arc<payload::Reader>,
    /// Most entries of one batch.
    pub max_batch_entries: usize,
    /// Ends the watches when the daemon stops.
    pub stop: CancellationToken,
    /// The cluster of this node; none if the node is alone.
    pub cluster: Option<Cluster>,
    /// The turns to read the journal.
    readers: Readers,
}

impl Parts {
    /// The components, with the configured limits.
    pub fn new(
        config: &Config,
        ledger: Ledger,
        reader: FileReader,
        sources: Arc<dyn Sources>,
        events: Arc<payload::Reader>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            ledger,
            backups: Backups::new(reader.clone()),
            past: History::new(
                reader.clone(),
                config.limits.replay_entries.get(),
                config.limits.past_questions.get(),
            ),
            reader: Arc::new(reader),
            sources,
            page: config.limits.page.get(),
            watches: Watches::new(WatchLimits {
                all: config.limits.watch_streams.get(),
                of_principal: config.limits.watch_streams_per_principal.get(),
            }),
            kinds: config.kinds.clone(),
            events,
            max_batch_entries: config.journal.max_batch_entries.get(),
            stop,
            cluster: None,
            readers: Readers::new(JOURNAL_READERS),
        }
    }
}

/// The state of the API. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

impl App {
    /// Assembles the components.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// A page of a list, of the state at this head.
    fn page_of<T>(&self, items: Vec<T>, next: Option<String>, head: Head) -> Page<T> {
        Page { items, next, as_of: as_of(head), lagging: self.lags() }
    }

    /// Whether an answer may lag behind the event sources.
    pub fn lags(&self) -> bool {
        self.sources.lag() || !self.sources.are_caught_up()
    }

    /// Refuses grants until the ledger has caught up with the sources: before that, usage is not reliable.
    ///
    /// # Errors
    /// `NotReady`.
    pub(crate) fn may_grant(&self) -> Result<(), Problem> {
        if self.sources.are_caught_up() {
            return Ok(());
        }
        let detail = "nothing is granted until the sources of events have been caught up with";
        Err(Problem::new(Reason::NotReady, detail))
    }
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Initial capacity for an answer about one reservation; it grows for a longer one.
const ANSWER_BYTES: usize = 512;

/// A response with this body.
fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    let made = in_microseconds(|| serde_json::to_writer(&mut text, body));
    made_or_problem(status, made.map(|()| text))
}

fn made_or_problem(status: StatusCode, text: serde_json::Result<Vec<u8>>) -> Response {
    match text {
        Ok(text) => written(status, text),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// A response with this JSON text.
fn written(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// The position of the ledger, in its wire form.
const fn as_of(Head { sequence, time }: Head) -> AsOf {
    AsOf { sequence, time }
}

/// A 200 response with this body.
fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// A 200 response with a body that may be large: serialized with pauses.
fn large(turn: &Turn, body: &impl Serialize) -> Response {
    let text = in_microseconds(|| turn.to_json(body, ANSWER_BYTES));
    made_or_problem(StatusCode::OK, text)
}

/// The characters that are escaped in a path segment: those that must be (RFC 3986), and a few that need not be.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The bytes that are never escaped in a segment, by any reader or writer.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        plain[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        byte += 1;
    }
    plain
};

/// Splits a path after its longest prefix of plain bytes.
fn plain(path: &str) -> (&str, &str) {
    let end = path.bytes().position(|byte| !PLAIN[usize::from(byte)]);
    path.split_at(end.unwrap_or(path.len()))
}

/// A path of fixed pieces, each followed by a segment that may hold any text.
fn location(pieces: &[(&str, &str)]) -> Option<HeaderValue> {
    let bytes: usize = pieces.iter().map(|(fixed, segment)| fixed.len() + segment.len()).sum();
    let mut path = String::with_capacity(bytes);
    for (fixed, segment) in pieces {
        path.push_str(fixed);
        let (plain, rest) = plain(segment);
        path.push_str(plain);
        if !rest.is_empty() {
            path.extend(utf8_percent_encode(rest, ESCAPED));
        }
    }
    HeaderValue::try_from(path).ok()
}

// Request bodies: media type, text, fields.

const JSON: &str = "application/json";

/// Media types that tools set by default: a body with one of them is read as the type that the path expects.
const UNSPECIFIED: [&str; 3] =
    ["application/x-www-form-urlencoded", "application/octet-stream", "text/plain"];

const YAML: [&str; 3] = ["application/yaml", "text/yaml", "application/x-yaml"];

/// A body of JSON text, not parsed yet; empty if there is none.
#[derive(Clone, Debug)]
struct JsonText(Bytes);

/// The text of one JSON object, or its form in YAML.
#[derive(Clone, Debug)]
struct ObjectText {
    text: JsonText,
    yaml: bool,
}

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Problem;

    fn from_request(request: Request, _: &S) -> impl Future<Output = Result<Self, Problem>> + Send {
        let checked = must_be_json(request.headers());
        let body = request.into_body();
        async {
            checked?;
            Ok(Self(whole_body(body).await?))
        }
    }
}

impl ObjectText {
    /// Its bytes.
    fn len(&self) -> usize {
        self.text.len()
    }

    /// The text in JSON.
    ///
    /// # Errors
    /// `Malformed` if it is not YAML.
    fn to_json(&self) -> Result<JsonText, Problem> {
        match self.yaml {
            true => Ok(JsonText(from_yaml(&self.text.0)?)),
            false => Ok(self.text.clone()),
        }
    }
}

/// Converts YAML to JSON.
///
/// # Errors
/// `Malformed` if it is not YAML, or repeats too much.
fn from_yaml(text: &[u8]) -> Result<Bytes, Problem> {
    let value = yaml::object(text).map_err(|error| {
        Problem::new(Reason::Malformed, format!("cannot read the YAML: {error}"))
    })?;
    Ok(value.to_string().into())
}

impl<S: Send + Sync> FromRequest<S> for ObjectText {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let media_type = media_type(request.headers());
        let is_yaml = YAML.contains(&&*media_type);
        let unspecified = media_type.is_empty() || UNSPECIFIED.contains(&&*media_type);
        if !is_yaml && !unspecified && !is_json(&media_type) {
            return Err(unsupported(&media_type, "application/json or application/yaml"));
        }
        let text = whole_body(request.into_body()).await?;
        let yaml = is_yaml || (unspecified && !text.trim_ascii_start().starts_with(b"{"));
        Ok(Self { text: JsonText(text), yaml })
    }
}

impl JsonText {
    /// Whether there is no body.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its bytes.
    fn len(&self) -> usize {
        self.0.len()
    }

    /// The text.
    fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the body.
    ///
    /// # Errors
    /// `Malformed` if the body is not JSON, or not of this type; the error names the field and the place.
    fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        // Serde would accept a list as the fields in their order.
        if !self.0.is_empty() && !self.0.trim_ascii_start().starts_with(b"{") {
            return Err(Problem::new(Reason::Malformed, "the body must be a JSON object"));
        }
        let unread = |error: &dyn std::fmt::Display| {
            Problem::new(
                Reason::Malformed,
                format!("cannot read the body: {}", in_plain_words(error)),
            )
        };
        // Checked once as a whole: otherwise serde checks each string.
        let text = std::str::from_utf8(&self.0).map_err(|error| unread(&error))?;
        serde_json::from_str(text).map_err(|error| unread(&error))
    }
}

/// Refuses a body of another media type.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let content_type = headers.get(header::CONTENT_TYPE);
    // The usual spelling, compared first.
    if content_type.is_some_and(|value| value == JSON) {
        return Ok(());
    }
    let media_type = media_type(headers);
    if !media_type.is_empty() && !is_json(&media_type) && !UNSPECIFIED.contains(&&*media_type) {
        return Err(unsupported(&media_type, JSON));
    }
    Ok(())
}

fn is_json(media_type: &str) -> bool {
    media_type == JSON || media_type.ends_with("+json")
}

fn unsupported(media_type: &str, wanted: &str) -> Problem {
    let detail = format!("the body must be {wanted}, not {media_type:?}");
    Problem::new(Reason::UnsupportedMediaType, detail)
}

// Lists in pages: `limit`, `continue`, and the envelope around the items.

/// The query of a request. Its route has refused unknown parameters.
#[derive(Clone, Debug)]
struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut RequestParts, _: &S) -> Result<Self, Problem> {
        let query = problem::query(&parts.uri);
        Ok(Self(query.map_err(|why| Problem::new(Reason::Malformed, why))?))
    }
}

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageQuery {
    /// Most items; none for the largest allowed page.
    pub limit: Option<usize>,
    /// The position where the previous page ended.
    #[serde(rename = "continue")]
    pub after: Option<String>,
    /// Selects items by their labels. The routes of lists without labels refuse it.
    label_selector: Option<String>,
}

impl PageQuery {
    /// The size of the page: as requested, but at most `most`.
    ///
    /// # Errors
    /// `Malformed` for 0.
    fn limit(&self, most: usize) -> Result<usize, Problem> {
        limit(self.limit, most)
    }

    /// The position after which the page begins; none at the beginning.
    ///
    /// # Errors
    /// `Malformed` if it is not a token of this list.
    fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, Problem> {
        after(self.after.as_deref())
    }

    /// The label selector.
    ///
    /// # Errors
    /// `Malformed` if the text is not a selector, or a long one.
    fn labels(&self) -> Result<LabelSelector, Problem> {
        let text = self.label_selector.as_deref().unwrap_or_default();
        LabelSelector::parse(text).map_err(|why| Problem::new(Reason::Malformed, why))
    }
}

/// As [`PageQuery::limit`].
fn limit(requested: Option<usize>, most: usize) -> Result<usize, Problem> {
    match requested {
        Some(0) => Err(Problem::new(Reason::Malformed, "limit must be at least 1")),
        Some(requested) => Ok(requested.min(most)),
        None => Ok(most),
    }
}

/// As [`PageQuery::after`], of this `continue`.
fn after<K: DeserializeOwned>(token: Option<&str>) -> Result<Option<K>, Problem> {
    let token = token.filter(|token| !token.is_empty());
    token.map(read_token).transpose()
}

fn read_token<K: DeserializeOwned>(token: &str) -> Result<K, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let key = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    key.ok_or_else(|| Problem::new(Reason::Malformed, "continue is not a token of this list"))
}

/// Cuts a list that was read up to one item beyond its page; answers the token for the next page, if there is one.
fn cut<T>(
    items: &mut Vec<T>,
    limit: usize,
    token: impl FnOnce(&T) -> Result<String, Problem>,
) -> Result<Option<String>, Problem> {
    if items.len() <= limit {
        return Ok(None);
    }
    items.truncate(limit);
    items.last().map(token).transpose()
}

/// The token for the page after `key`.
fn token(key: &impl Serialize) -> Result<String, Problem> {
    let json = serde_json::to_vec(key).map_err(|error| Problem::internal(&error))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}

// Queries of past states.

/// The moment that a query refers to; none for now.
#[derive(Clone, Debug, Default, Deserialize)]
struct When {
    at: Option<Timestamp>,
    sequence: Option<Sequence>,
}

/// The period of a query: up to now, unless it ends before.
///
/// # Errors
/// `Malformed` if it would end before it begins.
fn period(from: Timestamp, to: Option<Timestamp>) -> Result<Period, Problem> {
    let now = super::now();
    let to = to.map_or(now, |to| to.min(now));
    match from <= to {
        true => Ok(Period { from, to }),
        false => {
            let detail = "from is behind to, or in the future";
            Err(Problem::new(Reason::Malformed, detail))
        }
    }
}

impl When {
    fn until(&self) -> Result<Option<Until>, Problem> {
        match (self.at, self.sequence) {
            (None, None) => Ok(None),
            (None, Some(sequence)) => Ok(Some(Until::Sequence(sequence))),
            (Some(at), None) if at > super::now() => {
                Err(Problem::new(Reason::Malformed, "at is in the future"))
            }
            // The first entries of a leader have nanoseconds, which responses do not show.
            (Some(at), None) => Ok(Some(Until::Time(at.plus(Span::from_nanoseconds(999))))),
            (Some(_), Some(_)) => {
                let detail = "at and sequence exclude each other";
                Err(Problem::new(Reason::Malformed, detail))
            }
        }
    }
}

/// Makes an answer from a view of the state of a moment. `make` also learns whether the state may lag behind the
/// sources. A past state is not kept for longer than it takes to make the answer: see [`History::answer`].
///
/// [`History::answer`]: crate::history::History::answer
async fn answer<V: Send + 'static, R: Send + 'static>(
    app: &App,
    principal: &Name,
    when: &When,
    view: impl Fn(&state::State) -> V + Send + 'static,
    amounts: impl FnOnce(&V) -> usize,
    make: impl FnOnce(V, bool, &Turn) -> R + Send + 'static,
) -> Result<R, Problem> {
    match when.until()? {
        None => {
            let permit = Permit::to_read(principal)?;
            let seen = app.ledger.read(view).await?;
            let (amounts, lagging) = (amounts(&seen), app.lags());
            let make = move |turn: &Turn| make(seen, lagging, turn);
            Ok(permit.make(amounts, make).await)
        }
        Some(until) => {
            let permit = Permit::of_past(principal);
            let make = move |seen, turn: &Turn| make(seen, false, turn);
            let answer = app.past.answer(&permit, until, view, amounts, make);
            Ok(answer.await?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped() {
        let path = location(&[("/v1/", "a b"), ("/", "x/y%"), ("/z/", "ü")]).unwrap();
        assert_eq!(path, "/v1/a%20b/x%2Fy%25/z/%C3%BC");
    }
}
