//! The file of contexts: the addresses of daemons, and the credentials for each.

use std::{
    collections::BTreeMap,
    env, fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    failure::{Exit, Failure, Outcome},
    replace::replace,
};

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct File {
    /// The name of the current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current_context: Option<String>,
    /// The contexts by name.
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A context: the address of a daemon, and the credentials for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Context {
    /// The URL of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    /// The namespace that commands apply to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// The file with the CA certificates to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    /// The file with the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert: Option<PathBuf>,
    /// The file with the private key of the client certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    /// The file with the bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_file: Option<PathBuf>,
    /// The bearer token itself. `token_file` is better, since that file can be renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl File {
    /// Reads a file; a missing file has no contexts.
    ///
    /// # Errors
    /// If the file cannot be read, or contains a token and is accessible to others.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let about = |failure: Failure| failure.about(path.display());
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(about(error.into())),
        };
        if metadata.len() > MAX_BYTES {
            return Err(about(Failure::general("too large for a file of contexts")));
        }
        let text = fs::read_to_string(path).map_err(|error| about(error.into()))?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let file: Self = quota_semantics::yaml::read(text.as_bytes())
            .map_err(|error| about(Failure::general(error.to_string())))?;
        let open_to_others = metadata.permissions().mode() & 0o077 != 0;
        let has_token = file
            .contexts
            .values()
            .any(|context| context.token.is_some());
        if open_to_others && has_token {
            return Err(
                about(Failure::general("it holds a token, and others may read it"))
                    .hint(format!("chmod 600 {}", path.display())),
            );
        }
        Ok(file)
    }

    /// Replaces the file atomically. Only this user can access it.
    pub(crate) fn write(&self, path: &Path) -> Outcome {
        let write = || -> Outcome {
            let text = crate::output::yaml(self)?;
            let directory = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            if let Some(directory) = directory {
                fs::DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(directory)?;
            }
            Ok(replace(path, &text, None)?)
        };
        write().map_err(|failure| failure.about(path.display()))
    }

    /// A context by name.
    ///
    /// # Errors
    /// [`Exit::NotFound`], with the names of the existing contexts.
    pub(crate) fn context(&self, name: &str) -> Outcome<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let failure = Failure::new(Exit::NotFound, format!("there is no context {name:?}"));
            failure.hint(match names.is_empty() {
                true => format!("quotactl config set-context {name} --server URL makes it"),
                false => format!("there are: {}", names.join(", ")),
            })
        })
    }
}

/// The default path of the file: `quotactl/config.yaml` below `XDG_CONFIG_HOME`, or below `~/.config`.
pub(crate) fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("quotactl").join("config.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_for_this_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sub/config.yaml");
        assert_eq!(File::read(&path).unwrap(), File::default());
        let mut file = File::default();
        let context = Context {
            server: Some("https://quota.example.com".to_owned()),
            token: Some("secret".to_owned()),
            ..Context::default()
        };
        file.contexts.insert("on".to_owned(), context);
        file.current_context = Some("on".to_owned());
        file.write(&path).unwrap();
        file.write(&path).unwrap();
        assert_eq!(File::read(&path).unwrap(), file);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let failure = File::read(&path).unwrap_err();
        assert!(failure.message.contains("others may read it"), "{failure}");
        assert!(!failure.to_string().contains("secret"));
        fs::write(&path, "contexts: {a: {sever: x}}").unwrap();
        assert!(File::read(&path).unwrap_err().message.contains("sever"));
    }

    #[test]
    fn a_context_that_is_not_there_is_answered_with_those_that_are() {
        let mut file = File::default();
        assert_eq!(file.context("a").unwrap_err().exit, Exit::NotFound);
        file.contexts.insert("b".to_owned(), Context::default());
        let failure = file.context("a").unwrap_err();
        assert!(failure.to_string().contains("there are: b"), "{failure}");
    }
}
