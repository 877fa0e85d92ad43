//! The output of data: standard output, in the form of `-o`.

use std::{
    cell::{Cell, RefCell},
    cmp::Ordering,
    env, fs,
    io::{self, IsTerminal as _, Read, Write},
    path::Path as FilePath,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering as AtomicOrdering},
    time::Duration,
};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quota_semantics::quantity::Quantity;
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use serde_json::Value;

use crate::{
    failure::{Failure, Outcome},
    figures,
    table::{Style, Table, misleads, one_line, visible},
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
            figures::show_exact();
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
        let mut stdout = io::stdout().lock();
        written(writeln!(stdout, "{text}").and_then(|()| stdout.flush()))
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

/// The path of the field of `--sort-by`: keys separated by dots, such as `.metadata.name`. A dot inside a key is
/// written `\.`, as in kubectl: `.spec.hard.requests\.cpu`.
#[derive(Clone, Debug)]
pub(crate) struct Path(Vec<String>);

impl Path {
    /// Parses a path. Braces around it are ignored, as kubectl has them.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        let inner = inner.unwrap_or(text);
        let mut keys = vec![String::new()];
        let mut chars = inner.strip_prefix('.').unwrap_or(inner).chars();
        while let Some(c) = chars.next() {
            match (c, keys.last_mut()) {
                ('.', _) => keys.push(String::new()),
                ('\\', Some(key)) => key.extend(chars.next()),
                (c, Some(key)) => key.push(c),
                (_, None) => {}
            }
        }
        match keys.iter().any(String::is_empty) {
            true => Err("not a path such as .metadata.name".to_owned()),
            false => Ok(Self(keys)),
        }
    }

    fn find<'a>(&self, item: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(item, |value, key| value.get(key))
    }
}

/// Sorts the items of a list by the value at the path: quantities and numbers as such, other values as text.
/// Items without the field come last; the sort is stable.
pub(crate) fn sort(answer: &mut Value, path: &Path) -> Outcome {
    let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    let key = |item: &Value| path.find(item).cloned();
    if !items.is_empty() && items.iter().all(|item| key(item).is_none()) {
        return Err(Failure::usage("--sort-by: no item has this field")
            .hint("-o json shows the fields that there are"));
    }
    items.sort_by(|left, right| match (key(left), key(right)) {
        (Some(left), Some(right)) => compare(&left, &right),
        (left, right) => left.is_none().cmp(&right.is_none()),
    });
    Ok(())
}

fn compare(left: &Value, right: &Value) -> Ordering {
    match (quantity(left), quantity(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        // What is a quantity comes before what is not: an order has to be one also for a mixture.
        (left, right) => right.is_some().cmp(&left.is_some()),
    }
    .then_with(|| text(left).cmp(&text(right)))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

// The progress of long operations: on standard error, if that is a terminal.

/// The interval at which a count without a total is drawn, in milliseconds.
const TICK_MILLISECONDS: u64 = 200;

/// Work that is done before then shows no bar.
const QUICK: Duration = Duration::from_secs(1);

/// A bar, or a count if the total is unknown.
pub(crate) struct Progress {
    bar: ProgressBar,
    before: u64,
    /// Whether the bar is not drawn yet.
    is_hidden: AtomicBool,
}

impl Progress {
    /// A bar over the entries `first..=last`.
    pub(crate) fn over(what: &'static str, first: u64, last: u64) -> Self {
        let before = first.saturating_sub(1);
        let template = "{msg} {wide_bar} {human_pos}/{human_len} entries, {per_sec}, {eta} left";
        let bar = bar(what, template);
        bar.set_length(last.saturating_sub(before));
        Self { bar, before, is_hidden: AtomicBool::new(false) }
    }

    /// A bar over the entries `first..=last`, which is drawn only if that takes longer than a second.
    pub(crate) fn slowly_over(what: &'static str, first: u64, last: u64) -> Self {
        let progress = Self::over(what, first, last);
        progress.bar.set_draw_target(ProgressDrawTarget::hidden());
        progress.is_hidden.store(true, AtomicOrdering::Relaxed);
        progress
    }

    /// A bar over bytes; [`Progress::set`] sets the total.
    pub(crate) fn of_bytes(what: &'static str) -> Self {
        let template = "{msg} {wide_bar} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
        Self { bar: bar(what, template), before: 0, is_hidden: AtomicBool::new(false) }
    }

    /// A bar over the bytes of a file; of anything else (a pipe), a count.
    pub(crate) fn over_file(what: &'static str, file: &FilePath) -> Self {
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file);
        match metadata {
            Some(metadata) => {
                let progress = Self::of_bytes(what);
                progress.bar.set_length(metadata.len());
                progress
            }
            None => Self::counting_bytes(what),
        }
    }

    /// A count of bytes with an unknown total.
    pub(crate) fn counting_bytes(what: &'static str) -> Self {
        let bar = bar(what, "{msg} {spinner} {bytes}, {bytes_per_sec}");
        bar.enable_steady_tick(Duration::from_millis(TICK_MILLISECONDS));
        Self { bar, before: 0, is_hidden: AtomicBool::new(false) }
    }

    /// The same input; bytes that are read from it count as progress.
    pub(crate) fn read<R: Read>(&self, input: R) -> impl Read + use<R> {
        self.bar.wrap_read(input)
    }

    /// Sets the progress to `done` of `total`.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Sets the progress: all entries up to this one have been read.
    pub(crate) fn at(&self, sequence: u64) {
        // Asking the clock for each entry would cost more than the entry.
        if sequence.is_multiple_of(1024)
            && self.is_hidden.load(AtomicOrdering::Relaxed)
            && self.bar.elapsed() > QUICK
        {
            self.is_hidden.store(false, AtomicOrdering::Relaxed);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(sequence.saturating_sub(self.before));
    }

    /// Prints a note to standard error, above the bar.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        self.bar.suspend(|| note(text));
    }
}

fn bar(what: &'static str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    fn sorted(values: Value) -> Vec<Value> {
        let items: Vec<_> = values.as_array().unwrap().iter().map(|v| json!({"v": v})).collect();
        let mut answer = json!({ "items": items });
        answer["items"].as_array_mut().unwrap().push(json!({}));
        sort(&mut answer, &Path::parse(".v").unwrap()).unwrap();
        let items = answer["items"].as_array().unwrap();
        assert_eq!(items.last(), Some(&json!({})));
        items.iter().filter_map(|item| item.get("v").cloned()).collect()
    }

    #[test]
    fn dots_in_keys_are_escaped() {
        let item = json!({"hard": {"requests.cpu": "4"}});
        for path in [r".hard.requests\.cpu", r"{.hard.requests\.cpu}", r"hard.requests\.cpu"] {
            let found = Path::parse(path).unwrap().find(&item).cloned();
            assert_eq!(found, Some(json!("4")), "{path}");
        }
        for wrong in ["", ".", ".a..b", "a."] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_are_ordered_as_amounts_and_names_as_names() {
        assert_eq!(sorted(json!(["10", "2", "500m", "1Ki"])), ["500m", "2", "10", "1Ki"]);
        assert_eq!(sorted(json!([10, 2.5, "3"])), [json!(2.5), json!("3"), json!(10)]);
        assert_eq!(sorted(json!(["b", "a10", "a"])), ["a", "a10", "b"]);
        assert_eq!(
            sorted(json!(["b", "7", "a", 1])),
            [json!(1), json!("7"), json!("a"), json!("b")]
        );
        let mut none = json!({"items": [{"a": 1}]});
        assert!(sort(&mut none, &Path::parse(".b").unwrap()).is_err());
    }
}
