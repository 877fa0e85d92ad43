//! Pushing plain events over the HTTP API.

use std::{io, sync::Arc};

use memchr::memmem;

use super::{
    Answer, Kind, Talk, http,
    render::{Random, UidText, append, append_number, uid},
};

/// What all connections push: changes of objects, a fixed number on each connection.
#[derive(Clone, Debug)]
pub struct Events {
    /// `Host`, and whatever other header lines each request has, each with its line end.
    pub headers: String,
    /// What stands before `/v1` in paths.
    pub base: String,
    /// The namespaces.
    pub namespaces: Vec<String>,
    /// What an object uses, as a JSON object.
    pub resources: String,
    /// Events of one request.
    pub batch: usize,
    /// Makes uids that no other run has.
    pub seed: u64,
}

impl Events {
    /// The talk of one connection.
    #[must_use]
    pub fn talk(self: &Arc<Self>, connection: usize) -> EventTalk {
        let mut random = Random::new(self.seed, connection);
        let head = format!(
            "POST {}/v1/events HTTP/1.1\r\n{}content-type: application/x-ndjson\r\ncontent-length: ",
            self.base, self.headers
        );
        EventTalk {
            uids: (0..self.batch).map(|_| uid(&mut random)).collect(),
            plan: self.clone(),
            head: head.into_bytes(),
            connection,
            body: Vec::new(),
            version: 0,
            tidied: false,
        }
    }
}

/// The talk of one connection.
#[derive(Debug)]
pub struct EventTalk {
    plan: Arc<Events>,
    head: Vec<u8>,
    connection: usize,
    uids: Vec<UidText>,
    body: Vec<u8>,
    version: usize,
    tidied: bool,
}

impl EventTalk {
    fn push(&mut self, change: &str, out: &mut Vec<u8>) -> Kind {
        self.version += 1;
        self.body.clear();
        for (index, uid) in self.uids.iter().enumerate() {
            let namespaces = &self.plan.namespaces;
            let namespace = &namespaces[(self.connection + index) % namespaces.len().max(1)];
            let pieces: [&[u8]; 5] = [
                br#"{"type":""#,
                change.as_bytes(),
                br#"","namespace":""#,
                namespace.as_bytes(),
                br#"","resource":"widgets.bench.quota-ledger","name":"c"#,
            ];
            append(&mut self.body, &pieces);
            append_number(&mut self.body, self.connection);
            self.body.push(b'-');
            append_number(&mut self.body, index);
            append(&mut self.body, &[br#"","uid":""#, uid, br#"","resourceVersion":""#]);
            append_number(&mut self.body, self.version);
            let resources = self.plan.resources.as_bytes();
            append(&mut self.body, &[br#"","usage":"#, resources, b"}\n"]);
        }
        out.extend_from_slice(&self.head);
        append_number(out, self.body.len());
        append(out, &[b"\r\n\r\n", &self.body]);
        Kind::Events
    }
}

impl Talk for EventTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        self.push("MODIFIED", out)
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        let Some(message) = http::answer(bytes)? else {
            return Ok(None);
        };
        Ok(Some(Answer {
            bytes: message.bytes,
            status: message.status,
            done: accepted(message.body),
            denied: 0,
            last: message.last,
        }))
    }

    fn tidy(&mut self, out: &mut Vec<u8>) -> Option<Kind> {
        if self.tidied || self.version == 0 {
            return None;
        }
        self.tidied = true;
        Some(self.push("DELETED", out))
    }
}

/// How many events an answer says were accepted.
fn accepted(body: &[u8]) -> u64 {
    const FIELD: &[u8] = br#""accepted":"#;
    let Some(at) = memmem::find(body, FIELD) else {
        return 0;
    };
    let digits = body[at + FIELD.len()..].iter().copied();
    digits.take_while(u8::is_ascii_digit).fold(0, |number: u64, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}
