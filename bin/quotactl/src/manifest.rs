//! Documents from files: YAML or JSON, several in a file, lists unfolded.
//!
//! They stay free JSON: Kubernetes objects with all their fields, or requests that the daemon validates.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    rc::Rc,
};

use quota_semantics::{quantity::exact_numbers, yaml};
use serde_json::Value;

use super::failure::{Failure, Outcome};

/// The maximum size of a file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The extensions of files that are read in a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// An object in a file.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The place of the object, for messages.
    pub(crate) place: String,
    /// The object.
    pub(crate) value: Value,
    /// The text that holds it, and the number of the first line of that.
    text: (Rc<str>, usize),
}

impl Document {
    /// The line of a field, such as `spec.hard[pods]`, in its file; that of the nearest field around it, if the field is
    /// not found.
    pub(crate) fn line_of(&self, field: &str) -> usize {
        let (text, first) = &self.text;
        let lines: Vec<&str> = text.lines().collect();
        let key_at = |line: &str, key: &str| {
            let line = line.trim_start_matches([' ', '-', '{', ',']).trim_start_matches('"');
            let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches('"'));
            rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        // Of several objects in one list, the one with this name.
        let name = format!("name: {}", self::text(&self.value, "/metadata/name"));
        let is_name = |line: &str| line.replace('"', "").contains(&name);
        let mut at = match self.value.pointer("/metadata/name").is_some() {
            true => lines.iter().position(|line| is_name(line)).unwrap_or(0),
            false => 0,
        };
        let mut found = at;
        for key in keys(field) {
            // The name may stand behind other fields.
            let behind = lines.iter().skip(at).position(|line| key_at(line, key));
            let before = || lines.iter().position(|line| key_at(line, key));
            match behind.map(|more| at + more).or_else(before) {
                Some(line) => (at, found) = (line, line),
                None => break,
            }
        }
        first + found
    }
}

/// All documents of files and directories, in order; at least one.
pub(crate) fn load(paths: &[PathBuf]) -> Outcome<Vec<Document>> {
    let mut documents = Vec::new();
    for path in paths {
        for file in files(path)? {
            let place = place(&file);
            let text = read(&file).map_err(|failure| failure.about(&place))?;
            let found = parse(&text).map_err(|failure| failure.about(&place))?;
            let texts = texts(&text, found.len());
            for (found, text) in found.into_iter().zip(texts) {
                documents.extend(unfold(found).into_iter().map(|value| Document {
                    place: place.clone(),
                    value,
                    text: text.clone(),
                }));
            }
        }
    }
    if documents.is_empty() {
        return Err(Failure::general("no objects in what -f names"));
    }
    Ok(documents)
}

