//! The parser of templates.

use serde_json::Value;

use super::{Comparison, Filter, Operand, Origin, Part, Path, Step, Template};

/// The maximum length of a template, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The maximum nesting of `range` and of filters.
const MAX_DEPTH: usize = 16;

/// A syntax error in a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why} at character {at}")]
pub(crate) struct ParseError {
    why: String,
    /// The position of the error, from 1.
    at: usize,
}

type Parsed<T> = Result<T, ParseError>;

pub(super) fn template(text: &str) -> Parsed<Template> {
    if !text.contains('{') {
        let path = path(text)?;
        return Ok(Template {
            parts: vec![Part::Path(path)],
        });
    }
    let mut parser = Parser::new(text)?;
    let parts = parser.parts(0)?;
    Ok(Template { parts })
}

pub(super) fn path(text: &str) -> Parsed<Path> {
    let mut parser = Parser::new(text)?;
    parser.skip_blanks();
    let in_braces = parser.take("{");
    parser.skip_blanks();
    let path = parser.path(0)?;
    parser.skip_blanks();
    if in_braces {
        parser.expect("}")?;
        parser.skip_blanks();
    }
    match parser.peek() {
        None => Ok(path),
        Some(_) => Err(parser.wrong("unexpected text after the path")),
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Parsed<Self> {
        let parser = Self {
            text: text.chars().take(MAX_BYTES + 1).collect(),
            at: 0,
        };
        match text.len() > MAX_BYTES {
            true => Err(parser.wrong("the template is too long")),
            false => Ok(parser),
        }
    }

    fn wrong(&self, why: impl Into<String>) -> ParseError {
        ParseError {
            why: why.into(),
            at: self.at + 1,
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    fn take(&mut self, wanted: &str) -> bool {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let here = rest.iter().copied().take(wanted.chars().count());
        let found = here.eq(wanted.chars());
        if found {
            self.at += wanted.chars().count();
        }
        found
    }

    fn expect(&mut self, wanted: &str) -> Parsed<()> {
        match self.take(wanted) {
            true => Ok(()),
            false => Err(self.wrong(format!("{wanted:?} is missing"))),
        }
    }

    /// Takes a keyword, if it is not the begin of a longer name.
    fn take_word(&mut self, word: &str) -> bool {
        let before = self.at;
        if self.take(word) && !self.peek().is_some_and(is_name) {
            return true;
        }
        self.at = before;
        false
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// Parses parts up to the end, or within a range up to its `{end}`.
    fn parts(&mut self, depth: usize) -> Parsed<Vec<Part>> {
        let mut parts = Vec::new();
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c != '{' {
                text.push(c);
                continue;
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            self.skip_blanks();
            if self.take_word("end") {
                self.skip_blanks();
                self.expect("}")?;
                return match depth {
                    0 => Err(self.wrong("{end} without {range}")),
                    _ => Ok(parts),
                };
            }
            self.action(depth, &mut parts)?;
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        match depth {
            0 => Ok(parts),
            _ => Err(self.wrong("{range} without {end}")),
        }
    }

    /// Parses the content of braces: a range, or texts and paths.
    fn action(&mut self, depth: usize, parts: &mut Vec<Part>) -> Parsed<()> {
        if self.take_word("range") {
            if depth >= MAX_DEPTH {
                return Err(self.wrong("too many ranges in one another"));
            }
            self.skip_blanks();
            let path = self.path(0)?;
            self.skip_blanks();
            self.expect("}")?;
            parts.push(Part::Range(path, self.parts(depth + 1)?));
            return Ok(());
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('"' | '\'') => parts.push(Part::Text(self.quoted()?)),
                Some(_) => parts.push(Part::Path(self.path(0)?)),
                None => return Err(self.wrong("\"}\" is missing")),
            }
        }
    }

    /// Parses a path: `$.items[0].metadata.name`; the first name needs no dot.
    fn path(&mut self, depth: usize) -> Parsed<Path> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("too many filters in one another"));
        }
        let (from, begin) = match self.peek() {
            Some('$') => (Origin::Root, true),
            Some('@') => (Origin::Current, true),
            _ => (Origin::Current, false),
        };
        if begin {
            self.at += 1;
        }
        let mut steps = Vec::new();
        if !begin && self.peek().is_some_and(is_name) {
            steps.push(Step::Fields(vec![self.name()?]));
        } else if !begin && !matches!(self.peek(), Some('.' | '[')) {
            return Err(self.wrong("no path begins here"));
        }
        loop {
            if self.take("..") {
                steps.push(match self.peek() {
                    Some(c) if is_name(c) => Step::Descend(Some(self.name()?)),
                    _ => Step::Descend(None),
                });
                self.take("*");
            } else if self.take(".*") {
                steps.push(Step::Each);
            } else if self.take(".") {
                match self.peek() {
                    Some(c) if is_name(c) => steps.push(Step::Fields(vec![self.name()?])),
                    // `{.}` is the value itself; `.[0]` is `[0]`.
                    _ => {}
                }
            } else if self.take("[") {
                steps.push(self.brackets(depth)?);
            } else {
                return Ok(Path { from, steps });
            }
        }
    }

    fn name(&mut self) -> Parsed<String> {
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| is_name(*c)) {
            self.at += 1;
            match c {
                '\\' => match self.next() {
                    Some(escaped) => name.push(escaped),
                    None => return Err(self.wrong("incomplete escape")),
                },
                c => name.push(c),
            }
        }
        Ok(name)
    }

    /// Parses the content of `[` and `]`.
    fn brackets(&mut self, depth: usize) -> Parsed<Step> {
        self.skip_blanks();
        let step = match self.peek() {
            Some('*') => {
                self.at += 1;
                Step::Each
            }
            Some('?') => {
                self.at += 1;
                self.expect("(")?;
                let filter = self.filter(depth)?;
                self.expect(")")?;
                Step::Filter(filter)
            }
            Some('"' | '\'') => Step::Fields(self.separated(Self::quoted)?),
            _ => self.indices()?,
        };
        self.skip_blanks();
        self.expect("]")?;
        Ok(step)
    }

    fn separated<T>(&mut self, mut one: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut all = vec![one(self)?];
        loop {
            self.skip_blanks();
            if !self.take(",") {
                return Ok(all);
            }
            self.skip_blanks();
            all.push(one(self)?);
        }
    }

    fn indices(&mut self) -> Parsed<Step> {
        let begin = match self.peek() {
            Some(':') => None,
            _ => Some(self.integer()?),
        };
        if !self.take(":") {
            let mut all: Vec<_> = begin.into_iter().collect();
            self.skip_blanks();
            if self.take(",") {
                self.skip_blanks();
                all.extend(self.separated(Self::integer)?);
            }
            return Ok(Step::Indices(all));
        }
        let number = |parser: &mut Self| match parser.peek() {
            Some('-' | '+' | '0'..='9') => parser.integer().map(Some),
            _ => Ok(None),
        };
        let end = number(self)?;
        let step = match self.take(":") {
            true => number(self)?.unwrap_or(1),
            false => 1,
        };
        match step > 0 {
            true => Ok(Step::Slice { begin, end, step }),
            false => Err(self.wrong("the step of a slice is at least 1")),
        }
    }

    fn integer(&mut self) -> Parsed<i64> {
        let text = self.run_of(|c| matches!(c, '-' | '+' | '0'..='9'));
        text.parse()
            .map_err(|_| self.wrong("a number, a name in quotes, * or ?( is missing"))
    }

    fn number(&mut self) -> Parsed<Value> {
        let text = self.run_of(|c| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
        serde_json::from_str(&text).map_err(|_| self.wrong(format!("{text:?} is no number")))
    }

    /// Takes the following characters that satisfy `is_so`.
    fn run_of(&mut self, is_so: impl Fn(char) -> bool) -> String {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| is_so(*c)) {
            self.at += 1;
            text.push(c);
        }
        text
    }

    /// Parses a filter: `@.a == "b"`, or `@.a`, which tests existence.
    fn filter(&mut self, depth: usize) -> Parsed<Filter> {
        let left = self.operand(depth)?;
        self.skip_blanks();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let found = comparisons
            .into_iter()
            .find(|(sign, _)| self.take(sign))
            .map(|(_, comparison)| comparison);
        let compared = match found {
            Some(comparison) => Some((comparison, self.operand(depth)?)),
            None => None,
        };
        self.skip_blanks();
        Ok(Filter { left, compared })
    }

    fn operand(&mut self, depth: usize) -> Parsed<Operand> {
        self.skip_blanks();
        match self.peek() {
            Some('"' | '\'') => Ok(Operand::Literal(Value::String(self.quoted()?))),
            Some('-' | '+' | '0'..='9') => self.number().map(Operand::Literal),
            _ if self.take_word("true") => Ok(Operand::Literal(Value::Bool(true))),
            _ if self.take_word("false") => Ok(Operand::Literal(Value::Bool(false))),
            _ => self.path(depth + 1).map(Operand::Path),
        }
    }

    /// Parses a text in single or double quotes, with escapes such as `\n` and `\t`.
    fn quoted(&mut self) -> Parsed<String> {
        let Some(quote @ ('"' | '\'')) = self.next() else {
            return Err(self.wrong("a quote is missing"));
        };
        let mut text = String::new();
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some(c) => text.push(c),
                    None => return Err(self.wrong("the quote does not end")),
                },
                Some(c) => text.push(c),
                None => return Err(self.wrong("the quote does not end")),
            }
        }
    }
}

/// Whether a name continues with this character; a backslash escapes the next one.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '\\' | '/')
}
