//! The comparison of listed objects, piece by piece.

use std::collections::HashSet;

use quota_client::{
    http::Address,
    wire::{AsOf, Compared, Difference, DriftAnswer, Object},
};
use serde::{Deserialize, Serialize};

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

/// The maximum number of objects of a request.
const PIECE_OBJECTS: usize = 500;

/// The maximum size of the objects of a request, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// The maximum number of objects of a listing: their identities are kept, in about 40 bytes each.
const OBJECTS_MAX: usize = 20_000_000;

/// The maximum size of the objects that are kept for corrections, in bytes.
const KEPT_MAX_BYTES: usize = 256 * 1024 * 1024;

/// The maximum number of unreadable objects that are named one by one.
const NAMED_MAX: usize = 20;

/// A fixed-size digest of an object's identity: its namespace and uid.
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
    /// The differences.
    pub(super) differences: Vec<Drifted>,
    /// The identities of the listed objects.
    pub(super) identities: HashSet<Identity>,
    /// The namespaces in which objects were listed, by resource.
    pub(super) listed: Listed,
    /// The counts of objects.
    pub(super) counts: Counts,
}

/// Counts of objects.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// The number of listed objects that were compared.
    pub(super) listed: usize,
    /// The number of objects in the ledger within the scope of the listing.
    pub(super) believed: usize,
    /// The number of listed objects of which the ledger has a later version, or the deletion, and of unlisted ones that
    /// are newer than the listing.
    pub(super) newer: usize,
    /// The number of listed objects outside of the scope.
    pub(super) outside: usize,
    /// The number of listed objects that are not relevant to quotas.
    pub(super) ignored: usize,
    /// The position of the ledger; none if no request was sent for its objects.
    pub(super) as_of: Option<AsOf>,
}

/// A comparison in progress.
pub(super) struct Comparing<'a> {
    session: &'a Session,
    requested: &'a ScopeArguments,
    /// Whether the text of differing objects is kept for corrections.
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

    /// Adds a listed object, and sends full pieces.
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

    /// Sends the last piece. Fails if an object could not be parsed.
    pub(super) fn finish(&mut self) -> Outcome<Comparison> {
        self.send()?;
        match self.unreadable {
            0 => Ok(std::mem::take(&mut self.compared)),
            count => Err(
                Failure::general(format!("{count} objects cannot be understood"))
                    .hint("an incomplete listing cannot prove that objects are gone"),
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

    /// Records the difference of an object.
    fn note(&mut self, item: Item, found: Compared<'static>) -> Outcome {
        let object = match (&found.difference, &found.object) {
            (Difference::Ignored, _) => {
                self.compared.counts.ignored += 1;
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
            self.compared.counts.outside += 1;
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
        compared.counts.listed += 1;
        match found.difference {
            Difference::None => Ok(()),
            Difference::Newer => {
                compared.counts.newer += 1;
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

/// The name of an object that could not be parsed, for messages.
fn named(item: &Item) -> String {
    /// The names of an object: in the metadata of a Kubernetes object, or among the fields of a plain event.
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
