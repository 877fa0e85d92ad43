//! Tokens for callers of a daemon: made here, known to the daemon by a record in its tokens file.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use quota_semantics::Timestamp;
use serde_json::{Value, json};

use super::{
    age::now,
    args::{CreateToken, Token},
    failure::{Failure, Outcome},
    output::{Output, note},
    session::Scope,
    table::Table,
};
use quota_tokens::{File, Issued, Pattern};

/// Runs a command on tokens.
pub(crate) fn run(command: &Token, output: &Output, scope: &Scope) -> Outcome {
    match command {
        Token::Create(wanted) => create(wanted, output, scope),
        Token::List { file } => list(file, output),
    }
}

fn create(wanted: &CreateToken, output: &Output, scope: &Scope) -> Outcome {
    let mut roles = wanted.role.clone();
    roles.sort();
    roles.dedup();
    let expires = wanted.expires.map(|period| now().plus(period.span()));
    let issued = quota_tokens::issue(&wanted.principal, roles, namespaces(scope)?, expires)
        .map_err(|error| Failure::general(error.to_string()))?;
    let record = File {
        tokens: vec![issued.record.clone()],
        certificates: Vec::new(),
    };
    let text = record
        .to_toml()
        .map_err(|error| Failure::general(error.to_string()))?;
    // As the daemon will read it.
    File::parse(&text).map_err(|error| Failure::usage(error.to_string()))?;
    match &wanted.file {
        Some(file) => {
            append(file, &text)?;
            note(format!(
                "token {} appended to {}",
                issued.record.id,
                file.display()
            ));
        }
        None => note(format!("record for auth.tokens_file:\n\n{text}")),
    }
    show(&issued, output)
}

/// Rights are never taken from the environment, nor by default.
fn namespaces(scope: &Scope) -> Outcome<Vec<Pattern>> {
    match &scope.given {
        _ if scope.all => Ok(vec![Pattern::all()]),
        Some(given) if scope.strict => given
            .split(',')
            .map(|text| {
                text.parse()
                    .map_err(|error: quota_tokens::ParsePatternError| {
                        Failure::usage(error.to_string())
                    })
            })
            .collect(),
        _ => Err(Failure::usage("the token's namespaces are not given")
            .hint("-n PATTERN[,PATTERN…] names some, -A means all")),
    }
}

fn show(issued: &Issued, output: &Output) -> Outcome {
    let token = issued.token.reveal();
    if !output.is_structured() {
        return output.line(token);
    }
    let mut value = view(&issued.record, now());
    value["token"] = token.into();
    output.value(&value)
}

fn append(path: &Path, record: &str) -> Outcome {
    let about = |failure: Failure| failure.about(path.display());
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(about(error.into())),
    };
    File::parse(&before).map_err(|error| about(Failure::general(error.to_string())))?;
    let gap = match before.as_str() {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o600).open(path)?;
        // In one piece, since the daemon may look at any time.
        file.write_all(format!("{gap}{record}").as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| about(error.into()))
}

fn list(path: &Path, output: &Output) -> Outcome {
    let read = || -> Result<File, Failure> {
        let text = fs::read_to_string(path)?;
        File::parse(&text).map_err(|error| Failure::general(error.to_string()))
    };
    let file = read().map_err(|failure| failure.about(path.display()))?;
    let now = now();
    let tokens = file.tokens.iter().map(|token| view(token, now));
    let certificates = file.certificates.iter().map(|certificate| {
        json!({
            "kind": "Certificate",
            "name": certificate.name,
            "principal": certificate.principal,
            "roles": certificate.roles,
            "namespaces": certificate.namespaces,
        })
    });
    let items: Vec<_> = tokens.chain(certificates).collect();
    let names = || items.iter().map(name).collect();
    output.answer(&json!({ "items": items }), names, |_| table(&items))
}

/// A token's record without its hash.
fn view(token: &quota_tokens::Token, now: Timestamp) -> Value {
    let mut view = json!({
        "kind": "Token",
        "name": token.id,
        "principal": token.principal,
        "roles": token.roles,
        "namespaces": token.namespaces,
    });
    if let Some(expires) = token.expires {
        view["expires"] = expires.whole_seconds().to_string().into();
        view["expired"] = (expires <= now).into();
    }
    view
}

fn name(item: &Value) -> String {
    format!(
        "{}/{}",
        text(item, "kind").to_ascii_lowercase(),
        text(item, "name")
    )
}

fn table(items: &[Value]) -> Table {
    let mut table = Table::new(&["NAME", "PRINCIPAL", "ROLES", "NAMESPACES", "EXPIRES"]);
    for item in items {
        let mut expires = match text(item, "expires") {
            "" => "<never>".to_owned(),
            time => time.to_owned(),
        };
        if item["expired"] == true {
            expires.push_str(" (expired)");
        }
        let (roles, namespaces) = (joined(&item["roles"]), joined(&item["namespaces"]));
        let principal = text(item, "principal").to_owned();
        table.row([name(item), principal, roles, namespaces, expires]);
    }
    table
}

fn text<'a>(item: &'a Value, field: &str) -> &'a str {
    item[field].as_str().unwrap_or_default()
}

fn joined(list: &Value) -> String {
    let texts = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(",")
}
