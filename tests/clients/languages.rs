//! The examples of docs/hook.md, as they are written there: each against the real daemon, and against one that is busy and
//! loses an answer.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::JoinHandle,
};

use quota_client::{
    http::{Client, Options, Token},
    wire::{Holder, ReserveRequest},
};
use quota_semantics::uid::Uid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{python, support::callers::Callers};

const PAGE: &str = include_str!("../../docs/hook.md");
const LANGUAGES: [&str; 3] = ["sh", "go", "python"];

/// The example in a language.
fn example(language: &str) -> &'static str {
    let (_, block) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    block.split_once("```").unwrap().0
}

/// An example as a program, built where it has to be, in a directory of its own.
struct Program {
    command: Vec<PathBuf>,
    directory: TempDir,
}

impl Program {
    fn of(language: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join(format!("hook.{language}"));
        fs::write(&file, example(language)).unwrap();
        let command = match language {
            "sh" => vec!["bash".into(), file],
            "python" => vec![python(), file],
            "go" => vec![built_by_go(&file, directory.path())],
            language => panic!("{language} is not known"),
        };
        Self { command, directory }
    }

    /// Runs it for a job.
    fn run(&self, server: &str, token: &str, job: &str) -> Output {
        Command::new(&self.command[0])
            .args(&self.command[1..])
            .arg(job)
            .current_dir(&self.directory)
            .env("QUOTAD", server)
            .env("TOKEN", token)
            .output()
            .unwrap()
    }
}

/// What Go makes of a file: tests/run installs it beside Python.
fn built_by_go(file: &Path, directory: &Path) -> PathBuf {
    let installed = python().parent().unwrap().to_owned();
    let program = directory.join("hook");
    let built = Command::new(installed.join("go"))
        .args(["build", "-o"])
        .args([&program, file])
        .env("GOCACHE", installed.join("../go-cache"))
        .env("GOPATH", directory.join("go"))
        .env("GOTOOLCHAIN", "local")
        .output()
        .unwrap_or_else(|error| {
            panic!("{}/go: {error}; tests/run installs it", installed.display())
        });
    assert!(built.status.success(), "{built:?}");
    program
}

/// The Rust example. What follows is compared with the page.
fn run_job(client: &Client, job: &str) -> Result<(), Box<dyn std::error::Error>> {
    let holder = Holder::new("batch/v1", "Job", job, Uid::new(job)?);
    let amounts = [("requests.nvidia.com/gpu".into(), "2".parse()?)];
    client.reserve("ml", &ReserveRequest::of_amounts(holder, amounts))?;
    // Start the job here. When it exists:
    client.commit("ml", job, None)?;
    // When it has ended:
    client.release("ml", job)?;
    Ok(())
}

fn set_limit(callers: &Callers, gpus: &str) {
    let quota = json!({"spec": {"hard": {"requests.nvidia.com/gpu": gpus}}});
    let path = "/v1/namespaces/ml/quotas/gpus";
    let (status, answer) = callers.call("admin", "PUT", path, &quota);
    assert!(status < 300, "{answer}");
}

/// What the ledger recorded about a job.
fn entries(callers: &Callers, job: &str) -> Vec<String> {
    let (_, list) = callers.call("admin", "GET", "/v1/entries?namespace=ml", &Value::Null);
    let items = list["items"].as_array().unwrap();
    let of_job = items.iter().filter(|entry| entry.to_string().contains(job));
    of_job.map(|entry| entry["event"]["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_language_reserves_commits_and_releases() {
    let principals = [("admin", "admin,read", "*"), ("jobs", "reserve", "ml")];
    let callers = Callers::start(&principals, &[]);
    let (server, token) = (&callers.daemon.api, callers.token("jobs"));
    let recorded = ["ReservationGranted", "ReservationCommitted", "ReservationReturned"];
    for language in LANGUAGES {
        set_limit(&callers, "2");
        let program = Program::of(language);
        let (fits, does_not) = (format!("{language}-fits"), format!("{language}-too-large"));
        let done = program.run(server, token, &fits);
        assert!(done.status.success(), "{language}: {done:?}");
        assert_eq!(entries(&callers, &fits), recorded, "{language}");

        set_limit(&callers, "1");
        let denied = program.run(server, token, &does_not);
        assert!(!denied.status.success(), "{language}: {denied:?}");
        let said = String::from_utf8([denied.stdout, denied.stderr].concat()).unwrap();
        let message = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=2";
        assert!(said.contains("ExceedsHard") && said.contains(message), "{language}: {said}");
        assert_eq!(entries(&callers, &does_not), [""; 0], "{language}");
    }

    let function = include_str!("languages.rs").split_once("\nfn run_job").unwrap().1;
    let (function, _) = function.split_once("\n}\n").unwrap();
    assert_eq!(example("rust"), format!("fn run_job{function}\n}}\n"));
    let options = Options { token: Some(Token::Text(token.to_owned())), ..Options::default() };
    let client = Client::new(server, options).unwrap();
    assert!(run_job(&client, "rust-too-large").is_err());
    set_limit(&callers, "2");
    run_job(&client, "rust-fits").unwrap();
    assert_eq!(entries(&callers, "rust-fits"), recorded);
}

/// A daemon that loses the first answer, is busy then, and grants; gives what it was asked.
fn busy() -> (String, JoinHandle<Vec<(String, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answers = [
        "",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    ];
    let serving = std::thread::spawn(move || {
        let answered = answers.map(|answer| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut request, mut length) = (String::new(), 0);
            reader.read_line(&mut request).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            (request, String::from_utf8(body).unwrap())
        });
        answered.into()
    });
    (address, serving)
}

#[test]
fn each_language_asks_again_for_the_same() {
    for language in LANGUAGES {
        let program = Program::of(language);
        let (server, serving) = busy();
        let done = program.run(&server, "token", "train-7");
        assert!(done.status.success(), "{language}: {done:?}");
        let asked = serving.join().unwrap();
        let reservations = "/v1/namespaces/ml/reservations";
        let reserve = format!("POST {reservations} HTTP/1.1\r\n");
        assert_eq!(asked[0].0, reserve, "{language}");
        assert!(asked[0].1.contains(r#""uid": "train-7""#), "{language}: {asked:?}");
        assert!(asked[1] == asked[0] && asked[2] == asked[0], "{language}: {asked:?}");
        let commit = format!("POST {reservations}/train-7/commit HTTP/1.1\r\n");
        assert_eq!(asked[3].0, commit, "{language}");
        let release = format!("DELETE {reservations}/train-7 HTTP/1.1\r\n");
        assert_eq!(asked[4].0, release, "{language}");
    }
}
