//! `push`: sends events from a file to the daemon, in pieces of bounded size.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use http::Method;
use quota_client::{
    http::Address,
    wire::{EventsAnswer, RejectedEvent, RelistAnswer, RelistRequest},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    failure::{Exit, Failure, Outcome},
    output::Progress,
    session::Session,
};

/// The maximum number of lines of a request.
const PIECE_LINES: u64 = 1000;

/// The maximum size of a request with several lines, in bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// The maximum length of a line, in bytes. The daemon rejects even shorter lines, and records them as dead letters.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The size of the input's buffer, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The maximum number of chunks that are read ahead. A chunk is one line, and all whole lines that are buffered behind it.
const CHUNKS_AHEAD: usize = 4;

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
        let Total { accepted, ignored, .. } = total;
        session
            .output
            .line(format!("{accepted} accepted, {ignored} ignored, {rejected} rejected"))?;
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
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let (first, begin) = begin(&mut input)?;
    match begin {
        None => return Ok(()),
        Some(b'[') => return elements(input, send),
        Some(_) => {}
    }
    let chunks = read_lines(input);
    let mut piece = Piece::from(first);
    loop {
        let received = match piece.deadline() {
            None => chunks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => chunks.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match received {
            Ok(chunk) => {
                let (chunk, mut line) = (chunk?, Vec::new());
                let mut rest = chunk.as_slice();
                while rest.read_until(b'\n', &mut line)? > 0 {
                    piece = piece.with(&line, Instant::now(), &mut send)?;
                    line.clear();
                }
            }
            Err(RecvTimeoutError::Timeout) => piece = piece.sent(&mut send)?,
            Err(RecvTimeoutError::Disconnected) => return piece.sent(&mut send).map(drop),
        }
    }
}

