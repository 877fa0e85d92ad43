//! Kubernetes' label selectors in the notation of a query: `a=b,c in (d, e)`.

use std::collections::BTreeMap;

use quota_semantics::syntax;

use crate::fairness::BYTES_PER_AMOUNT;

/// Most requirements of a selector, and most values in its sets.
const REQUIREMENTS_MAX: usize = 100;
const VALUES_MAX: usize = 1000;

/// Requirements that labels must all meet; without requirements every object matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
    /// The length of the text.
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f, g),h notin (i),j,!k,l>1,m<2`.
    ///
    /// # Errors
    /// The text is not a selector, or a long one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        check_length("labelSelector", text)?;
        let parts = split(text)?.into_iter();
        let requirements: Result<_, _> = parts.map(Requirement::parse).collect();
        Ok(Self { requirements: requirements?, bytes: text.len() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// How many more amounts an object costs because it is compared with the selector.
    pub(crate) fn weight(&self) -> usize {
        self.bytes / BYTES_PER_AMOUNT
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("unable to parse requirement: {text:?}: {why}");
        let (key, operator) = if let Some(key) = text.strip_prefix('!') {
            (key.trim(), Operator::DoesNotExist)
        } else if let Some((key, set)) = text.split_once('(') {
            let values = set.strip_suffix(')').ok_or_else(|| wrong("found no ')'"))?;
            let values = values.split(',').map(|value| value.trim().to_owned()).collect();
            let (key, operator) = key.trim().rsplit_once(char::is_whitespace).unwrap_or_default();
            match operator {
                "in" => (key.trim(), Operator::In(values)),
                "notin" => (key.trim(), Operator::NotIn(values)),
                _ => return Err(wrong("expected: in, notin")),
            }
        } else if let Some((key, value)) = text.split_once("!=") {
            (key.trim(), Operator::NotIn(vec![value.trim().to_owned()]))
        } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
            (key.trim(), Operator::In(vec![value.trim().to_owned()]))
        } else if let Some((key, value)) = text.split_once('>') {
            let bound = value.trim().parse().map_err(|_| wrong("the value must be an integer"))?;
            (key.trim(), Operator::Greater(bound))
        } else if let Some((key, value)) = text.split_once('<') {
            let bound = value.trim().parse().map_err(|_| wrong("the value must be an integer"))?;
            (key.trim(), Operator::Less(bound))
        } else {
            (text, Operator::Exists)
        };
        let requirement = Self { key: key.to_owned(), operator };
        match requirement.complaint() {
            Some(complaint) => Err(wrong(&complaint)),
            None => Ok(requirement),
        }
    }

    /// What is wrong with the key or a value, if anything.
    fn complaint(&self) -> Option<String> {
        let wrong = syntax::qualified_name(&self.key).into_iter();
        let wrong = wrong.map(|why| format!("key: {why}")).next();
        let (Operator::In(values) | Operator::NotIn(values)) = &self.operator else {
            return wrong;
        };
        let of = |value: &String| {
            let wrong = syntax::label_value(value).into_iter();
            wrong.map(|why| format!("value {value:?}: {why}")).next()
        };
        wrong.or_else(|| values.iter().find_map(of))
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Greater(bound) => number().is_some_and(|number| number > *bound),
            Operator::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// Checks that a selector of labels or fields has few requirements and values, since each object is compared with all of
/// them.
///
/// # Errors
/// It has many.
pub(crate) fn check_length(name: &str, selector: &str) -> Result<(), String> {
    let (mut requirements, mut values, mut is_inside) = (1, 1, false);
    for byte in selector.bytes() {
        match byte {
            b'(' => is_inside = true,
            b')' => is_inside = false,
            b',' if is_inside => values += 1,
            b',' => requirements += 1,
            _ => {}
        }
    }
    let bounds =
        [(requirements, REQUIREMENTS_MAX, "requirements"), (values, VALUES_MAX, "values in sets")];
    match bounds.into_iter().find(|(count, most, _)| count > most) {
        None => Ok(()),
        Some((count, most, what)) => {
            Err(format!("{name} has {count} {what}: at most {most} are allowed"))
        }
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (place, character) in text.char_indices() {
        match character {
            '(' if !inside => inside = true,
            ')' if inside => inside = false,
            '(' | ')' => {
                return Err(format!("unable to parse requirement: found {character:?} at {place}"));
            }
            ',' if !inside => {
                parts.push(text[begin..place].trim());
                begin = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_selector_is_refused_and_one_of_many_bytes_has_a_weight() {
        let labels = |count| vec!["!a"; count].join(",");
        let values = |count| format!("a notin ({})", vec!["x"; count].join(","));
        for (text, wrong) in [
            (labels(101), "labelSelector has 101 requirements: at most 100 are allowed"),
            (values(1001), "labelSelector has 1001 values in sets: at most 1000 are allowed"),
        ] {
            assert_eq!(LabelSelector::parse(&text).unwrap_err(), wrong);
        }
        let weight = |text: &str| LabelSelector::parse(text).unwrap().weight();
        assert_eq!(weight(&labels(100)), 299 / BYTES_PER_AMOUNT);
        assert!(weight(&values(1000)) > 30);
        assert_eq!(weight("a=b"), 0);
    }

    #[test]
    fn labels_are_selected_as_kubernetes_selects_them() {
        let labels =
            BTreeMap::from([("a".to_owned(), "b".to_owned()), ("n".to_owned(), "3".to_owned())]);
        let matches = |text: &str| LabelSelector::parse(text).unwrap().matches(&labels);
        for text in [
            "",
            "a",
            "a=b",
            "a == b",
            "a!=c",
            "x!=c",
            "!x",
            "a in (b, c)",
            "a notin (c)",
            "n>2",
            "n<4",
            "x notin (b)",
            "a in (b,c),n=3, !x",
        ] {
            assert!(matches(text), "{text}");
        }
        for text in [
            "x",
            "a=c",
            "a!=b",
            "!a",
            "a in (c)",
            "a notin (b,c)",
            "n>3",
            "a<4",
            "a=b,x",
            "a in ()",
        ] {
            assert!(!matches(text), "{text}");
        }
        for text in [
            "a in b",
            "a in (b",
            "=b",
            "a b",
            "n>x",
            "a like (b)",
            "((",
            "!",
            ",",
            "a,",
            "a,,b",
            "a in (b c)",
            "a notin (b c)",
            "a!=b c",
            "a=b=c",
            "-a",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
