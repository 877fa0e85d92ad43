//! Names of objects, of which there may be ten million: short names need no allocation.

use crate::codec::{DecodeError, Reader, Wire, Writer};

/// The longest text that is stored inline, in bytes: as much as fits into 32 bytes. Most names of pods are shorter.
const INLINE_MAX: usize = 30;

/// A short text, usually stored inline.
#[derive(Clone, Debug)]
pub(crate) struct Label(Form);

#[derive(Clone, Debug)]
enum Form {
    Inline { length: u8, bytes: [u8; INLINE_MAX] },
    Apart(Box<str>),
}

impl Label {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Form::Apart(text) => text.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Form::Inline { .. } => {
                std::str::from_utf8(self.as_bytes()).expect("it was made from text")
            }
            Form::Apart(text) => text,
        }
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE_MAX];
        let Some(place) = bytes.get_mut(..text.len()) else {
            return Self(Form::Apart(text.into()));
        };
        place.copy_from_slice(text.as_bytes());
        Self(Form::Inline { length: u8::try_from(text.len()).expect("it fits in place"), bytes })
    }
}

/// Encoded as a text.
impl Wire for Label {
    fn put(&self, writer: &mut Writer) {
        writer.text(self.as_str());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_it_was_made_from() {
        for length in [0, 1, INLINE_MAX - 2, INLINE_MAX - 1, INLINE_MAX, 1000] {
            let text = format!("{}ü", "x".repeat(length));
            let label = Label::from(text.as_str());
            assert_eq!(label.as_str(), text);
            let is_inline = matches!(label.0, Form::Inline { .. });
            assert_eq!(is_inline, text.len() <= INLINE_MAX);
        }
    }

    #[test]
    fn it_is_written_as_text() {
        for length in [0, INLINE_MAX, INLINE_MAX + 1] {
            let text = "x".repeat(length);
            let [mut short, mut long] = [Writer::default(), Writer::default()];
            Label::from(text.as_str()).put(&mut short);
            text.clone().put(&mut long);
            let bytes = short.finish();
            assert_eq!(bytes, long.finish());
            let mut reader = Reader::new(&bytes).unwrap();
            assert_eq!(Label::take(&mut reader).unwrap().as_str(), text);
        }
    }

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Label>(), 32);
    }
}
