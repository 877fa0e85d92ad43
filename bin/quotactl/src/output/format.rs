//! `-o`: the form in which data is printed.

use std::fs;

use super::{columns::Columns, jsonpath::Template};

/// The form in which data is printed.
#[derive(Clone, Debug, Default)]
pub(crate) enum Format {
    /// A table.
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    /// The API's response as JSON.
    Json,
    /// The API's response as YAML.
    Yaml,
    /// The kind and name of each item.
    Name,
    /// The output of a template.
    JsonPath(Template),
    /// A column for each path.
    Columns(Columns),
}

/// The forms, for help and completion.
pub(crate) const FORMS: &str = "table|wide|name|json|yaml|jsonpath=TEMPLATE|jsonpath-file=FILE|custom-columns=TITLE:PATH,…|custom-columns-file=FILE";

impl Format {
    /// Parses the value of `-o`, and reads the file that it names.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (form, argument) = match text.split_once('=') {
            Some((form, argument)) => (form, Some(argument)),
            None => (text, None),
        };
        let wrong = |error: &dyn std::fmt::Display| format!("{form}: {error}");
        let file =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let template = |text: &str| Template::parse(text).map_err(|error| wrong(&error));
        Ok(match (form, argument) {
            ("table", None) => Self::Table,
            ("wide", None) => Self::Wide,
            ("json", None) => Self::Json,
            ("yaml", None) => Self::Yaml,
            ("name", None) => Self::Name,
            ("jsonpath", Some(text)) => Self::JsonPath(template(text)?),
            ("jsonpath-file", Some(path)) => Self::JsonPath(template(file(path)?.trim_end())?),
            ("custom-columns", Some(text)) => Self::Columns(Columns::parse(text)?),
            ("custom-columns-file", Some(path)) => {
                Self::Columns(Columns::parse_file(&file(path)?)?)
            }
            _ => return Err(format!("not one of {FORMS}")),
        })
    }

    /// Whether the response itself is printed, not a view of it.
    pub(crate) const fn is_structured(&self) -> bool {
        matches!(
            self,
            Self::Json | Self::Yaml | Self::JsonPath(_) | Self::Columns(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_as_kubectl_reads_them() {
        assert!(matches!(Format::parse("wide"), Ok(Format::Wide)));
        assert!(matches!(
            Format::parse("jsonpath={.a}"),
            Ok(Format::JsonPath(_))
        ));
        assert!(matches!(
            Format::parse("custom-columns=A:.a,B:.b"),
            Ok(Format::Columns(_))
        ));
        for wrong in [
            "",
            "xml",
            "json=x",
            "jsonpath",
            "jsonpath={.a",
            "custom-columns=A",
        ] {
            assert!(Format::parse(wrong).is_err(), "{wrong}");
        }
        let error = Format::parse("jsonpath-file=/nonexistent/x").unwrap_err();
        assert!(error.starts_with("/nonexistent/x: "), "{error}");
    }
}
