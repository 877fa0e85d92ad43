//! Extensions of quotas and groups beyond Kubernetes' and OpenShift's fields: annotations `quota-ledger.io/…`.
//! Annotations survive in clusters that drop unknown fields.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{names::validate_list, selector::LabelSelector};
use crate::{
    Name, Timestamp,
    field::{FieldError, FieldErrors},
    nullable::is_default,
    resource::ResourceList,
};

/// The prefix of all keys.
pub const PREFIX: &str = "quota-ledger.io/";
/// The parent group, whose members include those of this one.
pub const PARENT: &str = "quota-ledger.io/parent";
/// The amounts that no sibling can take.
pub const GUARANTEED: &str = "quota-ledger.io/guaranteed";
/// The objects that count, by their own labels.
pub const OBJECTS: &str = "quota-ledger.io/objects";
/// Whether `hard` applies to each member alone.
pub const EACH: &str = "quota-ledger.io/each";
/// Limits that only warn.
pub const SOFT: &str = "quota-ledger.io/soft";
/// The effect on a request that exceeds `hard`.
pub const ENFORCEMENT: &str = "quota-ledger.io/enforcement";
/// Other limits, until a given time.
pub const OVERRIDE: &str = "quota-ledger.io/override";

/// The keys of a group.
const OF_GROUPS: [&str; 7] = [PARENT, GUARANTEED, OBJECTS, EACH, SOFT, ENFORCEMENT, OVERRIDE];
/// The keys of a ResourceQuota.
const OF_QUOTAS: [&str; 3] = [SOFT, ENFORCEMENT, OVERRIDE];

/// The kind of object that has the annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A group, which may have all of them.
    Group,
    /// A ResourceQuota: soft limits, enforcement and overrides only.
    Quota,
}

/// The extensions of a quota or group. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Extensions {
    /// The parent group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// The amounts that no sibling can take.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed: ResourceList,
    /// The objects of the members that count, by their own labels; none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<LabelSelector>,
    /// Whether `hard` applies to each member namespace alone.
    #[serde(skip_serializing_if = "is_default")]
    pub each: bool,
    /// Limits above which a grant comes with a warning.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub soft: ResourceList,
    /// The effect on a request that exceeds `hard`.
    #[serde(skip_serializing_if = "Enforcement::is_default")]
    pub enforcement: Enforcement,
    /// Other limits, until a given time.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub r#override: Option<Override>,
}

/// The treatment of a request that exceeds `hard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// The request is denied.
    #[default]
    Enforce,
    /// The request is admitted and held; the denial is returned as a warning.
    Warn,
    /// The request is admitted and held; the denial is only counted and recorded in the audit annotations.
    Audit,
}

impl Enforcement {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits that replace those in `hard` until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The overridden limits; each has one in `spec` too.
    pub hard: ResourceList,
    /// The time at which they end.
    pub until: Timestamp,
}

impl Override {
    /// The limits that apply while the override lasts.
    pub fn over(&self, hard: &ResourceList) -> ResourceList {
        let mut in_force = hard.clone();
        for (name, quantity) in self.hard.iter() {
            in_force.insert(name.clone(), quantity.clone());
        }
        in_force
    }
}

impl Extensions {
    /// Whether there are no extensions.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads annotations, and returns their errors. Keys other than `quota-ledger.io/…` are ignored.
    pub fn from_annotations(
        annotations: &BTreeMap<String, String>,
        carrier: Carrier,
    ) -> (Self, Vec<FieldError>) {
        let mut extensions = Self::default();
        let mut errors = FieldErrors::default();
        let ours = annotations.iter().filter(|(key, _)| key.starts_with(PREFIX));
        for (key, text) in ours {
            let allowed: &[&str] = match carrier {
                Carrier::Group => &OF_GROUPS,
                Carrier::Quota => &OF_QUOTAS,
            };
            let field = field_of(key);
            if !allowed.contains(&key.as_str()) {
                let detail = format!("not supported here; supported: {}", allowed.join(", "));
                errors.push(FieldError::forbidden(field, detail));
            } else if let Err(detail) = extensions.set(key, text) {
                errors.push(FieldError::invalid_text(field, text, detail));
            }
        }
        (extensions, errors.into())
    }

