//! Tokens for callers of a daemon. A record in the daemon's tokens file registers a token.

use std::{fs, io, path::Path};

use quota_client::tokens::{File, Issued, Pattern};
use quota_semantics::Timestamp;
use serde::Serialize;

use crate::{
    args::{CreateToken, Token},
    config::replace,
    failure::{Failure, Outcome},
    output::{Output, note, to_json},
    session::Scope,
    table::{Table, now},
};

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
    let issued = quota_client::tokens::issue(&wanted.principal, roles, namespaces(scope)?, expires)
        .map_err(|error| Failure::general(error.to_string()))?;
    let record = File { tokens: vec![issued.record.clone()], certificates: Vec::new() };
    let text = record.to_toml().map_err(|error| Failure::general(error.to_string()))?;
    // As the daemon will read it.
    File::parse(&text).map_err(|error| Failure::usage(error.to_string()))?;
    match &wanted.file {
        Some(file) => {
            append(file, &text)?;
            note(format!("token {} appended to {}", issued.record.id, file.display()));
        }
        None => note(format!("record for auth.tokens_file:\n\n{text}")),
    }
    show(&issued, output)
}

/// The namespaces of a new token, which must be given by flag: rights never come from the environment or a default.
fn namespaces(scope: &Scope) -> Outcome<Vec<Pattern>> {
    match &scope.given {
        _ if scope.all => Ok(vec![Pattern::all()]),
        Some(given) if scope.strict => given
            .split(',')
            .map(|text| {
                text.parse().map_err(|error: quota_client::tokens::ParsePatternError| {
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
    output.value(&to_json(&View { token: Some(token), ..View::of_token(&issued.record, now()) })?)
}

fn append(path: &Path, record: &str) -> Outcome {
    let append = || -> Outcome {
        // A link stays a link.
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(error) => return Err(error.into()),
        };
        let directory = path.parent();
        let directory = directory.filter(|directory| !directory.as_os_str().is_empty());
        let directory = fs::File::open(directory.unwrap_or(Path::new(".")))?;
        // Without it, what another command appends meanwhile would be lost.
        directory.lock()?;
        let (before, like) = match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => return Err(Failure::general("not a file")),
            Ok(metadata) => (fs::read_to_string(&path)?, Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), None),
            Err(error) => return Err(error.into()),
        };
        let text = with_record(before, record)?;
        Ok(replace(&path, &text, like.as_ref())?)
    };
    append().map_err(|failure| failure.about(path.display()))
}

/// The text of the file with a record appended. Fails if the daemon could not read it.
fn with_record(before: String, record: &str) -> Outcome<String> {
    File::parse(&before).map_err(|error| Failure::general(error.to_string()))?;
    let gap = match before.as_str() {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let text = before + gap + record;
    match File::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::general(format!("with the new record: {error}"))),
    }
}

fn list(path: &Path, output: &Output) -> Outcome {
    let read = || -> Result<File, Failure> {
        let text = fs::read_to_string(path)?;
        File::parse(&text).map_err(|error| Failure::general(error.to_string()))
    };
    let file = read().map_err(|failure| failure.about(path.display()))?;
    let now = now();
    let tokens = file.tokens.iter();
    let tokens = tokens.map(|token| View::of_token(token, now));
    let certificates = file.certificates.iter().map(|certificate| View {
        kind: "Certificate",
        name: &certificate.name,
        principal: &certificate.principal,
        roles: to_texts(&certificate.roles),
        namespaces: to_texts(&certificate.namespaces),
        expires: None,
        expired: None,
        token: None,
    });
    let items: Vec<_> = tokens.chain(certificates).collect();
    let names = || items.iter().map(View::full_name).collect();
    output.answer(&to_json(&List { items: &items })?, names, |_| table(&items))
}

#[derive(Serialize)]
struct List<'a> {
    items: &'a [View<'a>],
}

/// A record of the file, without the hash of a token.
#[derive(Serialize)]
struct View<'a> {
    kind: &'static str,
    name: &'a str,
    principal: &'a str,
    roles: Vec<String>,
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<bool>,
    /// The token itself, when it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> View<'a> {
    fn of_token(token: &'a quota_client::tokens::Token, now: Timestamp) -> Self {
        let expires = token.expires;
        Self {
            kind: "Token",
            name: &token.id,
            principal: &token.principal,
            roles: to_texts(&token.roles),
            namespaces: to_texts(&token.namespaces),
            expires: expires.map(|time| time.whole_seconds().to_string()),
            expired: expires.map(|time| time <= now),
            token: None,
        }
    }

    fn full_name(&self) -> String {
        format!("{}/{}", self.kind.to_ascii_lowercase(), self.name)
    }
}

fn to_texts(items: &[impl ToString]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

fn table(items: &[View<'_>]) -> Table {
    let mut table = Table::new(&["NAME", "PRINCIPAL", "ROLES", "NAMESPACES", "EXPIRES"]);
    for item in items {
        let mut expires = item.expires.clone().unwrap_or_else(|| "<never>".to_owned());
        if item.expired == Some(true) {
            expires.push_str(" (expired)");
        }
        let (roles, namespaces) = (item.roles.join(","), item.namespaces.join(","));
        let principal = item.principal.to_owned();
        table.row([item.full_name(), principal, roles, namespaces, expires]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const RECORD: &str = "[[tokens]]\nid = \"a\"\nhash = \"0000000000000000000000000000000000000000000000000000000000000000\"\n\
         principal = \"ci\"\nroles = [\"read\"]\nnamespaces = [\"*\"]\n";

    #[test]
    fn a_record_that_does_not_go_with_the_file_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens.toml");
        for before in ["tokens = []\n", RECORD] {
            fs::write(&path, before).unwrap();
            assert!(append(&path, RECORD).is_err(), "{before}");
            assert_eq!(fs::read_to_string(&path).unwrap(), before);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(append(Path::new("/dev/null"), RECORD).is_err());
    }

    #[test]
    fn the_file_is_replaced_as_a_whole_and_stays_whose_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let [path, link, old] =
            ["tokens.toml", "link", "old"].map(|name| directory.path().join(name));
        fs::write(&path, "# Ours.").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(&path, &old).unwrap();
        symlink(&path, &link).unwrap();
        append(&link, RECORD).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("# Ours.\n\n{RECORD}"));
        // Not written in place: a write that is cut off leaves the old content.
        assert_eq!(fs::read_to_string(&old).unwrap(), "# Ours.");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
    }
}
