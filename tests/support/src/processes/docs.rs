//! Pages of the docs that are made of code. `UPDATE_DOCS=1` writes them anew; otherwise they have to be up to date.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn path(page: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(page)
}

/// A whole page.
#[track_caller]
pub fn documented_page(page: &str, text: &str) {
    let path = path(page);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    let differs = written.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(written == text, "docs/{page} is not up to date, run with UPDATE_DOCS=1: {differs:?}");
}

/// The text between two marks of a page.
#[track_caller]
pub fn documented(page: &str, mark: &str, text: &str) {
    let written = fs::read_to_string(path(page)).unwrap();
    let begin = format!("<!-- {mark}: begin -->\n");
    let end = format!("<!-- {mark}: end -->");
    let (before, rest) = written.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    documented_page(page, &format!("{before}{begin}{text}{end}{after}"));
}