    /// The extensions in the annotations of a `metadata` (JSON text). Invalid ones are ignored.
    pub fn from_metadata(metadata: &str, carrier: Carrier) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Metadata {
            annotations: Option<BTreeMap<String, String>>,
        }
        if !metadata.contains(PREFIX) {
            return Self::default();
        }
        let metadata: Metadata = serde_json::from_str(metadata).unwrap_or_default();
        Self::from_annotations(&metadata.annotations.unwrap_or_default(), carrier).0
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key {
            PARENT => self.parent = Some(text.into()),
            GUARANTEED => self.guaranteed = list(text)?,
            OBJECTS => self.objects = Some(json(text, "a label selector as JSON")?),
            EACH => {
                self.each = match text {
                    "true" => true,
                    "false" => false,
                    _ => return Err("must be \"true\" or \"false\"".to_owned()),
                };
            }
            SOFT => self.soft = list(text)?,
            ENFORCEMENT => {
                self.enforcement = match text {
                    "enforce" => Enforcement::Enforce,
                    "warn" => Enforcement::Warn,
                    "audit" => Enforcement::Audit,
                    _ => return Err("must be enforce, warn or audit".to_owned()),
                };
            }
            _ => {
                let what = "an object as JSON with \"hard\" (quantities by resource name) and \"until\" (a time)";
                let mut limits: Override = json(text, what)?;
                limits.hard.round_up_to_thousandths();
                limits.hard.make_canonical();
                self.r#override = Some(limits);
            }
        }
        Ok(())
    }

    /// Removes the extensions that the errors are about. Returns whether that changed anything.
    pub fn drop_wrong(&mut self, errors: &[FieldError]) -> bool {
        let before = self.clone();
        let is_wrong = |key: &&&str| {
            let field = field_of(key);
            errors.iter().any(|error| error.field.starts_with(&field))
        };
        for key in OF_GROUPS.iter().filter(is_wrong) {
            match *key {
                PARENT => self.parent = None,
                GUARANTEED => self.guaranteed = ResourceList::new(),
                OBJECTS => self.objects = None,
                EACH => self.each = false,
                SOFT => self.soft = ResourceList::new(),
                ENFORCEMENT => self.enforcement = Enforcement::default(),
                _ => self.r#override = None,
            }
        }
        *self != before
    }

    /// The keys of those annotations of a group that differ from the extensions that apply.
    pub fn not_in_force(&self, annotations: &BTreeMap<String, String>) -> Vec<String> {
        let in_force = self.to_annotations();
        let ours = annotations.iter().filter(|(key, _)| key.starts_with(PREFIX));
        let differs = |(key, text): &(&String, &String)| {
            let mut alone = Self::default();
            let is_read = OF_GROUPS.contains(&key.as_str()) && alone.set(key, text).is_ok();
            !is_read || alone.to_annotations().get(*key) != in_force.get(*key)
        };
        ours.filter(differs).map(|(key, _)| key.clone()).collect()
    }

    /// The annotations for these extensions.
    pub fn to_annotations(&self) -> BTreeMap<String, String> {
        let list = |list: &ResourceList| (!list.is_empty()).then(|| text(list));
        let enforcement = match self.enforcement {
            Enforcement::Enforce => None,
            Enforcement::Warn => Some("warn".to_owned()),
            Enforcement::Audit => Some("audit".to_owned()),
        };
        let values = [
            (PARENT, self.parent.as_deref().map(str::to_owned)),
            (GUARANTEED, list(&self.guaranteed)),
            (OBJECTS, self.objects.as_ref().map(text)),
            (EACH, self.each.then(|| "true".to_owned())),
            (SOFT, list(&self.soft)),
            (ENFORCEMENT, enforcement),
            (OVERRIDE, self.r#override.as_ref().map(text)),
        ];
        let given = |(key, value): (&str, Option<String>)| Some((key.to_owned(), value?));
        values.into_iter().filter_map(given).collect()
    }

    /// The errors of limits that are given in addition to `hard`. Each extension that has errors has some of those that
    /// are shown: a quota or group from a cluster loses these extensions.
    pub fn validate_limits(&self, hard: &ResourceList) -> Vec<FieldError> {
        let mut all = Vec::new();
        for (key, what, list) in
            [(GUARANTEED, "guarantee", &self.guaranteed), (SOFT, "soft limit", &self.soft)]
        {
            let field = field_of(key);
            let mut errors = FieldErrors::default();
            errors.extend(validate_list(&field, list));
            errors.extend(list.exceeding(hard).iter().map(|name| {
                let detail = format!("the {what} must not be above the group's own hard limit");
                FieldError::invalid(format!("{field}[{name}]"), &list.get(name), detail)
            }));
            all.extend(errors);
        }
        if let Some(limits) = &self.r#override {
            let field = format!("{}.hard", field_of(OVERRIDE));
            let mut errors = FieldErrors::default();
            errors.extend(validate_list(&field, &limits.hard));
            if limits.hard.is_empty() {
                errors.push(FieldError::required(field.clone(), "no limit is given"));
            }
            let others = limits.hard.iter().filter(|(name, _)| hard.get(*name).is_none());
            errors.extend(others.map(|(name, value)| {
                let detail = "only limits that are in spec can be overridden";
                FieldError::invalid(format!("{field}[{name}]"), value, detail)
            }));
            all.extend(errors);
        }
        all
    }
}

