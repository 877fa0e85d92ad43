//! `-o custom-columns`: a column for each path.

use serde_json::Value;

use super::jsonpath::{Path, text_of};
use crate::table::Table;

/// Titles, each with the path of its cells.
#[derive(Clone, Debug)]
pub(crate) struct Columns(Vec<(String, Path)>);

impl Columns {
    /// Parses `TITLE:PATH,…`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let column = |part: &str| {
            let (title, path) = part
                .split_once(':')
                .filter(|(title, path)| !title.is_empty() && !path.is_empty())
                .ok_or_else(|| format!("custom-columns: {part:?} is not TITLE:PATH"))?;
            Self::column(title, path)
        };
        split(text)
            .into_iter()
            .map(column)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Parses two lines: titles, and their paths.
    pub(crate) fn parse_file(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let (titles, paths) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let titles: Vec<_> = titles.split_whitespace().collect();
        let paths: Vec<_> = paths.split_whitespace().collect();
        if titles.is_empty() || titles.len() != paths.len() || lines.next().is_some() {
            return Err(
                "custom-columns-file: not a line of titles and a line of as many paths".to_owned(),
            );
        }
        let columns = titles.into_iter().zip(paths);
        let columns = columns.map(|(title, path)| Self::column(title, path));
        columns.collect::<Result<_, _>>().map(Self)
    }

    fn column(title: &str, path: &str) -> Result<(String, Path), String> {
        let read = Path::parse(path).map_err(|error| format!("custom-columns: {path}: {error}"))?;
        Ok((title.to_owned(), read))
    }

    /// The table: a row for each item of a list; otherwise one row.
    pub(crate) fn table(&self, answer: &Value) -> Table {
        let mut table = Table::titled(self.0.iter().map(|(title, _)| title.clone()));
        let items = match answer.get("items").and_then(Value::as_array) {
            Some(items) => items.as_slice(),
            None => std::slice::from_ref(answer),
        };
        for item in items {
            let cell = |(_, path): &(String, Path)| {
                let found: Vec<_> = path.find(item).into_iter().map(text_of).collect();
                found.join(",")
            };
            table.row(self.0.iter().map(cell));
        }
        table
    }
}

/// Splits a text at commas, except for commas in brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_path_is_a_column() {
        let columns =
            Columns::parse("NAME:.metadata.name,CPU:.hard['requests.cpu'],T:.tags[0,1]").unwrap();
        let answer = json!({"items": [
            {"metadata": {"name": "q"}, "hard": {"requests.cpu": "4"}, "tags": ["a", "b"]},
            {"metadata": {"name": "r"}},
        ]});
        assert_eq!(
            columns.table(&answer).render(true),
            "NAME   CPU      T\nq      4        a,b\nr      <none>   <none>"
        );
        let file = Columns::parse_file("A  B\n.a {.b}\n").unwrap();
        let one = file.table(&json!({"a": 1, "b": true}));
        assert_eq!(one.render(false), "1   true");
        for wrong in ["A B\n.a", "", "A\n.a\n.b"] {
            assert!(Columns::parse_file(wrong).is_err(), "{wrong}");
        }
    }
}
