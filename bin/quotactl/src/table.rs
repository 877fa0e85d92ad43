//! Tables as kubectl prints them: no lines, columns three blanks apart. The only place that handles widths and colours.

mod words;

use std::borrow::Cow;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width,
};
use quota_semantics::csv;
use words::{Measure, break_names, longest_part, longest_word, to_cell, width_of};

/// The number of blanks between two columns.
const GAP: u16 = 3;

/// The number of blanks in a table that would not fit otherwise.
const NARROW_GAP: u16 = 2;

/// The minimum number of letters of a name that stay together where the name is broken.
const LETTERS_MIN: u16 = 10;

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
    /// The width that the table has to fit in; none: unbounded. Long cells are wrapped between words, and within names
    /// that are too long. Numbers and titles stay whole.
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

    /// A table with these columns. Columns whose title begins with `>` contain numbers, and are right-aligned.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| Column {
            title: title.trim_start_matches('>').into(),
            numbers: title.starts_with('>'),
        };
        Self {
            columns: titles.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// As [`Table::new`], with titles that are made.
    pub(crate) fn with_titles(titles: Vec<String>) -> Self {
        let column = |title: String| Column {
            numbers: title.starts_with('>'),
            title: to_cell(title.trim_start_matches('>')).into(),
        };
        Self {
            columns: titles.into_iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// A table with columns that the user named.
    pub(crate) fn titled(titles: impl IntoIterator<Item = String>) -> Self {
        let column = |title: String| Column {
            title: to_cell(&title).into(),
            numbers: false,
        };
        Self {
            columns: titles.into_iter().map(column).collect(),
            rows: Vec::new(),
        }
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

    /// The table as comma-separated values (RFC 4180).
    pub(crate) fn to_csv(&self, headers: bool) -> String {
        let mut text = String::new();
        if headers {
            let titles = self.columns.iter().map(|column| column.title.to_string());
            csv::line(&mut text, titles);
        }
        for row in &self.rows {
            csv::line(&mut text, row.iter().map(|cell| cell.whole.clone()));
        }
        text
    }

    /// The table as text, a line for each row, without a line end at its end.
    pub(crate) fn render(&self, headers: bool) -> String {
        self.render_in(Style {
            headers,
            ..Style::default()
        })
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
        if style.headers {
            table.add_row(self.columns.iter().map(|column| column.title(style.color)));
        }
        let mut rows = self.texts(Text::whole);
        let mut widths = self.widths(&rows, style.headers, width_of);
        let mut gap = GAP;
        if let Some(available) = style.width
            && total(&widths, gap) > usize::from(available)
        {
            rows = self.texts(|text| text.short().unwrap_or(&text.whole));
            (widths, gap) = self.fit(&mut rows, style.headers, available);
        }
        for row in &rows {
            let cells = row.iter().zip(&self.columns);
            table.add_row(cells.map(|(text, column)| column.cell(text, style.color)));
        }
        if let Some(least) = style.least {
            for (width, least) in widths.iter_mut().zip(least.iter()) {
                *width = (*width).max(*least);
            }
            if style
                .width
                .is_some_and(|available| total(&widths, gap) > usize::from(available))
            {
                gap = NARROW_GAP;
            }
            least.clone_from(&widths);
        }
        self.constrain(&mut table, &widths, gap);
        table.trim_fmt()
    }

    /// Breaks cells so that the table fits, as far as possible: first between words, then where names are joined, then
    /// anywhere. Returns the widths of the columns, and the gap between them.
    fn fit(
        &self,
        rows: &mut [Vec<Cow<'_, str>>],
        headers: bool,
        available: u16,
    ) -> (Vec<u16>, u16) {
        for row in rows.iter_mut() {
            for (cell, column) in row.iter_mut().zip(&self.columns) {
                column.make_breakable(cell);
            }
        }
        let steps: [(u16, Measure); 4] = [
            (GAP, longest_word),
            (NARROW_GAP, longest_word),
            (NARROW_GAP, longest_part),
            (NARROW_GAP, |text| longest_part(text).min(LETTERS_MIN)),
        ];
        let mut widths = self.widths(rows, headers, width_of);
        let mut gap = GAP;
        for (narrower, measure) in steps {
            gap = narrower;
            let least = self.widths(rows, headers, measure);
            self.shrink(&mut widths, &least, gap, available);
            if total(&widths, gap) <= usize::from(available) {
                break;
            }
        }
        for row in rows {
            for (cell, (column, width)) in row.iter_mut().zip(self.columns.iter().zip(&widths)) {
                if !column.numbers {
                    break_names(cell, *width);
                }
            }
        }
        (widths, gap)
    }

    /// Sets the width and the alignment of each column.
    fn constrain(&self, table: &mut comfy_table::Table, widths: &[u16], gap: u16) {
        let last = self.columns.len().saturating_sub(1);
        for (index, (column, width)) in self.columns.iter().zip(widths).enumerate() {
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

    /// One form of the text of each cell.
    fn texts<'a>(&'a self, form: impl Fn(&'a Text) -> &'a str) -> Vec<Vec<Cow<'a, str>>> {
        let rows = self.rows.iter();
        rows.map(|row| row.iter().map(|text| Cow::Borrowed(form(text))).collect())
            .collect()
    }

    /// The maximum measure of the title and the cells of each column.
    fn widths(&self, rows: &[Vec<Cow<'_, str>>], headers: bool, measure: Measure) -> Vec<u16> {
        let titles = self.columns.iter().map(|column| match headers {
            true => measure(&column.title),
            false => 0,
        });
        let mut widths: Vec<u16> = titles.collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure(cell));
            }
        }
        widths
    }

    /// Narrows the widest text columns until the table fits. No column becomes narrower than its `least` width.
    fn shrink(&self, widths: &mut [u16], least: &[u16], gap: u16, available: u16) {
        while total(widths, gap) > usize::from(available) {
            let places = self.columns.iter().zip(widths.iter_mut()).zip(least);
            let widest = places
                .filter(|((column, width), least)| !column.numbers && **width > **least)
                .max_by_key(|((_, width), _)| **width);
            match widest {
                Some(((_, width), _)) => *width -= 1,
                None => return,
            }
        }
    }
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

    /// Adds blanks to a list without blanks, so that lines can be broken there.
    fn make_breakable(&self, cell: &mut Cow<'_, str>) {
        if !self.numbers && !cell.contains(' ') && cell.contains(',') {
            *cell = Cow::Owned(cell.replace(',', ", "));
        }
    }

    /// The colour of a number: yellow for a share from 90%, red for one from 100% and for negative amounts.
    fn tone(&self, text: &str) -> Option<Color> {
        if !self.numbers {
            return None;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn long_cells_are_wrapped_between_words() {
        let mut table = Table::new(&["NAME", "REQUEST", ">USED"]);
        table.row(["compute", "pods: 1/10, requests.cpu: 2/4", "12"]);
        table.row(["b", "pods=1,services=2,secrets=3", "1"]);
        let style = Style {
            headers: true,
            width: Some(34),
            ..Style::default()
        };
        assert_eq!(
            table.render_in(style),
            "NAME      REQUEST             USED\n\
             compute   pods: 1/10,           12\n          \
             requests.cpu: 2/4\n\
             b         pods=1,                1\n          \
             services=2,\n          \
             secrets=3"
        );
    }

    #[test]
    fn names_that_are_too_long_are_broken_where_they_are_joined() {
        let mut table = Table::new(&["NAME", "FULLEST", ">USED"]);
        table.row(["b", "accel/requests.nvidia.com/gpu", "12"]);
        table.row(["compute", "a/pods now", "1"]);
        let style = Style {
            headers: true,
            width: Some(36),
            ..Style::default()
        };
        assert_eq!(
            table.render_in(style),
            "NAME     FULLEST                USED\n\
             b        accel/requests.          12\n         \
             nvidia.com/gpu\n\
             compute  a/pods now                1"
        );
    }

    #[test]
    fn what_fits_in_no_other_way_is_said_in_short_and_broken_anywhere() {
        let mut table = Table::new(&["RESOURCE", ">HARD"]);
        let hard = Text::with_short("32212254720".to_owned(), Some("30Gi".to_owned()));
        table.row([Text::from("persistentvolumeclaims"), hard]);
        let render = |width| {
            table.render_in(Style {
                headers: true,
                width: Some(width),
                ..Style::default()
            })
        };
        assert_eq!(
            render(40),
            "RESOURCE                        HARD\n\
             persistentvolumeclaims   32212254720"
        );
        assert_eq!(
            render(30),
            "RESOURCE                 HARD\n\
             persistentvolumeclaims   30Gi"
        );
        assert_eq!(
            render(20),
            "RESOURCE        HARD\n\
             persistentvolu  30Gi\n\
             meclaims"
        );
    }

    #[test]
    fn further_rows_line_up_with_the_first_ones() {
        let mut least = Vec::new();
        let mut first = Table::new(&["NAME", ">USED"]);
        first.row(["a-long-name", "1"]);
        let mut next = Table::new(&["NAME", ">USED"]);
        next.row(["b", "2"]);
        let mut render = |table: &Table, headers| {
            table.render_in(Style {
                headers,
                least: Some(&mut least),
                ..Style::default()
            })
        };
        assert_eq!(
            render(&first, true),
            "NAME          USED\na-long-name      1"
        );
        assert_eq!(render(&next, false), "b                2");
    }

    #[test]
    fn what_is_full_has_a_colour() {
        let mut table = Table::new(&["NAME", ">AVAILABLE", ">USE%"]);
        table.row(["-100%", "-1", "150%"]);
        table.row(["b", "-", "89%"]);
        let style = Style {
            color: true,
            ..Style::default()
        };
        let text = table.render_in(style);
        assert_eq!(text.matches("\u{1b}[38;5;9m").count(), 2, "{text:?}");
        assert!(!table.render(true).contains('\u{1b}'));
    }

    proptest! {
        #[test]
        fn tables_fit_if_their_words_do(
            rows in prop::collection::vec(("[a-z]{1,6}", "[a-z]{1,9}( [a-z]{1,9}){0,12}", "[0-9]{1,4}"), 1..6),
            width in 40_u16..120,
        ) {
            let mut table = Table::new(&["NAME", "WORDS", ">NUMBER"]);
            for (name, words, number) in &rows {
                table.row([name.as_str(), words, number]);
            }
            let text = table.render_in(Style { headers: true, width: Some(width), ..Style::default() });
            for line in text.lines() {
                prop_assert!(line.len() <= usize::from(width), "{}", text);
            }
            for (_, words, _) in &rows {
                for word in words.split(' ') {
                    prop_assert!(text.contains(word), "{}: {}", word, text);
                }
            }
        }
    }
}
