//! Requests to the daemon.

use std::{
    fs,
    io::{BufReader, Read},
    time::Duration,
};

use http::{Method, Request, StatusCode, Uri, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::{Agent, Body, Proxy};

use super::{
    address::Address,
    args::Global,
    config::{Connection, Token},
    failure::{Failure, Outcome, Transient},
    problem,
    session::items,
    tls,
};

/// Most bytes of an answer that are read.
const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// How many items of a list are asked for at once.
const PAGE_ITEMS: usize = 500;

/// A stream that says nothing for so long is dead: the daemon sends a comment every 15 seconds.
const SILENCE: Duration = Duration::from_secs(60);

/// Talks to one daemon.
pub(crate) struct Client {
    agent: Agent,
    server: String,
    authorization: Option<String>,
    reason: Option<String>,
}

/// An answer that is no error.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Its status.
    pub(crate) status: StatusCode,
    /// Its headers.
    pub(crate) headers: http::HeaderMap,
    /// Its body; null if it has none.
    pub(crate) body: Value,
}

impl Client {
    /// A client for a server.
    pub(crate) fn new(connection: &Connection, global: &Global) -> Outcome<Self> {
        let server = connection.server.trim_end_matches('/').to_owned();
        let (uri, secure) = check_server(&server)?;
        let token = connection.token.as_ref();
        let authorization = token.map(|token| bearer(token, &uri, secure)).transpose()?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("quotactl/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_global(Some(global.timeout.get()));
        if is_this_machine(&uri) {
            config = config.proxy(None);
        } else {
            config = config.proxy(Proxy::try_from_env());
        }
        if secure {
            config = config.tls_config(tls::configuration(connection)?);
        }
        Ok(Self {
            agent: config.build().new_agent(),
            server,
            authorization,
            reason: global.reason.clone(),
        })
    }

    /// Asks for something.
    pub(crate) fn get(&self, address: &Address) -> Outcome<Value> {
        Ok(self.send(Method::GET, address, None, &[])?.body)
    }

    /// Asks for something of a known form. Also gives the answer as it came, for programs that read it.
    pub(crate) fn get_as<T: DeserializeOwned>(&self, address: &Address) -> Outcome<(Value, T)> {
        let answer = self.get(address)?;
        let read = read(&answer)?;
        Ok((answer, read))
    }

    /// Asks for a list of things of a known form. Also gives the answer as it came.
    pub(crate) fn list_as<T: DeserializeOwned>(
        &self,
        address: &Address,
        limit: Option<usize>,
    ) -> Outcome<(Value, Vec<T>)> {
        let answer = self.list(address, limit)?;
        let read = items(&answer).iter().map(read).collect::<Outcome<_>>()?;
        Ok((answer, read))
    }

    /// Asks for a list, page by page; at most `limit` items.
    pub(crate) fn list(&self, address: &Address, limit: Option<usize>) -> Outcome<Value> {
        let mut items = Vec::new();
        let mut answer = self.walk(address, limit.unwrap_or(usize::MAX), |found| {
            items.extend(found);
            Ok(())
        })?;
        answer["items"] = Value::Array(items);
        Ok(answer)
    }

    /// Asks for a list of at most `most` items, and gives its pages to `take`. Answers the last page without its items.
    pub(crate) fn walk(
        &self,
        address: &Address,
        most: usize,
        mut take: impl FnMut(Vec<Value>) -> Outcome,
    ) -> Outcome<Value> {
        let mut taken = 0_usize;
        let mut next: Option<String> = None;
        loop {
            let page = most.saturating_sub(taken).min(PAGE_ITEMS);
            let address = address
                .clone()
                .with("limit", page)
                .with_some("continue", next.as_ref());
            let mut answer = self.get(&address)?;
            let Some(Value::Array(found)) = answer.get_mut("items").map(Value::take) else {
                return Err(Failure::general(format!(
                    "{}: the answer is no list",
                    self.server
                )));
            };
            taken = taken.saturating_add(found.len());
            take(found)?;
            let token = answer.get("continue").and_then(Value::as_str);
            let token = token.filter(|token| !token.is_empty()).map(str::to_owned);
            // A page may be empty and yet not be the last; but it cannot be the next one of itself.
            if token.is_none() || token == next || taken >= most {
                return Ok(answer);
            }
            next = token;
        }
    }

    /// Sends a JSON body, or none.
    pub(crate) fn send_json(
        &self,
        method: Method,
        address: &Address,
        body: Option<&Value>,
    ) -> Outcome<Reply> {
        let bytes = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        self.send(method, address, body.map(|_| "application/json"), &bytes)
    }

    /// Sends a body of a type.
    pub(crate) fn send(
        &self,
        method: Method,
        address: &Address,
        content_type: Option<&str>,
        body: &[u8],
    ) -> Outcome<Reply> {
        let mut request = self.request(method, address);
        if let Some(content_type) = content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let result = match content_type {
            Some(_) => self.agent.run(build(request, body)?),
            None => self.agent.run(build(request, ())?),
        };
        self.reply(
            result.map_err(|error| self.unreachable(&error))?,
            address.namespace(),
        )
    }

    /// Opens a stream of server-sent events, which may last for ever.
    pub(crate) fn stream(
        &self,
        address: &Address,
        last_event_id: Option<&str>,
    ) -> Outcome<BufReader<impl Read + use<>>> {
        let mut request = self
            .request(Method::GET, address)
            .header(header::ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        self.open(request, address.namespace())
    }

    /// Downloads bytes, however many there are.
    pub(crate) fn download(&self, address: &Address) -> Outcome<BufReader<impl Read + use<>>> {
        self.open(self.request(Method::GET, address), address.namespace())
    }

    fn open(
        &self,
        request: http::request::Builder,
        namespace: Option<&str>,
    ) -> Outcome<BufReader<impl Read + use<>>> {
        let timeout = self.agent.config().timeouts().global;
        let request = self
            .agent
            .configure_request(build(request, ())?)
            .timeout_global(None)
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(Some(SILENCE))
            .build();
        let response = self
            .agent
            .run(request)
            .map_err(|error| self.unreachable(&error))?;
        if response.status() == StatusCode::OK {
            let body = response.into_body().into_with_config().limit(u64::MAX);
            return Ok(BufReader::new(body.reader()));
        }
        Err(match self.reply(response, namespace) {
            Err(failure) => failure,
            Ok(reply) => {
                Failure::general(format!("{}: no stream but {}", self.server, reply.status))
            }
        })
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What the `Authorization` header says, if there is one.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    fn request(&self, method: Method, address: &Address) -> http::request::Builder {
        let uri = format!("{}{}", self.server, address.as_str());
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(reason) = &self.reason {
            request = request.header("x-change-reason", reason.as_bytes());
        }
        match &self.authorization {
            Some(authorization) => request.header(header::AUTHORIZATION, authorization),
            None => request,
        }
    }

    fn reply(&self, response: http::Response<Body>, namespace: Option<&str>) -> Outcome<Reply> {
        let (head, body) = response.into_parts();
        let bytes = body
            .into_with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_vec()
            .map_err(|error| self.unreachable(&error))?;
        if !head.status.is_success() {
            return Err(problem::failure(
                &self.server,
                head.status,
                &head.headers,
                &bytes,
                namespace,
            ));
        }
        let body = match bytes.as_slice() {
            [] => Value::Null,
            bytes => serde_json::from_slice(bytes).map_err(|error| {
                Failure::general(format!("{}: the answer is no JSON: {error}", self.server))
                    .hint("is this the address of quotad's API?")
            })?,
        };
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let why = match error {
            ureq::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        Failure {
            transient: Some(Transient::Unreachable),
            ..Failure::general(format!("{}: {why}", self.server)).hint(
                "is quotad running there? --server, QUOTACTL_SERVER or a context say where it is",
            )
        }
    }
}

/// An answer as what it stands for.
pub(crate) fn read<T: DeserializeOwned>(answer: &Value) -> Outcome<T> {
    T::deserialize(answer).map_err(|error| {
        Failure::general(format!("an answer of another form: {error}"))
            .hint("quotactl version shows the versions of both sides")
    })
}

fn build<B>(request: http::request::Builder, body: B) -> Outcome<Request<B>> {
    request
        .body(body)
        .map_err(|error| Failure::usage(error.to_string()))
}

/// The server's address, and whether it is an https one.
fn check_server(server: &str) -> Outcome<(Uri, bool)> {
    let wrong = || {
        Failure::usage(format!(
            "--server {server}: not a URL such as http://127.0.0.1:8480"
        ))
    };
    let uri: Uri = server.parse().map_err(|_| wrong())?;
    if uri.host().is_none() || uri.query().is_some() {
        return Err(wrong());
    }
    match uri.scheme_str() {
        Some("http") => Ok((uri, false)),
        Some("https") => Ok((uri, true)),
        _ => Err(wrong()),
    }
}

fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A token is read by everybody on the way of an http request, so it only goes out encrypted.
fn bearer(token: &Token, uri: &Uri, secure: bool) -> Outcome<String> {
    if !secure && !is_this_machine(uri) {
        return Err(
            Failure::usage("a token is not sent over http to another machine")
                .hint("use an https:// server"),
        );
    }
    let (text, place) = match token {
        Token::Text(text) => (text.clone(), "the context".to_owned()),
        Token::File(file) => {
            let about = |error| Failure::from(error).about(file.display());
            let text = fs::read_to_string(file).map_err(about)?;
            (text, file.display().to_string())
        }
    };
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::general("no token in it").about(place));
    }
    Ok(format!("Bearer {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_are_servers() {
        assert!(check_server("http://127.0.0.1:8480").is_ok());
        assert!(check_server("https://quota.example.com/prefix").is_ok_and(|(_, secure)| secure));
        for wrong in [
            "127.0.0.1:8480",
            "ftp://x",
            "http://",
            "",
            "http://x?y",
            "unix:///x",
        ] {
            let failure = check_server(wrong).unwrap_err();
            assert_eq!(failure.exit, super::super::failure::Exit::Usage, "{wrong}");
        }
    }

    #[test]
    fn tokens_go_out_encrypted_or_not_at_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "secret\n").unwrap();
        let token = Token::File(file.path().to_path_buf());
        let near: Uri = "http://[::1]:8480".parse().unwrap();
        let far: Uri = "http://quota.example.com".parse().unwrap();
        assert_eq!(bearer(&token, &near, false).unwrap(), "Bearer secret");
        assert_eq!(bearer(&token, &far, true).unwrap(), "Bearer secret");
        assert!(bearer(&token, &far, false).is_err());
        fs::write(file.path(), "two\nlines").unwrap();
        assert!(bearer(&token, &near, false).is_err());
    }
}
