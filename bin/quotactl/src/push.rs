//! `push`: sends events from a file to the daemon, in pieces of bounded size.

mod feed;

use std::{
    fs::File,
    io::{self, Cursor, Read},
    path::Path,
    time::{Duration, Instant},
};

use quota_client::{
    http::Address,
    wire::{EventsAnswer, RejectedEvent},
};
use serde::Serialize;
use serde_json::value::RawValue;

use self::feed::{Feed, Next};
use super::{
    failure::{Exit, Failure, Outcome},
    progress::Progress,
    session::Session,
};

/// The maximum number of lines of a request.
const PIECE_LINES: u64 = 1000;

/// The maximum size of a request with several lines, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// The maximum length of a line, in bytes. The daemon rejects even shorter lines, and records them as dead letters.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The maximum size of a JSON array, in bytes; lines have no such limit.
const MAX_ARRAY_BYTES: usize = 256 * 1024 * 1024;

/// The time for which a line waits for others before it is sent. Sending takes additional time.
const WAIT: Duration = Duration::from_millis(100);

/// The maximum number of rejected lines that are kept for `-o json`.
const MAX_REJECTED: usize = 10_000;

/// The total outcome of all pieces.
#[derive(Debug, Default, Serialize)]
struct Total {
    accepted: u64,
    ignored: u64,
    rejected: Vec<RejectedEvent>,
}

/// Sends all events of a file; fails if one of them was rejected.
pub(crate) fn run(session: &Session, file: &Path) -> Outcome {
    let input: Box<dyn Read + Send> = if file == Path::new("-") {
        Box::new(io::stdin())
    } else {
        let about = |error| Failure::from(error).about(file.display());
        Box::new(File::open(file).map_err(about)?)
    };
    let progress = Progress::over_file("pushing", file);
    let input = progress.read(input);
    let mut total = Total::default();
    let mut rejected = 0_u64;
    let sent = pieces(input, |first_line, piece| {
        let answer = post(session, piece).map_err(|failure| {
            failure.hint(format!(
                "everything before line {first_line} was sent; sending it again is safe"
            ))
        })?;
        total.accepted += answer.accepted;
        total.ignored += answer.ignored;
        for mut one in answer.rejected {
            one.line = first_line.saturating_add(one.line).saturating_sub(1);
            rejected += 1;
            if !session.output.is_structured() {
                progress.note(format!("line {}: {}", one.line, one.reason));
            } else if total.rejected.len() < MAX_REJECTED {
                total.rejected.push(one);
            }
        }
        Ok(())
    });
    drop(progress);
    if session.output.is_structured() {
        session.output.value(&total)?;
    } else {
        let Total {
            accepted, ignored, ..
        } = total;
        session.output.line(format!(
            "{accepted} accepted, {ignored} ignored, {rejected} rejected"
        ))?;
    }
    sent?;
    if rejected > 0 {
        return Err(Failure::silent(Exit::Failure));
    }
    Ok(())
}

/// Splits the input into pieces of whole lines, and passes each to `send` with the number of its first line. A received
/// line waits for others only for a short time.
fn pieces(
    input: impl Read + Send + 'static,
    mut send: impl FnMut(u64, &[u8]) -> Outcome,
) -> Outcome {
    let mut feed = Feed::of(input);
    let mut piece = Piece::from(1);
    let mut has_begun = false;
    loop {
        match feed.line(MAX_LINE_BYTES, piece.deadline())? {
            Next::Line(line) if !has_begun && line.trim_ascii().is_empty() => piece.first += 1,
            Next::Line(line) if !has_begun && line.trim_ascii_start().starts_with(b"[") => {
                return elements(&line, &mut feed, send);
            }
            Next::Line(line) => {
                has_begun = true;
                if piece.has_no_room_for(&line) {
                    piece = piece.sent(&mut send)?;
                }
                piece.add(&line, Instant::now());
            }
            Next::Pause => piece = piece.sent(&mut send)?,
            // An array may be one line: it has a limit of its own.
            Next::TooLong if !has_begun && feed.ahead().trim_ascii_start().starts_with(b"[") => {
                return elements(&[], &mut feed, send);
            }
            Next::TooLong => {
                let line = piece.next();
                piece.sent(&mut send)?;
                return Err(Failure::general(format!(
                    "line {line} is longer than {MAX_LINE_BYTES} bytes"
                )));
            }
            Next::End => return piece.sent(&mut send).map(drop),
        }
    }
}

/// Lines that are sent in one request.
struct Piece {
    first: u64,
    lines: u64,
    text: Vec<u8>,
    /// The time at which the first line was received; none for an empty piece.
    since: Option<Instant>,
}

impl Piece {
    const fn from(first: u64) -> Self {
        Self {
            first,
            lines: 0,
            text: Vec::new(),
            since: None,
        }
    }

    /// The number of the first line after the piece.
    const fn next(&self) -> u64 {
        self.first.saturating_add(self.lines)
    }

    fn has_no_room_for(&self, line: &[u8]) -> bool {
        let bytes = self.text.len() + line.len();
        self.lines == PIECE_LINES || (self.lines > 0 && bytes > PIECE_BYTES)
    }

    /// The time at which the piece is sent at the latest; none for an empty piece.
    fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + WAIT)
    }

    fn add(&mut self, line: &[u8], now: Instant) {
        self.since.get_or_insert(now);
        self.lines += 1;
        self.text.extend_from_slice(line);
    }

    /// Sends the piece, unless it is blank. Returns the next one.
    fn sent(self, send: &mut impl FnMut(u64, &[u8]) -> Outcome) -> Outcome<Self> {
        if !self.text.trim_ascii().is_empty() {
            send(self.first, &self.text)?;
        }
        Ok(Self::from(self.next()))
    }
}

