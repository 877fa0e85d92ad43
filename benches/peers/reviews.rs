//! Reviews as an API server sends them: a pod is created, again and again.
//!
//! The pod is one that a real API server sent ([`REVIEW`], 3.4 KB); its uids, name and namespace differ from review to
//! review. A connection uses few names, so that what is pending at the same time is bounded: the next reservation for a
//! name takes the place of the one before it.

use std::{io, sync::Arc};

use memchr::memmem;
use quota_bench::load::{
    Answer, Kind, Talk, http,
    render::{Random, append, append_number, uid},
};
use serde_json::Value;

use super::slots;

/// A review of a real API server.
pub const REVIEW: &str = include_str!("../../tests/vectors/admissionreview/pod-create.json");

/// What stands in the text for what differs.
const MARKS: [(&str, Field); 4] = [
    ("<review>", Field::Review),
    ("<pod>", Field::Pod),
    ("<name>", Field::Name),
    ("<namespace>", Field::Namespace),
];

#[derive(Clone, Copy, Debug)]
enum Field {
    /// The uid of the review.
    Review,
    /// The uid of the pod.
    Pod,
    Name,
    Namespace,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Field(Field),
}

/// What all connections send.
#[derive(Debug)]
pub struct Reviews {
    head: Vec<u8>,
    pieces: Vec<Piece>,
    namespaces: usize,
    connections: usize,
    seed: u64,
}

impl Reviews {
    pub fn new(host: &str, namespaces: usize, connections: usize, seed: u64) -> Arc<Self> {
        let head = format!(
            "POST /admit?timeout=10s HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: "
        );
        Arc::new(Self { head: head.into_bytes(), pieces: pieces(), namespaces, connections, seed })
    }

    pub fn talk(self: &Arc<Self>, connection: usize) -> ReviewTalk {
        let slots = slots(connection, self.connections, self.namespaces);
        let slots = slots.into_iter().enumerate().map(|(slot, namespace)| Slot {
            namespace: namespace_of(namespace).into_bytes(),
            name: format!("c{connection}-{slot}").into_bytes(),
        });
        ReviewTalk {
            slots: slots.collect(),
            random: Random::new(self.seed, connection),
            body: Vec::new(),
            plan: self.clone(),
        }
    }
}

/// The namespace with this number.
pub fn namespace_of(number: usize) -> String {
    format!("team-{number}")
}

/// The text of the review, cut where it differs from the next one.
fn pieces() -> Vec<Piece> {
    let mut review: Value = serde_json::from_str(REVIEW).expect("it is JSON");
    let request = &mut review["request"];
    request["uid"] = "<review>".into();
    request["name"] = "<name>".into();
    request["namespace"] = "<namespace>".into();
    let metadata = &mut request["object"]["metadata"];
    metadata["uid"] = "<pod>".into();
    metadata["name"] = "<name>".into();
    metadata["namespace"] = "<namespace>".into();
    let text = review.to_string();
    let mut rest = text.as_str();
    let mut pieces = Vec::new();
    loop {
        let found = MARKS.iter().filter_map(|(mark, field)| Some((rest.find(mark)?, mark, *field)));
        let Some((at, mark, field)) = found.min_by_key(|(at, ..)| *at) else {
            break;
        };
        pieces.push(Piece::Text(rest.as_bytes()[..at].to_vec()));
        pieces.push(Piece::Field(field));
        rest = &rest[at + mark.len()..];
    }
    pieces.push(Piece::Text(rest.as_bytes().to_vec()));
    pieces
}

/// A name in a namespace.
#[derive(Debug)]
struct Slot {
    namespace: Vec<u8>,
    name: Vec<u8>,
}

/// The talk of one connection.
#[derive(Debug)]
pub struct ReviewTalk {
    plan: Arc<Reviews>,
    slots: Vec<Slot>,
    random: Random,
    body: Vec<u8>,
}

impl Talk for ReviewTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        let slot = &self.slots[self.random.below(self.slots.len())];
        let [review, pod] = [uid(&mut self.random), uid(&mut self.random)];
        self.body.clear();
        for piece in &self.plan.pieces {
            self.body.extend_from_slice(match piece {
                Piece::Text(text) => text,
                Piece::Field(Field::Review) => &review,
                Piece::Field(Field::Pod) => &pod,
                Piece::Field(Field::Name) => &slot.name,
                Piece::Field(Field::Namespace) => &slot.namespace,
            });
        }
        out.extend_from_slice(&self.plan.head);
        append_number(out, self.body.len());
        append(out, &[b"\r\n\r\n", &self.body]);
        Kind::Review
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        let Some(message) = http::answer(bytes)? else {
            return Ok(None);
        };
        let is_allowed = memmem::find(message.body, br#""allowed":true"#).is_some();
        Ok(Some(Answer {
            bytes: message.bytes,
            status: message.status,
            done: u64::from(is_allowed),
            denied: u64::from(message.status == 200 && !is_allowed),
            last: message.last,
        }))
    }

    /// What is held expires.
    fn tidy(&mut self, _: &mut Vec<u8>) -> Option<Kind> {
        None
    }
}
