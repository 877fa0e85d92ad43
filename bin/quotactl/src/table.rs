//! Tables as kubectl prints them: no lines, columns three blanks apart, and no cell broken. The only place that handles
//! widths and colours. And what any cell may need: ages, and escapes.

use std::borrow::Cow;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width,
};
pub(crate) use quota_client::table::span;
use quota_semantics::{Span, Timestamp, csv};
use unicode_width::UnicodeWidthStr as _;

/// The number of blanks between two columns.
const GAP: u16 = 3;

/// The number of blanks in a table that would not fit otherwise.
const NARROW_GAP: u16 = 2;

/// The text of a cell: in full, and in short if the table would not fit otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    whole: String,
    short: Option<String>,
}

impl Text {
    /// A text that has a shorter form.
    pub(crate) fn with_short(whole: String, short: Option<String>) -> Self {
        Self { whole, short }
    }

    /// The text in full.
    pub(crate) fn whole(&self) -> &str {
        &self.whole
    }

    /// The shorter form, if there is one.
    pub(crate) fn short(&self) -> Option<&str> {
        self.short.as_deref()
    }
}

impl From<String> for Text {
    fn from(whole: String) -> Self {
        Self { whole, short: None }
    }
}

impl From<&str> for Text {
    fn from(whole: &str) -> Self {
        whole.to_owned().into()
    }
}

/// The style in which a table is printed.
#[derive(Debug, Default)]
pub(crate) struct Style<'a> {
    /// Whether the table begins with the names of its columns.
    pub(crate) headers: bool,
    /// The width that the table should fit in; none: unbounded. A table that does not fit has short forms of its cells,
    /// then fewer columns. If that is not enough, lines are longer.
    pub(crate) width: Option<u16>,
    /// Whether cells have colours.
    pub(crate) color: bool,
    /// The minimum widths of the columns; printing sets them to the used widths.
    pub(crate) least: Option<&'a mut Vec<u16>>,
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Text>>,
}

#[derive(Clone, Debug)]
struct Column {
    title: Cow<'static, str>,
    numbers: bool,
    /// Whether it is left out of a table that would not fit otherwise.
    optional: bool,
}

/// A column of a table of items: whether it is shown, its title, and the cell of an item.
pub(crate) type ColumnOf<'a, T> = (bool, &'static str, &'a dyn Fn(&T) -> String);

