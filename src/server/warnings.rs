//! `Warning` headers, which kubectl and quotactl print.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, header};

use crate::log_limiter::cut;

/// Most warnings of one response: clients limit the size of heads, and print every warning.
const WARNINGS_MAX: usize = 16;

/// Longest text, in bytes. Longer ones may be cut by the API server.
const TEXT_BYTES_MAX: usize = 256;

/// Adds warnings to a response, as many as clients accept; the last one gives the number of further warnings.
pub fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for text in bounded(warnings) {
        append(headers, &text);
    }
}

/// As many warnings as clients accept, each cut to what they accept; the last one gives the number of further warnings.
pub(crate) fn bounded(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let sent = match warnings.len() {
        0..=WARNINGS_MAX => warnings.len(),
        _ => WARNINGS_MAX - 1,
    };
    let more = warnings.len() - sent;
    let more = (more > 0).then(|| Cow::from(format!("{more} more warnings were left out")));
    let texts = warnings[..sent].iter();
    let texts = texts.map(|text| Cow::from(cut(text, TEXT_BYTES_MAX)));
    texts.chain(more).collect()
}

fn append(headers: &mut HeaderMap, text: &str) {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    let text: String = text.chars().map(visible).collect();
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
        headers.append(header::WARNING, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(warnings: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        warn(&mut headers, warnings);
        let values = headers.get_all(header::WARNING).iter();
        values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn as_many_are_sent_as_clients_take() {
        let many: Vec<_> = (0..40_000).map(|number| format!("w{number}")).collect();
        assert_eq!(sent(&many[..16]).len(), 16);
        let few = sent(&many);
        assert_eq!(few.len(), 16);
        assert_eq!(few[14], "299 - \"w14\"");
        assert_eq!(few[15], "299 - \"39985 more warnings were left out\"");
    }

    #[test]
    fn each_is_short_and_quoted() {
        let long = "ä".repeat(1000);
        assert_eq!(sent(&[long])[0].len(), "299 - \"\"".len() + TEXT_BYTES_MAX);
        let odd = sent(&["a \"b\" \\ \r\n\u{1b}[1m".to_owned()]);
        assert_eq!(odd, ["299 - \"a \\\"b\\\" \\\\ ???[1m\""]);
    }
}
