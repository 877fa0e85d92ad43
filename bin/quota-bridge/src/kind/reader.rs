//! Decodes the objects of an API server, and encodes the lines that are published.

#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{BuildHasher as _, Hash, Hasher as _, RandomState},
};

use quota_semantics::{
    Name, Timestamp,
    admission::{Charging, counted_kind},
    embedded::{plain_value, refuse_embedded},
    group::manifest::ManifestSpec,
    object::{GroupResource, Metadata, NoContext, Object, short_name},
    quantity::{Quantity, of_any_length},
    quota::{self, extension, manifest::LAST_APPLIED, selector::NAME_LABEL},
    resource::ResourceList,
    uid::Uid,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{
    discovery::Served,
    kinds::{always, groups, is_possible, namespaces},
    line::{self, Plain},
};

/// The parts of a kind's objects that are read and published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// All fields that the ledger counts.
    Whole,
    /// The metadata, and the spec with the limits.
    Quota,
    /// The same, for a ClusterResourceQuota.
    Group,
    /// The metadata by which groups select namespaces.
    Namespace,
    /// The metadata, with the labels by which groups select objects.
    Labelled,
    /// Namespace, name, uid and version.
    Plain,
}

/// The decoder of the objects of one kind, and the encoder of their lines.
#[derive(Clone, Debug)]
pub struct Reader {
    resource: GroupResource,
    name: Name,
    api_version: String,
    kind: String,
    /// Whether the ledger knows the plural name of the kind. Names of other kinds have to be sent, since definitions
    /// may choose any.
    is_known: bool,
    form: Form,
    charging: Charging,
    hasher: RandomState,
}

/// An existing object.
#[derive(Debug)]
pub struct Alive {
    /// The uid of the object.
    pub uid: Uid,
    /// The resourceVersion; 0 if it is not a number.
    pub version: u64,
    /// The resourceVersion as text.
    pub shown: Name,
    /// A fingerprint that changes whenever a counted field changes.
    pub fingerprint: u64,
    /// The line to publish.
    pub line: Vec<u8>,
    /// The kinds whose number a quota or group limits; empty for other objects.
    pub limits: Vec<GroupResource>,
    /// A description of counted parts that are not published, and the reason; none if there are no such parts.
    pub lacks: Option<String>,
}

/// An object that was deleted.
#[derive(Debug)]
pub struct Deleted {
    /// The uid of the object.
    pub uid: Uid,
    /// The resourceVersion of the deletion.
    pub shown: Name,
    /// The line to publish.
    pub line: Vec<u8>,
}

#[derive(Deserialize)]
struct OnlyMetadata {
    metadata: Metadata,
}

/// The metadata of a deletion that are published.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

#[derive(Deserialize)]
struct Quota<'a> {
    #[serde(borrow)]
    metadata: BTreeMap<&'a str, &'a RawValue>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Namespace {
    metadata: NamespaceMetadata,
}

/// The part of a namespace that the ledger records.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceMetadata {
    name: Name,
    uid: Name,
    resource_version: Name,
    #[serde(default)]
    labels: Option<BTreeMap<Name, Name>>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

/// The maximum size of a pod's amounts besides cpu, memory and ephemeral storage, in bytes of JSON. The rest of a
/// condensed object is far smaller than the remaining room of a line.
const AMOUNTS_MAX_BYTES: usize = 800 * 1024;

/// The maximum size of a quota's spec, in bytes. The ledger stores every shorter quota, and of a shorter group at least
/// that it exists.
const SPEC_MAX_BYTES: usize = 640 * 1024;

/// The metadata of a quota that are published even if the line is too long: the identity, and the annotations that are
/// settings of the ledger.
const NEEDED_METADATA: [&str; 6] =
    ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "annotations"];

impl Reader {
    /// A reader for a served kind.
    pub fn new(served: &Served, charging: Charging) -> Self {
        let resource = served.resource.clone();
        let is_known = always().contains(&resource);
        let is_whole = is_known || charging.charges(&resource);
        let form = match is_whole {
            _ if resource.is("", "resourcequotas") => Form::Quota,
            _ if resource == groups() => Form::Group,
            _ if resource == namespaces() => Form::Namespace,
            true => Form::Whole,
            false if !charging.object_labels().is_empty() => Form::Labelled,
            false => Form::Plain,
        };
        Self {
            name: resource.name(),
            api_version: served.api_version(),
            kind: served.kind.clone(),
            is_known,
            resource,
            form,
            charging,
            hasher: RandomState::new(),
        }
    }

