//! Tables as kubectl prints them: no lines, columns three blanks apart.

use comfy_table::{Cell, CellAlignment, ContentArrangement};

/// Blanks between two columns.
const GAP: u16 = 3;

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Column {
    title: &'static str,
    numbers: bool,
}

impl Table {
    /// A table with these columns. Those whose title begins with `>` hold numbers, and are aligned right.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| Column {
            title: title.trim_start_matches('>'),
            numbers: title.starts_with('>'),
        };
        Self {
            columns: titles.iter().map(column).collect(),
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

    /// The table as text, without a line end at its end.
    pub(crate) fn render(&self, headers: bool) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        if headers {
            table.add_row(self.columns.iter().map(|column| Cell::new(column.title)));
        }
        table.add_rows(&self.rows);
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(place) = table.column_mut(index) {
                place.set_padding((0, GAP));
                if column.numbers {
                    place.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        table.trim_fmt()
    }
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
}
