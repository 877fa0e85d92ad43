//! Routes a request to a node: the replica answers reads, the leader answers writes.

use std::time::{Duration, Instant};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use quota_replication::protocol::NodeName;

use super::{
    Cluster,
    peers::{Actor, Failed, FromNode, mark, marked},
};
use crate::{
    auth::{Access, is_foreign_page},
    metrics,
    problem::{Problem, Reason, Undecided},
    routes::{BodyLimit, Handle, ResponseFuture, Spec},
    server::body::whole_or_broken,
};

/// Poll interval while there is no leader.
const LOOK: Duration = Duration::from_millis(50);

/// Longest pause before the next request to a leader that did not decide, for example because it catches up with its
/// sources. The leader processes, logs and counts each attempt as a whole request.
const ASK: Duration = Duration::from_millis(500);

/// The share of the request timeout for which a write waits for a leader.
const OVER: f64 = 0.9;

/// How long a new leader may take to catch up with its sources before requests are refused for that reason: NATS
/// servers take 4 to 9 seconds to elect a leader of the event stream.
const CATCH_UP: Duration = Duration::from_secs(10);

/// The node that has to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedBy {
    /// The node that received the request, regardless of its state.
    ThisNode,
    /// Any node whose replica is recent enough.
    Replica,
    /// The leader.
    Leader,
}

fn whose(spec: &Spec) -> ServedBy {
    match (&spec.access, &spec.method) {
        _ if spec.is_of_node => ServedBy::ThisNode,
        // A response that needs no role contains nothing of the ledger.
        (Access::Public | Access::Authenticated, _) => ServedBy::ThisNode,
        (Access::Role(..), &Method::GET) => ServedBy::Replica,
        (Access::Role(..), _) => ServedBy::Leader,
    }
}

impl Cluster {
    /// Authenticates a request from another node; the original caller becomes an extension of the request.
    pub(crate) fn admit(&self, parts: &mut Parts) -> Result<(), Box<Response>> {
        let credentials = self.0.peers.credentials();
        match credentials.admit(&mut parts.headers, &mut parts.extensions) {
            true => Ok(()),
            false => {
                let detail = "this address is for the other nodes of the cluster";
                let problem = Problem::new(Reason::Unauthorized, detail);
                Err(Box::new(problem.into_response()))
            }
        }
    }

    /// Answers a request on this node, or forwards it to the leader.
    pub(crate) fn answer(
        &self,
        spec: &Spec,
        request: Request,
        handle: &Handle<()>,
    ) -> ResponseFuture {
        match whose(spec) {
            ServedBy::ThisNode => handle(request, ()),
            ServedBy::Replica => Box::pin(self.clone().read(request, handle.clone())),
            ServedBy::Leader if !is_kept(spec, &request) => handle(request, ()),
            ServedBy::Leader => {
                let is_idempotent = spec.is_idempotent && !is_conditional(&request);
                Box::pin(self.clone().write(is_idempotent, request, handle.clone()))
            }
        }
    }

