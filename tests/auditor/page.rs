//! docs/storage-format.md, compared with the code: names, order and tags of everything that is laid out, and the magic
//! words of records.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::root;

/// Where the page is, in the repository.
pub(super) const PATH: &str = "docs/storage-format.md";

/// What is laid out: fields of records, and variants by their tags.
#[derive(Debug, Default)]
struct Layouts {
    records: BTreeMap<String, Vec<String>>,
    ones: BTreeMap<String, BTreeMap<u64, Variant>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Variant {
    name: String,
    /// Names of its fields; none: its content is one value of some type, or nothing.
    fields: Vec<String>,
    is_value: bool,
}

/// The tags of entries that the page knows.
pub(super) fn tags() -> BTreeSet<u64> {
    let page = fs::read_to_string(root().join(PATH)).unwrap();
    documented(&page).ones["Event"].keys().copied().collect()
}

/// Fails with what is not documented, or wrong.
pub(super) fn check() {
    let page = fs::read_to_string(root().join(PATH)).unwrap();
    let (documented, coded) = (documented(&page), coded());
    let mut wrong = Vec::new();
    for (name, fields) in &coded.records {
        match documented.records.get(name) {
            None => {
                wrong.push(format!("the record {name} ({}) is not documented", fields.join(", ")));
            }
            Some(documented) if documented != fields => {
                wrong.push(format!(
                    "the record {name} has the fields {fields:?}, not {documented:?}"
                ));
            }
            Some(_) => {}
        }
    }
    for (name, variants) in &coded.ones {
        let Some(documented) = documented.ones.get(name) else {
            wrong.push(format!("{name} is not documented"));
            continue;
        };
        for (tag, variant) in variants {
            match documented.get(tag) {
                None => {
                    wrong.push(format!("tag {tag} of {name}, {}, is not documented", variant.name));
                }
                Some(documented) if documented != variant => {
                    wrong.push(format!("tag {tag} of {name} is {variant:?}, not {documented:?}"));
                }
                Some(_) => {}
            }
        }
    }
    let in_code = |name: &String| coded.records.contains_key(name) || coded.ones.contains_key(name);
    let named = documented.records.keys().chain(documented.ones.keys());
    wrong.extend(
        named.filter(|name| !in_code(name)).map(|name| format!("there is no {name} in the code")),
    );
    for (name, documented) in &documented.ones {
        let unknown = documented
            .keys()
            .filter(|tag| coded.ones.get(name).is_some_and(|one| !one.contains_key(tag)));
        wrong.extend(unknown.map(|tag| format!("{name} has no tag {tag}")));
    }
    for (tag, variant) in &coded.ones["Event"] {
        if !page.contains(&format!("\n- {tag}: ")) {
            let name = &variant.name;
            wrong.push(format!("the list of what entries do has no item for tag {tag}, {name}"));
        }
    }
    for magic in magics() {
        if !page.contains(&format!("`{magic}`")) {
            wrong.push(format!("records {magic} are not documented"));
        }
    }
    assert!(wrong.is_empty(), "{PATH}: {}", wrong.join("\n"));
    assert!(coded.records.len() > 25 && coded.ones.len() > 7, "the code was not read");
}

/// What the page says.
fn documented(page: &str) -> Layouts {
    let mut layouts = Layouts::default();
    let mut open = String::new();
    let blocks = page.split("\n```layout\n").skip(1);
    for line in blocks.flat_map(|block| block.split("\n```").next().unwrap_or_default().lines()) {
        if let Some((name, fields)) =
            line.strip_prefix("record ").and_then(|rest| rest.split_once(" = "))
        {
            layouts.records.insert(name.to_owned(), names(fields));
        } else if let Some(name) = line.strip_prefix("one ") {
            open = name.trim_end_matches(" =").to_owned();
        } else if let Some((tag, variant)) = line.trim_start().split_once(' ')
            && let Ok(tag) = tag.parse()
        {
            let (name, content) = variant.split_once('(').unwrap_or((variant, ")"));
            let content = content.strip_suffix(')').unwrap();
            let fields = if content.contains(": ") { names(content) } else { Vec::new() };
            let variant = Variant {
                name: name.to_owned(),
                is_value: !content.is_empty() && fields.is_empty(),
                fields,
            };
            layouts.ones.entry(open.clone()).or_default().insert(tag, variant);
        }
    }
    layouts
}

/// The names in `a: T, b: {K: V}`.
fn names(fields: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut name, mut in_name) = (0, String::new(), true);
    for character in fields.chars() {
        match character {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ':' if depth == 0 => {
                names.push(std::mem::take(&mut name).trim().to_owned());
                in_name = false;
            }
            ',' if depth == 0 => in_name = true,
            character if in_name => name.push(character),
            _ => {}
        }
    }
    names
}