impl Table {
    /// A table with a row for each item. Titles are as for [`Table::new`].
    pub(crate) fn of<T>(items: &[T], columns: &[ColumnOf<'_, T>]) -> Self {
        let shown = || columns.iter().filter(|(is_shown, ..)| *is_shown);
        let titles: Vec<_> = shown().map(|(_, title, _)| *title).collect();
        let mut table = Self::new(&titles);
        for item in items {
            table.row(shown().map(|(.., cell)| cell(item)));
        }
        table
    }

    /// A table with these columns. Columns whose title begins with `>` contain numbers, and are right-aligned. Before that,
    /// `?` marks a column that is left out of a table that would not fit otherwise, the last one first.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| Column {
            title: title.trim_start_matches(['?', '>']).into(),
            numbers: title.trim_start_matches('?').starts_with('>'),
            optional: title.starts_with('?'),
        };
        Self { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    /// As [`Table::new`], with titles that are made.
    pub(crate) fn with_titles(titles: Vec<String>) -> Self {
        let column = |title: String| Column {
            numbers: title.starts_with('>'),
            title: to_cell(title.trim_start_matches('>')).into(),
            optional: false,
        };
        Self { columns: titles.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// A table with columns that the user named.
    pub(crate) fn titled(titles: impl IntoIterator<Item = String>) -> Self {
        let column = |title: String| Column {
            title: to_cell(&title).into(),
            numbers: false,
            optional: false,
        };
        Self { columns: titles.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row: a text for each column.
    pub(crate) fn row<T: Into<Text>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let clean = |cell: T| {
            let Text { whole, short } = cell.into();
            Text::with_short(to_cell(&whole), short.as_deref().map(to_cell))
        };
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as comma-separated values (RFC 4180). Columns without a name, which are drawings, are left out.
    pub(crate) fn to_csv(&self, headers: bool) -> String {
        let named = |at: &usize| !self.columns[*at].title.is_empty();
        let columns: Vec<usize> = (0..self.columns.len()).filter(named).collect();
        let mut text = String::new();
        if headers {
            let titles = columns.iter().map(|&at| self.columns[at].title.to_string());
            csv::line(&mut text, titles);
        }
        for row in &self.rows {
            let cells = columns.iter().filter_map(|&at| row.get(at));
            let cells = cells.map(|cell| match cell.whole() {
                "<none>" => String::new(),
                text => text.to_owned(),
            });
            csv::line(&mut text, cells);
        }
        text
    }

    /// The table as text, a line for each row, without a line end at its end.
    pub(crate) fn render(&self, headers: bool) -> String {
        self.render_in(Style { headers, ..Style::default() })
    }

    /// The table as text, without a line end at its end.
    pub(crate) fn render_in(&self, style: Style<'_>) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        if style.color {
            table.enforce_styling();
        }
        let mut rows = self.texts(Text::whole);
        let mut columns: Vec<&Column> = self.columns.iter().collect();
        let mut widths = widths(&columns, &rows, style.headers);
        let mut gap = GAP;
        if let Some(available) = style.width.map(usize::from)
            && total(&widths, gap) > available
        {
            rows = self.texts(|text| text.short().unwrap_or(&text.whole));
            widths = self::widths(&columns, &rows, style.headers);
            // The parts of a continued table have the same columns.
            while style.least.is_none()
                && total(&widths, gap) > available
                && let Some(last) = columns.iter().rposition(|column| column.optional)
            {
                columns.remove(last);
                widths.remove(last);
                for row in &mut rows {
                    row.remove(last);
                }
            }
            if total(&widths, gap) > available {
                gap = NARROW_GAP;
            }
        }
        if style.headers {
            table.add_row(columns.iter().map(|column| column.title(style.color)));
        }
        for row in &rows {
            let cells = row.iter().zip(&columns);
            table.add_row(cells.map(|(text, column)| column.cell(text, style.color)));
        }
        if let Some(least) = style.least {
            for (width, least) in widths.iter_mut().zip(least.iter()) {
                *width = (*width).max(*least);
            }
            least.clone_from(&widths);
        }
        constrain(&mut table, &columns, &widths, gap);
        table.trim_fmt()
    }

    /// One form of the text of each cell.
    fn texts<'a>(&'a self, form: impl Fn(&'a Text) -> &'a str) -> Vec<Vec<&'a str>> {
        let rows = self.rows.iter();
        rows.map(|row| row.iter().map(&form).collect()).collect()
    }
}

/// Sets the width and the alignment of each column.
fn constrain(table: &mut comfy_table::Table, columns: &[&Column], widths: &[u16], gap: u16) {
    let last = columns.len().saturating_sub(1);
    for (index, (column, width)) in columns.iter().zip(widths).enumerate() {
        if let Some(place) = table.column_mut(index) {
            let gap = if index == last { 0 } else { gap };
            let width = Width::Fixed(width.saturating_add(gap));
            place.set_padding((0, gap));
            place.set_constraint(ColumnConstraint::Absolute(width));
            if column.numbers {
                place.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
}

/// The widths of the title and the widest cell of each column.
fn widths(columns: &[&Column], rows: &[Vec<&str>], headers: bool) -> Vec<u16> {
    let titles = columns.iter().map(|column| match headers {
        true => width_of(&column.title),
        false => 0,
    });
    let mut widths: Vec<u16> = titles.collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(width_of(cell));
        }
    }
    widths
}

impl Column {
    /// The cell with the name of the column.
    fn title(&self, color: bool) -> Cell {
        let cell = Cell::new(&self.title);
        match color {
            true => cell.add_attribute(Attribute::Bold),
            false => cell,
        }
    }

    /// A cell with this text.
    fn cell(&self, text: &str, color: bool) -> Cell {
        let cell = Cell::new(text);
        match self.tone(text).filter(|_| color) {
            Some(color) => cell.fg(color),
            None => cell,
        }
    }

    /// The colour of a number: yellow for a share from 90%, red for one from 100% and for negative amounts.
    fn tone(&self, text: &str) -> Option<Color> {
        if !self.numbers {
            return None;
        }
        if text == "over" {
            return Some(Color::Red);
        }
        if let Some(share) = text.strip_suffix('%') {
            return match share.parse::<f64>() {
                Ok(share) if share >= 100.0 => Some(Color::Red),
                Ok(share) if share >= 90.0 => Some(Color::Yellow),
                _ => None,
            };
        }
        (text.len() > 1 && text.starts_with('-')).then_some(Color::Red)
    }
}

/// The total width of a table with columns of these widths.
fn total(widths: &[u16], gap: u16) -> usize {
    let gaps = usize::from(gap) * widths.len().saturating_sub(1);
    widths.iter().copied().map(usize::from).sum::<usize>() + gaps
}

/// The number of columns of the terminal that a text takes.
fn width_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

/// The text of a cell: `<none>` for an empty one, so that programs can split rows.
fn to_cell(text: &str) -> String {
    match text {
        "" => "<none>".to_owned(),
        text => blank_controls(text),
    }
}

// Ages as kubectl shows them, from now.

/// The current time, for ages and expiry times.
pub(crate) fn now() -> Timestamp {
    let now = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(now).unwrap_or(i64::MAX))
}

/// How long ago a time was, by this machine's clock. A time of another machine may be ahead of it.
pub(crate) fn ago(time: Timestamp, now: Timestamp) -> String {
    let age = now.since(time);
    match age < Span::from_nanoseconds(-1_000_000_000) {
        true => format!("{} ahead of this clock", span(time.since(now))),
        false => format!("{} ago", span(age)),
    }
}

/// The duration until a time; `0s` if the time has passed.
pub(crate) fn left(time: Timestamp, now: Timestamp) -> String {
    span(time.since(now).max(Span::ZERO))
}

// Escaping of untrusted text for a terminal.

/// Whether a character makes a terminal show something else than the text: control characters, line separators,
/// characters that change the direction of text, and characters that nothing is shown for (Unicode's
/// `Default_Ignorable_Code_Point`, interlinear annotations, and blanks that take no room or look like letters).
pub(crate) fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The text with misleading characters, except for these, escaped as in JSON. JSON keeps its meaning.
pub(crate) fn visible<'a>(text: &'a str, except: &[char]) -> Cow<'a, str> {
    let hidden = |c: char| misleads(c) && !except.contains(&c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units);
                escaped.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Untrusted text as one line: misleading characters are escaped.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    visible(text, &[])
}

/// The same text with a blank in place of each misleading character.
pub(crate) fn blank_controls(text: &str) -> String {
    text.chars().map(|c| if misleads(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn columns_line_up_without_trailing_blanks() {
        let mut table = Table::new(&["NAME", ">USED", "AGE"]);
        table.row(["a-long-name", "1", "5s"]);
        table.row(["b", "1000m", ""]);
        assert_eq!(
            table.render(true),
            "NAME           USED   AGE\n\
             a-long-name       1   5s\n\
             b             1000m   <none>"
        );
        assert_eq!(table.render(false).lines().count(), 2);
    }

    #[test]
    fn a_table_without_rows_and_headers_is_nothing() {
        let table = Table::new(&["NAME"]);
        assert!(table.is_empty());
        assert_eq!(table.render(false), "");
        assert_eq!(table.render(true), "NAME");
    }

    fn in_width(table: &Table, width: u16) -> String {
        table.render_in(Style { headers: true, width: Some(width), ..Style::default() })
    }

    #[test]
    fn a_table_that_does_not_fit_is_short_then_has_fewer_columns_and_then_longer_lines() {
        let mut table = Table::new(&["NAME", "?>RESERVED", "TIME", "?REASON"]);
        let time = Text::with_short("2026-11-23T10:50:35.956264Z".into(), Some("10:50:35Z".into()));
        table.row([Text::from("a/requests.cpu"), "12".into(), time, "none left".into()]);
        assert_eq!(
            in_width(&table, 70),
            "NAME             RESERVED   TIME                          REASON\n\
             a/requests.cpu         12   2026-11-23T10:50:35.956264Z   none left"
        );
        assert_eq!(
            in_width(&table, 60),
            "NAME             RESERVED   TIME        REASON\n\
             a/requests.cpu         12   10:50:35Z   none left"
        );
        assert_eq!(
            in_width(&table, 40),
            "NAME             RESERVED   TIME\n\
             a/requests.cpu         12   10:50:35Z"
        );
        for width in [20, 1] {
            assert_eq!(
                in_width(&table, width),
                "NAME            TIME\n\
                 a/requests.cpu  10:50:35Z"
            );
        }
    }

    #[test]
    fn further_rows_line_up_with_the_first_ones() {
        let mut least = Vec::new();
        let mut first = Table::new(&["NAME", ">USED"]);
        first.row(["a-long-name", "1"]);
        let mut next = Table::new(&["NAME", ">USED"]);
        next.row(["b", "2"]);
        let mut render = |table: &Table, headers| {
            table.render_in(Style { headers, least: Some(&mut least), ..Style::default() })
        };
        assert_eq!(render(&first, true), "NAME          USED\na-long-name      1");
        assert_eq!(render(&next, false), "b                2");
    }

    #[test]
    fn what_is_full_has_a_colour() {
        let mut table = Table::new(&["NAME", ">AVAILABLE", ">USE%"]);
        table.row(["-100%", "-1", "150%"]);
        table.row(["b", "-", "89%"]);
        let style = Style { color: true, ..Style::default() };
        let text = table.render_in(style);
        assert_eq!(text.matches("\u{1b}[38;5;9m").count(), 2, "{text:?}");
        assert!(!table.render(true).contains('\u{1b}'));
    }

    proptest! {
        #[test]
        fn no_cell_is_broken_at_any_width(
            rows in prop::collection::vec(("[a-z/.-]{1,20}", "[a-z]{1,9}( [a-z:/]{1,9}){0,12}", "[0-9]{1,12}"), 1..6),
            width in 1_u16..120,
        ) {
            let mut table = Table::new(&["NAME", "WORDS", "?>NUMBER"]);
            for (name, words, number) in &rows {
                table.row([name.as_str(), words, number]);
            }
            let text = in_width(&table, width);
            prop_assert_eq!(text.lines().count(), 1 + rows.len(), "{}", text);
            let fits = text.lines().all(|line| line.len() <= usize::from(width));
            for (line, (name, words, number)) in text.lines().skip(1).zip(&rows) {
                prop_assert!(line.starts_with(name.as_str()) && line.contains(words.as_str()), "{}", text);
                prop_assert!(line.ends_with(number.as_str()) || !text.contains("NUMBER"), "{}", text);
            }
            prop_assert!(fits || !text.contains("NUMBER"), "{}", text);
        }
    }

    #[test]
    fn a_time_ahead_of_this_clock_is_not_an_invalid_age() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        for (time, said) in [
            ("2026-11-20T09:59:30Z", "30s ago"),
            ("2026-11-20T10:00:01Z", "0s ago"),
            ("2026-11-20T10:00:02Z", "2s ahead of this clock"),
            ("2026-11-20T10:05:00Z", "5m ahead of this clock"),
        ] {
            assert_eq!(ago(time.parse().unwrap(), now), said);
        }
    }

    #[test]
    fn what_has_passed_is_not_negative() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let left_of = |time: &str| left(time.parse().unwrap(), now);
        assert_eq!(left_of("2026-11-20T09:00:00Z"), "0s");
        assert_eq!(left_of("2026-11-20T10:00:30Z"), "30s");
    }

    #[test]
    fn no_control_character_gets_through() {
        assert_eq!(one_line("a\u{1b}[31m\nb\u{9b}c\u{7f}"), "a\\u001b[31m\\u000ab\\u009bc\\u007f");
        assert_eq!(visible("a\tb\n", &['\n', '\t']), "a\tb\n");
        assert_eq!(one_line("äöü"), "äöü");
        assert_eq!(one_line("a\u{202e}b\u{2028}c"), "a\\u202eb\\u2028c");
        assert_eq!(
            one_line("a\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}\u{fe0f}\u{e0041}z"),
            "a\\u200b\\u200d\\ufeff\\u00ad\\u2060\\ufe0f\\udb40\\udc41z"
        );
        assert_eq!(blank_controls("a\u{1b}[31m\nä\u{202e}b"), "a [31m ä b");
        let value = serde_json::json!({"name": "\u{1b}\u{9b}\u{7f}\n\u{feff}\u{e0041}"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = visible(&text, &['\n']);
        assert!(!escaped.contains(|c: char| misleads(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
    }
}