/// The string at a JSON pointer within a document; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A field as text: manifests may contain numbers where the API returns quantities as strings.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn place(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// The files of a path: the path itself, or the files in a directory, sorted by name.
fn files(path: &Path) -> Outcome<Vec<PathBuf>> {
    if path == Path::new("-") || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let about = |error: io::Error| Failure::from(error).about(path.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(about)? {
        let file = entry.map_err(about)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Outcome<String> {
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(fs::File::open(file)?)
    };
    let mut text = String::new();
    source.take(MAX_FILE_BYTES.saturating_add(1)).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(Failure::general(format!("larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// Parses JSON or YAML, and leaves out fields without a value, as `kubectl apply` does. JSON is parsed as such, so that
/// numbers stay exact and errors have positions in the JSON.
fn parse(text: &str) -> Outcome<Vec<Value>> {
    if text.trim_start().starts_with('{') {
        let exact = exact_numbers(text.as_bytes());
        let json: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_slice(&exact).into_iter().collect();
        match json {
            Ok(mut values) => {
                values.iter_mut().for_each(yaml::without_nulls);
                return Ok(values);
            }
            // It may still be YAML in flow style; if it is not, JSON's error says more.
            Err(error) => {
                return yaml::objects(text)
                    .map_err(|_| Failure::general(format!("not JSON: {error}")));
            }
        }
    }
    yaml::objects(text).map_err(|error| Failure::general(format!("cannot read the YAML: {error}")))
}

/// The keys of a path such as `spec.hard[requests.cpu]`.
fn keys(field: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let (key, behind) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']').unwrap_or((inner, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        keys.extend(Some(key).filter(|key| !key.is_empty()));
        rest = behind.strip_prefix('.').unwrap_or(behind);
    }
    keys
}

/// The text of each of this many documents, and the number of its first line; the whole text for each, if they cannot be
/// distinguished.
fn texts(text: &str, documents: usize) -> Vec<(Rc<str>, usize)> {
    let mut texts = vec![(String::new(), 1)];
    for (number, line) in (1..).zip(text.lines()) {
        if line == "---" || line.starts_with("--- ") {
            texts.push((String::new(), number + 1));
        } else if let Some((text, _)) = texts.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    let is_empty = |text: &str| {
        let mut lines = text.lines().map(str::trim_start);
        lines.all(|line| line.is_empty() || line.starts_with('#'))
    };
    texts.retain(|(text, _)| !is_empty(text));
    match texts.len() == documents {
        true => texts.into_iter().map(|(text, line)| (text.into(), line)).collect(),
        false => vec![(text.into(), 1); documents],
    }
}

/// The items of a Kubernetes list, or the object itself; nothing for an empty document. API servers write the items of an
/// `XList` without `kind` and `apiVersion`: they are those of `X` and of the list.
fn unfold(mut value: Value) -> Vec<Value> {
    let kind = text(&value, "/kind").strip_suffix("List").map(str::to_owned);
    let version = text(&value, "/apiVersion").to_owned();
    match (value.get_mut("items").map(Value::take), kind) {
        (Some(Value::Array(items)), Some(kind)) => {
            let typed = |mut item: Value| {
                if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
                    for (field, value) in [("apiVersion", &version), ("kind", &kind)] {
                        fields.entry(field).or_insert_with(|| value.as_str().into());
                    }
                }
                item
            };
            items.into_iter().map(typed).flat_map(unfold).collect()
        }
        (Some(items), _) => {
            value["items"] = items;
            vec![value]
        }
        (None, _) if value.is_null() => Vec::new(),
        (None, _) => vec![value],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_of_several_documents_are_read() {
        let yaml =
            "---\nkind: A\n---\n# nothing\n---\nkind: B\nspec: {hard: {cpu: 500m, pods: 2}}\n";
        let values: Vec<_> = parse(yaml).unwrap().into_iter().flat_map(unfold).collect();
        assert_eq!(
            values,
            [
                json!({"kind": "A"}),
                json!({"kind": "B", "spec": {"hard": {"cpu": "500m", "pods": 2}}})
            ]
        );
        assert_eq!(parse("{\"a\":1}\n{\"a\":2}").unwrap(), [json!({"a": 1}), json!({"a": 2})]);
        assert_eq!(parse("{a: b}").unwrap(), [json!({"a": "b"})]);
    }

    #[test]
    fn lists_are_unfolded() {
        let list = json!({"kind": "List", "apiVersion": "v1", "items": [
            {"kind": "PodList", "apiVersion": "v1", "items": [{"kind": "Pod"}, {"x": 1}, 5]},
            {"kind": "ConfigMap", "items": 1}, {"y": 1}]});
        assert_eq!(
            unfold(list),
            [
                json!({"kind": "Pod", "apiVersion": "v1"}),
                json!({"kind": "Pod", "apiVersion": "v1", "x": 1}),
                json!(5),
                json!({"kind": "ConfigMap", "items": 1}),
                json!({"y": 1}),
            ]
        );
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let expected = [json!({"spec": {"hard": {"pods": 1}}})];
        for text in [
            "spec:\n  hard:\n    limits.cpu:\n    pods: 1\n",
            "{\"spec\": {\"hard\": {\"limits.cpu\": null, \"pods\": 1}}}",
            "{spec: {hard: {limits.cpu: null, pods: 1}}}",
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_in_one_line() {
        assert!(parse("{\"a\":").unwrap_err().message.starts_with("not JSON: EOF"));
        let message = parse("a: [1\nb: 2").unwrap_err().message;
        assert!(
            message.starts_with("cannot read the YAML: ") && !message.contains('\n'),
            "{message}"
        );
    }

    #[test]
    fn fields_are_found_by_their_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "# two quotas\n---\nkind: ResourceQuota\nmetadata:\n  name: a\nspec:\n  hard:\n    pods: x\n    \
                    \"requests.cpu\": 1\n---\nkind: List\nitems:\n- metadata:\n    name: b\n  spec:\n    hard:\n      pods: 1\n\
                    - metadata:\n    name: c\n  spec:\n    hard:\n      pods: 2\n";
        fs::write(file.path(), text).unwrap();
        let documents = load(&[file.path().to_owned()]).unwrap();
        let lines = documents.iter().map(|document| document.line_of("spec.hard[pods]"));
        assert_eq!(lines.collect::<Vec<_>>(), [8, 17, 22]);
        assert_eq!(documents[0].line_of("spec.hard[requests.cpu]"), 9);
        assert_eq!(documents[0].line_of("metadata.name"), 5);
        assert_eq!(documents[0].line_of("spec.scopes"), 6);
    }

    #[test]
    fn a_directory_stands_for_its_manifests_by_name() {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("b.yaml", "kind: B"), ("a.json", "{\"kind\":\"A\"}"), ("c.txt", "}")]
        {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let documents = load(&[directory.path().to_owned()]).unwrap();
        let kinds: Vec<_> = documents.iter().map(|document| &document.value["kind"]).collect();
        assert_eq!(kinds, ["A", "B"]);
        let empty = tempfile::tempdir().unwrap();
        assert!(load(&[empty.path().to_owned()]).is_err());
        let missing = load(&[PathBuf::from("/nonexistent.yaml")]).unwrap_err();
        assert!(missing.message.starts_with("/nonexistent.yaml: "));
    }
}