/// The path of an annotation.
pub fn field_of(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

fn list(text: &str) -> Result<ResourceList, String> {
    let mut list: ResourceList = json(text, "an object of quantities by resource name as JSON")?;
    list.round_up_to_thousandths();
    list.make_canonical();
    Ok(list)
}

fn json<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, String> {
    // Serde also reads a struct from an array; Kubernetes does not.
    if !text.trim_start().starts_with('{') {
        return Err(format!("must be {what}"));
    }
    serde_json::from_str(text).map_err(|error| format!("must be {what}: {error}"))
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], carrier: Carrier) -> (Extensions, Vec<String>) {
        let annotations =
            pairs.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned()));
        let (extensions, errors) = Extensions::from_annotations(&annotations.collect(), carrier);
        (extensions, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn annotations_are_read_and_written_alike() {
        let (extensions, errors) = read(
            &[
                ("parent", "company"),
                ("guaranteed", r#"{"pods":"3"}"#),
                ("objects", r#"{"matchLabels":{"app":"web"}}"#),
                ("each", "true"),
                ("soft", r#"{"pods":"8"}"#),
                ("enforcement", "warn"),
                ("override", r#"{"hard":{"pods":"20"},"until":"2027-01-01T00:00:00Z"}"#),
            ],
            Carrier::Group,
        );
        assert_eq!(errors, Vec::<String>::new());
        let (again, _) = Extensions::from_annotations(&extensions.to_annotations(), Carrier::Group);
        assert_eq!(again, extensions);
        assert_eq!(extensions.to_annotations().len(), 7);
        assert!(Extensions::default().to_annotations().is_empty());
    }

    #[test]
    fn every_error_names_its_annotation() {
        let (_, errors) = read(
            &[
                ("guarantied", "{}"),
                ("guaranteed", r#"["pods"]"#),
                ("each", "yes"),
                ("enforcement", "Warn"),
                ("override", r#"{"hard":{"pods":"20"},"until":"tomorrow"}"#),
                ("soft", r#"{"pods":"many"}"#),
            ],
            Carrier::Group,
        );
        for (error, key) in errors.iter().zip([
            "each",
            "enforcement",
            "guaranteed",
            "guarantied",
            "override",
            "soft",
        ]) {
            let field = format!("metadata.annotations[quota-ledger.io/{key}]: ");
            assert!(error.starts_with(&field), "{error}");
        }
        assert_eq!(errors.len(), 6);
        let (_, errors) = read(&[("parent", "p"), ("soft", "{}")], Carrier::Quota);
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
}