/// Sends the elements of an array as lines: the number of a line is that of its element, from 1.
fn elements(begin: &[u8], feed: &mut Feed, send: impl FnMut(u64, &[u8]) -> Outcome) -> Outcome {
    let Some(rest) = feed.rest(MAX_ARRAY_BYTES)? else {
        return Err(
            Failure::general(format!("an array longer than {MAX_ARRAY_BYTES} bytes"))
                .hint("one event per line has no such limit"),
        );
    };
    let text = [begin, &rest].concat();
    let wrong = |error: serde_json::Error| Failure::general(format!("not JSON: {error}"));
    let elements: Vec<&RawValue> = serde_json::from_slice(&text).map_err(wrong)?;
    let mut lines = Vec::with_capacity(text.len());
    for element in elements {
        // Line ends stand only between the tokens of JSON, where a blank does as well.
        lines.extend(element.get().bytes().map(|byte| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                byte
            }
        }));
        lines.push(b'\n');
    }
    pieces(Cursor::new(lines), send)
}

fn post(session: &Session, piece: &[u8]) -> Outcome<EventsAnswer> {
    let address = Address::of(["v1", "events"]);
    let client = &session.client;
    let reply = client.send_patiently(&address, "application/x-ndjson", piece.to_vec())?;
    reply.read()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn cut(text: &str) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        pieces(Cursor::new(text.to_owned()), |first, piece| {
            found.push((first, String::from_utf8(piece.to_vec()).unwrap()));
            Ok(())
        })
        .unwrap();
        found
    }

    #[test]
    fn pieces_hold_whole_lines_and_know_where_they_begin() {
        let text: String = (1..=2500).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        let pieces = cut(&text);
        let firsts: Vec<_> = pieces.iter().map(|(first, _)| *first).collect();
        assert_eq!(firsts, [1, 1001, 2001]);
        assert_eq!(
            pieces
                .into_iter()
                .map(|(_, piece)| piece)
                .collect::<String>(),
            text
        );
        assert_eq!(cut("\n\n{}\n\n{}"), [(3, "{}\n\n{}".to_owned())]);
        assert_eq!(cut(" \n "), []);
    }

    /// Further lines do not delay received ones: half of the promised time is left for sending.
    #[test]
    fn a_piece_is_due_within_200_milliseconds_of_its_first_line() {
        let promised = Duration::from_millis(200);
        let begun = Instant::now();
        let mut piece = Piece::from(1);
        assert_eq!(piece.deadline(), None);
        for milliseconds in [0, 40, 80, 120] {
            piece.add(b"{}\n", begun + Duration::from_millis(milliseconds));
            let due = piece.deadline().unwrap();
            assert!(due - begun <= promised / 2, "{:?}", due - begun);
        }
        let next = piece.sent(&mut |_, _| Ok(())).unwrap();
        assert_eq!(next.deadline(), None);
    }

    #[test]
    fn what_has_come_is_sent_while_more_is_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (sender, sent) = std::sync::mpsc::channel();
        let sending = std::thread::spawn(move || {
            pieces(reader, |first, piece| {
                sender.send((first, piece.to_vec())).unwrap();
                Ok(())
            })
            .unwrap();
        });
        let patience = Duration::from_secs(20);
        // The second line is not whole yet, and the blank one is nothing to be sent.
        writer.write_all(b"{}\n{\"a\":").unwrap();
        assert_eq!(sent.recv_timeout(patience).unwrap(), (1, b"{}\n".to_vec()));
        writer.write_all(b"1}\n").unwrap();
        let second = sent.recv_timeout(patience).unwrap();
        assert_eq!(second, (2, b"{\"a\":1}\n".to_vec()));
        writer.write_all(b"\n{}").unwrap();
        drop(writer);
        let last = sent.recv_timeout(patience).unwrap();
        assert_eq!(last, (3, b"\n{}".to_vec()));
        sending.join().unwrap();
        assert!(sent.recv().is_err());
    }

    #[test]
    fn long_lines_go_alone() {
        let long = format!("{{\"x\":\"{}\"}}\n", "y".repeat(PIECE_BYTES));
        let pieces = cut(&format!("{{}}\n{long}{{}}\n"));
        let firsts: Vec<_> = pieces
            .iter()
            .map(|(first, piece)| (*first, piece.len()))
            .collect();
        assert_eq!(firsts, [(1, 3), (2, long.len()), (3, 3)]);
    }

    #[test]
    fn an_array_is_sent_as_lines() {
        assert_eq!(
            cut("\n[{\"a\":\n1}, {}]"),
            [(1, "{\"a\": 1}\n{}\n".to_owned())]
        );
        assert!(pieces(Cursor::new("[{}"), |_, _| Ok(())).is_err());
    }

    #[test]
    fn an_array_may_be_one_line_that_is_longer_than_lines_may_be() {
        let element = format!("{{\"x\":\"{}\"}}", "y".repeat(MAX_LINE_BYTES / 4));
        let array = format!("[{}]", [&*element; 5].join(","));
        for text in [array.clone(), format!("\n {array}\n")] {
            let sent: String = cut(&text).into_iter().map(|(_, piece)| piece).collect();
            assert!(sent == format!("{element}\n").repeat(5));
        }
        let line = |text: String| pieces(Cursor::new(text), |_, _| Ok(())).unwrap_err();
        let behind_another = line(format!("{{}}\n{array}\n"));
        assert!(behind_another.message.starts_with("line 2 is longer"));
        let object = line(format!("{{\"x\":{array}}}\n"));
        assert!(object.message.starts_with("line 1 is longer"));
    }
}
