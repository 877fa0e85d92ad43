//! A real daemon, and principals with tokens who call it.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use quota_client::tokens::{File, Pattern, Role, issue};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    PATIENCE,
    quotad::{Quotad, read},
};

/// A principal: its name, its roles and the namespaces in which it has them, each separated by commas.
pub type Principal<'a> = (&'a str, &'a str, &'a str);

/// Somebody without a token.
pub const NOBODY: &str = "";

/// A daemon, and those who call it.
pub struct Callers {
    pub daemon: Quotad,
    tokens: BTreeMap<String, String>,
    _directory: TempDir,
}

impl Callers {
    /// Starts a daemon with these further arguments that knows these principals.
    pub fn start(principals: &[Principal<'_>], arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let mut file = File::default();
        let mut tokens = BTreeMap::new();
        for (name, roles, namespaces) in principals {
            let roles: Vec<Role> = listed(roles);
            let namespaces: Vec<Pattern> = listed(namespaces);
            let issued = issue(name, roles, namespaces, None).unwrap();
            tokens.insert((*name).to_owned(), issued.token.reveal().to_owned());
            file.tokens.push(issued.record);
        }
        fs::write(directory.path().join("tokens.toml"), file.to_toml().unwrap()).unwrap();
        let all = [&["--auth.tokens_file=tokens.toml"], arguments].concat();
        Self { daemon: Quotad::start(directory.path(), &all), tokens, _directory: directory }
    }

    /// What a principal shows.
    pub fn token(&self, who: &str) -> &str {
        &self.tokens[who]
    }

    /// The header by which a principal is known; none for [`NOBODY`].
    pub fn authorization(&self, who: &str) -> Option<String> {
        (who != NOBODY).then(|| format!("Bearer {}", self.token(who)))
    }

    /// What a principal is answered: status and body, which is null if it is not JSON. Nothing is sent as a body if that
    /// is null.
    pub fn call(&self, who: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.call_within(PATIENCE, who, method, path, body)
    }

    /// The same, with so much time for the answer.
    pub fn call_within(
        &self,
        patience: Duration,
        who: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let authorization = self.authorization(who);
        let headers = authorization.iter().map(|value| ("authorization", &**value));
        let headers: Vec<_> = headers.collect();
        read(self.daemon.send(patience, (method, path), &headers, body))
    }

    /// The body of the answer, which has this status.
    #[track_caller]
    pub fn expect(&self, status: u16, who: &str, method: &str, path: &str, body: &Value) -> Value {
        let (found, answer) = self.call(who, method, path, body);
        assert_eq!(found, status, "{who}: {method} {path}: {answer}");
        answer
    }

    /// The body of an answer 200 to a question.
    #[track_caller]
    pub fn get(&self, who: &str, path: &str) -> Value {
        self.expect(200, who, "GET", path, &Value::Null)
    }

    /// Asserts a refusal and its reason.
    #[track_caller]
    pub fn refused(
        &self,
        (status, reason): (u16, &str),
        who: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) {
        let answer = self.expect(status, who, method, path, body);
        assert_eq!(answer["reason"], reason, "{who}: {method} {path}: {answer}");
    }

    /// The value of a metric, with its labels; 0 if it is not there.
    pub fn metric(&self, name: &str) -> u64 {
        // Where requests have little time, this one may take longer than that on a busy machine.
        let deadline = Instant::now() + PATIENCE;
        let metrics = loop {
            match self.daemon.ask_admin("/metrics") {
                (200, metrics) => break metrics,
                (status, text) => assert!(Instant::now() < deadline, "{status}: {text}"),
            }
        };
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    }
}

/// What a list holds.
fn listed<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let read = |part: &str| part.parse().ok().unwrap_or_else(|| panic!("{part}?"));
    text.split(',').map(read).collect()
}
