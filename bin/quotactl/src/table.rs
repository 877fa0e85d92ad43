//! Tables as kubectl prints them: no lines, columns three blanks apart. The one place that knows widths and colours.

use std::borrow::Cow;

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Width,
};
use unicode_width::UnicodeWidthStr as _;

/// Blanks between two columns.
const GAP: u16 = 3;

/// How a table is printed.
#[derive(Debug, Default)]
pub(crate) struct Style<'a> {
    /// Whether it begins with the names of its columns.
    pub(crate) headers: bool,
    /// Columns of text that it has to fit in: long cells are wrapped between words, and where those are too long, too,
    /// within names. Numbers and titles stay whole.
    pub(crate) width: Option<u16>,
    /// Whether cells have colours.
    pub(crate) color: bool,
    /// The least widths of the columns; they become the widths that were used.
    pub(crate) least: Option<&'a mut Vec<u16>>,
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Column {
    title: Cow<'static, str>,
    numbers: bool,
}

impl Table {
    /// A table with these columns. Those whose title begins with `>` hold numbers, and are aligned right.
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

    /// A table with columns that somebody else named.
    pub(crate) fn titled(titles: impl IntoIterator<Item = String>) -> Self {
        let column = |title: String| Column {
            title: visible(title).into(),
            numbers: false,
        };
        Self {
            columns: titles.into_iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a text for each column.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows
            .push(cells.into_iter().map(|cell| visible(cell.into())).collect());
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
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
            table.add_row(self.columns.iter().map(|column| {
                let cell = Cell::new(&column.title);
                match style.color {
                    true => cell.add_attribute(Attribute::Bold),
                    false => cell,
                }
            }));
        }
        let mut rows: Vec<Vec<Cow<'_, str>>> = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            rows.push(
                row.iter()
                    .map(|cell| Cow::Borrowed(cell.as_str()))
                    .collect(),
            );
        }
        let mut widths = self.widths(&rows, style.headers, width_of);
        if let Some(available) = style.width
            && total(&widths) > usize::from(available)
        {
            for (cell, column) in rows
                .iter_mut()
                .flat_map(|row| row.iter_mut().zip(&self.columns))
            {
                column.make_breakable(cell);
            }
            widths = self.widths(&rows, style.headers, width_of);
            let words = self.widths(&rows, style.headers, longest_word);
            self.shrink(&mut widths, &words, available);
            if total(&widths) > usize::from(available) {
                let parts = self.widths(&rows, style.headers, longest_part);
                self.shrink(&mut widths, &parts, available);
                for (cell, width) in rows.iter_mut().flat_map(|row| row.iter_mut().zip(&widths)) {
                    break_names(cell, *width);
                }
            }
        }
        for row in &rows {
            table.add_row(row.iter().zip(&self.columns).map(|(text, column)| {
                let cell = Cell::new(text);
                match column.tone(text).filter(|_| style.color) {
                    Some(color) => cell.fg(color),
                    None => cell,
                }
            }));
        }
        if let Some(least) = style.least {
            for (width, least) in widths.iter_mut().zip(least.iter()) {
                *width = (*width).max(*least);
            }
            least.clone_from(&widths);
        }
        let last = self.columns.len().saturating_sub(1);
        for (index, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            if let Some(place) = table.column_mut(index) {
                let gap = if index == last { 0 } else { GAP };
                let width = Width::Fixed(width.saturating_add(gap));
                place.set_padding((0, gap));
                place.set_constraint(ColumnConstraint::Absolute(width));
                if column.numbers {
                    place.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.trim_fmt()
    }

    /// For each column, the most that a title or a cell measures.
    fn widths(
        &self,
        rows: &[Vec<Cow<'_, str>>],
        headers: bool,
        measure: fn(&str) -> u16,
    ) -> Vec<u16> {
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

    /// Takes width from the widest columns of text until the table fits. No column becomes narrower than this.
    fn shrink(&self, widths: &mut [u16], least: &[u16], available: u16) {
        while total(widths) > usize::from(available) {
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
    /// A list without blanks gets some, at which lines can be broken.
    fn make_breakable(&self, cell: &mut Cow<'_, str>) {
        if !self.numbers && !cell.contains(' ') && cell.contains(',') {
            *cell = Cow::Owned(cell.replace(',', ", "));
        }
    }

    /// The colour of a cell: what is full, or more than full.
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

/// Columns of text that a table with columns of these widths takes.
fn total(widths: &[u16]) -> usize {
    let gaps = usize::from(GAP) * widths.len().saturating_sub(1);
    widths.iter().copied().map(usize::from).sum::<usize>() + gaps
}

/// Columns of the terminal that a text takes.
fn width_of(text: &str) -> u16 {
    u16::try_from(text.width()).unwrap_or(u16::MAX)
}

fn longest_word(text: &str) -> u16 {
    text.split(' ').map(width_of).max().unwrap_or(0)
}

fn longest_part(text: &str) -> u16 {
    let words = text.split(' ').flat_map(parts);
    words.map(width_of).max().unwrap_or(0)
}

/// The parts of a word that can stand in lines of their own: a name ends with the mark that joins it to the next one. Times
/// and amounts are one part.
fn parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, mark) in word.match_indices(['/', '.', '-', '=', ':']) {
        let next = at + mark.len();
        let is_name = word[next..].starts_with(|c: char| c.is_ascii_alphabetic());
        if is_name || mark == "=" && next < word.len() {
            parts.push(&word[begin..next]);
            begin = next;
        }
    }
    parts.push(&word[begin..]);
    parts
}

/// Breaks the words of a cell that are wider than its column.
fn break_names(cell: &mut Cow<'_, str>, width: u16) {
    if longest_word(cell) <= width {
        return;
    }
    let mut broken = String::with_capacity(cell.len() + 4);
    for (number, word) in cell.split(' ').enumerate() {
        if number > 0 {
            broken.push(' ');
        }
        if width_of(word) <= width {
            broken.push_str(word);
            continue;
        }
        let mut line = 0;
        for part in parts(word) {
            let wide = width_of(part);
            if line > 0 && line + wide > width {
                broken.push('\n');
                line = 0;
            }
            broken.push_str(part);
            line += wide;
        }
    }
    *cell = Cow::Owned(broken);
}

/// An empty cell would make a row that programs cannot split.
fn visible(text: String) -> String {
    if text.is_empty() {
        return "<none>".to_owned();
    }
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
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
            "NAME      FULLEST               USED\n\
             b         accel/requests.         12\n          \
             nvidia.com/gpu\n\
             compute   a/pods now               1"
        );
        for (word, expected) in [
            (
                "2026-11-23T10:50:35.956264Z",
                &["2026-11-23T10:50:35.956264Z"][..],
            ),
            ("expiration=2026-11-23", &["expiration=", "2026-11-23"]),
            ("10.5Gi/2", &["10.5Gi/2"]),
            ("a-b:", &["a-", "b:"]),
        ] {
            assert_eq!(parts(word), expected);
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
