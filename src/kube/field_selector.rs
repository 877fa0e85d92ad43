//! Field selectors: restrict a query by name and namespace.

use quota_semantics::Name;

use crate::label_selector::check_length;

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
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        check_length("fieldSelector", text)?;
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let requirements: Result<_, _> = parts.map(Self::requirement).collect();
        requirements.map(Self)
    }

    fn requirement(text: &str) -> Result<(Field, bool, Name), String> {
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
