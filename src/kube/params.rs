//! Query parameters: the selected objects, their version, and how to write.

use axum::extract::FromRequestParts;
use http::{HeaderMap, header, request::Parts};
use quota_core::event::Sequence;
use quota_semantics::Name;
use serde::{Deserialize, Deserializer};

use super::status::{Failure, Result};
use crate::{
    fairness::BYTES_PER_AMOUNT,
    label_selector::{LabelSelector, check_length},
    parse_errors,
};

/// Longer names of field managers are refused, as Kubernetes does.
const MANAGER_MAX_BYTES: usize = 128;

/// Most objects of one list; the rest is left for `continue`, regardless of `limit`.
const LIST_MAX: usize = 10_000;

/// The kinds of the parameters in messages, with their API group.
const LIST_OPTIONS: &str = "ListOptions.meta.k8s.io";
pub(super) const PATCH_OPTIONS: &str = "PatchOptions.meta.k8s.io";

/// All parameters of all requests; unknown ones are ignored, as in Kubernetes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params {
    limit: Option<i64>,
    #[serde(rename = "continue")]
    pub(super) after: String,
    field_selector: String,
    label_selector: String,
    resource_version: String,
    resource_version_match: String,
    #[serde(deserialize_with = "flag")]
    pub(super) watch: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) allow_watch_bookmarks: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) send_initial_events: bool,
    pub(super) timeout_seconds: Option<u64>,
    dry_run: Option<String>,
    field_manager: String,
    field_validation: String,
    #[serde(deserialize_with = "flag")]
    pub(super) force: bool,
    pub(super) include_object: String,
}

/// The handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        parse_errors::query(&parts.uri).map_err(Failure::bad_request)
    }
}

impl Params {
    /// Most objects of the response.
    pub(super) fn limit(&self) -> usize {
        match self.limit.and_then(|limit| usize::try_from(limit).ok()) {
            None | Some(0) => LIST_MAX,
            Some(limit) => limit.min(LIST_MAX),
        }
    }

    pub(super) fn labels(&self) -> Result<LabelSelector> {
        LabelSelector::parse(&self.label_selector).map_err(Failure::bad_request)
    }

    pub(super) fn fields(&self) -> Result<FieldSelector> {
        FieldSelector::parse(&self.field_selector).map_err(Failure::bad_request)
    }

    /// How many amounts it costs as much as to compare an object with the selectors.
    pub(super) fn selector_weight(&self) -> usize {
        1 + (self.label_selector.len() + self.field_selector.len()) / BYTES_PER_AMOUNT
    }

