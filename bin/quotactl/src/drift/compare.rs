//! Listed objects, compared piece by piece.

use std::collections::HashSet;

use quota_client::{
    http::Address,
    wire::{Compared, Difference, DriftAnswer, Object},
};
use serde::Deserialize;

use super::{
    Drifted,
    listing::Item,
    scope::{Listed, ScopeArguments},
};
use crate::{
    failure::{Failure, Outcome},
    output::note,
    session::Session,
};

/// Objects are sent when there are so many…
const PIECE_OBJECTS: usize = 500;

/// …or so many bytes of them.
const PIECE_BYTES: usize = 512 * 1024;

/// Most objects of a listing: their identities are kept, in about 40 bytes each.
const OBJECTS_MAX: usize = 20_000_000;

/// Most bytes of objects that are kept to be corrected.
const KEPT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// Most objects that could not be read which are named one by one.
const NAMED_MAX: usize = 20;

/// A fixed-size digest of what makes an object the same one: its namespace and its uid.
pub(super) type Identity = u128;

/// The identity of an object.
pub(super) fn identity(object: &Object<'_>) -> Identity {
    // No namespace holds a zero byte: the same text is never of another pair.
    let pair = format!("{}\0{}", object.namespace, object.uid);
    let hash = blake3::hash(pair.as_bytes());
    let bytes = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Identity::from_le_bytes(bytes)
}

/// The result of comparing a listing.
#[derive(Default)]
pub(super) struct Comparison {
    /// What differs.
    pub(super) differences: Vec<Drifted>,
    /// Which objects were listed.
    pub(super) identities: HashSet<Identity>,
    /// Where objects of which resources were listed.
    pub(super) listed: Listed,
    /// How many objects were compared.
    pub(super) count: usize,
    /// How many the ledger has seen more of.
    pub(super) newer: usize,
    /// How many are outside of the scope.
    pub(super) outside: usize,
    /// How many are of no concern to quotas.
    pub(super) ignored: usize,
}

/// Objects on their way to be compared.
pub(super) struct Comparing<'a> {
    session: &'a Session,
    requested: &'a ScopeArguments,
    /// Whether what differs is to be sent again.
    keep: bool,
    kept: usize,
    piece: Vec<Item>,
    bytes: usize,
    unreadable: usize,
    compared: Comparison,
}

impl<'a> Comparing<'a> {
    pub(super) fn new(session: &'a Session, requested: &'a ScopeArguments, keep: bool) -> Self {
        Self {
            session,
            requested,
            keep,
            kept: 0,
            piece: Vec::new(),
            bytes: 0,
            unreadable: 0,
            compared: Comparison::default(),
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
    pub(super) fn finish(&mut self) -> Outcome<Comparison> {
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
        let reply = client.send_patiently(&address, "application/json", body.into_bytes())?;
        let found = reply.read::<DriftAnswer<'static>>()?.items;
        if found.len() != piece.len() {
            return Err(Failure::general("the answer is not about what was asked"));
        }
        let mut pairs = piece.into_iter().zip(found);
        pairs.try_for_each(|(item, compared)| self.note(item, compared))
    }

    /// Takes note of how an object differs.
    fn note(&mut self, item: Item, found: Compared<'static>) -> Outcome {
        let object = match (&found.difference, &found.object) {
            (Difference::Ignored, _) => {
                self.compared.ignored += 1;
                return Ok(());
            }
            (Difference::Unreadable, _) => {
                self.unreadable += 1;
                if self.unreadable <= NAMED_MAX {
                    let reason = found.reason.as_deref().unwrap_or_default();
                    note(format!("{}{}: {reason}", item.place, named(&item)));
                }
                return Ok(());
            }
            (_, Some(object)) => object,
            (_, None) => {
                let wrong = "the answer does not say which object it is about";
                return Err(Failure::general(wrong));
            }
        };
        let (resource, namespace) = (&*object.resource, &*object.namespace);
        if !self.requested.is_about(resource, namespace) {
            self.compared.outside += 1;
            return Ok(());
        }
        let compared = &mut self.compared;
        let spaces = compared.listed.entry(resource.to_owned()).or_default();
        if !spaces.contains(namespace) {
            spaces.insert(namespace.to_owned());
        }
        if !compared.identities.insert(identity(object)) {
            let place = format!("{}{}", item.place, named(&item));
            return Err(Failure::general("it was listed before").about(place));
        }
        if compared.identities.len() > OBJECTS_MAX {
            let wrong = format!("more than {OBJECTS_MAX} objects");
            return Err(Failure::general(wrong).hint("compare one namespace at a time"));
        }
        compared.count += 1;
        match found.difference {
            Difference::None => Ok(()),
            Difference::Newer => {
                compared.newer += 1;
                Ok(())
            }
            _ => self.keep(item, found),
        }
    }

    fn keep(&mut self, item: Item, found: Compared<'static>) -> Outcome {
        if self.keep {
            self.kept = self.kept.saturating_add(item.text.len());
        }
        if self.kept > KEPT_MAX_BYTES {
            let wrong = format!("what differs has more than {KEPT_MAX_BYTES} bytes");
            return Err(Failure::general(wrong).hint("correct one namespace at a time: -n"));
        }
        let text = match self.keep {
            true => item.text,
            false => Box::default(),
        };
        self.compared.differences.push(Drifted::Listed {
            compared: Box::new(found),
            text,
        });
        Ok(())
    }
}

/// How an object calls itself, for messages.
fn named(item: &Item) -> String {
    /// A Kubernetes object has its names in its metadata, a plain event beside its other fields.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Names {
        name: String,
        namespace: String,
        metadata: Option<Box<Names>>,
    }
    let names: Names = serde_json::from_str(&item.text).unwrap_or_default();
    let names = match names.metadata {
        Some(metadata) => *metadata,
        None => names,
    };
    match (&*names.namespace, &*names.name) {
        (_, "") => String::new(),
        ("", name) => format!(" ({name})"),
        (space, name) => format!(" ({space}/{name})"),
    }
}