    /// Whether only the metadata of objects are needed.
    pub fn needs_metadata_only(&self) -> bool {
        matches!(self.form, Form::Labelled | Form::Plain | Form::Namespace)
    }

    /// Whether a list of this kind contains the reader's objects.
    pub fn is_list(&self, kind: &str) -> bool {
        kind.strip_suffix("List") == Some(&self.kind)
            || (self.needs_metadata_only() && kind == "PartialObjectMetadataList")
    }

    /// Decodes an existing object. `event`: `ADDED` or `MODIFIED`.
    ///
    /// # Errors
    /// The object cannot be decoded, or lacks a required field.
    pub fn alive(&self, event: &'static str, json: &str) -> Result<Alive, String> {
        let alive = match self.form {
            Form::Whole | Form::Labelled => self.whole(event, json),
            Form::Quota | Form::Group => self.quota(event, json),
            Form::Namespace => self.namespace(event, json),
            Form::Plain => self.plain(event, json),
        }?;
        let bytes = alive.line.len();
        match bytes > line::MAX_BYTES {
            true => Err(format!(
                "what is published of {:?} takes {bytes} bytes, more than {}",
                alive.uid,
                line::MAX_BYTES
            )),
            false => Ok(alive),
        }
    }

    /// Decodes a deleted object.
    ///
    /// # Errors
    /// The object cannot be decoded, or lacks a required field.
    pub fn deleted(&self, json: &str) -> Result<Deleted, String> {
        let OnlyMetadata { metadata } = read(json)?;
        let (uid, version) = match self.form {
            Form::Group | Form::Namespace => identity_of_cluster(&metadata)?,
            _ => identity(&metadata)?,
        };
        let line = match self.form {
            // The ledger knows by the type what else goes with it.
            Form::Quota | Form::Group | Form::Namespace => {
                let identity = Identity {
                    name: &metadata.name,
                    namespace: &metadata.namespace,
                    uid: &metadata.uid,
                    resource_version: &metadata.resource_version,
                };
                let identity = serde_json::to_string(&identity).map_err(|it| it.to_string())?;
                let object = format!(r#"{{"metadata":{identity}}}"#);
                self.watched("DELETED", object.as_bytes())
            }
            // The ledger knows the object by its uid, and its name may be of any length.
            Form::Whole | Form::Labelled | Form::Plain => line::plain(&Plain {
                name: "",
                ..self.event("DELETED", &metadata, version, ResourceList::new())
            }),
        };
        Ok(Deleted { uid, shown: metadata.resource_version.clone(), line })
    }

    fn event<'a>(
        &'a self,
        event: &'static str,
        metadata: &'a Metadata,
        version: u64,
        usage: ResourceList,
    ) -> Plain<'a> {
        Plain {
            event,
            namespace: &metadata.namespace,
            resource: &self.name,
            name: &metadata.name,
            uid: &metadata.uid,
            resource_version: match version {
                0 => "",
                _ => &metadata.resource_version,
            },
            usage,
        }
    }

    fn whole(&self, event: &'static str, json: &str) -> Result<Alive, String> {
        let read = match self.form {
            Form::Labelled => {
                let OnlyMetadata { metadata } = read(json)?;
                Ok(Object::Other(Box::new(metadata)))
            }
            // An API server stores amounts with any number of zeros, which count as any other.
            _ => of_any_length(|| self.charging.read(&self.resource, json.as_bytes())),
        };
        let mut object = match read {
            Ok(object) => object,
            // Definitions of workloads often allow anything in the template. No pods can be made from such a one.
            Err(error) if self.charging.charges(&self.resource) => {
                let itself = self.plain(event, json)?;
                let lacks = Some(format!("its pods: {error}"));
                return Ok(Alive { lacks, ..itself });
            }
            Err(error) => return Err(error.to_string()),
        };
        self.charging.prune(&mut object);
        shorten_name(object.metadata_mut());
        let (uid, version) = identity(object.metadata())?;
        let fingerprint = self.fingerprint(&object);
        let mut lacks = None;
        let mut line = self.line(event, &object)?;
        if line.len() > line::MAX_BYTES {
            let left_out = object.condense(AMOUNTS_MAX_BYTES);
            lacks =
                (left_out > 0).then(|| format!("{left_out} of its resources: there are too many"));
            line = self.line(event, &object)?;
        }
        if line.len() > line::MAX_BYTES {
            lacks = Some("all but its amounts: it is too long".to_owned());
            let usage = self.usage(&object);
            line = line::plain(&self.event(event, object.metadata(), version, usage));
        }
        Ok(Alive {
            uid,
            version,
            shown: object.metadata().resource_version.clone(),
            fingerprint,
            line,
            limits: Vec::new(),
            lacks,
        })
    }

    fn line(&self, event: &str, object: &Object) -> Result<Vec<u8>, String> {
        let text = serde_json::to_vec(object).map_err(|error| error.to_string())?;
        Ok(self.watched(event, &text))
    }

    /// A watch event with this object, which is given without apiVersion and kind.
    fn watched(&self, event: &str, object: &[u8]) -> Vec<u8> {
        let resource = (!self.is_known).then_some(&*self.name);
        line::whole(event, resource, &self.api_version, &self.kind, object)
    }

    /// The amounts of an object besides its number, without those of its pods, which count by themselves.
    fn usage(&self, object: &Object) -> ResourceList {
        let footprint = object.footprint(&self.resource, Timestamp::EPOCH, &NoContext);
        let footprint = footprint.itself().unwrap_or(footprint);
        footprint.resources.mask(|name| !name.starts_with("count/"))
    }

    /// A fingerprint of all fields that the ledger uses.
    fn fingerprint(&self, object: &Object) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // Nothing has lapsed at the epoch: the time of the lapse is compared separately.
        let now = Timestamp::EPOCH;
        let footprint = self.charging.in_full(&self.resource, object, now, &NoContext);
        footprint.hash(&mut hasher);
        object.lapse().hash(&mut hasher);
        let metadata = object.metadata();
        let controller = metadata.controller();
        controller
            .map(|owner| (&owner.api_version, &owner.kind, &owner.name, &owner.uid))
            .hash(&mut hasher);
        metadata.labels.pod_template_hash().hash(&mut hasher);
        metadata.made_for_pod().hash(&mut hasher);
        if let Object::Pod(pod) = object {
            pod.extended_resource_claim().hash(&mut hasher);
        }
        hasher.finish()
    }

    fn quota(&self, event: &str, json: &str) -> Result<Alive, String> {
        let (annotations, settings);
        let Quota { mut metadata, spec } = read(json)?;
        let of_all: OnlyMetadata = read(json)?;
        let ((uid, version), limits) = match self.form {
            Form::Group => (identity_of_cluster(&of_all.metadata)?, Limits::OfGroup),
            _ => (identity(&of_all.metadata)?, Limits::OfQuota),
        };
        let Spec { text: spec, limited, mut lacks } = limits.read(spec.map_or("{}", RawValue::get));
        let mut spec = &*spec;
        metadata.remove("managedFields");
        if let Some(all) = metadata.remove("annotations") {
            annotations = kept(all, |key, value| is_setting(key) || is_short(key, value))?;
            metadata.insert("annotations", &annotations);
        }
        let text = |metadata: &BTreeMap<&str, &RawValue>, spec: &str| {
            let metadata = serde_json::to_string(metadata).map_err(|error| error.to_string())?;
            Ok::<_, String>(format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#))
        };
        let line = |metadata: &BTreeMap<&str, &RawValue>, spec: &str| {
            let object = text(metadata, spec)?;
            let line = self.watched(event, object.as_bytes());
            Ok::<_, String>(one_line(line))
        };
        let mut shown = line(&metadata, spec)?;
        if shown.len() > line::MAX_BYTES {
            // Labels and the like decide nothing.
            metadata.retain(|key, _| NEEDED_METADATA.contains(key));
            if let Some(all) = metadata.remove("annotations") {
                settings = kept(all, |key, _| is_setting(key))?;
                metadata.insert("annotations", &settings);
            }
            shown = line(&metadata, spec)?;
        }
        if shown.len() > line::MAX_BYTES || spec.len() > SPEC_MAX_BYTES {
            // The limits of others have to go on. Who wrote this one could have deleted it as well.
            lacks = Some("its limits: they are too long".to_owned());
            spec = "{}";
            shown = line(&metadata, spec)?;
        }
        metadata.remove("resourceVersion");
        Ok(Alive {
            uid,
            version,
            shown: of_all.metadata.resource_version.clone(),
            fingerprint: self.hasher.hash_one(text(&metadata, spec)?),
            line: shown,
            limits: limited
                .iter()
                .filter_map(|name| counted_kind(name))
                .filter(is_possible)
                .collect(),
            lacks,
        })
    }

    fn namespace(&self, event: &str, json: &str) -> Result<Alive, String> {
        let Namespace { mut metadata } = read(json)?;
        if let Some(annotations) = &mut metadata.annotations {
            annotations.retain(|key, value| is_short(key, value));
        }
        let uid = Uid::new(&metadata.uid).map_err(|error| error.to_string())?;
        let line = |metadata: &NamespaceMetadata| {
            let object = serde_json::json!({ "metadata": metadata }).to_string();
            self.watched(event, object.as_bytes())
        };
        let (mut shown, mut lacks) = (line(&metadata), None);
        if shown.len() > line::MAX_BYTES {
            metadata.annotations = None;
            let labels = metadata.labels.get_or_insert_default();
            let left_out = shorten(labels);
            lacks = Some(format!("its annotations, and {left_out} labels: there are too many"));
            shown = line(&metadata);
        }
        let chosen_by = (&metadata.labels, &metadata.annotations);
        Ok(Alive {
            uid,
            version: metadata.resource_version.parse().unwrap_or(0),
            fingerprint: self.hasher.hash_one(chosen_by),
            line: shown,
            shown: metadata.resource_version,
            limits: Vec::new(),
            lacks,
        })
    }

    fn plain(&self, event: &'static str, json: &str) -> Result<Alive, String> {
        let OnlyMetadata { mut metadata } = read(json)?;
        shorten_name(&mut metadata);
        let (uid, version) = identity(&metadata)?;
        let line = line::plain(&self.event(event, &metadata, version, ResourceList::new()));
        Ok(Alive {
            uid,
            version,
            shown: metadata.resource_version.clone(),
            // None of its fields that count can change.
            fingerprint: 0,
            line,
            limits: Vec::new(),
            lacks: None,
        })
    }
}

