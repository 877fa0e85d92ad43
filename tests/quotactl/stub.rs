//! A server with configured answers, which records the requests.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// Method and path with query, as in `GET /v1/quotas?limit=500`.
    pub(crate) line: String,
    /// Headers by name in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: String,
}

/// An answer: status, further headers, body.
pub(crate) type Answer = (u16, Vec<(&'static str, &'static str)>, String);

/// A running server. It ends with the test's process.
pub(crate) struct Stub {
    /// Its address.
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Stub {
    /// A server that answers with what `answer` makes of each request and its number, from 0.
    pub(crate) fn new(answer: impl Fn(usize, &Request) -> Answer + Send + 'static) -> Self {
        Self::serve("http", |stream| stream, answer)
    }

    /// The same over TLS.
    pub(crate) fn secure(
        config: ServerConfig,
        answer: impl Fn(usize, &Request) -> Answer + Send + 'static,
    ) -> Self {
        let config = Arc::new(config);
        let wrap = move |stream| {
            StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream)
        };
        Self::serve("https", wrap, answer)
    }

    fn serve<S: Read + Write>(
        scheme: &str,
        wrap: impl Fn(TcpStream) -> S + Send + 'static,
        answer: impl Fn(usize, &Request) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = wrap(stream.unwrap());
                // Whoever does not trust the certificate sends nothing.
                let Ok(request) = read(&mut stream) else {
                    continue;
                };
                let number = remembered.lock().unwrap().len();
                remembered.lock().unwrap().push(request.clone());
                write(&mut stream, answer(number, &request));
            }
        });
        Self { url, requests }
    }

    /// A server that gives the same JSON to everybody.
    pub(crate) fn always(status: u16, body: serde_json::Value) -> Self {
        Self::new(move |_, _| (status, Vec::new(), body.to_string()))
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &mut impl Read) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    Ok(Request { line, headers, body })
}

fn write(stream: &mut impl Write, (status, headers, body): Answer) {
    let mut text = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 204 {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    // The client may have gone away.
    let _ = stream.write_all(format!("{text}\r\n{body}").as_bytes()).and_then(|()| stream.flush());
}
