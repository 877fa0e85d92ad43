//! Reads YAML as kubectl does (`sigs.k8s.io/yaml`): plain scalars have their meaning of YAML 1.1, so `010` is 8, and
//! `yes` is true.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    Budget, MessageFormatter as _, Options, UserMessageFormatter, budget,
    from_multiple_with_options, from_str_with_options, options,
};

/// The bytes and values that any text may have, including those that its aliases repeat.
const SMALL: usize = 16 * 1024;

/// Most significant digits of a number with a point or an exponent that is read exactly.
const DIGITS_MAX: usize = 15;

/// Integers up to this are exact as floating-point numbers.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;

/// Why a text cannot be read: one line, with the place. It quotes no line of the text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Reads a value of a type. Including the values that its aliases repeat, the text may have at most twice its length: a
/// short text could take any amount of memory otherwise.
///
/// # Errors
/// It is not YAML, not of this type, or repeats too much.
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Error> {
    let text = utf8(text)?;
    from_str_with_options(text, options_for(text)).map_err(|error| message_of(&error))
}

/// Reads an object as JSON. As kubectl does, it leaves out fields without a value.
///
/// # Errors
/// As [`read`]; or a number has so many digits that it would be rounded.
pub fn object(text: &[u8]) -> Result<Value, Error> {
    tidy(read(text)?)
}

/// Reads the objects of a text with several documents, each as [`object`] does.
///
/// # Errors
/// As [`object`].
pub fn objects(text: &str) -> Result<Vec<Value>, Error> {
    let objects = documents(text)?;
    objects.into_iter().map(tidy).collect()
}

fn documents<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    from_multiple_with_options(text, options_for(text)).map_err(|error| message_of(&error))
}

fn utf8(text: &[u8]) -> Result<&str, Error> {
    let place =
        |error: std::str::Utf8Error| Error(format!("not UTF-8 at byte {}", error.valid_up_to()));
    std::str::from_utf8(text).map_err(place)
}

fn options_for(text: &str) -> Options {
    let most = text.len().saturating_mul(2).max(SMALL);
    options! {
        budget: budget! {
            max_nodes: most.min(Budget::default().max_nodes),
            max_total_scalar_bytes: most,
            max_recorded_anchor_events: most,
            max_recorded_anchor_bytes: most,
        },
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// The library's error in words for people who do not know the library.
fn message_of(error: &serde_saphyr::Error) -> Error {
    use serde_saphyr::Error as Yaml;
    let error = error.without_snippet();
    let message = match error {
        Yaml::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("the key {key:?} is there twice"),
            None => "a key is there twice".to_owned(),
        },
        Yaml::TaggedScalarCannotDeserializeIntoString { .. } | Yaml::BinaryNotUtf8 { .. } => {
            "this tag is not supported".to_owned()
        }
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias is inside of what it repeats".to_owned()
        }
        Yaml::MultipleDocuments { .. } => "more than one document".to_owned(),
        error => match UserMessageFormatter.format_message(error) {
            // Figures of the library follow.
            text if text.starts_with("YAML document too large") => {
                "it is too long, too deep, or its aliases repeat too much".to_owned()
            }
            text if text.contains("recursion limit exceeded") => {
                "it is nested too deeply".to_owned()
            }
            text => text.into_owned(),
        },
    };
    match error.location() {
        Some(at) if at.line() > 0 => {
            Error(format!("{message} at line {} column {}", at.line(), at.column()))
        }
        _ => Error(message),
    }
}

/// Removes fields without a value, and refuses numbers that have been rounded.
fn tidy(mut value: Value) -> Result<Value, Error> {
    match tidy_below(&mut value) {
        Ok(()) => Ok(value),
        Err(mut path) => {
            path.reverse();
            Err(Error(format!(
                "{}: a number with so many digits would be rounded: write it in quotes",
                path.join(".")
            )))
        }
    }
}

