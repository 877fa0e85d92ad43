//! The output of data: standard output, in the form of `-o`.

mod sort;

pub(crate) use self::sort::{Path, sort};

use std::{
    cell::{Cell, RefCell},
    env,
    io::{self, IsTerminal as _, Write},
    rc::Rc,
};

use clap::ValueEnum;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::Value;

use super::{
    failure::{Failure, Outcome},
    table::{Style, Table},
    terminal_text::{misleads, one_line, visible},
    unit,
};

/// The printer of data on standard output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// The form of `-o`.
    pub(crate) format: Format,
    /// Whether tables begin with the names of their columns.
    pub(crate) headers: bool,
    /// The width of the terminal that tables have to fit in; none if standard output is no terminal.
    width: Option<u16>,
    /// Whether cells have colours.
    color: bool,
    /// The column widths of a continued table, with which further rows line up.
    columns: Option<Rc<RefCell<Vec<u16>>>>,
    /// Whether a YAML document was printed, so that a separator precedes the next one.
    begun: Rc<Cell<bool>>,
}

impl Output {
    /// Output in a form. Tables fit the terminal, if standard output is one; programs get each row as one line.
    pub(crate) fn new(format: Format, headers: bool, color: Color) -> Self {
        if matches!(format, Format::Csv) {
            unit::show_exact();
        }
        Self {
            format,
            headers,
            width: terminal_width(),
            color: color.is_on(),
            columns: None,
            begun: Rc::default(),
        }
    }

    /// The same output for a continued table: the rows of all parts line up.
    pub(crate) fn continued(&self) -> Self {
        Self { columns: Some(Rc::default()), ..self.clone() }
    }

    /// The same output without the names of columns.
    pub(crate) fn without_headers(&self) -> Self {
        Self { headers: false, ..self.clone() }
    }

    /// Prints a line.
    pub(crate) fn line(&self, line: impl AsRef<str>) -> Outcome {
        let text = visible(line.as_ref(), &['\n', '\t']);
        self.raw(&format!("{text}\n"))
    }

    /// Prints text that was made for programs.
    pub(crate) fn raw(&self, text: &str) -> Outcome {
        let mut stdout = io::stdout().lock();
        written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Prints a value as JSON or YAML.
    pub(crate) fn value(&self, value: &impl Serialize) -> Outcome {
        let text = match &self.format {
            Format::Yaml => {
                let begin = if self.begun.replace(true) { "---\n" } else { "" };
                format!("{begin}{}", yaml(value)?)
            }
            _ => pretty(value)?,
        };
        self.line(text.trim_end())
    }

    /// Prints a table; nothing for a table without rows, as in kubectl.
    pub(crate) fn table(&self, table: &Table) -> Outcome {
        if table.is_empty() {
            return Ok(());
        }
        if matches!(self.format, Format::Csv) {
            return self.raw(&table.to_csv(self.headers));
        }
        let mut least = self.columns.as_deref().map(RefCell::borrow_mut);
        let text = table.render_in(Style {
            headers: self.headers,
            // `-o wide` requests all columns.
            width: self.width.filter(|_| !self.is_wide()),
            color: self.color,
            least: least.as_deref_mut(),
        });
        // The cells hold no control characters; the colours are some.
        self.raw(&format!("{text}\n"))
    }

    /// Prints a table below its title, after an empty line.
    pub(crate) fn section(&self, title: &str, table: &Table) -> Outcome {
        self.line(format!("\n{title}:"))?;
        match table.is_empty() {
            true => self.line("<none>"),
            false => self.table(table),
        }
    }

    /// Prints a response of the API: as received, by name, or as the table that `table` makes.
    ///
    /// `names` returns the kind and name of each item.
    pub(crate) fn answer(
        &self,
        answer: &impl Serialize,
        names: impl FnOnce() -> Vec<String>,
        table: impl FnOnce(bool) -> Table,
    ) -> Outcome {
        match self.format {
            Format::Json | Format::Yaml => self.value(answer),
            Format::Name => names().iter().try_for_each(|name| self.line(one_line(name))),
            Format::Table => self.table(&table(false)),
            Format::Wide | Format::Csv => self.table(&table(true)),
        }
    }

    /// Whether the response itself is printed, not a view of it.
    pub(crate) const fn is_structured(&self) -> bool {
        self.format.is_structured()
    }

    /// Whether tables have all columns and rows.
    pub(crate) const fn is_wide(&self) -> bool {
        matches!(self.format, Format::Wide)
    }

    /// Whether data is printed as tables for people.
    pub(crate) const fn is_table(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }
}

/// A value as free JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Outcome<Value> {
    serde_json::to_value(value).map_err(|error| Failure::general(error.to_string()))
}

/// A value as YAML.
pub(crate) fn yaml(value: &impl Serialize) -> Outcome<String> {
    // By way of JSON's data model, so that both forms agree in every detail.
    let value = to_json(value)?;
    let text = serde_saphyr::to_string(&value);
    let text = text.map_err(|error| Failure::general(error.to_string()))?;
    match text.contains(|c| c != '\n' && misleads(c)) {
        // As JSON, which is YAML too, it is the same with these characters escaped.
        true => pretty(&value),
        false => Ok(text),
    }
}

fn pretty(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::general(error.to_string()))
}

/// Prints a note to standard error.
pub(crate) fn note(text: impl AsRef<str>) {
    // A closed standard error leaves no reader.
    let text = visible(text.as_ref(), &['\n', '\t']);
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The outcome of writing to standard output.
pub(crate) fn written(result: io::Result<()>) -> Outcome {
    result.map_err(|error| Failure::from(error).about("standard output"))
}

/// The form in which data is printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// The API's response as JSON.
    Json,
    /// The API's response as YAML.
    Yaml,
    /// The kind and name of each item.
    Name,
    /// A table with all columns and exact amounts, as comma-separated values (RFC 4180).
    Csv,
}

/// The forms, for help and completion.
pub(crate) const FORMS: &str = "table|wide|name|csv|json|yaml";

impl Format {
    /// Parses the value of `-o`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            "csv" => Self::Csv,
            _ => return Err(format!("not one of {FORMS}")),
        })
    }

    /// Returns true if the response itself is printed, not a view of it.
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}

/// The use of colours in tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether standard output has colours. <https://no-color.org>: NO_COLOR counts if it is not empty.
    fn is_on(self) -> bool {
        let refused = || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Self::Auto => io::stdout().is_terminal() && !refused() && !dumb(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// The width of the terminal; none if standard output is no terminal, or its width is unknown.
fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let width = tcgetwinsize(stdout).ok()?.ws_col;
    (width > 0).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_misleads_is_escaped_and_stays_the_same_data() {
        let direction = "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}";
        let invisible = "\u{ad}\u{200b}\u{200d}\u{2060}\u{feff}\u{e0041}";
        for c in "\u{1b}".chars().chain(direction.chars()).chain(invisible.chars()) {
            let value = serde_json::json!({"name": format!("a{c}b"), "list": [c.to_string()]});
            let text = yaml(&value).unwrap();
            let shown = visible(&text, &['\n']);
            assert!(!shown.contains(c), "{shown}");
            assert_eq!(serde_saphyr::from_str::<Value>(&shown).unwrap(), value, "{shown}");
        }
        assert!(!"aä ẞ漢🦀".contains(misleads));
    }

    #[test]
    fn quantities_stay_strings_in_yaml() {
        let value = serde_json::json!({"cpu": "10", "memory": "1Gi", "pods": "1e3", "on": "true"});
        let text = yaml(&value).unwrap();
        let back: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, value, "{text}");
    }
}