    async fn read(self, request: Request, handle: Handle<()>) -> Response {
        // No read has a use for a body. Kept while this node catches up, an unread one would be memory that nothing
        // counts: HTTP/2 receives as much of a body as the window has room for.
        let (mut parts, _) = request.into_parts();
        let least = match take_min_sequence(&mut parts) {
            Some(least) => match least.parse() {
                Ok(least) => Some(least),
                Err(_) => {
                    let detail = format!("min_sequence: {least:?} is no sequence");
                    return Problem::new(Reason::Malformed, detail).into_response();
                }
            },
            // A leader knows what there is not.
            None if self.0.ledger.decides() => None,
            None => sequence(&parts),
        };
        if let Some(least) = least {
            let reached = self.0.ledger.wait_durable(least);
            if !matches!(tokio::time::timeout(self.0.forward_timeout, reached).await, Ok(Ok(()))) {
                let end = self.0.ledger.durable().sequence;
                let detail = format!("this node has entries up to {end}");
                return Problem::new(Reason::Behind, detail).into_response();
            }
        }
        if let Some(why) = self.0.digests.differs() {
            return Problem::new(Reason::Behind, why).into_response();
        }
        let view = self.view();
        if let Some(why) = view.stream_loss() {
            return Problem::new(Reason::Behind, why).into_response();
        }
        let bound = self.0.settings.max_read_age.get();
        let Some(age) = view.age.filter(|age| *age <= bound) else {
            let detail = match view.age {
                Some(age) => {
                    format!("this node's replica may be {age:?} old (cluster.max_read_age)")
                }
                None => "this node's replica has not caught up yet".to_owned(),
            };
            return Problem::new(Reason::Behind, detail).into_response();
        };
        let mut response = handle(Request::from_parts(parts, Body::empty()), ()).await;
        if let Ok(age) = HeaderValue::try_from(format!("{}ms", age.as_millis())) {
            response.headers_mut().insert("replica-age", age);
        }
        response
    }

    async fn write(self, is_idempotent: bool, request: Request, handle: Handle<()>) -> Response {
        // The leader cannot check this: the address in the request is not its own.
        if is_foreign_page(request.uri(), request.headers()) {
            return handle(request, ()).await;
        }
        let (parts, body) = request.into_parts();
        let body = match whole_or_broken(body).await {
            Ok(body) => body,
            Err(broken) => match broken.resumed() {
                // This node answers by what the handler can keep, whether it leads or not.
                Ok(body) => return handle(Request::from_parts(parts, body), ()).await,
                // If the body exceeded a limit, the listener answers with that.
                Err(problem) => return problem.into_response(),
            },
        };
        let is_forwarded = parts.extensions.get::<FromNode>().is_some();
        let here = || handle(with_body(&parts, body.clone()), ());
        if is_forwarded {
            let mut response = here().await;
            if let Some(undecided) = self.undecided(&response) {
                mark(response.headers_mut(), undecided);
            }
            return response;
        }
        let until = Instant::now() + self.0.forward_timeout;
        let mut is_unknown = false;
        let mut attempts: u32 = 0;
        loop {
            if self.0.ledger.decides() {
                let response = here().await;
                match self.undecided(&response) {
                    None => return response,
                    Some(Undecided::All | Undecided::NotReady) => attempts += 1,
                    Some(Undecided::Part) if !is_idempotent => return response,
                    Some(Undecided::Part) => is_unknown = true,
                }
            } else if let Some(leader) = self.other_leader() {
                match self.pass_on(&leader, &parts, body.clone(), (until, is_idempotent)).await {
                    Ok(Some(response)) => {
                        metrics::cluster_forwarded(metrics::Forwarded::Answered);
                        return response;
                    }
                    Ok(None) => attempts += 1,
                    Err(Failed::NotSent) => {}
                    Err(Failed::Unknown) => is_unknown = true,
                }
            } else {
                attempts = 0;
            }
            if (is_unknown && !is_idempotent) || Instant::now() >= until {
                return self.no_answer(is_unknown);
            }
            let pause = pause_after(attempts).min(until.saturating_duration_since(Instant::now()));
            match self.0.ledger.decides() {
                true => tokio::time::sleep(pause).await,
                false => {
                    let decides = self.0.ledger.wait_until_decides(true);
                    let _ = tokio::time::timeout(pause, decides).await;
                }
            }
        }
    }

    /// What was not decided according to a response.
    fn undecided(&self, response: &Response) -> Option<Undecided> {
        let has_begun = || {
            let began = *self.0.term_began.lock();
            began.is_some_and(|began| began.elapsed() < CATCH_UP)
        };
        undecided(response, || !self.0.ledger.decides() || has_begun())
    }

