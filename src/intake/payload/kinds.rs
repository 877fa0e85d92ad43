//! Kinds of objects. There are few of them, so the properties of each are derived once.

use std::{
    borrow::{Borrow, Cow},
    collections::BTreeMap,
    sync::Arc,
};

use parking_lot::RwLock;
use quota_semantics::{
    Name, Timestamp,
    object::{Footprint, GroupResource, NoContext, Object, TypeMeta, is_ignored},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Fault, Reader, check};

/// A kind and its derived properties.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) resource: GroupResource,
    /// The name in its usual form: `deployments.apps`.
    pub(super) name: Name,
    /// Whether objects of this kind do not matter to quotas.
    pub(super) is_ignored: bool,
    /// The footprint that every object of this kind has.
    pub(super) counted: Footprint,
}

impl Kind {
    pub(super) fn new(resource: GroupResource) -> Result<Self, Fault> {
        let name = resource.to_string();
        let is_ignored = is_ignored(&resource);
        check::resource(&name)?;
        let counted = Object::Other(Box::default());
        Ok(Self {
            name: Name::from(name),
            is_ignored,
            counted: counted.footprint(&resource, Timestamp::EPOCH, &NoContext),
            resource,
        })
    }
}

/// Most texts in the cache. Senders choose the texts; beyond this number, results are computed each time.
const TEXTS_MAX: usize = 1024;

/// A cache of values derived from texts, such as the names of kinds.
#[derive(Debug)]
pub(super) struct InternCache<K, T>(RwLock<BTreeMap<K, T>>);

impl<K, T> Default for InternCache<K, T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Ord, T: Clone> InternCache<K, T> {
    /// The cached value of a text, or of texts, computed if necessary. Errors are not cached.
    pub(super) fn get<Q, E>(
        &self,
        text: &Q,
        find_out: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        let cached = self.0.read();
        if let Some(value) = cached.get(text) {
            return Ok(value.clone());
        }
        let has_room = cached.len() < TEXTS_MAX;
        drop(cached);
        let found = find_out()?;
        if has_room {
            self.0.write().insert(text.to_owned(), found.clone());
        }
        Ok(found)
    }
}

/// The fields of an event that determine the kind; all others are ignored.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    resource: Option<Cow<'a, str>>,
    specversion: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    api_version: Name,
    kind: Name,
}

/// The kind of an event's object; none if it is not certain. `is_object`: the text is the object itself.
pub(super) fn of_rejected(reader: &Reader, is_object: bool, text: &[u8]) -> Option<Arc<Kind>> {
    if is_object {
        return of_object(reader, text);
    }
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    if event.specversion.is_some() {
        let data = event.data?.get().as_bytes();
        // The data of a CloudEvent is an event or an object.
        return kind_of_plain(reader, data).or_else(|| of_object(reader, data));
    }
    kind_of_plain(reader, text)
}

fn kind_of_plain(reader: &Reader, text: &[u8]) -> Option<Arc<Kind>> {
    let event: Event<'_> = serde_json::from_slice(text).ok()?;
    match (event.resource, event.object) {
        (Some(resource), _) => reader.resource(&resource).ok(),
        (None, object) => of_object(reader, object?.get().as_bytes()),
    }
}

fn of_object(reader: &Reader, text: &[u8]) -> Option<Arc<Kind>> {
    let Identity { api_version, kind } = serde_json::from_slice(text).ok()?;
    reader.kind(&TypeMeta { api_version, kind }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_is_found_out_once_and_faults_each_time() {
        let cache = InternCache::<String, _>::default();
        assert_eq!(cache.get("a", || Err("bad")), Err("bad"));
        assert_eq!(cache.get("a", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(cache.get("a", || Err("not called")), Ok(1));
        assert_eq!(cache.get("b", || Ok::<_, &str>(2)), Ok(2));
    }

    #[test]
    fn so_many_are_remembered_and_the_others_found_out_each_time() {
        let cache = InternCache::<String, _>::default();
        for number in 0..TEXTS_MAX {
            assert_eq!(cache.get(&number.to_string(), || Ok::<_, &str>(0)), Ok(0));
        }
        assert_eq!(cache.get("0", || Ok::<_, &str>(1)), Ok(0));
        assert_eq!(cache.get("x", || Ok::<_, &str>(1)), Ok(1));
        assert_eq!(cache.get("x", || Ok::<_, &str>(2)), Ok(2));
    }
}
