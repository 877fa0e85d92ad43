//! Quotas and groups that nobody has set: what manifests would limit.

use serde_json::Value;

use crate::{
    Name,
    embedded::refuse_embedded,
    field::{ERRORS_MAX, FieldError},
    group,
    quantity::{Quantity, exact_numbers},
    quota::{self, manifest::Metadata, validation},
};

/// A quota or a group from a manifest that is right as that of a new one.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// A quota.
    Quota {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        name: Name,
        /// Limits and scopes.
        spec: quota::Spec,
        /// Its annotations, which hold its extensions, as records keep metadata.
        metadata: Box<str>,
    },
    /// A group.
    Group {
        /// Its name.
        name: Name,
        /// Members, limits and extensions.
        spec: group::Spec,
    },
}

/// Why a manifest is no candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CandidateError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Fields are wrong.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
}

impl Candidate {
    /// Reads a manifest, of a v1 ResourceQuota or a quota.openshift.io/v1 ClusterResourceQuota, and checks it as that of
    /// a new object. What only a stored object has is ignored: a manifest may be one that was read.
    ///
    /// # Errors
    /// With all that is wrong.
    pub fn read(json: &[u8]) -> Result<Self, CandidateError> {
        let unread = |error: &dyn std::fmt::Display| CandidateError::Unreadable(error.to_string());
        refuse_embedded(json).map_err(|error| unread(&error))?;
        let mut value: Value =
            serde_json::from_slice(&exact_numbers(json)).map_err(|error| unread(&error))?;
        let is_group = value["kind"] == group::manifest::KIND;
        let place = match is_group {
            true => "spec.quota.hard",
            false => "spec.hard",
        };
        let mut wrong = unreadable(&mut value, place);
        if !wrong.is_empty() {
            // What else is wrong, apart from what depends on these amounts.
            let rest = Self::read(value.to_string().as_bytes());
            if let Err(CandidateError::Invalid(more)) = rest {
                let depends = |error: &FieldError| error.field.starts_with("metadata.annotations");
                wrong.extend(more.into_iter().filter(|error| !depends(error)));
                wrong.truncate(ERRORS_MAX);
            }
            return Err(CandidateError::Invalid(wrong));
        }
        if is_group {
            let read = group::Manifest::from_json(json);
            let mut manifest = read.map_err(|error| unread(&error))?;
            forget_store(&mut manifest.metadata);
            let checked = group::validation::Checked::of(&manifest).create(&manifest);
            return Ok(Self::Group {
                spec: checked.map_err(CandidateError::Invalid)?,
                name: manifest.metadata.name,
            });
        }
        let read = quota::Manifest::from_json(json);
        let mut manifest = read.map_err(|error| unread(&error))?;
        forget_store(&mut manifest.metadata);
        let wrong = validation::Checked::of(&manifest).create(&manifest);
        if !wrong.is_empty() {
            return Err(CandidateError::Invalid(wrong));
        }
        let Metadata { namespace, name, annotations, .. } = manifest.metadata;
        let kept = Metadata { annotations, ..Metadata::default() };
        Ok(Self::Quota {
            namespace,
            name,
            spec: manifest.spec,
            metadata: match kept == Metadata::default() {
                true => Box::default(),
                false => serde_json::to_string(&kept).unwrap_or_default().into(),
            },
        })
    }
}

/// Clears what a store has assigned.
fn forget_store(metadata: &mut Metadata) {
    metadata.uid.clear();
    metadata.resource_version.clear();
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.managed_fields.clear();
}

/// Takes out the limits that are no quantities.
fn unreadable(manifest: &mut Value, place: &str) -> Vec<FieldError> {
    let pointer = format!("/{}", place.replace('.', "/"));
    let mut errors = Vec::new();
    if let Some(hard) = manifest.pointer_mut(&pointer).and_then(Value::as_object_mut) {
        hard.retain(|resource, token| {
            let Err(error) = Quantity::from_json_token(&token.to_string()) else {
                return true;
            };
            let field = format!("{place}[{resource}]");
            errors.push(FieldError::invalid(field, &*token, error.to_string()));
            false
        });
    }
    errors.truncate(ERRORS_MAX);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Candidate, CandidateError> {
        Candidate::read(json.as_bytes())
    }

    #[test]
    fn a_quota_that_was_read_is_a_candidate() {
        let read = read(
            r#"{"apiVersion":"v1","kind":"ResourceQuota","status":{"used":{"pods":"1"}},
                "metadata":{"name":"q","namespace":"a","uid":"u","resourceVersion":"7",
                            "creationTimestamp":"2026-01-01T00:00:00Z",
                            "annotations":{"quota-ledger.io/enforcement":"warn"}},
                "spec":{"hard":{"pods":2}}}"#,
        );
        let Ok(Candidate::Quota { namespace, name, spec, metadata }) = read else {
            panic!("{read:?}");
        };
        assert_eq!((&*namespace, &*name), ("a", "q"));
        assert_eq!(spec.hard.get("pods"), Some(&Quantity::from_units(2)));
        assert!(metadata.contains("enforcement") && !metadata.contains("uid"), "{metadata}");
    }

    #[test]
    fn a_group_is_a_candidate() {
        let read = read(
            r#"{"apiVersion":"quota.openshift.io/v1","kind":"ClusterResourceQuota","metadata":{"name":"g"},
                "spec":{"selector":{"labels":{"matchLabels":{"team":"x"}}},"quota":{"hard":{"pods":"2"}}}}"#,
        );
        assert!(matches!(&read, Ok(Candidate::Group { name, .. }) if **name == *"g"), "{read:?}");
    }

    #[test]
    fn all_that_is_wrong_is_named() {
        let fields = |json: &str| match read(json) {
            Err(CandidateError::Invalid(errors)) => {
                errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let meta = r#""metadata":{"name":"q","namespace":"a"}"#;
        let wrong = fields(&format!(
            r#"{{{meta},"spec":{{"hard":{{"pods":"x","cpu":"1","memory":"y"}}}}}}"#
        ));
        assert_eq!(wrong, ["spec.hard[memory]", "spec.hard[pods]"]);
        let wrong = fields(
            r#"{"metadata":{"name":"Q","namespace":"a"},"spec":{"hard":{"pods":"x","cpu":"-1"}}}"#,
        );
        assert_eq!(wrong, ["spec.hard[pods]", "metadata.name", "spec.hard[cpu]"]);
        let wrong =
            fields(r#"{"metadata":{"name":"Q","namespace":"a"},"spec":{"hard":{"pods":"-1"}}}"#);
        assert_eq!(wrong, ["metadata.name", "spec.hard[pods]"]);
        assert!(matches!(read("{"), Err(CandidateError::Unreadable(_))));
        assert!(matches!(read(r#"{"kind":"Pod"}"#), Err(CandidateError::Unreadable(_))));
    }
}
