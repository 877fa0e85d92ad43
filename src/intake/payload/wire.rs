//! The shapes of events, and Kubernetes objects within them, each read in one pass.
//!
//! The parser of an object depends on its `apiVersion` and `kind`. All of Kubernetes' own clients write these fields
//! first; other fields before them are kept unparsed until both have been read.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use quota_semantics::{
    Name,
    embedded::refuse_embedded,
    group::manifest::{API_VERSION, KIND, Manifest},
    object::{Evaluator, GroupResource, Metadata, Object, TypeMeta, Workload, plural},
    quota::Spec,
};
use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, IntoDeserializer,
        MapAccess, SeqAccess, Unexpected, Visitor,
        value::{CowStrDeserializer, MapAccessDeserializer},
    },
};
use serde_json::value::RawValue;

/// The change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The object was created, changed, or existed when the watch began.
    Alive,
    /// The object was deleted.
    Deleted,
}

impl Change {
    /// The change that a CloudEvent of this type reports for the object in its data. The types are those of Knative's
    /// ApiServerSource in resource mode.
    pub(super) fn of_cloud_event(event_type: &str) -> Option<Self> {
        match event_type.strip_prefix("dev.knative.apiserver.resource.")? {
            "add" | "update" => Some(Self::Alive),
            "delete" => Some(Self::Deleted),
            _ => None,
        }
    }
}

/// The fields of all shapes. Fields of plain events may have any type until the event proves to be plain: in a
/// CloudEvent they may be extension attributes.
#[derive(Debug, Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) event_type: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "watched")]
    pub(super) object: Option<Watched<'a>>,
    pub(super) specversion: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    pub(super) data_base64: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) namespace: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) resource: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Field<'a>>,
    #[serde(borrow, rename = "resourceVersion")]
    pub(super) resource_version: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Field<'a>>,
    #[serde(borrow, rename = "allowEmpty")]
    pub(super) allow_empty: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) versions: Option<Field<'a>>,
    #[serde(borrow, rename = "clusterUid")]
    pub(super) cluster_uid: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) instance: Option<Field<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<Field<'a>>,
}

fn watched<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Watched<'a>>, D::Error> {
    Option::deserialize(deserializer)
}

/// A string; borrowed from the payload unless it has escapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A field of an object.
pub(super) type Member<'a> = (Text<'a>, &'a RawValue);

/// A value whose type is checked only when the value is used.
#[derive(Debug)]
pub(super) enum Field<'a> {
    /// A string; borrowed from the payload unless it has escapes.
    Text(Cow<'a, str>),
    Number(u64),
    Flag(bool),
    /// An object with unparsed values.
    Object(Vec<Member<'a>>),
    /// A type that no field has.
    Other(Unexpected<'static>),
}

impl Field<'_> {
    pub(super) fn text(&self) -> Result<&str, serde_json::Error> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(self.is_not("a string")),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, serde_json::Error> {
        match self {
            Self::Flag(flag) => Ok(*flag),
            _ => Err(self.is_not("a boolean")),
        }
    }

    pub(super) fn object(&self) -> Result<&[Member<'_>], serde_json::Error> {
        match self {
            Self::Object(members) => Ok(members),
            _ => Err(self.is_not("a map")),
        }
    }

    fn is_not(&self, expected: &str) -> serde_json::Error {
        let found = match self {
            Self::Text(text) => Unexpected::Str(text),
            Self::Number(number) => Unexpected::Unsigned(*number),
            Self::Flag(flag) => Unexpected::Bool(*flag),
            Self::Object(_) => Unexpected::Map,
            Self::Other(found) => *found,
        };
        serde_json::Error::invalid_type(found, &expected)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Field<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Field::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Field::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Field::Other(Unexpected::Signed(number)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Field::Other(Unexpected::Float(number)))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Field::Flag(flag))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other(Unexpected::Seq))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Field::Object(members))
    }
}

/// An object and its type.
#[derive(Debug)]
pub(super) struct Watched<'a> {
    pub(super) type_meta: TypeMeta,
    pub(super) object: Object,
    /// The quota fields, if it is a quota.
    pub(super) quota: Option<Box<Quota>>,
    /// The namespace fields, if it is a namespace.
    pub(super) namespace: Option<Box<Namespace>>,
    /// The group fields, if it is a group.
    pub(super) group: Option<Box<Group>>,
    /// The unparsed fields of a possible workload.
    pub(super) rest: Rest<'a>,
}

/// The fields that may state, for a kind without rules of its own, how many pods it makes from which template.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest<'a> {
    spec: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
}

impl Watched<'_> {
    fn of(type_meta: TypeMeta, object: Object) -> Self {
        Self { type_meta, object, quota: None, namespace: None, group: None, rest: Rest::default() }
    }

    /// The object, parsed as a workload that is charged for its pods.
    pub(super) fn workload(&self) -> Result<Object, serde_json::Error> {
        let Rest { spec, status } = self.rest;
        let workload = Workload::from_parts(self.object.metadata().clone(), spec, status)?;
        Ok(Object::Workload(Box::new(workload)))
    }
}