    /// The requested version; none for any.
    pub(super) fn version(&self) -> Result<Option<Sequence>> {
        match self.resource_version.as_str() {
            "" | "0" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let why = format!("Invalid value: {text:?}: a resourceVersion is a number");
                Failure::wrong_field(LIST_OPTIONS, "", "FieldValueInvalid", "resourceVersion", why)
            }),
        }
    }

    /// Checks the requested version against the ledger: this API always serves the newest version.
    ///
    /// # Errors
    /// The ledger has not reached the version yet; or the request wants exactly that version, and it is not the newest.
    pub(super) fn check_version(&self, head: Sequence) -> Result<()> {
        let version = self.version()?;
        let exact = match self.resource_version_match.as_str() {
            "" => false,
            _ if self.resource_version.is_empty() => {
                return Err(forbidden(
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            "Exact" if version.is_none() => {
                return Err(forbidden(
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            "Exact" => true,
            "NotOlderThan" => false,
            _ => return Err(forbidden("supported values: \"Exact\", \"NotOlderThan\"")),
        };
        match version {
            Some(version) if version > head => Err(Failure::not_yet(version, head)),
            Some(version) if exact && version < head => Err(Failure::expired(version, head)),
            _ => Ok(()),
        }
    }

    /// Checks the parameters of a watch.
    pub(super) fn check_watch(&self) -> Result<()> {
        let wrong = match (self.send_initial_events, self.resource_version_match.as_str()) {
            (false, "") | (true, "NotOlderThan") => return Ok(()),
            (false, _) => {
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            }
            (true, _) => "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        };
        Err(forbidden(wrong))
    }

    /// Whether the request is a dry run.
    pub(super) fn dry_run(&self) -> Result<bool> {
        match self.dry_run.as_deref() {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(unsupported("dryRun", other, "\"All\"")),
        }
    }

    pub(super) fn field_validation(&self) -> Result<FieldValidation> {
        match self.field_validation.as_str() {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => Err(unsupported("fieldValidation", other, "\"Ignore\", \"Strict\", \"Warn\"")),
        }
    }

    /// The manager of the written fields: as the request says, or else the program that sent the request.
    pub(super) fn manager(&self, headers: &HeaderMap) -> Result<String> {
        let name = &self.field_manager;
        if name.len() > MANAGER_MAX_BYTES || name.chars().any(char::is_control) {
            let why = format!(
                "Invalid value: {name:?}: should be at most {MANAGER_MAX_BYTES} printable characters"
            );
            return Err(Failure::wrong_field(
                "CreateOptions.meta.k8s.io",
                "",
                "FieldValueInvalid",
                "fieldManager",
                why,
            ));
        }
        if !name.is_empty() {
            return Ok(name.clone());
        }
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let program = agent.and_then(|agent| agent.split('/').next()).unwrap_or_default();
        let program = program.get(..MANAGER_MAX_BYTES).unwrap_or(program);
        Ok(if program.is_empty() { "unknown" } else { program }.to_owned())
    }

    /// Checks that server-side apply names its manager.
    pub(super) fn has_manager(&self) -> bool {
        !self.field_manager.is_empty()
    }
}

/// The failure for a version match that does not fit the other parameters.
fn forbidden(why: &str) -> Failure {
    let (field, why) = ("resourceVersionMatch", format!("Forbidden: {why}"));
    Failure::wrong_field(LIST_OPTIONS, "", "FieldValueForbidden", field, why)
}

fn unsupported(field: &str, value: &str, supported: &str) -> Failure {
    let why = format!("Unsupported value: {value:?}: supported values: {supported}");
    Failure::wrong_field(PATCH_OPTIONS, "", "FieldValueNotSupported", field, why)
}

/// As in Kubernetes, every value except `false` and `0` counts as true, the empty one included.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<bool, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.is_some_and(|text| !text.eq_ignore_ascii_case("false") && text != "0"))
}

/// Requirements on name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSelector(Vec<(Field, bool, Name)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
}

impl FieldSelector {
    /// Parses `metadata.name=x,metadata.namespace!=y`.
    ///
    /// # Errors
    /// The text is not a selector, or a long one.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        check_length("fieldSelector", text)?;
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let requirements: std::result::Result<_, _> = parts.map(Self::requirement).collect();
        requirements.map(Self)
    }

    fn requirement(text: &str) -> std::result::Result<(Field, bool, Name), String> {
        let (field, equal, value) = if let Some((field, value)) = text.split_once("!=") {
            (field, false, value)
        } else if let Some((field, value)) = text.split_once("==").or_else(|| text.split_once('='))
        {
            (field, true, value)
        } else {
            return Err(format!("invalid selector: {text:?}; can't understand {text:?}"));
        };
        let field = match field.trim() {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            other => return Err(format!("field label not supported: {other}")),
        };
        Ok((field, equal, value.trim().into()))
    }

    pub(super) fn matches(&self, namespace: &str, name: &str) -> bool {
        self.0.iter().all(|(field, equal, value)| {
            let actual = match field {
                Field::Name => name,
                Field::Namespace => namespace,
            };
            (*value == *actual) == *equal
        })
    }

    /// The one namespace that can match, if there is only one.
    pub(super) fn namespace(&self) -> Option<&Name> {
        let one = |(field, equal, value): &'_ &(Field, bool, Name)| {
            *field == Field::Namespace && *equal && !value.is_empty()
        };
        self.0.iter().find(one).map(|(_, _, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_name_and_namespace_are_selectable_fields() {
        let selector = FieldSelector::parse("metadata.name=q,metadata.namespace!=b").unwrap();
        assert!(
            selector.matches("a", "q")
                && !selector.matches("b", "q")
                && !selector.matches("a", "r")
        );
        assert_eq!(
            FieldSelector::parse("spec.hard=1").unwrap_err(),
            "field label not supported: spec.hard"
        );
        let one = FieldSelector::parse("metadata.namespace=a").unwrap();
        assert_eq!(one.namespace(), Some(&"a".into()));
    }
}