/// Skips blanks. Returns the number of the line at which the content begins, and its first byte, if there is any.
fn begin(input: &mut impl BufRead) -> io::Result<(u64, Option<u8>)> {
    let mut line = 1;
    loop {
        match input.fill_buf() {
            Ok([byte, ..]) if byte.is_ascii_whitespace() => {
                line += u64::from(*byte == b'\n');
                input.consume(1);
            }
            Ok(content) => return Ok((line, content.first().copied())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The lines of an input that may pause, in chunks: a thread reads them ahead, so that received lines can be sent
/// meanwhile. It ends with the input, or at its next line after the receiver was dropped. No line that is longer than
/// [`MAX_LINE_BYTES`] is read to its end.
fn read_lines(mut input: BufReader<impl Read + Send + 'static>) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, chunks) = sync_channel(CHUNKS_AHEAD);
    thread::spawn(move || {
        loop {
            let mut lines = Vec::new();
            let mut limited = input.by_ref().take(MAX_LINE_BYTES as u64);
            let read = match limited.read_until(b'\n', &mut lines) {
                Ok(0) => return,
                Ok(_) => {
                    let ahead = input.buffer();
                    let last = ahead.iter().rposition(|byte| *byte == b'\n');
                    let whole = last.map_or(0, |last| last + 1);
                    lines.extend_from_slice(&ahead[..whole]);
                    input.consume(whole);
                    Ok(lines)
                }
                Err(error) => Err(error),
            };
            // A line without an end is the last. Nothing is read after it: a terminal, or a file that grows, could give more.
            let is_last = read.as_ref().map_or(true, |lines| !lines.ends_with(b"\n"));
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    chunks
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
        Self { first, lines: 0, text: Vec::new(), since: None }
    }

    /// The time at which the piece is sent at the latest; none for an empty piece.
    fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + WAIT)
    }

    /// Adds a line. Sends the piece before, if it has no room for the line, or if the line is too long.
    fn with(
        mut self,
        line: &[u8],
        now: Instant,
        send: &mut impl FnMut(u64, &[u8]) -> Outcome,
    ) -> Outcome<Self> {
        let is_too_long = line.len() >= MAX_LINE_BYTES;
        let is_full = self.text.len() + line.len() > PIECE_BYTES || self.lines == PIECE_LINES;
        if is_too_long || (is_full && self.lines > 0) {
            self = self.sent(send)?;
        }
        if is_too_long {
            let wrong = format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.first);
            return Err(Failure::general(wrong));
        }
        self.since.get_or_insert(now);
        self.lines += 1;
        self.text.extend_from_slice(line);
        Ok(self)
    }

    /// Sends the piece, unless it is blank. Returns the next one.
    fn sent(self, send: &mut impl FnMut(u64, &[u8]) -> Outcome) -> Outcome<Self> {
        if !self.text.trim_ascii().is_empty() {
            send(self.first, &self.text)?;
        }
        Ok(Self::from(self.first.saturating_add(self.lines)))
    }
}

/// Sends the elements of an array as lines: the number of a line is that of its element, from 1.
fn elements(input: impl Read, mut send: impl FnMut(u64, &[u8]) -> Outcome) -> Outcome {
    let mut text = Vec::new();
    let mut limited = input.take(MAX_ARRAY_BYTES as u64 + 1);
    limited.read_to_end(&mut text)?;
    if text.len() > MAX_ARRAY_BYTES {
        return Err(Failure::general(format!("an array longer than {MAX_ARRAY_BYTES} bytes"))
            .hint("one event per line has no such limit"));
    }
    let wrong = |error: serde_json::Error| Failure::general(format!("not JSON: {error}"));
    let elements: Vec<&RawValue> = serde_json::from_slice(&text).map_err(wrong)?;
    let mut piece = Piece::from(1);
    for element in elements {
        // Line ends stand only between the tokens of JSON, where a blank does as well.
        let line = element.get().replace(['\n', '\r'], " ") + "\n";
        piece = piece.with(line.as_bytes(), Instant::now(), &mut send)?;
    }
    piece.sent(&mut send).map(drop)
}

fn post(session: &Session, piece: &[u8]) -> Outcome<EventsAnswer> {
    let address = Address::of(["v1", "events"]);
    let client = &session.client;
    let reply = client.send_patiently(&address, "application/x-ndjson", piece.to_vec())?;
    reply.read()
}

/// Requests a relist of these resources, or of all.
pub(crate) fn relist(session: &Session, resources: &[String]) -> Outcome {
    let address = Address::of(["v1", "relist"]);
    let request = RelistRequest { resources: resources.to_vec() };
    let reply = session.client.send_json(Method::POST, &address, &request)?;
    if session.output.is_structured() {
        return session.output.value(&reply.json);
    }
    let what = match resources {
        [] => "everything".to_owned(),
        some => some.join(", "),
    };
    let answer: RelistAnswer = reply.read()?;
    let when = match answer.wait_seconds {
        0 => "now".to_owned(),
        wait => format!("in {wait}s, since another relist was requested recently"),
    };
    for cluster in &answer.clusters {
        session.output.line(format!("{cluster} is requested to list {what} {when}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

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
        assert_eq!(pieces.into_iter().map(|(_, piece)| piece).collect::<String>(), text);
        assert_eq!(cut("\n\n{}\n\n{}"), [(3, "{}\n\n{}".to_owned())]);
        assert_eq!(cut(" \n "), []);
    }

    /// Further lines do not delay received ones: half of the promised time is left for sending.
    #[test]
    fn a_piece_is_due_within_200_milliseconds_of_its_first_line() {
        let promised = Duration::from_millis(200);
        let begun = Instant::now();
        let mut send = |_, _: &[u8]| Ok(());
        let mut piece = Piece::from(1);
        assert_eq!(piece.deadline(), None);
        for milliseconds in [0, 40, 80, 120] {
            let now = begun + Duration::from_millis(milliseconds);
            piece = piece.with(b"{}\n", now, &mut send).unwrap();
            let due = piece.deadline().unwrap();
            assert!(due - begun <= promised / 2, "{:?}", due - begun);
        }
        let next = piece.sent(&mut send).unwrap();
        assert_eq!(next.deadline(), None);
    }

    #[test]
    fn what_has_come_is_sent_while_more_is_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (sender, sent) = std::sync::mpsc::channel();
        let sending = thread::spawn(move || {
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
        let firsts: Vec<_> = pieces.iter().map(|(first, piece)| (*first, piece.len())).collect();
        assert_eq!(firsts, [(1, 3), (2, long.len()), (3, 3)]);
    }

    #[test]
    fn an_array_is_sent_as_lines() {
        assert_eq!(cut("\n[{\"a\":\n1}, {}]"), [(1, "{\"a\": 1}\n{}\n".to_owned())]);
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
