//! `-o`: the form in which data is printed.

/// The form in which data is printed.
#[derive(Clone, Copy, Debug, Default)]
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
    /// A table with all columns and exact amounts, as comma-separated values (RFC 4180).
    Csv,
}

/// The forms, for help and completion.
pub(crate) const FORMS: &str = "table|wide|name|csv|json|yaml";

impl Format {
    /// Parses the value of `-o`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "table" => Self::Table,
            "wide" => Self::Wide,
            "json" => Self::Json,
            "yaml" => Self::Yaml,
            "name" => Self::Name,
            "csv" => Self::Csv,
            _ => return Err(format!("not one of {FORMS}")),
        })
    }

    /// Returns true if the response itself is printed, not a view of it.
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }
}