/// Gives an object the name under which the ledger records it. API servers take names of roles of any length.
fn shorten_name(metadata: &mut Metadata) {
    if let Some(short) = short_name(&metadata.name) {
        metadata.name = short.into();
    }
}

fn identity(metadata: &Metadata) -> Result<(Uid, u64), String> {
    match metadata.namespace.is_empty() {
        true => Err("an object without namespace".to_owned()),
        false => identity_of_cluster(metadata),
    }
}

/// The identity of a cluster-scoped object.
fn identity_of_cluster(metadata: &Metadata) -> Result<(Uid, u64), String> {
    if metadata.name.is_empty() {
        return Err("an object without name".to_owned());
    }
    let uid = Uid::new(&metadata.uid).map_err(|error| error.to_string())?;
    Ok((uid, metadata.resource_version.parse().unwrap_or(0)))
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// JSON without newlines between its tokens, so that it is one line.
fn one_line(mut json: Vec<u8>) -> Vec<u8> {
    json.retain(|byte| *byte != b'\n' && *byte != b'\r');
    json
}

// Bookmarks of watches.

/// The content of a bookmark.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kind) struct Bookmark {
    /// The resourceVersion up to which all events have been sent.
    pub(in crate::kind) version: String,
    /// Whether all initial events have been sent.
    pub(in crate::kind) ends_list: bool,
}