/// The labels and annotations by which groups select namespaces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Namespace {
    pub(super) labels: Option<BTreeMap<Name, Name>>,
    pub(super) annotations: Option<BTreeMap<Name, String>>,
}

/// A ResourceQuota: its metadata as JSON text, and its spec.
#[derive(Debug)]
pub(super) struct Quota {
    pub(super) metadata: Box<str>,
    pub(super) spec: Spec,
}

/// A ClusterResourceQuota, and its metadata as JSON text.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) metadata: Box<str>,
    pub(super) manifest: Manifest,
}

impl<'de: 'a, 'a> Deserialize<'de> for Watched<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WatchedVisitor)
    }
}

struct WatchedVisitor;

impl<'de> Visitor<'de> for WatchedVisitor {
    type Value = Watched<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Watched<'de>, A::Error> {
        let mut before = Vec::new();
        let (mut api_version, mut kind) = (None, None);
        while api_version.is_none() || kind.is_none() {
            let Some(Text(key)) = fields.next_key()? else {
                break;
            };
            match &*key {
                "apiVersion" => api_version = fields.next_value()?,
                "kind" => kind = fields.next_value()?,
                _ => before.push((key, fields.next_value()?)),
            }
        }
        let (Some(api_version), Some(kind)) = (api_version, kind) else {
            return Err(A::Error::custom("the object does not say its apiVersion and kind"));
        };
        let type_meta = TypeMeta { api_version, kind };
        let fields =
            MapAccessDeserializer::new(Replay { before: before.into_iter(), value: None, fields });
        read(type_meta, fields)
    }
}

fn read<'de, D: Deserializer<'de>>(
    type_meta: TypeMeta,
    fields: D,
) -> Result<Watched<'de>, D::Error> {
    /// The whole metadata of a quota or group is kept, and parsed from the kept text.
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
        spec: Option<&'a RawValue>,
    }
    let is_quota = type_meta.kind == "ResourceQuota" && type_meta.group().is_empty();
    let is_group = type_meta.kind == KIND && type_meta.api_version == API_VERSION;
    if !(type_meta.is_namespace() || is_quota || is_group) {
        let guess = plural(type_meta.group(), &type_meta.kind);
        let kind = GroupResource { group: type_meta.group().into(), resource: guess };
        let (object, rest) = match Evaluator::of(&kind) {
            Evaluator::Count(_) => read_any(fields)?,
            _ => (Object::deserialize(&kind, fields)?, Rest::default()),
        };
        return Ok(Watched { rest, ..Watched::of(type_meta, object) });
    }
    let Fields { metadata, spec } = Fields::deserialize(fields)?;
    let object = Object::Other(from_raw(metadata)?);
    let mut watched = Watched::of(type_meta, object);
    match () {
        () if is_quota => {
            let mut spec = spec.map_or_else(|| Ok(Spec::default()), from_raw)?;
            spec.hard.make_canonical();
            watched.quota = Some(Box::new(Quota { metadata: metadata.get().into(), spec }));
        }
        () if is_group => {
            let mut manifest = Manifest {
                metadata: from_raw(metadata)?,
                spec: spec.map_or_else(|| Ok(<_>::default()), from_raw)?,
                ..Manifest::default()
            };
            manifest.spec.quota.hard.round_up_to_thousandths();
            manifest.spec.quota.hard.make_canonical();
            watched.group = Some(Box::new(Group { metadata: metadata.get().into(), manifest }));
        }
        () => watched.namespace = Some(from_raw(metadata)?),
    }
    Ok(watched)
}

fn from_raw<T: DeserializeOwned, E: de::Error>(text: &RawValue) -> Result<T, E> {
    refuse_embedded(text.get().as_bytes()).map_err(E::custom)?;
    serde_json::from_str(text.get()).map_err(E::custom)
}

fn read_any<'de, D: Deserializer<'de>>(fields: D) -> Result<(Object, Rest<'de>), D::Error> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        metadata: Option<Metadata>,
        #[serde(borrow)]
        spec: Option<&'a RawValue>,
        #[serde(borrow)]
        status: Option<&'a RawValue>,
    }
    let Fields { metadata, spec, status } = Fields::deserialize(fields)?;
    let object = Object::Other(Box::new(metadata.unwrap_or_default()));
    Ok((object, Rest { spec, status }))
}

/// A map with its first fields put back before the rest.
struct Replay<'de, A> {
    before: std::vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    value: Option<&'de RawValue>,
    fields: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Replay<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some((key, value)) = self.before.next() else {
            return self.fields.next_key_seed(seed);
        };
        self.value = Some(value);
        let key: CowStrDeserializer<'de, A::Error> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(A::Error::custom),
            None => self.fields.next_value_seed(seed),
        }
    }
}
