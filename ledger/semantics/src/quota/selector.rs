//! Selectors over labels and annotations: of the namespaces of a group, and of their objects.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::OnceLock,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Name,
    field::{FieldError, FieldErrors, quoted},
    nullable::{is_default, nullable},
    syntax::{self, label_value},
};

/// The label with the name of a namespace, which Kubernetes sets on every namespace. Its value is known even for a
/// namespace that was never observed.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Most labels, requirements or annotations of a selector.
const CONDITIONS_MAX: usize = 100;

/// Most values of the requirements of a selector, all together.
const VALUES_MAX: usize = 10_000;

/// Labels or annotations: values by key.
pub type Labels = BTreeMap<Name, Name>;

/// Kubernetes' label selector. An empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub match_labels: Labels,
    /// Requirements that must all be met as well.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub match_expressions: Vec<Requirement>,
}

/// One requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(default, rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key.
    #[serde(deserialize_with = "nullable")]
    pub key: Name,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(deserialize_with = "nullable")]
    pub operator: Name,
    /// The values of `In` and `NotIn`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub values: Values,
}

/// A selector of namespaces. If both parts are given, both must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamespaceSelector")]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Over their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelSelector>,
    /// Annotations that must have these values.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub annotations: Labels,
}

/// The recorded value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    /// It is unknown whether the label exists.
    Unknown,
    /// The label does not exist.
    Absent,
    /// Its value.
    Value(&'a str),
}

impl<'a> From<Option<&'a Name>> for Label<'a> {
    fn from(value: Option<&'a Name>) -> Self {
        value.map_or(Self::Absent, |value| Self::Value(value))
    }
}

/// A selector that cannot be evaluated, with Kubernetes' message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BrokenSelector(String);

/// The conjunction of answers, some of which may be undecided.
fn all(answers: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for answer in answers {
        match answer {
            Some(true) => {}
            Some(false) => return Some(false),
            None => result = None,
        }
    }
    result
}

impl Requirement {
    fn holds(&self, label: Label<'_>) -> Option<bool> {
        let value = match label {
            Label::Unknown => return None,
            Label::Absent => None,
            Label::Value(value) => Some(value),
        };
        let listed = value.is_some_and(|value| self.values.has(value));
        Some(match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        })
    }

    fn check(&self) -> Result<(), BrokenSelector> {
        let Self { key, operator, values } = self;
        if !matches!(operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist") {
            let text = format!("{} is not a valid label selector operator", quoted(operator));
            return Err(BrokenSelector(text));
        }
        let wrong = syntax::qualified_name(key);
        let key_error =
            (!wrong.is_empty()).then(|| FieldError::invalid_text("key", key, wrong.join("; ")));
        let values = value_errors(key, operator, values);
        aggregate(key_error.into_iter().chain(values)).map_err(BrokenSelector)
    }
}

impl LabelSelector {
    /// Whether it has no conditions.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether labels match; `None`: that cannot be decided without a label that is unknown.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Label<'l>) -> Option<bool> {
        let equal = self.match_labels.iter().map(|(key, value)| match label(key) {
            Label::Unknown => None,
            label => Some(label == Label::Value(value)),
        });
        let requirements = self.match_expressions.iter();
        all(equal.chain(requirements.map(|requirement| requirement.holds(label(&requirement.key)))))
    }

    /// The keys of its conditions.
    pub fn keys(&self) -> impl Iterator<Item = &Name> {
        let expressions = self.match_expressions.iter().map(|requirement| &requirement.key);
        self.match_labels.keys().chain(expressions)
    }

    /// Kubernetes' conversion of a selector: the first requirement that cannot be evaluated.
    ///
    /// # Errors
    /// That requirement's errors.
    pub fn check(&self) -> Result<(), BrokenSelector> {
        let equal = self.match_labels.iter().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: "In".into(),
            values: vec![value.clone()].into(),
        });
        equal
            .chain(self.match_expressions.iter().cloned())
            .try_for_each(|requirement| requirement.check())
    }

    /// The error of a selector that is too large: it is evaluated for every namespace.
    fn excess(&self, field: &str) -> Option<FieldError> {
        let requirements = &self.match_expressions;
        let values = requirements.iter().map(|requirement| requirement.values.len());
        let bounds = [
            ("matchLabels", self.match_labels.len(), CONDITIONS_MAX),
            ("matchExpressions", requirements.len(), CONDITIONS_MAX),
            ("matchExpressions[*].values", values.sum(), VALUES_MAX),
        ];
        let mut bounds = bounds.into_iter();
        let (part, items, most) = bounds.find(|(_, items, most)| items > most)?;
        Some(FieldError::too_many(format!("{field}.{part}"), items, most))
    }

    /// The errors of a selector in a manifest.
    pub(crate) fn validate(&self, field: &str) -> Vec<FieldError> {
        if let Some(excess) = self.excess(field) {
            return vec![excess];
        }
        let mut errors = FieldErrors::default();
        let labels = format!("{field}.matchLabels");
        errors.extend(syntax::labels(&labels, &self.match_labels));
        for (place, requirement) in self.match_expressions.iter().enumerate() {
            requirement.validate(&format!("{field}.matchExpressions[{place}]"), &mut errors);
        }
        errors.into()
    }
}

