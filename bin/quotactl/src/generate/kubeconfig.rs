//! A kubeconfig with which kubectl calls the daemon, with the credentials of quotactl.

use std::path::Path;

use quota_client::http::Token;
use serde_json::{Value, json};

use crate::{
    config::Connection,
    failure::{Failure, Outcome},
    output::{Output, yaml},
};

pub(super) fn run(connection: &Connection, output: &Output) -> Outcome {
    let kubeconfig = kubeconfig(connection)?;
    match output.is_structured() {
        true => output.value(&kubeconfig),
        false => output.line(yaml(&kubeconfig)?.trim_end()),
    }
}

/// Files are named by their absolute paths: kubectl looks for relative ones beside the kubeconfig.
pub(super) fn kubeconfig(connection: &Connection) -> Outcome<Value> {
    const NAME: &str = "quotad";
    let options = &connection.options;
    let mut cluster = json!({ "server": connection.server });
    if let Some(ca) = &options.ca {
        cluster["certificate-authority"] = absolute(ca)?.into();
    }
    let mut user = json!({});
    if let Some((cert, key)) = &options.identity {
        user["client-certificate"] = absolute(cert)?.into();
        user["client-key"] = absolute(key)?.into();
    }
    match &options.token {
        Some(_) if !connection.server.starts_with("https://") => {
            let wrong = "kubectl sends no token over http, so that it would be an unknown caller";
            return Err(Failure::usage(wrong).hint("use an https:// server, or no token"));
        }
        Some(Token::File(file)) => user["tokenFile"] = absolute(file)?.into(),
        Some(Token::Text(text)) => user["token"] = text.as_str().into(),
        None => {}
    }
    let mut context = json!({ "cluster": NAME, "user": NAME });
    if let Some(namespace) = &connection.namespace {
        context["namespace"] = namespace.as_str().into();
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": NAME, "cluster": cluster }],
        "users": [{ "name": NAME, "user": user }],
        "contexts": [{ "name": NAME, "context": context }],
        "current-context": NAME,
    }))
}

fn absolute(path: &Path) -> Outcome<String> {
    let absolute = std::path::absolute(path).map_err(Failure::from)?;
    Ok(absolute.display().to_string())
}