/// The error is the path of a rounded number, from the innermost field outwards.
fn tidy_below(value: &mut Value) -> Result<(), Vec<String>> {
    fn below(value: &mut Value, name: impl FnOnce() -> String) -> Result<(), Vec<String>> {
        tidy_below(value).map_err(|mut path| {
            path.push(name());
            path
        })
    }
    match value {
        Value::Number(number) if is_rounded(number) => Err(Vec::new()),
        Value::Object(fields) => {
            drop_nulls(fields);
            let mut fields = fields.iter_mut();
            fields.try_for_each(|(name, value)| below(value, || name.clone()))
        }
        Value::Array(items) => {
            let mut items = items.iter_mut().enumerate();
            items.try_for_each(|(place, item)| below(item, || place.to_string()))
        }
        _ => Ok(()),
    }
}

/// Removes fields without a value from an object.
fn drop_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
}

/// Removes fields without a value from an object and all objects in it.
pub fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            drop_nulls(fields);
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Returns true if a floating-point number may differ from its text.
fn is_rounded(number: &Number) -> bool {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return false;
    };
    let digits = format!("{value:e}");
    let digits = digits.split('e').next().unwrap_or_default();
    let digits = digits.bytes().filter(u8::is_ascii_digit).count();
    value.abs() > EXACT_MAX || digits > DIGITS_MAX
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_are_what_kubectl_reads() {
        // Those of `kubectl create --dry-run=client -o json`, version 1.32.
        for (scalar, kubectl) in [
            ("010", json!(8)),
            ("0777", json!(511)),
            ("-010", json!(-8)),
            ("0_10", json!(8)),
            ("00", json!(0)),
            ("08", json!(8.0)),
            ("0888", json!(888.0)),
            ("010.5", json!(10.5)),
            ("0o17", json!(15)),
            ("0O17", json!(15)),
            ("0x1F", json!(31)),
            ("0X1F", json!(31)),
            ("0b11", json!(3)),
            ("0b12", json!("0b12")),
            ("1_000", json!(1000)),
            ("_10", json!("_10")),
            ("1_0Gi", json!("1_0Gi")),
            ("010Mi", json!("010Mi")),
            ("1:30", json!("1:30")),
            ("2001-01-01", json!("2001-01-01")),
            ("1e3", json!(1000.0)),
            ("1E3", json!(1000.0)),
            ("1e+3", json!(1000.0)),
            ("1.5e3", json!(1500.0)),
            (".5", json!(0.5)),
            ("+5", json!(5)),
            ("yes", json!(true)),
            ("y", json!(true)),
            ("On", json!(true)),
            ("NO", json!(false)),
            ("\"010\"", json!("010")),
            ("!!str 010", json!("010")),
            ("'1e3'", json!("1e3")),
        ] {
            let text = format!("a: {scalar}");
            assert_eq!(object(text.as_bytes()).unwrap(), json!({"a": kubectl}), "{scalar}");
        }
    }

    #[test]
    fn no_number_is_rounded() {
        for exact in
            ["18446744073709551615", "-9223372036854775808", "0.1", "123456789.123456", "1e15"]
        {
            let text = format!("spec: {{hard: {{a: {exact}}}}}");
            let read = object(text.as_bytes()).unwrap();
            let exact: Value = serde_json::from_str(exact).unwrap();
            assert_eq!(read["spec"]["hard"]["a"], exact);
        }
        for rounded in [
            "1000000000000000000001",
            "18446744073709551617",
            "123456789.1234567891",
            "0.1000000000000001",
        ] {
            let text = format!("spec: {{hard: [{{a: {rounded}}}]}}");
            assert_eq!(
                object(text.as_bytes()).unwrap_err().to_string(),
                "spec.hard.0.a: a number with so many digits would be rounded: write it in quotes"
            );
            let text = format!("a: '{rounded}'");
            assert_eq!(object(text.as_bytes()).unwrap(), json!({"a": rounded}));
        }
        assert!(object(b"a: .inf").is_err() && object(b"a: 1e999").is_err());
    }

    #[test]
    fn fields_without_a_value_are_left_out() {
        let text = "spec: {hard: {limits.cpu: , pods: 1, a: ~, b: null}}\nlist: [{x: }, ~]\n---\n---\nb: ''\n";
        let spec = json!({"hard": {"pods": 1}});
        let expected = [json!({"spec": spec, "list": [{}, null]}), Value::Null, json!({"b": ""})];
        assert_eq!(objects(text).unwrap().iter().filter(|it| !it.is_null()).count(), 2);
        assert_eq!(objects(text).unwrap()[0], expected[0]);
        let mut value = json!({"a": null, "b": [{"c": null, "d": 1}, null]});
        without_nulls(&mut value);
        assert_eq!(value, json!({"b": [{"d": 1}, null]}));
    }

    #[test]
    fn errors_are_one_line_in_plain_words() {
        let long = format!("a: &a '{}'\nx: [{}]", "y".repeat(100_000), aliases(3));
        let deep = "[".repeat(100_000);
        for (text, expected) in [
            ("a: {b: 1, b: 2}", "the key \"b\" is there twice at line 1 column 11"),
            ("a: 1\n\"a\": 2", "the key \"a\" is there twice at line 2 column 1"),
            (&*long, "its aliases repeat too much"),
            (&*deep, "it is nested too deeply"),
            ("a: *b", "at line 1"),
            ("a: .inf", "`.inf` is not a finite number"),
            ("a: 1\n---\nb: 2", "more than one document"),
            ("a: [b", "at line 1"),
            ("a: &a [*a]", "at line 1"),
            ("a: !!int x", "at line 1"),
            ("a: !!binary '-'", "at line 1"),
            ("a: !!float x", "at line 1"),
            ("\t- a\n b: c", "at line"),
            ("a: b: c", "at line 1"),
            ("- a\nb", "at line 2"),
            ("<<: 1", "at line 1"),
        ] {
            let error = object(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            let internals = [
                "Options",
                "Option<",
                "Policy",
                "budget",
                "breach",
                "deserialize",
                "serde",
                "\n",
                "max_",
                "::",
                "{",
            ];
            let found = internals.iter().find(|word| error.contains(**word));
            assert!(found.is_none(), "{error}");
        }
        assert_eq!(object(b"a: \xff").unwrap_err().to_string(), "not UTF-8 at byte 3");
        assert!(objects("a: 1\n---\nb: 1\nb: 2").unwrap_err().to_string().contains("line 4"));
    }

    fn aliases(count: usize) -> String {
        vec!["*a"; count].join(", ")
    }

    #[test]
    fn a_text_may_repeat_some_of_itself() {
        let text = "a: &a {b: [1, x]}\nc: *a\nd: {<<: *a, e: 2}";
        let b = json!([1, "x"]);
        let expected = json!({"a": {"b": b}, "c": {"b": b}, "d": {"b": b, "e": 2}});
        assert_eq!(object(text.as_bytes()).unwrap(), expected);
        let short = format!("a: &a {}\nx: [{}]", "y".repeat(100), aliases(90));
        assert!(object(short.as_bytes()).is_ok());
    }

    #[test]
    fn no_text_is_much_longer_with_what_it_repeats() {
        let text = format!("a: &a '{}'\nx: [{}]", "\"".repeat(100_000), aliases(3));
        assert!(object(text.as_bytes()).is_err());
        let items = vec!["1"; 1000].join(", ");
        let text = format!("a: &a [{items}]\nx: [{}]", aliases(20));
        assert!(object(text.as_bytes()).is_err());
        // Each value is kept for each anchor that it stands below.
        let open = (0..60).map(|level| format!("&l{level} ["));
        let text = format!("{}{items}{}", open.collect::<String>(), "]".repeat(60));
        assert!(object(text.as_bytes()).is_err());
    }

    #[test]
    fn a_text_without_aliases_may_have_any_length() {
        let fields = (0..20_000).map(|number| format!("k{number}: \"\\L\\P\\e\"\n"));
        let text = fields.collect::<String>();
        let read = read::<BTreeMap<String, String>>(text.as_bytes()).unwrap();
        assert_eq!(read.len(), 20_000);
        let items = vec!["-"; 50_000].join("\n");
        assert!(object(items.as_bytes()).is_ok());
    }
}