impl Requirement {
    fn validate(&self, field: &str, errors: &mut FieldErrors) {
        match self.operator.as_str() {
            "In" | "NotIn" if self.values.is_empty() => errors.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !self.values.is_empty() => {
                errors.push(FieldError::forbidden(
                    format!("{field}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid(
                format!("{field}.operator"),
                &self.operator,
                "not a valid selector operator",
            )),
        }
        let wrong = syntax::qualified_name(&self.key);
        errors.extend(syntax::texts(&format!("{field}.key"), &self.key, wrong));
        errors.extend(self.values.iter().enumerate().flat_map(|(place, value)| {
            let wrong = syntax::label_value(value);
            syntax::texts(&format!("{field}.values[{place}]"), value, wrong)
        }));
    }
}

impl Selector {
    /// Whether it has no conditions. It then selects no namespace.
    pub fn is_empty(&self) -> bool {
        self.labels.as_ref().is_none_or(LabelSelector::is_empty) && self.annotations.is_empty()
    }

    /// Whether a namespace matches, given its labels and annotations if they are recorded; `None`: that cannot be
    /// decided without them. A selector without conditions matches every namespace.
    pub fn matches(&self, namespace: &str, recorded: Option<(&Labels, &Labels)>) -> Option<bool> {
        let label = |key: &str| match recorded {
            _ if key == NAME_LABEL => Label::Value(namespace),
            None => Label::Unknown,
            Some((labels, _)) => Label::from(labels.get(key)),
        };
        let labels = match &self.labels {
            None => Some(true),
            Some(selector) => selector.matches(label),
        };
        let annotations = self.annotations.iter().map(|(key, value)| {
            recorded.map(|(_, annotations)| annotations.get(key) == Some(value))
        });
        all(std::iter::once(labels).chain(annotations))
    }

    /// The error of a selector that is too large.
    pub fn excess(&self, field: &str) -> Option<FieldError> {
        let labels = self.labels.as_ref();
        let labels = labels.and_then(|labels| labels.excess(&format!("{field}.labels")));
        labels.or_else(|| {
            let annotations = self.annotations.len();
            let field = format!("{field}.annotations");
            (annotations > CONDITIONS_MAX)
                .then(|| FieldError::too_many(field, annotations, CONDITIONS_MAX))
        })
    }

    /// As [`LabelSelector::check`].
    ///
    /// # Errors
    /// The errors of the first requirement that cannot be evaluated.
    pub fn check(&self) -> Result<(), BrokenSelector> {
        self.labels.iter().try_for_each(LabelSelector::check)
    }
}

/// Most invalid values that are named: a selector is checked with each object.
const ERRORS_MAX: usize = 64;

/// The errors of the values of a requirement on `key`.
pub(crate) fn value_errors(key: &str, operator: &str, values: &[Name]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid("values", &(), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "values set must be empty for exists and does not exist";
            errors.push(FieldError::invalid("values", &values, detail));
        }
        _ => {}
    }
    for (place, value) in values.iter().enumerate() {
        if errors.len() == ERRORS_MAX {
            break;
        }
        let wrong = label_value(value);
        if !wrong.is_empty() {
            let field = format!("values[{place}][{key}]");
            errors.push(FieldError::invalid_text(field, value, wrong.join("; ")));
        }
    }
    errors
}

/// All errors as one text, as Go's aggregate prints them.
pub(crate) fn aggregate(errors: impl IntoIterator<Item = FieldError>) -> Result<(), String> {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => Ok(()),
        1 => Err(texts.remove(0)),
        _ => Err(format!("[{}]", texts.join(", "))),
    }
}

/// So many values are searched one by one.
const FEW: usize = 8;

/// Values in the order of their manifest. A selector may list thousands and is evaluated for every namespace, so they
/// are also sorted, when the first of them is searched.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, description = "")]
#[serde(transparent)]
pub struct Values {
    list: Vec<Name>,
    #[serde(skip)]
    sorted: OnceLock<Box<[Name]>>,
}