    fn no_answer(&self, is_unknown: bool) -> Response {
        let problem = match is_unknown {
            true => {
                metrics::cluster_forwarded(metrics::Forwarded::Unknown);
                let detail = "the leader did not answer, or not to all of the request; whether it carried the request \
                              out is not known: send the same request again";
                Problem::new(Reason::OutcomeUnknown, detail)
            }
            false => {
                metrics::cluster_forwarded(metrics::Forwarded::NoLeader);
                let mut detail = "no node of the cluster leads: nothing was carried out".to_owned();
                if let Some(why) = self.0.digests.differs() {
                    detail = format!("{detail}; this one must not decide: {why}");
                }
                Problem::new(Reason::NotLeader, detail)
            }
        };
        problem.into_response()
    }

    /// The current leader as far as this node has read, if it is another node.
    fn other_leader(&self) -> Option<NodeName> {
        self.view().leader.filter(|leader| *leader != self.0.node)
    }

    /// The leader's response; none if that node answers that it does not lead, and has decided nothing.
    async fn pass_on(
        &self,
        leader: &NodeName,
        parts: &Parts,
        body: Bytes,
        (until, is_idempotent): (Instant, bool),
    ) -> Result<Option<Response>, Failed> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let actor = Actor::of(&parts.extensions);
        let answer = self.0.peers.send(leader, (&parts.method, path), &parts.headers, &actor, body);
        // A stopped leader process accepts requests and never answers. A request that cannot be repeated on the next
        // leader waits.
        let replaced = async {
            match is_idempotent {
                true => self.next_term().await,
                false => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            answer = answer => answer?,
            () = replaced => return Err(Failed::Unknown),
            () = tokio::time::sleep_until(until.into()) => return Err(Failed::Unknown),
        };
        match marked(answer.headers()) {
            None => {}
            Some(Undecided::All | Undecided::NotReady) => return Ok(None),
            Some(Undecided::Part) => return Err(Failed::Unknown),
        }
        let (mut parts, body) = answer.into_parts();
        for connection in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
            parts.headers.remove(connection);
        }
        parts.version = http::Version::HTTP_11;
        Ok(Some(Response::from_parts(parts, Body::from(body))))
    }

    /// Waits for a leader of a later term.
    async fn next_term(&self) {
        let term = self.view().term;
        let Some(member) = self.member() else {
            return std::future::pending().await;
        };
        let mut status = member.status.clone();
        let is_later = status.wait_for(|status| {
            let leader = status.leader.as_ref();
            leader.is_some_and(|leader| leader.term > term)
        });
        if is_later.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The pause before the next attempt, after this number of requests that a leader did not decide. The first pauses are
/// short, since a handover is over soon.
fn pause_after(attempts: u32) -> Duration {
    (LOOK * attempts.max(1)).min(ASK)
}

/// What was not decided according to a response. Sources that were not caught up with are a reason to ask again only if
/// that may soon change: another node leads, but this node, still a follower, failed on its sources before it learned of
/// the leader; or this node has just begun to lead.
fn undecided(response: &Response, may_change: impl FnOnce() -> bool) -> Option<Undecided> {
    if response.status() != StatusCode::SERVICE_UNAVAILABLE {
        return None;
    }
    match response.extensions().get::<Undecided>()? {
        Undecided::NotReady => may_change().then_some(Undecided::All),
        undecided => Some(*undecided),
    }
}

/// Whether the handler keeps the whole body in memory; any other body can be sent only once.
fn is_kept(spec: &Spec, request: &Request) -> bool {
    match spec.body {
        BodyLimit::Request | BodyLimit::Events => true,
        BodyLimit::Fixed { kept, .. } => {
            let bytes = request.body().size_hint().exact();
            bytes.is_some_and(|bytes| bytes <= kept)
        }
    }
}

/// Whether a request depends on a state that the request itself changes.
fn is_conditional(request: &Request) -> bool {
    let headers = request.headers();
    headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_NONE_MATCH)
}

fn with_body(parts: &Parts, body: Bytes) -> Request {
    Request::from_parts(parts.clone(), Body::from(body))
}

