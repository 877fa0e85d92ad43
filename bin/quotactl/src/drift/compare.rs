//! Listed objects, compared piece by piece.

use std::collections::HashSet;

use quota_client::http::Address;
use serde_json::Value;

use super::{
    Difference,
    listing::Item,
    scope::{Listed, ScopeArguments},
};
use crate::{
    failure::{Failure, Outcome},
    output::note,
    session::{Session, items, text},
};

/// Objects are sent when there are so many…
const PIECE_OBJECTS: usize = 500;

/// …or so many bytes of them.
const PIECE_BYTES: usize = 512 * 1024;

/// Most objects of a listing: who they are is remembered, in about 40 bytes each.
const OBJECTS_MAX: usize = 20_000_000;

/// Most bytes of objects that are kept to be corrected.
const KEPT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Most objects that could not be read which are named one by one.
const NAMED_MAX: usize = 20;

/// What is remembered of a uid.
pub(super) type Mark = u128;

/// What is remembered of a uid, however long it is.
pub(super) fn mark(uid: &str) -> Mark {
    let hash = blake3::hash(uid.as_bytes());
    let bytes = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Mark::from_le_bytes(bytes)
}

/// What has come of a listing.
#[derive(Default)]
pub(super) struct Compared {
    /// What differs.
    pub(super) differences: Vec<Difference>,
    /// Which objects were listed.
    pub(super) uids: HashSet<Mark>,
    /// Where objects of which resources were listed.
    pub(super) listed: Listed,
    /// How many objects were compared.
    pub(super) count: usize,
    /// How many the ledger has seen more of.
    pub(super) newer: usize,
    /// How many were not asked for.
    pub(super) outside: usize,
    /// How many are of no concern to quotas.
    pub(super) ignored: usize,
}

/// Objects on their way to be compared.
pub(super) struct Comparing<'a> {
    session: &'a Session,
    asked: &'a ScopeArguments,
    /// Whether what differs is to be sent again.
    keep: bool,
    kept: usize,
    piece: Vec<Item>,
    bytes: usize,
    unreadable: usize,
    compared: Compared,
}

impl<'a> Comparing<'a> {
    pub(super) fn new(session: &'a Session, asked: &'a ScopeArguments, keep: bool) -> Self {
        Self {
            session,
            asked,
            keep,
            kept: 0,
            piece: Vec::new(),
            bytes: 0,
            unreadable: 0,
            compared: Compared::default(),
        }
    }

    /// Takes a listed object.
    pub(super) fn take(&mut self, item: Item) -> Outcome {
        if self.bytes.saturating_add(item.text.len()) > PIECE_BYTES {
            self.send()?;
        }
        self.bytes += item.text.len();
        self.piece.push(item);
        match self.piece.len() < PIECE_OBJECTS {
            true => Ok(()),
            false => self.send(),
        }
    }

    /// Everything was listed.
    pub(super) fn finish(&mut self) -> Outcome<Compared> {
        self.send()?;
        match self.unreadable {
            0 => Ok(std::mem::take(&mut self.compared)),
            count => Err(
                Failure::general(format!("{count} objects cannot be understood")).hint(
                    "a listing that is not understood as a whole says nothing of what is gone",
                ),
            ),
        }
    }

    fn send(&mut self) -> Outcome {
        let piece = std::mem::take(&mut self.piece);
        self.bytes = 0;
        if piece.is_empty() {
            return Ok(());
        }
        let texts: Vec<_> = piece.iter().map(|item| &*item.text).collect();
        let body = format!("{{\"listing\":[{}]}}", texts.join(","));
        let address = Address::of(["v1", "drift"]);
        let client = &self.session.client;
        let mut reply = client.send_patiently(&address, "application/json", body.into_bytes())?;
        if items(&reply.body).len() != piece.len() {
            return Err(Failure::general("the answer is not about what was asked"));
        }
        let Some(Value::Array(found)) = reply.body.get_mut("items").map(Value::take) else {
            return Err(Failure::general("the answer is no list"));
        };
        let mut pairs = piece.into_iter().zip(found);
        pairs.try_for_each(|(item, shown)| self.note(item, shown))
    }

    /// Takes note of what was told of an object.
    fn note(&mut self, item: Item, shown: Value) -> Outcome {
        let difference = text(&shown, "/difference");
        match difference {
            "ignored" => {
                self.compared.ignored += 1;
                return Ok(());
            }
            "unreadable" => {
                self.unreadable += 1;
                if self.unreadable <= NAMED_MAX {
                    let reason = text(&shown, "/reason");
                    note(format!("{}{}: {reason}", item.place, named(&item)));
                }
                return Ok(());
            }
            _ => {}
        }
        let (resource, namespace) = (text(&shown, "/resource"), text(&shown, "/namespace"));
        if !self.asked.is_about(resource, namespace) {
            self.compared.outside += 1;
            return Ok(());
        }
        let compared = &mut self.compared;
        let spaces = compared.listed.entry(resource.to_owned()).or_default();
        if !spaces.contains(namespace) {
            spaces.insert(namespace.to_owned());
        }
        if !compared.uids.insert(mark(text(&shown, "/uid"))) {
            let place = format!("{}{}", item.place, named(&item));
            return Err(Failure::general("it was listed before").about(place));
        }
        if compared.uids.len() > OBJECTS_MAX {
            let wrong = format!("more than {OBJECTS_MAX} objects");
            return Err(Failure::general(wrong).hint("compare one namespace at a time"));
        }
        compared.count += 1;
        match difference {
            "none" => Ok(()),
            "newer" => {
                compared.newer += 1;
                Ok(())
            }
            _ => self.keep(item, shown),
        }
    }

    fn keep(&mut self, item: Item, shown: Value) -> Outcome {
        if self.keep {
            self.kept = self.kept.saturating_add(item.text.len());
        }
        if self.kept > KEPT_MAX_BYTES {
            let wrong = format!("what differs has more than {KEPT_MAX_BYTES} bytes");
            return Err(Failure::general(wrong).hint("correct one namespace at a time: -n"));
        }
        let object = match self.keep {
            true => item.text,
            false => Box::default(),
        };
        self.compared.differences.push(Difference {
            shown,
            object: Some(object),
        });
        Ok(())
    }
}

/// How an object calls itself, for messages.
fn named(item: &Item) -> String {
    let object: Value = serde_json::from_str(&item.text).unwrap_or_default();
    let name = [text(&object, "/metadata/name"), text(&object, "/name")];
    let space = [
        text(&object, "/metadata/namespace"),
        text(&object, "/namespace"),
    ];
    match (space.concat().as_str(), name.concat().as_str()) {
        (_, "") => String::new(),
        ("", name) => format!(" ({name})"),
        (space, name) => format!(" ({space}/{name})"),
    }
}
