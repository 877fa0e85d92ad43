//! A reader of server-sent events, with the fields that the daemon uses: `id`, `event`, `data`, comments.

use std::io::{self, BufRead, Read as _};

/// The maximum length of a line, in bytes.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;

/// The maximum length of an event's data, in bytes.
const MAX_DATA_BYTES: usize = 16 * 1024 * 1024;

/// An event with data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The id to resume after; empty if the stream has sent none.
    pub id: String,
    /// The type of the event; empty if it has none.
    pub kind: String,
    /// The data of the event.
    pub data: String,
}

/// Reads events from a stream.
#[derive(Debug)]
pub struct Events<R> {
    input: R,
    id: String,
    last_id: String,
}

impl<R: BufRead> Events<R> {
    /// A reader of this stream.
    pub const fn new(input: R) -> Self {
        Self { input, id: String::new(), last_id: String::new() }
    }

    /// The next event; none at the end of the stream.
    ///
    /// # Errors
    /// If the connection breaks, or the stream is not UTF-8 or too long (lines of 8 MiB, events of 16 MiB).
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut has_data = false;
        while let Some(line) = self.line()? {
            if line.is_empty() {
                self.last_id.clone_from(&self.id);
                if has_data {
                    event.id.clone_from(&self.id);
                    return Ok(Some(event));
                }
                event = Event::default();
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.id = value.to_owned(),
                "event" => event.kind = value.to_owned(),
                "data" => {
                    if has_data {
                        event.data.push('\n');
                    }
                    has_data = true;
                    event.data.push_str(value);
                    if event.data.len() > MAX_DATA_BYTES {
                        return Err(io::Error::other("an event is too long"));
                    }
                }
                // Comments keep the connection alive; other fields are not for us.
                _ => {}
            }
        }
        Ok(None)
    }

    /// The id after which a broken stream is resumed: that of the last complete block, with or without data. Empty if
    /// there was none.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let read = self.input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        match line.pop() {
            Some(b'\n') => {}
            Some(_) if read as u64 == MAX_LINE_BYTES => {
                return Err(io::Error::other("a line is too long"));
            }
            // What follows the last line end is no event yet.
            _ => return Ok(None),
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map(Some).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_with_their_ids() {
        let text = ": hello\n\nid: 1\ndata: {\"a\":\ndata: 1}\n\n: beat\n\nid:2\r\nevent:mark\r\ndata:x\r\n\r\nid: 3\n\nid: 4\ndata: cut";
        let mut events = Events::new(text.as_bytes());
        let first = events.next_event().unwrap().unwrap();
        assert_eq!((first.id.as_str(), first.data.as_str()), ("1", "{\"a\":\n1}"));
        let second = events.next_event().unwrap().unwrap();
        assert_eq!((&*second.id, &*second.kind, &*second.data), ("2", "mark", "x"));
        assert_eq!(events.last_id(), "2");
        assert_eq!(events.next_event().unwrap(), None);
        assert_eq!(events.last_id(), "3", "the last block is not complete");
    }

    #[test]
    fn a_stream_that_is_no_text_is_refused() {
        let mut events = Events::new(&b"data: \xff\n\n"[..]);
        assert!(events.next_event().is_err());
    }
}