/// Parses a bookmark, of which only the metadata are reliable.
///
/// # Errors
/// The JSON is no object with metadata.
pub(in crate::kind) fn bookmark(json: &str) -> Result<Bookmark, String> {
    let OnlyMetadata { metadata } = read(json)?;
    let ends_list = metadata.annotations.initial_events_end.as_deref() == Some("true");
    Ok(Bookmark { version: metadata.resource_version.as_str().to_owned(), ends_list })
}

// The labels and annotations that are published: those that the ledger uses, within bounds.

type Annotations = BTreeMap<Name, String>;

/// The maximum length of a published annotation, in bytes, except for settings of the ledger.
const ANNOTATION_MAX_BYTES: usize = 256;

/// The maximum size of a namespace's labels, in bytes of JSON.
const LABELS_MAX_BYTES: usize = 800 * 1024;

/// Removes the longest labels of a namespace beyond [`LABELS_MAX_BYTES`], but never the name label that Kubernetes
/// sets. Returns the number of removed labels. So long labels cannot displace short ones, by which groups select.
fn shorten(labels: &mut BTreeMap<Name, Name>) -> usize {
    /// `"":"",`
    const PUNCTUATION: usize = 6;
    let before = labels.len();
    let mut by_length: Vec<Name> = labels.keys().cloned().collect();
    by_length.sort_by_key(|key| (*key != *NAME_LABEL, key.len() + labels[key].len()));
    let mut room = LABELS_MAX_BYTES;
    for key in by_length {
        room = room.saturating_sub(key.len() + labels[&key].len() + PUNCTUATION);
        if room == 0 {
            labels.remove(&key);
        }
    }
    before - labels.len()
}

