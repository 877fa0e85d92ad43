//! The objects that a request is about, and the place in their order where a page begins.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use quota_semantics::Name;

use super::{
    kind::Kind,
    object::Object,
    params::{FieldSelector, Params},
    resource::Key,
    status::{Failure, Result},
};
use crate::{auth::Reader, label_selector::LabelSelector};

/// Selects objects.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) kind: Kind,
    /// The namespace of the objects; none for all.
    pub(super) namespace: Option<Name>,
    pub(super) fields: FieldSelector,
    pub(super) labels: LabelSelector,
    /// The namespaces that the caller may read: of a list of all namespaces, only the objects of these.
    pub(super) reader: Reader,
}

impl Scope {
    /// The scope of a request for a collection.
    pub(super) fn new(path: &Key, params: &Params, reader: Reader) -> Result<Self> {
        let (fields, labels) = (params.fields()?, params.labels()?);
        let named = Some(&path.namespace).filter(|namespace| !namespace.is_empty());
        let namespace = match path.kind {
            Kind::Quota => named.or_else(|| fields.namespace()).cloned(),
            Kind::Group => None,
        };
        Ok(Self { kind: path.kind, namespace, fields, labels, reader })
    }

    /// Whether it is of groups for a caller who may not read all namespaces: which groups these are changes with their
    /// members.
    pub(super) fn is_by_members(&self) -> bool {
        self.kind == Kind::Group && !self.reader.reads_all()
    }

    /// Whether the scope may contain this object, regardless of its labels. The namespace of a group is empty; which groups
    /// the caller may read depends on their members.
    pub(super) fn is_about(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        self.kind == kind
            && (kind == Kind::Group || self.reader.reads(namespace))
            && self.namespace.as_deref().is_none_or(|own| own == namespace)
            && self.fields.matches(namespace, name)
    }
}

/// The position after which a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Position(pub(super) Name, pub(super) Name);

impl From<Key> for Position {
    fn from(key: Key) -> Self {
        Self(key.namespace, key.name)
    }
}

impl Position {
    pub(super) fn of(object: &Object) -> Self {
        Self(object.namespace().clone(), object.name().clone())
    }

    pub(super) fn read(token: &str) -> Result<Self> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok();
        let position = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        position
            .map(|(namespace, name)| Self(namespace, name))
            .ok_or_else(|| Failure::bad_request("continue key is not valid"))
    }

    pub(super) fn token(&self) -> Result<String> {
        let json =
            serde_json::to_vec(&(&self.0, &self.1)).map_err(|error| Failure::internal(&error))?;
        Ok(URL_SAFE_NO_PAD.encode(json))
    }
}
