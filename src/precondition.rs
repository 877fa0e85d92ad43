//! Entity tags of quotas and groups, and preconditions on them (RFC 9110, section 13).
//!
//! A tag consists of the entry that set the quota or group and a digest of its numbers: `"42-9f86d081884c7d65"`. A
//! change applies to the definition, so `If-Match` compares the entry alone. A cached response also contains the
//! numbers, so `If-None-Match` compares the whole tag.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use quota_core::{decide::Precondition, event::Sequence};

use crate::problem::{Problem, Reason};

/// The tag of the quota or group that this entry set and whose status is this text.
pub(crate) fn tag(entry: Sequence, status: &[u8]) -> HeaderValue {
    let digest = blake3::hash(status);
    let digest = &digest.to_hex()[..16];
    HeaderValue::from_str(&format!("\"{entry}-{digest}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether the caller already has the representation with this tag.
pub(crate) fn has(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let tags = tags.filter_map(|value| value.to_str().ok());
    let mut tags = tags.flat_map(|list| list.split(','));
    tags.any(|listed| {
        let listed = listed.trim();
        listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag
    })
}

/// The precondition of a change.
///
/// # Errors
/// `Malformed` if the headers cannot be parsed: a condition must not be ignored.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Precondition>, Problem> {
    let if_match = text(headers, header::IF_MATCH)?;
    let if_none_match = text(headers, header::IF_NONE_MATCH)?;
    match (if_match, if_none_match) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(Precondition::Present)),
        (Some(tag), None) => version(tag).map(Some),
        (None, Some("*")) => Ok(Some(Precondition::Absent)),
        (None, Some(_)) => Err(malformed("If-None-Match of a change must be *")),
        (Some(_), Some(_)) => Err(malformed("If-Match and If-None-Match contradict each other")),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).into_iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(malformed("a precondition must be given once, in ASCII")),
    }
}

fn version(tag: &str) -> Result<Precondition, Problem> {
    let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let entry = quoted.unwrap_or(tag).split('-').next();
    let entry = entry.and_then(|entry| entry.parse().ok());
    let entry =
        entry.ok_or_else(|| malformed("If-Match must be * or the ETag of a quota or group"))?;
    Ok(Precondition::Version(entry))
}

fn malformed(detail: &str) -> Problem {
    Problem::new(Reason::Malformed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_change_depends_on_the_entry_and_a_cache_on_the_numbers() {
        let (before, after) = (tag(42, b"1"), tag(42, b"2"));
        for tag in [&before, &after] {
            let headers = headers(header::IF_MATCH, tag.to_str().unwrap());
            assert_eq!(of(&headers).unwrap(), Some(Precondition::Version(42)));
        }
        let cached = format!("\"x\", W/{}", before.to_str().unwrap());
        let cached = headers(header::IF_NONE_MATCH, &cached);
        assert!(has(&cached, &before));
        assert!(!has(&cached, &after));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (name, value) in [
            (header::IF_MATCH, "W/\"42\""),
            (header::IF_MATCH, "\"1\", \"2\""),
            (header::IF_MATCH, ""),
            (header::IF_NONE_MATCH, "\"42\""),
        ] {
            assert!(of(&headers(name, value)).is_err(), "{value}");
        }
        assert_eq!(of(&headers(header::IF_MATCH, "42")).unwrap(), Some(Precondition::Version(42)));
        assert_eq!(of(&headers(header::IF_MATCH, "*")).unwrap(), Some(Precondition::Present));
        assert_eq!(of(&headers(header::IF_NONE_MATCH, "*")).unwrap(), Some(Precondition::Absent));
    }
}