/// Removes `min_sequence` from the query, since handlers do not accept it.
fn take_min_sequence(parts: &mut Parts) -> Option<String> {
    let query = parts.uri.query()?;
    let is_wanted = |pair: &&str| pair.starts_with("min_sequence=");
    let (wanted, rest): (Vec<_>, Vec<_>) = query.split('&').partition(is_wanted);
    let least = wanted.first()?.strip_prefix("min_sequence=")?.to_owned();
    let path = parts.uri.path();
    let path = match rest.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", rest.join("&")),
    };
    parts.uri = path.parse().ok()?;
    Some(least)
}

/// The entry whose state a query is about: this node may not have it yet. The handler reports what it cannot read.
fn sequence(parts: &Parts) -> Option<u64> {
    let mut pairs = parts.uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("sequence="))?.parse().ok()
}

/// How long a write waits for a leader: slightly less than the request timeout.
pub(super) fn timeout(request_timeout: Duration) -> Duration {
    request_timeout.mul_f64(OVER)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::writer::Unavailable;

    fn parts(uri: &str) -> Parts {
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        request.into_parts().0
    }

    #[test]
    fn what_was_decided_in_part_is_not_said_to_be_undecided() {
        let of = |unavailable: Unavailable, may_change| {
            let response = Problem::from(unavailable).into_response();
            undecided(&response, || may_change)
        };
        assert_eq!(of(Unavailable::NotLeader, false), Some(Undecided::All));
        let in_part = Unavailable::NotLeader.with_part_made(true);
        assert_eq!(of(in_part, false), Some(Undecided::Part));
        assert_eq!(of(Unavailable::Stopped.with_part_made(true), true), None);
        let not_ready = Problem::new(Reason::NotReady, "").into_response();
        assert_eq!(undecided(&not_ready, || true), Some(Undecided::All));
        assert_eq!(undecided(&not_ready, || false), None);

        for undecided in [Undecided::All, Undecided::Part] {
            let mut headers = HeaderMap::new();
            assert_eq!(marked(&headers), None);
            mark(&mut headers, undecided);
            assert_eq!(marked(&headers), Some(undecided));
        }
    }

    #[test]
    fn a_leader_that_does_not_decide_is_asked_less_and_less_often() {
        assert_eq!([0, 1, 2].map(pause_after), [LOOK, LOOK, 2 * LOOK]);
        let mut waited = Duration::ZERO;
        let attempts = (1..).take_while(|asked| {
            waited += pause_after(*asked);
            waited < CATCH_UP
        });
        assert!((10..30).contains(&attempts.count()));
        assert_eq!(pause_after(u32::MAX / 100), ASK);
    }

    #[test]
    fn the_entry_that_a_query_is_about_is_found() {
        for (uri, found) in [
            ("/v1/usage?sequence=7", Some(7)),
            ("/v1/usage?limit=2&sequence=7&continue=a", Some(7)),
            ("/v1/usage?sequence=x", None),
            ("/v1/usage?min_sequence=7", None),
            ("/v1/usage", None),
        ] {
            assert_eq!(sequence(&parts(uri)), found, "{uri}");
        }
    }

    #[test]
    fn min_sequence_is_taken_out_of_the_query() {
        for (uri, least, rest) in [
            ("/v1/quotas?min_sequence=7", Some("7"), "/v1/quotas"),
            (
                "/v1/quotas?limit=2&min_sequence=7&continue=a",
                Some("7"),
                "/v1/quotas?limit=2&continue=a",
            ),
            ("/v1/quotas?limit=2", None, "/v1/quotas?limit=2"),
            ("/v1/quotas", None, "/v1/quotas"),
        ] {
            let mut parts = parts(uri);
            assert_eq!(take_min_sequence(&mut parts).as_deref(), least, "{uri}");
            assert_eq!(parts.uri, rest);
        }
    }
}