impl Values {
    pub(crate) fn has(&self, value: &str) -> bool {
        if self.list.len() <= FEW {
            return self.list.iter().any(|other| **other == *value);
        }
        let sort = || {
            let mut sorted = self.list.clone();
            sorted.sort_unstable();
            sorted.into()
        };
        let sorted = self.sorted.get_or_init(sort);
        sorted.binary_search_by(|other| (**other).cmp(value)).is_ok()
    }
}

impl From<Vec<Name>> for Values {
    fn from(list: Vec<Name>) -> Self {
        Self { list, sorted: OnceLock::new() }
    }
}

impl FromIterator<Name> for Values {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        Self::from(Vec::from_iter(names))
    }
}

impl Deref for Values {
    type Target = Vec<Name>;

    fn deref(&self) -> &Vec<Name> {
        &self.list
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Values {}

impl Hash for Values {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: &str) -> Selector {
        serde_json::from_str(json).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let name = |&(key, value): &(&str, &str)| (key.into(), value.into());
        pairs.iter().map(name).collect()
    }

    #[test]
    fn a_list_of_namespaces_is_decided_by_their_names() {
        let listed = selector(
            r#"{"labels":{"matchExpressions":[
                {"key":"kubernetes.io/metadata.name","operator":"In","values":["a","b"]}]}}"#,
        );
        assert_eq!(listed.matches("a", None), Some(true));
        assert_eq!(listed.matches("c", None), Some(false));
        let all = selector(
            r#"{"labels":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"Exists"}]}}"#,
        );
        assert_eq!(all.matches("c", None), Some(true));
    }

    #[test]
    fn one_of_very_many_values_is_found_and_their_order_is_kept() {
        let values: Values = (0..10_000).rev().map(|it| format!("v{it}").into()).collect();
        let requirement = |operator: &str| Requirement {
            key: "team".into(),
            operator: operator.into(),
            values: values.clone(),
        };
        let (within, without) = (requirement("In"), requirement("NotIn"));
        for (value, listed) in [("v0", true), ("v9999", true), ("v10000", false), ("", false)] {
            assert_eq!(within.holds(Label::Value(value)), Some(listed), "{value}");
            assert_eq!(without.holds(Label::Value(value)), Some(!listed), "{value}");
        }
        let text = serde_json::to_string(&within).unwrap();
        assert!(text.contains(r#""values":["v9999","v9998","#));
        assert_eq!(serde_json::from_str::<Requirement>(&text).unwrap(), within);
    }

    #[test]
    fn a_selector_has_at_most_so_many_conditions_and_values() {
        let of = |requirements: usize, values: usize| Selector {
            labels: Some(LabelSelector {
                match_expressions: vec![
                    Requirement {
                        key: "team".into(),
                        operator: "NotIn".into(),
                        values: vec![Name::from("a"); values].into(),
                    };
                    requirements
                ],
                ..LabelSelector::default()
            }),
            ..Selector::default()
        };
        let excess = |requirements, values| {
            let error = of(requirements, values).excess("spec.selector")?;
            Some(error.field.to_string())
        };
        assert_eq!(excess(100, 100), None);
        let field = "spec.selector.labels.matchExpressions";
        assert_eq!(excess(101, 1).unwrap(), field);
        assert_eq!(excess(2, 5001).unwrap(), format!("{field}[*].values"));
        let labels = of(101, 1).labels.unwrap();
        assert_eq!(labels.validate("objects").len(), 1);
        let annotated = Selector {
            annotations: (0..101).map(|it| (format!("a{it}").into(), "".into())).collect(),
            ..Selector::default()
        };
        assert!(annotated.excess("spec.selector").is_some());
    }

    #[test]
    fn what_is_not_known_decides_nothing_unless_something_known_does() {
        let both = selector(
            r#"{"labels":{"matchLabels":{"team":"a","kubernetes.io/metadata.name":"n"}},"annotations":{"who":"x"}}"#,
        );
        assert_eq!(both.matches("n", None), None);
        assert_eq!(both.matches("other", None), Some(false));
        let none = labels(&[]);
        let (team, who) = (labels(&[("team", "a")]), labels(&[("who", "x")]));
        assert_eq!(both.matches("n", Some((&team, &who))), Some(true));
        assert_eq!(both.matches("n", Some((&team, &none))), Some(false));
        assert_eq!(both.matches("n", Some((&none, &who))), Some(false));
    }
}
