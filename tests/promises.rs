//! `docs/promises.md` names tests: they have to be there.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/promises.md")).unwrap();
    let named = page.split('`').filter_map(|word| word.split_once(".rs::"));
    let mut count = 0;
    for (file, function) in named {
        let path = root.join(format!("{file}.rs"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}.rs: {error}"));
        assert!(text.contains(&format!("fn {function}(")), "{file}.rs has no {function}");
        count += 1;
    }
    assert!(count > 40, "only {count} tests are named");
    for number in 1..=14 {
        assert!(page.contains(&format!("\n- **I{number}** ")), "I{number}");
    }
}