/// The annotations that are kept, as JSON.
fn kept(
    annotations: &RawValue,
    is_kept: impl Fn(&str, &str) -> bool,
) -> Result<Box<RawValue>, String> {
    let annotations: Option<Annotations> = read(annotations.get())?;
    let mut annotations = annotations.unwrap_or_default();
    annotations.retain(|key, value| is_kept(key, value) && is_plain(value));
    serde_json::value::to_raw_value(&annotations).map_err(|error| error.to_string())
}

/// Whether an annotation is a setting of the ledger, which may have any length.
fn is_setting(key: &str) -> bool {
    key.starts_with(extension::PREFIX)
}

/// Whether an annotation that is no setting is published.
fn is_short(key: &str, value: &str) -> bool {
    value.len() <= ANNOTATION_MAX_BYTES && key != LAST_APPLIED && is_plain(value)
}

/// Whether a value has no control characters but tabs and line breaks. Others take six times as many bytes in JSON, and
/// the annotations that an API server accepts would not fit into a message.
fn is_plain(value: &str) -> bool {
    !value.contains(|c: char| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r'))
}

// The spec of a quota or group, as far as the ledger can read it.
//
// A definition of a kind may allow any text as an amount. The ledger rejects an object with an amount that is no
// quantity, or whose text is too long, and a list with a rejected object is not complete: one mistake would hold up the
// whole kind.

/// Where a spec has its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limits {
    /// In `hard`: it is that of a quota.
    OfQuota,
    /// In `quota.hard`: it is that of a group.
    OfGroup,
}

/// A spec that the ledger can read.
#[derive(Debug, PartialEq, Eq)]
struct Spec<'a> {
    /// Its JSON.
    text: Cow<'a, str>,
    /// The names that it limits.
    limited: Vec<Name>,
    /// The part of the object's spec that is left out, and the reason.
    lacks: Option<String>,
}

impl Limits {
    /// Reads a spec. Limits that are no quantities are left out, and all of it if it cannot be read without them either.
    /// Texts that are too long for the ledger are shortened.
    fn read(self, text: &str) -> Spec<'_> {
        let error = match self.names(text) {
            Ok(limited) => {
                return Spec { text: text.into(), limited, lacks: None };
            }
            Err(error) => error,
        };
        let rest = self.without_odd_amounts(text);
        let rest = rest.and_then(|(rest, left_out)| Ok((self.names(&rest)?, rest, left_out)));
        match rest {
            Ok((limited, rest, left_out)) => Spec {
                text: rest.into(),
                limited,
                lacks: (left_out > 0).then(|| format!("{left_out} of its limits: {error}")),
            },
            Err(_) => Spec {
                text: "{}".into(),
                limited: Vec::new(),
                lacks: Some(format!("its limits: {error}")),
            },
        }
    }

    /// The names that a spec limits, as the ledger reads it.
    fn names(self, text: &str) -> Result<Vec<Name>, String> {
        refuse_embedded(text.as_bytes()).map_err(|error| error.to_string())?;
        let hard = match self {
            Self::OfQuota => read::<quota::Spec>(text)?.hard,
            Self::OfGroup => read::<ManifestSpec>(text)?.quota.hard,
        };
        Ok(hard.names().cloned().collect())
    }

    /// The spec in canonical quantities, without the limits that are none, and the number of those.
    fn without_odd_amounts(self, text: &str) -> Result<(String, usize), String> {
        let mut spec = plain_value(text.as_bytes()).map_err(|error| error.to_string())?;
        let hard = spec.pointer_mut(match self {
            Self::OfQuota => "/hard",
            Self::OfGroup => "/quota/hard",
        });
        let mut left_out = 0;
        if let Some(hard) = hard.and_then(Value::as_object_mut) {
            let before = hard.len();
            hard.retain(|_, amount| {
                let read = of_any_length(|| Quantity::from_json_token(&amount.to_string()));
                if let Ok(quantity) = &read {
                    *amount = quantity.exact().to_string().into();
                }
                read.is_ok()
            });
            left_out = before - hard.len();
        }
        Ok((spec.to_string(), left_out))
    }
}
