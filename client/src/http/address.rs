//! Paths of the API. Segments come from users, and are percent-encoded.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// A path below the server's address, with its query.
#[derive(Clone, Debug)]
pub struct Address {
    text: String,
    has_query: bool,
    namespace: Option<String>,
}

impl Address {
    /// The path with these segments.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for segment in segments {
            text.push('/');
            text.extend(utf8_percent_encode(segment, IN_SEGMENT));
        }
        Self { text, has_query: false, namespace: None }
    }

    /// The path below `/v1/namespaces/{namespace}`.
    pub fn in_namespace<'a>(
        namespace: &'a str,
        segments: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            namespace: Some(namespace.to_owned()),
            ..Self::of(["v1", "namespaces", namespace].into_iter().chain(segments))
        }
    }

    /// The path of a list of this kind: that of a namespace, or that of all.
    pub fn list(namespace: Option<&str>, kind: &str) -> Self {
        match namespace {
            Some(namespace) => Self::in_namespace(namespace, [kind]),
            None => Self::of(["v1", kind]),
        }
    }

    /// The same path with a further query parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        encode(name, &mut self.text);
        self.text.push('=');
        encode(&value.to_string(), &mut self.text);
        self
    }

    /// The same path with a further query parameter, if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The namespace of the path; none for paths outside of `/v1/namespaces/{namespace}`.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Path and query.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// All characters but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// As [`ESCAPED`], without the colon, which the path `/v1/reservations:batch` contains.
const IN_SEGMENT: &AsciiSet = &ESCAPED.remove(b':');

fn encode(text: &str, into: &mut String) {
    into.extend(utf8_percent_encode(text, ESCAPED));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_cannot_leave_its_segment() {
        let address = Address::in_namespace("a/../b", ["quotas", "x?y:z"])
            .with("at", "2026-11-20T10:00:00+00:00")
            .with_some("limit", Some(5))
            .with_some("continue", None::<&str>);
        assert_eq!(
            address.as_str(),
            "/v1/namespaces/a%2F..%2Fb/quotas/x%3Fy:z?at=2026-11-20T10%3A00%3A00%2B00%3A00&limit=5"
        );
    }
}
