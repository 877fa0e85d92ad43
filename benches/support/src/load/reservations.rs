//! Reserving and releasing over the HTTP API.

use std::{fmt::Write as _, io, sync::Arc};

use memchr::memmem;

use super::{
    Answer, Kind, Talk, http,
    render::{Random, UidText, append, append_number, uid},
};

/// What all connections ask for.
#[derive(Clone, Debug)]
pub struct Reservations {
    /// `Host`, and whatever other header lines each request has, each with its line end.
    pub headers: String,
    /// What stands before `/v1` in paths.
    pub base: String,
    /// The namespaces.
    pub namespaces: Vec<String>,
    /// What is reserved, as a JSON object.
    pub resources: String,
    /// How long; none: as the daemon is configured.
    pub ttl: Option<String>,
    /// Reservations of one request; 1: each has a request of its own.
    pub batch: usize,
    /// Percentage of the reservations that are released; the others give way to the next for the same name.
    pub release_percent: usize,
    /// All connections.
    pub connections: usize,
    /// Makes uids that no other run has.
    pub seed: u64,
}

impl Reservations {
    /// The talk of one connection.
    #[must_use]
    pub fn talk(self: &Arc<Self>, connection: usize) -> ReservationTalk {
        let spread = self.namespaces.len().div_ceil(self.connections.max(1));
        let slots = (0..spread.max(self.batch)).map(|slot| Slot {
            namespace: (connection + slot * self.connections) % self.namespaces.len().max(1),
            name: format!("c{connection}-{slot}").into_bytes(),
            held: None,
        });
        ReservationTalk {
            slots: slots.collect(),
            random: Random::new(self.seed, connection),
            texts: Texts::new(self),
            plan: self.clone(),
            body: Vec::new(),
            next: 0,
            request: Asked::Nothing,
        }
    }
}

/// A name in a namespace that a connection reserves for, again and again. So what is pending at the same time is
/// bounded, whatever the rate.
#[derive(Debug)]
struct Slot {
    namespace: usize,
    name: Vec<u8>,
    held: Option<UidText>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Nothing,
    Reserve(usize, UidText),
    Release(usize),
    Batch,
}

/// What stays the same in each request.
#[derive(Debug)]
struct Texts {
    /// Of each namespace.
    paths: Vec<Vec<u8>>,
    post: Vec<u8>,
    delete: Vec<u8>,
    batch: Vec<u8>,
    tail: Vec<u8>,
}

