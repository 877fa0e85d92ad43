//! The skeleton of a review that is too large to keep: its outer fields down to those of its request, in any order
//! among the objects.

/// Deeper objects and arrays are kept empty. This depth covers the review, its request, and the request's small fields.
const DEPTH_MAX: usize = 3;

/// Longer strings are kept empty.
const STRING_BYTES_MAX: usize = 1024;

/// Most bytes that are kept.
const BYTES_MAX: usize = 64 * 1024;

/// Reads JSON as it arrives and keeps its outer fields. Of a body that is not JSON, the result is not JSON either.
#[derive(Debug, Default)]
pub(super) struct Skeleton {
    kept: Vec<u8>,
    depth: usize,
    string: Option<Text>,
}

/// An unfinished string.
#[derive(Clone, Copy, Debug)]
struct Text {
    /// Where the kept part of the string begins.
    start: usize,
    escaped: bool,
    too_long: bool,
}

impl Skeleton {
    /// Reads the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.string {
                Some(text) => self.read_on(text, byte),
                None => self.read(byte),
            }
        }
    }

    /// The kept JSON.
    pub(super) fn into_json(self) -> Vec<u8> {
        self.kept
    }

    fn read(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.keep(byte);
                self.string =
                    Some(Text { start: self.kept.len(), escaped: false, too_long: false });
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn read_on(&mut self, mut text: Text, byte: u8) {
        let ends = byte == b'"' && !text.escaped;
        text.escaped = byte == b'\\' && !text.escaped;
        if !text.too_long && self.kept.len() - text.start >= STRING_BYTES_MAX {
            self.kept.truncate(text.start);
            text.too_long = true;
        }
        if ends || !text.too_long {
            self.keep(byte);
        }
        self.string = (!ends).then_some(text);
    }

    fn keep(&mut self, byte: u8) {
        if self.depth <= DEPTH_MAX && self.kept.len() < BYTES_MAX {
            self.kept.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(json: &str, chunk: usize) -> Value {
        let mut skeleton = Skeleton::default();
        for bytes in json.as_bytes().chunks(chunk) {
            skeleton.push(bytes);
        }
        serde_json::from_slice(&skeleton.into_json()).unwrap()
    }

    #[test]
    fn what_is_deep_or_long_is_kept_empty() {
        let long = "\\\"ä".repeat(STRING_BYTES_MAX);
        let review = json!({
            "a": {"b": {"c": {"d": [1, 2]}, "e": [[1], "]}\\\""]}, "long": long, "n": -1.5e3},
            "uid": "u\"1",
        });
        let kept = json!({
            "a": {"b": {"c": {}, "e": []}, "long": "", "n": -1.5e3},
            "uid": "u\"1",
        });
        for text in [review.to_string(), format!("{review:#}")] {
            for chunk in [1, 2, 7, text.len()] {
                assert_eq!(of(&text, chunk), kept);
            }
        }
    }

    #[test]
    fn what_is_kept_is_bounded_whatever_comes() {
        for text in ["\"a\",", "{", "]", "\\", "\"\\"] {
            let mut skeleton = Skeleton::default();
            skeleton.push(text.repeat(BYTES_MAX).as_bytes());
            assert!(skeleton.into_json().len() <= BYTES_MAX);
        }
    }
}
