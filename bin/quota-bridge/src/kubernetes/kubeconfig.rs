//! The access that one context of a kubeconfig defines.

use std::path::Path;

use base64::Engine as _;
use quota_semantics::yaml;
use serde::Deserialize;

use super::access::{Access, Credentials, Pem, SetupError, Tls, read};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: String,
    contexts: Vec<Named<Context>>,
    clusters: Vec<Named<Cluster>>,
    users: Vec<Named<User>>,
}

/// A named entry of a list. The key of its value depends on the list.
#[derive(Deserialize)]
struct Named<T> {
    name: String,
    #[serde(alias = "context", alias = "cluster", alias = "user")]
    value: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    username: Option<String>,
    exec: Option<serde::de::IgnoredAny>,
    auth_provider: Option<serde::de::IgnoredAny>,
}

impl Access {
    /// The access that a kubeconfig defines, by its current context or this one.
    ///
    /// # Errors
    /// The file cannot be read, or uses unsupported features.
    pub fn of_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, SetupError> {
        let text = read(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        access(&text, directory, context)
            .map_err(|message| SetupError::Kubeconfig { path: path.display().to_string(), message })
    }
}

/// The access that a kubeconfig in this directory defines. `context` replaces the current context.
fn access(text: &str, directory: &Path, context: Option<&str>) -> Result<Access, String> {
    let config: Kubeconfig = yaml::read(text.as_bytes()).map_err(|error| error.to_string())?;
    let name = context.unwrap_or(&config.current_context);
    let context = find(config.contexts, "context", name)?;
    let cluster = find(config.clusters, "cluster", &context.cluster)?;
    let user = match context.user.as_str() {
        "" => User::default(),
        name => find(config.users, "user", name)?,
    };
    refuse(&cluster, &user)?;
    let pem = |data: Option<String>, file: Option<String>| match (data, file) {
        (Some(data), _) => decode(&data).map(|text| Some(Pem::Text(text))),
        (None, Some(file)) => Ok(Some(Pem::File(directory.join(file)))),
        (None, None) => Ok(None),
    };
    let certificate = pem(user.client_certificate_data, user.client_certificate)?;
    let key = pem(user.client_key_data, user.client_key)?;
    let credentials = match (&user.token, user.token_file) {
        (_, Some(file)) => Credentials::token_file(directory.join(file)),
        (Some(token), None) => Credentials::token(token),
        (None, None) => Credentials::default(),
    };
    Ok(Access {
        url: cluster.server,
        tls: Tls {
            authorities: pem(cluster.certificate_authority_data, cluster.certificate_authority)?,
            identity: certificate.zip(key),
            server_name: cluster.tls_server_name,
        },
        credentials,
        namespace: None,
    })
}

fn find<T>(list: Vec<Named<T>>, what: &str, name: &str) -> Result<T, String> {
    let found = list.into_iter().find(|entry| entry.name == name);
    let found = found.ok_or_else(|| format!("there is no {what} {name:?}"))?;
    Ok(found.value)
}

/// Refuses unsupported fields. If they were ignored, the server would refuse requests without an explanation.
fn refuse(cluster: &Cluster, user: &User) -> Result<(), String> {
    let not_supported = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("username", user.username.is_some()),
        ("insecure-skip-tls-verify", cluster.insecure_skip_tls_verify),
        ("proxy-url", cluster.proxy_url.is_some()),
    ];
    match not_supported.iter().find(|(_, used)| *used) {
        Some((key, _)) => Err(format!(
            "{key} is not supported: use a token, a token file or a client certificate, and name the CA"
        )),
        None => Ok(()),
    }
}

fn decode(data: &str) -> Result<String, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.trim());
    let bytes = bytes.map_err(|error| format!("data that is no base64: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "data that is no PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
apiVersion: v1
kind: Config
current-context: here
contexts:
- {name: here, context: {cluster: c, user: u, namespace: n}}
- {name: there, context: {cluster: d, user: x}}
clusters:
- name: c
  cluster: {server: 'https://a:6443', certificate-authority-data: QUJD, tls-server-name: kubernetes}
- {name: d, cluster: {server: 'http://b', certificate-authority: ca.crt}}
users:
- {name: u, user: {client-certificate: tls.crt, client-key: /keys/tls.key}}
- {name: x, user: {exec: {command: aws}}}
";

    #[test]
    fn the_current_context_is_used_and_files_are_beside_the_kubeconfig() {
        let access = access(CONFIG, Path::new("/etc/kube"), None).unwrap();
        assert_eq!(access.url, "https://a:6443");
        assert!(matches!(access.tls.authorities, Some(Pem::Text(text)) if text == "ABC"));
        assert_eq!(access.tls.server_name.as_deref(), Some("kubernetes"));
        let Some((Pem::File(certificate), Pem::File(key))) = access.tls.identity else {
            panic!("an identity");
        };
        assert_eq!(certificate, Path::new("/etc/kube/tls.crt"));
        assert_eq!(key, Path::new("/keys/tls.key"));
    }

    #[test]
    fn what_is_missing_or_not_supported_is_named() {
        let refused = |context| {
            let result = access(CONFIG, Path::new(""), Some(context));
            result.map(|_| ()).unwrap_err()
        };
        assert_eq!(refused("nowhere"), "there is no context \"nowhere\"");
        assert!(refused("there").starts_with("exec is not supported"));
        assert!(access("[", Path::new(""), None).is_err());
    }
}
