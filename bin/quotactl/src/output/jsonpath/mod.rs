//! JSONPath templates in kubectl's dialect: text with expressions in braces, as in
//! `{range .items[*]}{.metadata.name}{"\n"}{end}`.
//!
//! The dialect is older than RFC 9535 and differs from it: templates, `range`, escaped dots (`\.`), a path without `$`.
//! <https://kubernetes.io/docs/reference/kubectl/jsonpath/>. Unlike kubectl, `$` is the whole response also within a
//! `range`, and a template without braces is one path.

mod eval;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use parse::ParseError;

/// Text and expressions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

/// A path to values within a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    from: Origin,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Path(Path),
    /// The parts, repeated for each value of the path.
    Range(Path, Vec<Part>),
}

/// The origin of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// `$`: the whole response.
    Root,
    /// `@` or nothing: the current value.
    Current,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`, `['name', 'other']`.
    Fields(Vec<String>),
    /// `..name`: at any depth; without names, every value.
    Descend(Option<String>),
    /// `.*`, `[*]`: each member.
    Each,
    /// `[0]`, `[-1, 2]`.
    Indices(Vec<i64>),
    /// `[begin:end:step]`.
    Slice {
        begin: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    /// `[?(@.price > 10)]`.
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    /// The comparison; without one, a value passes if the path exists.
    compared: Option<(Comparison, Operand)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Path),
    Literal(Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Template {
    /// Parses a template.
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        parse::template(text)
    }

    /// The text for a value. Missing fields produce no text.
    pub(crate) fn render(&self, value: &Value) -> String {
        let mut text = String::new();
        eval::render(&self.parts, value, value, &mut text);
        text
    }
}

impl Path {
    /// Parses a path: `{.metadata.name}`, `.metadata.name` or `metadata.name`.
    pub(crate) fn parse(text: &str) -> Result<Self, ParseError> {
        parse::path(text)
    }

    /// The values at the path, in order.
    pub(crate) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        eval::find(self, value, value)
    }
}

/// A value as templates print it: strings as they are, everything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}
