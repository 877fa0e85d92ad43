//! The requests of clients and the replies, with the times of both.

/// What was requested, in whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// To hold so many.
    Reserve(i64),
    /// To give back all that is held: so many.
    Release(i64),
    /// To use some of what is held: so many go back.
    Commit(i64),
}

/// The reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// There was no room, as of this sequence.
    Denied(u64),
}

/// One operation of one client.
#[derive(Clone, Debug)]
pub struct Operation {
    pub namespace: usize,
    pub uid: String,
    pub request: Request,
    /// When it was requested, in nanoseconds since the beginning.
    pub called: u64,
    /// When it was answered, and how. None: it may have happened or not, at any time since.
    pub answer: Option<(u64, Reply)>,
}

impl Operation {
    /// When it was over at the latest.
    pub fn returned(&self) -> u64 {
        self.answer.map_or(u64::MAX, |(returned, _)| returned)
    }
}

/// The held amount after the request, if the reply is possible with the held amount before; none: it is impossible.
pub fn step(held: i64, hard: i64, request: Request, reply: Reply) -> Option<i64> {
    match (request, reply) {
        (Request::Reserve(units), Reply::Done) => (held + units <= hard).then_some(held + units),
        (Request::Reserve(units), Reply::Denied(_)) => (held + units > hard).then_some(held),
        (Request::Release(units) | Request::Commit(units), Reply::Done) => Some(held - units),
        (_, Reply::Denied(_)) => None,
    }
}
