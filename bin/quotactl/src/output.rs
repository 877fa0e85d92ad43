//! Where data goes: standard output, in the form that was asked for.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::{
    failure::{Failure, Outcome},
    table::Table,
};

/// The form in which data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for the eye.
    #[default]
    Table,
    /// More columns.
    Wide,
    /// As the API answers.
    Json,
    /// The same as YAML.
    Yaml,
    /// Kind and name only.
    Name,
}

impl Format {
    /// Whether it is one for programs.
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// Prints to standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The form asked for.
    pub(crate) format: Format,
    /// Whether tables begin with the names of their columns.
    pub(crate) headers: bool,
}

impl Output {
    /// Prints a line.
    pub(crate) fn line(&self, line: impl AsRef<str>) -> Outcome {
        let mut stdout = io::stdout().lock();
        let text = visible(line.as_ref(), &['\n', '\t']);
        written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
    }

    /// Prints a value as JSON or YAML.
    pub(crate) fn value(&self, value: &impl Serialize) -> Outcome {
        let text = match self.format {
            Format::Yaml => yaml(value)?,
            _ => serde_json::to_string_pretty(value)
                .map_err(|error| Failure::general(error.to_string()))?,
        };
        self.line(text.trim_end())
    }

    /// Prints a table; one without rows is nothing, as in kubectl.
    pub(crate) fn table(&self, table: &Table) -> Outcome {
        if table.is_empty() {
            return Ok(());
        }
        self.line(table.render(self.headers))
    }

    /// Prints what the API answered: as it is, or by name, or as the table that `table` makes.
    ///
    /// `names` gives kind and name of each item.
    pub(crate) fn answer(
        &self,
        answer: &Value,
        names: impl FnOnce() -> Vec<String>,
        table: impl FnOnce(bool) -> Table,
    ) -> Outcome {
        match self.format {
            Format::Json | Format::Yaml => self.value(answer),
            Format::Name => names()
                .iter()
                .try_for_each(|name| self.line(one_line(name))),
            Format::Table => self.table(&table(false)),
            Format::Wide => self.table(&table(true)),
        }
    }

    /// Whether the form is one for programs.
    pub(crate) const fn is_structured(&self) -> bool {
        self.format.is_structured()
    }

    /// Whether only names are wanted.
    pub(crate) const fn is_names(&self) -> bool {
        matches!(self.format, Format::Name)
    }
}

/// A value as YAML.
pub(crate) fn yaml(value: &impl Serialize) -> Outcome<String> {
    // By way of JSON's data model, so that both forms agree in every detail.
    let value = serde_json::to_value(value).map_err(|error| Failure::general(error.to_string()))?;
    serde_saphyr::to_string(&value).map_err(|error| Failure::general(error.to_string()))
}

/// Says something that is not data.
pub(crate) fn note(text: impl AsRef<str>) {
    // A closed standard error leaves nobody to tell.
    let text = visible(text.as_ref(), &['\n', '\t']);
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A text that may come from anybody, as one line: it cannot pass for more of them.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    visible(text, &[])
}

/// A text without control characters, which terminals obey, but for these. What it says instead is how JSON writes
/// them, so that JSON stays the same JSON.
fn visible<'a>(text: &'a str, but: &[char]) -> Cow<'a, str> {
    let hidden = |c: char| c.is_control() && !but.contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// What came of writing to standard output.
pub(crate) fn written(result: io::Result<()>) -> Outcome {
    result.map_err(|error| Failure::from(error).about("standard output"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_gets_through() {
        assert_eq!(
            one_line("a\u{1b}[31m\nb\u{9b}c\u{7f}"),
            "a\\u001b[31m\\u000ab\\u009bc\\u007f"
        );
        assert_eq!(visible("a\tb\n", &['\n', '\t']), "a\tb\n");
        assert_eq!(one_line("äöü"), "äöü");
        let value = serde_json::json!({"name": "\u{1b}\u{9b}\u{7f}\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = visible(&text, &['\n']);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn quantities_stay_strings_in_yaml() {
        let value = serde_json::json!({"cpu": "10", "memory": "1Gi", "pods": "1e3", "on": "true"});
        let text = yaml(&value).unwrap();
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, value, "{text}");
    }
}
