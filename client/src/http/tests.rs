//! The client against a server with prepared responses.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use quota_semantics::uid::Uid;
use serde_json::{Value, json};

use super::*;
use crate::wire::{Holder, ReserveRequest};

/// Serves connections one by one, each with the next answer (none: closes the connection), and returns the requests.
fn stub(answers: Vec<Option<&'static str>>) -> (Client, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let request = read(&stream);
            if sender.send(request).is_err() {
                return;
            }
            if let Some(answer) = answer {
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    let options = Options {
        retry: Retry { busy_attempts: 3, connection_attempts: 3, longest_wait: Duration::ZERO },
        change_reason: Some("INC-7".to_owned()),
        ..Options::default()
    };
    (Client::new(&url, options).unwrap(), requests)
}

fn read(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let start = head.len();
        reader.read_line(&mut head).unwrap();
        let line = head[start..].trim_end().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

const BUSY: Option<&str> = Some(
    "HTTP/1.1 503 X\r\nretry-after: 7\r\nconnection: close\r\ncontent-length: 23\r\n\r\n{\"reason\":\"Overloaded\"}",
);
const GONE: Option<&str> = Some("HTTP/1.1 204 X\r\nconnection: close\r\n\r\n");

#[test]
fn what_is_safe_to_repeat_is_made_again() {
    let (client, requests) = stub(vec![BUSY, None, GONE]);
    client.release("a", "u/1").unwrap();
    let requests: Vec<_> = requests.iter().collect();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let line = "DELETE /v1/namespaces/a/reservations/u%2F1 HTTP/1.1\r\n";
        assert!(request.starts_with(line), "{request}");
        assert!(request.contains("x-change-reason: INC-7\r\n"), "{request}");
    }
}

#[test]
fn what_is_not_is_made_once() {
    let (client, requests) = stub(vec![BUSY, GONE]);
    let address = Address::of(["v1", "cluster", "init"]);
    let error = client.send(&Call::new(Method::POST, &address)).unwrap_err();
    let Error::Busy(refusal) = error else { panic!("{error:?}") };
    assert_eq!(refusal.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(requests.try_iter().count(), 1);
}

#[test]
fn attempts_end_with_the_last_error() {
    let (client, requests) = stub(vec![None, None, None]);
    let holder = Holder::new("v1", "Pod", "web", Uid::new("u-1").unwrap());
    let request = ReserveRequest::of_amounts(holder, [("pods".into(), "1".parse().unwrap())]);
    let error = client.reserve("a", &request).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let bodies: Vec<_> = requests
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
        .collect();
    let body = json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u-1"},
                      "reserved": {"pods": "1"}});
    assert_eq!(bodies.len(), 3);
    for sent in bodies {
        assert_eq!(serde_json::from_str::<Value>(&sent).unwrap(), body);
    }
}

#[test]
fn only_urls_are_servers() {
    assert!(check_server("http://127.0.0.1:8480").is_ok());
    let https = check_server("https://quota.example.com/prefix");
    assert!(https.is_ok_and(|uri| uri.scheme_str() == Some("https")));
    for wrong in ["127.0.0.1:8480", "ftp://x", "http://", "", "http://x?y", "unix:///x"] {
        let error = check_server(wrong).unwrap_err();
        assert!(matches!(error, Error::Server(_)), "{wrong}");
    }
}

#[test]
fn errors_do_not_show_the_password_of_a_server() {
    let url = "http://me:s3@cret@127.0.0.1:1";
    let options = Options {
        retry: Retry { connection_attempts: 1, ..Retry::default() },
        ..Options::default()
    };
    let client = Client::new(url, options).unwrap();
    let error = client.get::<serde_json::Value>(&Address::of(["v1", "status"])).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("http://me:***@127.0.0.1:1: "), "{error}");
    let wrong = Client::new("ftp://s3cret@x", Options::default()).unwrap_err();
    assert!(wrong.to_string().starts_with("ftp://***@x: not a URL"), "{wrong}");
}

#[test]
fn tokens_go_out_encrypted_or_not_at_all() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "secret\n").unwrap();
    let client = |server: &str| {
        let options =
            Options { token: Some(Token::File(file.path().to_path_buf())), ..Options::default() };
        Client::new(server, options)
    };
    let near = client("http://[::1]:8480").unwrap();
    assert_eq!(near.authorization().unwrap().as_deref(), Some("Bearer secret"));
    assert!(client("https://quota.example.com").is_ok());
    let far = client("http://quota.example.com");
    assert!(matches!(far.unwrap_err(), Error::PlainToken));
    fs::write(file.path(), "renewed").unwrap();
    assert_eq!(near.authorization().unwrap().as_deref(), Some("Bearer renewed"));
    fs::write(file.path(), "two\nlines").unwrap();
    assert!(near.authorization().is_err());
    assert!(client("http://127.0.0.1:8480").is_err());
}

#[test]
fn tokens_are_not_shown() {
    let token = Some(Token::Text("secret".to_owned()));
    let options = Options { token, ..Options::default() };
    assert!(!format!("{options:?}").contains("secret"));
}

const RETRY: Retry =
    Retry { busy_attempts: 3, connection_attempts: 40, longest_wait: Duration::from_secs(10) };

fn busy(seconds: Option<u64>) -> Error {
    let wait = seconds.map(Duration::from_secs);
    Error::of_answer("http://x", 503, wait, br#"{"reason":"Overloaded"}"#)
}

#[test]
fn a_busy_daemon_says_how_long_to_wait_within_bounds() {
    assert_eq!(RETRY.wait(1, &busy(Some(2))), Some(Duration::from_secs(2)));
    assert_eq!(RETRY.wait(2, &busy(Some(3600))), Some(Duration::from_secs(10)));
    assert_eq!(RETRY.wait(1, &busy(None)), Some(BUSY_WAIT));
    assert_eq!(RETRY.wait(3, &busy(Some(2))), None);
}

#[test]
fn broken_connections_are_made_again_less_and_less_often() {
    let broken = Error::Unreachable { server: String::new(), why: String::new() };
    let waits: Vec<_> = (1..=9).filter_map(|n| RETRY.wait(n, &broken)).collect();
    assert_eq!(waits.first(), Some(&FIRST_WAIT));
    assert!(waits.is_sorted() && waits.last() == Some(&RETRY.longest_wait));
    assert_eq!(RETRY.wait(39, &broken), Some(RETRY.longest_wait));
    assert_eq!(RETRY.wait(40, &broken), None);
    assert_eq!(Retry::NEVER.wait(1, &broken), None);
}

#[test]
fn what_was_refused_for_good_is_not_sent_again() {
    let denied = Error::of_answer("http://x", 403, None, br#"{"reason":"ExceedsHard"}"#);
    assert_eq!(RETRY.wait(1, &denied), None);
}

#[test]
fn a_file_without_a_certificate_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = certificates(file.path()).unwrap_err();
    assert!(error.to_string().ends_with("no certificate in it"));
    assert!(private_key(file.path()).is_err());
    assert!(certificates(Path::new("/nonexistent/ca.pem")).is_err());
}

#[test]
fn a_key_of_another_algorithm_is_refused_with_those_supported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), include_str!("p521.pem")).unwrap();
    let error = private_key(file.path()).unwrap_err().to_string();
    assert!(
        error.contains("P-256 or P-384") && error.contains("P-521 is not supported"),
        "{error}"
    );
}
