//! The content of an annotation that names a reservation, sealed so that no other party can forge it.

use quota_core::event::Sequence;
use quota_semantics::{Name, uid::Uid};
use uuid::Uuid;

/// A reservation that the creation of an object made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Hold {
    pub(in crate::admission) namespace: Name,
    pub(in crate::admission) uid: Uid,
    /// The entry that granted it.
    pub(in crate::admission) entry: Sequence,
}

/// Seals annotations. The key is made anew at each start, so annotations sealed by an earlier process are not accepted.
pub(in crate::admission) struct Seal([u8; 32]);

impl Seal {
    /// A seal with a random key.
    pub(in crate::admission) fn new() -> Self {
        let mut key = [0; 32];
        let (left, right) = key.split_at_mut(16);
        left.copy_from_slice(Uuid::new_v4().as_bytes());
        right.copy_from_slice(Uuid::new_v4().as_bytes());
        Self(key)
    }

    /// Writes the annotation: entry, seal, namespace, uid. The uid comes last, since it may hold any character.
    pub(in crate::admission) fn close(&self, hold: &Hold) -> String {
        let Hold { namespace, uid, entry } = hold;
        let text = format!("{namespace} {uid}");
        let sealed = self.sealed(*entry, &text);
        format!("{entry} {} {text}", sealed.to_hex())
    }

    /// Reads an annotation; none if it was not sealed by this process.
    pub(in crate::admission) fn open(&self, annotation: &str) -> Option<Hold> {
        let (entry, rest) = annotation.split_once(' ')?;
        let (sealed, text) = rest.split_once(' ')?;
        let (namespace, uid) = text.split_once(' ')?;
        let entry = entry.parse().ok()?;
        let sealed = blake3::Hash::from_hex(sealed).ok()?;
        // Compared in constant time.
        (sealed == self.sealed(entry, text)).then_some(Hold {
            namespace: namespace.into(),
            uid: Uid::new(uid).ok()?,
            entry,
        })
    }

    fn sealed(&self, entry: Sequence, text: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.0, format!("{entry} {text}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_here_can_be_opened() {
        let seal = Seal::new();
        let hold = Hold {
            namespace: "team-a".into(),
            uid: Uid::new("e6ac1374-d5f5-43cf-87af-714fdd58dd3d").unwrap(),
            entry: 17,
        };
        let annotation = seal.close(&hold);
        assert_eq!(seal.open(&annotation), Some(hold.clone()));
        assert_eq!(Seal::new().open(&annotation), None);
        for place in 0..annotation.len() {
            let mut other = annotation.clone().into_bytes();
            other[place] = if other[place] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(seal.open(&other), None, "{other}");
        }
        assert_eq!(seal.open(""), None);
        assert_eq!(seal.open("17 x team-a u"), None);
    }
}
