//! The content of an annotation that names a reservation, with a MAC so that no other party can forge it.

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

/// Authenticates annotations. The key is made anew at each start, so annotations of an earlier process are not accepted.
pub(in crate::admission) struct AnnotationKey([u8; 32]);

impl AnnotationKey {
    /// A random key.
    pub(in crate::admission) fn new() -> Self {
        let mut key = [0; 32];
        let (left, right) = key.split_at_mut(16);
        left.copy_from_slice(Uuid::new_v4().as_bytes());
        right.copy_from_slice(Uuid::new_v4().as_bytes());
        Self(key)
    }

    /// Writes the annotation: entry, MAC, namespace, uid. The uid comes last, since it may hold any character.
    pub(in crate::admission) fn close(&self, hold: &Hold) -> String {
        let Hold { namespace, uid, entry } = hold;
        let text = format!("{namespace} {uid}");
        let mac = self.mac(*entry, &text);
        format!("{entry} {} {text}", mac.to_hex())
    }

    /// Reads an annotation; none if this process did not write it.
    pub(in crate::admission) fn open(&self, annotation: &str) -> Option<Hold> {
        let (entry, rest) = annotation.split_once(' ')?;
        let (mac, text) = rest.split_once(' ')?;
        let (namespace, uid) = text.split_once(' ')?;
        let entry = entry.parse().ok()?;
        let mac = blake3::Hash::from_hex(mac).ok()?;
        // Compared in constant time.
        (mac == self.mac(entry, text)).then_some(Hold {
            namespace: namespace.into(),
            uid: Uid::new(uid).ok()?,
            entry,
        })
    }

    fn mac(&self, entry: Sequence, text: &str) -> blake3::Hash {
        blake3::keyed_hash(&self.0, format!("{entry} {text}").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sealed_here_can_be_opened() {
        let key = AnnotationKey::new();
        let hold = Hold {
            namespace: "team-a".into(),
            uid: Uid::new("e6ac1374-d5f5-43cf-87af-714fdd58dd3d").unwrap(),
            entry: 17,
        };
        let annotation = key.close(&hold);
        assert_eq!(key.open(&annotation), Some(hold.clone()));
        assert_eq!(AnnotationKey::new().open(&annotation), None);
        for place in 0..annotation.len() {
            let mut other = annotation.clone().into_bytes();
            other[place] = if other[place] == b'1' { b'2' } else { b'1' };
            let other = String::from_utf8(other).unwrap();
            assert_eq!(key.open(&other), None, "{other}");
        }
        assert_eq!(key.open(""), None);
        assert_eq!(key.open("17 x team-a u"), None);
    }
}