impl Texts {
    fn new(plan: &Reservations) -> Self {
        let path = |namespace| format!("{}/v1/namespaces/{namespace}/reservations", plan.base);
        let headers = &plan.headers;
        let length = "content-type: application/json\r\ncontent-length: ";
        let mut tail = format!(r#""}},"reserved":{}"#, plan.resources);
        if let Some(ttl) = &plan.ttl {
            let _ = write!(tail, r#","ttl":"{ttl}""#);
        }
        tail.push('}');
        let post = format!(" HTTP/1.1\r\n{headers}{length}");
        let batch = format!("POST {}/v1/reservations:batch{post}", plan.base);
        Self {
            paths: plan.namespaces.iter().map(|name| path(name).into_bytes()).collect(),
            post: post.into_bytes(),
            delete: format!(" HTTP/1.1\r\n{headers}\r\n").into_bytes(),
            batch: batch.into_bytes(),
            tail: tail.into_bytes(),
        }
    }
}

/// The talk of one connection.
#[derive(Debug)]
pub struct ReservationTalk {
    plan: Arc<Reservations>,
    texts: Texts,
    slots: Vec<Slot>,
    random: Random,
    body: Vec<u8>,
    /// The slot that a batch begins with, or that is to be released.
    next: usize,
    request: Asked,
}

impl ReservationTalk {
    #[cfg(test)]
    pub(super) fn slot_namespaces(&self) -> Vec<usize> {
        self.slots.iter().map(|slot| slot.namespace).collect()
    }

    fn reserve(&mut self, out: &mut Vec<u8>) -> Kind {
        let index = self.random.below(self.slots.len());
        let uid = uid(&mut self.random);
        self.body.clear();
        self.item(index, &uid, false);
        let path = &self.texts.paths[self.slots[index].namespace];
        append(out, &[b"POST ", path, &self.texts.post]);
        self.append_body(out);
        self.request = Asked::Reserve(index, uid);
        Kind::Reserve
    }

    fn release(&mut self, index: usize, uid: &UidText, out: &mut Vec<u8>) -> Kind {
        let path = &self.texts.paths[self.slots[index].namespace];
        append(out, &[b"DELETE ", path, b"/", uid, &self.texts.delete]);
        self.request = Asked::Release(index);
        Kind::Release
    }

    fn batch(&mut self, out: &mut Vec<u8>) -> Kind {
        let first = self.next;
        self.body.clear();
        self.body.extend_from_slice(br#"{"items":["#);
        for offset in 0..self.plan.batch {
            let index = (first + offset) % self.slots.len();
            if offset > 0 {
                self.body.push(b',');
            }
            let uid = uid(&mut self.random);
            self.item(index, &uid, true);
            self.slots[index].held = Some(uid);
        }
        self.body.extend_from_slice(b"]}");
        self.next = (first + self.plan.batch) % self.slots.len();
        out.extend_from_slice(&self.texts.batch);
        self.append_body(out);
        self.request = Asked::Batch;
        Kind::Batch
    }

    fn item(&mut self, index: usize, uid: &UidText, with_namespace: bool) {
        let slot = &self.slots[index];
        self.body.push(b'{');
        if with_namespace {
            let namespace = self.plan.namespaces[slot.namespace].as_bytes();
            append(&mut self.body, &[br#""namespace":""#, namespace, br#"","#]);
        }
        let pieces: [&[u8]; 5] = [
            br#""reservedBy":{"apiVersion":"v1","kind":"Pod","name":""#,
            &slot.name,
            br#"","uid":""#,
            uid,
            &self.texts.tail,
        ];
        append(&mut self.body, &pieces);
    }

    fn append_body(&self, out: &mut Vec<u8>) {
        append_number(out, self.body.len());
        append(out, &[b"\r\n\r\n", &self.body]);
    }
}

impl Talk for ReservationTalk {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        if self.plan.batch > 1 {
            return self.batch(out);
        }
        let held = self.slots.get(self.next).and_then(|slot| slot.held);
        match held {
            Some(uid) if self.random.below(100) < self.plan.release_percent => {
                self.release(self.next, &uid, out)
            }
            _ => self.reserve(out),
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        let Some(message) = http::answer(bytes)? else {
            return Ok(None);
        };
        let (mut done, mut denied) = (0, 0);
        match std::mem::replace(&mut self.request, Asked::Nothing) {
            Asked::Nothing => {}
            Asked::Reserve(index, uid) => match message.status {
                200 | 201 => {
                    self.slots[index].held = Some(uid);
                    self.next = index;
                    done = 1;
                }
                403 => denied = 1,
                _ => {}
            },
            Asked::Release(index) => {
                self.slots[index].held = None;
                done = u64::from(message.status == 204);
            }
            Asked::Batch if message.status == 200 => {
                for status in item_statuses(message.body) {
                    match status {
                        b"200" | b"201" => done += 1,
                        b"403" => denied += 1,
                        _ => {}
                    }
                }
            }
            Asked::Batch => {}
        }
        Ok(Some(Answer {
            bytes: message.bytes,
            status: message.status,
            done,
            denied,
            last: message.last,
        }))
    }

    fn tidy(&mut self, out: &mut Vec<u8>) -> Option<Kind> {
        let index = self.slots.iter().position(|slot| slot.held.is_some())?;
        let uid = self.slots[index].held.take()?;
        Some(self.release(index, &uid, out))
    }

    fn lost(&mut self) {
        // The request may have been carried out: its reservation is released at the end.
        if let Asked::Reserve(index, uid) = std::mem::replace(&mut self.request, Asked::Nothing) {
            self.slots[index].held = Some(uid);
        }
    }
}

/// The status of each item of a batch's answer.
fn item_statuses(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    const FIELD: &[u8] = br#""status":"#;
    memmem::find_iter(body, FIELD).filter_map(|at| body.get(at + FIELD.len()..at + FIELD.len() + 3))
}
