//! Files of vectors: reading them, running their cases, comparing outcomes.

use std::{collections::BTreeMap, env, fmt::Debug, fs, panic, path::PathBuf};

use quota_semantics::resource::ResourceList;
use serde_json::{Value, value::RawValue};

use super::deviations;

/// The environment variable that names another folder of vectors.
const ELSEWHERE: &str = "QUOTA_VECTORS";

/// Runs one case; the error says briefly what is different.
pub(crate) type Run<C> = fn(&C) -> Result<(), String>;

/// A line of a file.
pub(crate) trait Line: serde::de::DeserializeOwned + panic::RefUnwindSafe {
    fn id(&self) -> &str;
}

impl Line for Case {
    fn id(&self) -> &str {
        &self.id
    }
}

/// A line that is read as it is, for lack of quantities that are numbers.
impl Line for Value {
    fn id(&self) -> &str {
        self["id"].as_str().unwrap_or_default()
    }
}

/// One line of a file. The input is kept as text, since a `Value` forgets how numbers are written.
#[derive(serde::Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) input: BTreeMap<String, Box<RawValue>>,
    pub(crate) expected: Value,
}

impl Case {
    /// A text of the input; absent is empty.
    pub(crate) fn text(&self, key: &str) -> String {
        self.read(key).unwrap_or_default()
    }

    /// Part of the input as JSON text; absent reads as `null`.
    pub(crate) fn json(&self, key: &str) -> &str {
        self.input.get(key).map_or("null", |raw| raw.get())
    }

    /// Part of the input, as the type the core reads it with; absent reads as `null`.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, String> {
        serde_json::from_str(self.json(key)).map_err(|error| format!("{key}: {error}"))
    }
}

/// What became of the cases of a file.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) passed: usize,
    /// Id and reason.
    pub(crate) failures: Vec<(String, String)>,
}

/// The cases of a file; none if there is no such file.
pub(crate) fn read<C: Line>(name: &str) -> Option<Vec<Result<C, String>>> {
    let file = format!("{name}.jsonl");
    let text = fs::read_to_string(folder().join(&file))
        .or_else(|_| fs::read_to_string(folder().join("groups").join(&file)));
    let text = text.ok()?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Some(lines.map(|line| serde_json::from_str(line).map_err(|error| error.to_string())).collect())
}

fn folder() -> PathBuf {
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    env::var_os(ELSEWHERE).map_or_else(own, PathBuf::from)
}

/// Whether the vectors are those of this repository, and so all of them have to be there.
pub(crate) fn are_ours() -> bool {
    env::var_os(ELSEWHERE).is_none()
}

/// Runs all cases. A panic fails its case only, and a listed deviation must deviate.
pub(crate) fn run_file<C: Line>(cases: &[Result<C, String>], run: Run<C>) -> Outcome {
    let mut outcome = Outcome::default();
    for (line, case) in cases.iter().enumerate() {
        let case = match case {
            Ok(case) => case,
            Err(error) => {
                outcome.failures.push((format!("line {}", line + 1), error.clone()));
                continue;
            }
        };
        let result =
            panic::catch_unwind(|| run(case)).unwrap_or_else(|_| Err("panicked".to_owned()));
        match (result, deviations::reason(case.id())) {
            (Ok(()), None) | (Err(_), Some(_)) => outcome.passed += 1,
            (Err(reason), None) => outcome.failures.push((case.id().to_owned(), reason)),
            (Ok(()), Some(_)) => {
                outcome
                    .failures
                    .push((case.id().to_owned(), "listed as a deviation, but conforms".to_owned()));
            }
        }
    }
    outcome
}

/// Fails unless both are equal.
pub(crate) fn same<T: PartialEq + Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), String> {
    if ours == theirs { Ok(()) } else { Err(format!("{what} is {ours:?}, expected {theirs:?}")) }
}

/// Fails unless our text is the expected JSON string.
pub(crate) fn same_text(what: &str, ours: &str, theirs: &Value) -> Result<(), String> {
    same(what, &ours, &theirs.as_str().unwrap_or_default())
}

/// Fails unless our list is the expected one, spelling included; a list that is absent is `null`. Kubernetes prints
/// `1000E` as `1`, also in JSON; here JSON is exact, so what is compared is what we print.
pub(crate) fn same_list(what: &str, ours: &ResourceList, theirs: &Value) -> Result<(), String> {
    let printed = ours.iter().map(|(name, amount)| (name.to_string(), amount.to_string().into()));
    let ours = Value::Object(printed.collect());
    same(what, &ours, theirs)
}
