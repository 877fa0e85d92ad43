//! `push`: events from a file to the daemon, in pieces of bounded size.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    address::Address,
    failure::{Exit, Failure, Outcome},
    output::note,
    session::{Session, patiently},
};

/// A request is sent when it has so many lines…
const PIECE_LINES: u64 = 1000;

/// …or so many bytes.
const PIECE_BYTES: usize = 512 * 1024;

/// Longest line that is sent, in bytes; the daemon refuses shorter ones already, and records them.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Most bytes of a JSON array that are read; lines have no such limit.
const MAX_ARRAY_BYTES: u64 = 256 * 1024 * 1024;

/// Most rejected lines that are kept for `-o json`.
const MAX_REJECTED: usize = 10_000;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Answer {
    accepted: u64,
    ignored: u64,
    rejected: Vec<Rejected>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Rejected {
    line: u64,
    reason: String,
}

/// Sends all events of a file; fails if one of them was rejected.
pub(crate) fn run(session: &Session, file: &Path) -> Outcome {
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let about = |error| Failure::from(error).about(file.display());
        Box::new(File::open(file).map_err(about)?)
    };
    let mut total = Answer::default();
    let mut rejected = 0_u64;
    let sent = pieces(BufReader::new(input), |first_line, piece| {
        let answer = patiently(|| post(session, piece)).map_err(|failure| {
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
                note(format!("line {}: {}", one.line, one.reason));
            } else if total.rejected.len() < MAX_REJECTED {
                total.rejected.push(one);
            }
        }
        Ok(())
    });
    if session.output.is_structured() {
        session.output.value(&total)?;
    } else {
        let Answer {
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

/// Gives the input in pieces of whole lines, each with the number of its first line.
fn pieces(mut input: impl BufRead, mut send: impl FnMut(u64, &[u8]) -> Outcome) -> Outcome {
    let start = skip_blank(&mut input)?;
    if input.fill_buf()?.first() == Some(&b'[') {
        return elements(input, send);
    }
    let mut first = start;
    let mut lines = 0;
    let mut piece = Vec::new();
    loop {
        let before = piece.len();
        let read = input
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut piece)?;
        if read as u64 == MAX_LINE_BYTES {
            let line = first.saturating_add(lines);
            return Err(Failure::general(format!(
                "line {line} is longer than {MAX_LINE_BYTES} bytes"
            )));
        }
        let ended = read == 0;
        let is_full = lines == PIECE_LINES || (lines > 0 && piece.len() > PIECE_BYTES);
        if (ended || is_full) && lines > 0 {
            send(first, &piece[..before])?;
            first = first.saturating_add(lines);
            lines = 0;
            piece.drain(..before);
        }
        if ended {
            return Ok(());
        }
        lines += 1;
    }
}

/// Blank lines at the beginning; the number of the first line that is not blank.
fn skip_blank(input: &mut impl BufRead) -> Outcome<u64> {
    let mut line = 1_u64;
    loop {
        let buffer = input.fill_buf()?;
        let blank = buffer
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let ends = buffer[..blank]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let all = blank == buffer.len();
        line = line.saturating_add(ends as u64);
        input.consume(blank);
        if !all || blank == 0 {
            return Ok(line);
        }
    }
}

/// The elements of an array as lines: the number of a line is the place of the element, from 1.
fn elements(input: impl Read, send: impl FnMut(u64, &[u8]) -> Outcome) -> Outcome {
    let mut text = Vec::new();
    input
        .take(MAX_ARRAY_BYTES.saturating_add(1))
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_ARRAY_BYTES {
        return Err(
            Failure::general(format!("an array longer than {MAX_ARRAY_BYTES} bytes"))
                .hint("one event per line has no such limit"),
        );
    }
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
    pieces(lines.as_slice(), send)
}

fn post(session: &Session, piece: &[u8]) -> Outcome<Answer> {
    let address = Address::of(["v1", "events"]);
    let reply = session
        .client
        .send(Method::POST, &address, Some("application/x-ndjson"), piece)?;
    Answer::deserialize(&reply.body)
        .map_err(|error| Failure::general(format!("an answer of another form: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        pieces(text.as_bytes(), |first, piece| {
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
        assert!(pieces(&b"[{}"[..], |_, _| Ok(())).is_err());
    }
}