/// What the code says, in `record!` and `variants!`.
fn coded() -> Layouts {
    let mut layouts = Layouts::default();
    for source in sources() {
        let text = fs::read_to_string(&source).unwrap();
        for (name, body) in uses(&text, "record!(") {
            // What stands elsewhere comes after the fields.
            let fields = body.split('}').next().unwrap_or_default();
            let fields = fields.split(',');
            let fields = fields.map(|field| field.trim().trim_start_matches("r#").to_owned());
            layouts.records.insert(name, fields.filter(|field| !field.is_empty()).collect());
        }
        for (name, body) in uses(&text, "variants!(") {
            let variants = arms(&body).into_iter().map(|arm| {
                let (tag, variant) = arm.split_once("=>").unwrap();
                (tag.trim().parse().unwrap(), coded_variant(variant.trim()))
            });
            layouts.ones.insert(name, variants.collect());
        }
    }
    quantity(&mut layouts);
    layouts
}

/// The codec of quantities is written by hand, so their layout is repeated here. The auditor reads real ledgers by the page,
/// which shows whether both are right.
fn quantity(layouts: &mut Layouts) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let fields = owned(&["mantissa", "format"]);
    layouts.records.insert("Quantity".to_owned(), fields);
    let variant = |name: &str, fields: &[&str]| Variant {
        name: name.to_owned(),
        is_value: fields.is_empty(),
        fields: owned(fields),
    };
    let forms = [(0, variant("Scaled", &["digits", "power"])), (1, variant("Nanos", &[]))];
    layouts.ones.insert("Mantissa".to_owned(), forms.into());
}

fn coded_variant(text: &str) -> Variant {
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let (name, content) = text.split_at(end);
    let content = content.trim();
    let fields = content.trim_matches(['{', '}']).split(',').map(|field| field.trim().to_owned());
    Variant {
        name: name.to_owned(),
        is_value: content.starts_with('('),
        fields: match content.starts_with('{') {
            true => fields.filter(|field| !field.is_empty()).collect(),
            false => Vec::new(),
        },
    }
}

/// Each use of a macro `word Name { body });`, by name and body.
fn uses(text: &str, word: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices(&format!("\n{word}")) {
        let rest = &text[at + 1 + word.len()..];
        let end = rest.find("});").unwrap();
        let (name, body) = rest[..end].split_once('{').unwrap();
        found.push((name.trim().to_owned(), body.to_owned()));
    }
    found
}

/// The arms of an enum's layout, which commas outside of brackets end.
fn arms(body: &str) -> Vec<String> {
    let mut arms = vec![String::new()];
    let mut depth = 0;
    for character in body.chars() {
        depth += match character {
            '{' | '(' => 1,
            '}' | ')' => -1,
            _ => 0,
        };
        match character {
            ',' if depth == 0 => arms.push(String::new()),
            character => arms.last_mut().unwrap().push(character),
        }
    }
    arms.retain(|arm| !arm.trim().is_empty());
    arms
}

/// The magic words of records.
fn magics() -> BTreeSet<String> {
    let mut magics = BTreeSet::new();
    for source in sources() {
        let text = fs::read_to_string(source).unwrap();
        for (at, _) in text.match_indices("*b\"QL") {
            let magic = &text[at + 3..at + 6];
            // `QLX` and `QLY` are of tests.
            if !["QLX", "QLY"].contains(&magic) {
                magics.insert(magic.to_owned());
            }
        }
    }
    assert!(magics.len() >= 14, "{magics:?}");
    magics
}

/// The sources of the core.
fn sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut directories = vec![root().join("ledger")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name() != Some("target".as_ref()) {
                directories.push(path);
            } else if path.extension() == Some("rs".as_ref()) && !is_test(&path) {
                sources.push(path);
            }
        }
    }
    sources
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
}
