//! Limited resources: resources that may only be used where a quota covers them. They come from the configuration file
//! of Kubernetes' ResourceQuota admission plugin.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    manifest::{ArrayForObject, has_objects_at},
    spec::ScopeExpression,
};
use crate::{
    Name,
    field::FieldError,
    nullable::{is_default, nullable},
};

/// The places in either kind of configuration that hold objects.
const OBJECTS: [&str; 4] =
    ["", "limitedResources/*", "limitedResources/*/matchScopes/*", "plugins/*"];

/// A kind of objects of which some resources or scopes need a covering quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LimitedResource {
    /// The API group of the kind; empty for the core group.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "str::is_empty")]
    pub api_group: Name,
    /// The plural name of the kind, such as `pods`.
    #[serde(deserialize_with = "nullable")]
    pub resource: Name,
    /// Resources with one of these texts in their name need a covering quota.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub match_contains: Vec<Name>,
    /// Objects that match one of these expressions need a quota with that scope.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub match_scopes: Vec<ScopeExpression>,
}

/// Why a configuration file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not the JSON of a configuration.
    #[error("cannot read the configuration: {0}")]
    Json(#[from] serde_json::Error),
    /// It has an array where an object belongs.
    #[error("cannot read the configuration: {0}")]
    Shape(#[from] ArrayForObject),
    /// It has unknown fields.
    #[error("strict decoding error: {0}")]
    Strict(String),
    /// It is a configuration of another kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    OtherKind {
        /// The API version in the file.
        api_version: String,
        /// The kind in the file.
        kind: String,
    },
    /// The plugin's configuration is in another file.
    #[error(
        "plugins[{plugin}].path: the ResourceQuota configuration must be inline, under plugins[{plugin}].configuration"
    )]
    Path {
        /// The index of the plugin.
        plugin: usize,
    },
}

/// Reads limited resources from the JSON form of a `ResourceQuotaConfiguration` (`apiserver.config.k8s.io/v1`, or the
/// older `Configuration`), or of an `AdmissionConfiguration` that has one. A file without any has no limited resources.
/// As in Kubernetes, fields of the plugin's own configuration that are unknown are an error.
///
/// # Errors
/// If the file is not such a configuration. Its content is checked by [`validate`].
pub fn load(json: &str) -> Result<Vec<LimitedResource>, LoadError> {
    let header: Header = serde_json::from_str(json)?;
    has_objects_at(&serde_json::from_str(json)?, &OBJECTS)?;
    match (header.api_version.as_str(), header.kind.as_str()) {
        (
            "apiserver.config.k8s.io/v1" | "apiserver.k8s.io/v1" | "apiserver.k8s.io/v1alpha1",
            "AdmissionConfiguration",
        ) => load_admission(json),
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration")
        | (
            "resourcequota.admission.k8s.io/v1beta1" | "resourcequota.admission.k8s.io/v1alpha1",
            "Configuration",
        ) => load_own(json),
        _ => Err(LoadError::OtherKind { api_version: header.api_version, kind: header.kind }),
    }
}

fn load_own(json: &str) -> Result<Vec<LimitedResource>, LoadError> {
    let configuration: Configuration = serde_json::from_str(json)?;
    let unknown = unknown_fields(&serde_json::from_str(json)?);
    match unknown.is_empty() {
        true => Ok(configuration.limited_resources),
        false => Err(LoadError::Strict(unknown.join(", "))),
    }
}

/// Unknown fields of the plugin's configuration, in Kubernetes' format.
fn unknown_fields(configuration: &Value) -> Vec<String> {
    const TOP: [&str; 3] = ["apiVersion", "kind", "limitedResources"];
    const LIMITED: [&str; 4] = ["apiGroup", "resource", "matchContains", "matchScopes"];
    const SCOPE: [&str; 3] = ["scopeName", "operator", "values"];
    let mut unknown = strange("", configuration, &TOP);
    for (at, limited) in items(configuration, "limitedResources") {
        let place = format!("limitedResources[{at}].");
        unknown.extend(strange(&place, limited, &LIMITED));
        for (at, scope) in items(limited, "matchScopes") {
            unknown.extend(strange(&format!("{place}matchScopes[{at}]."), scope, &SCOPE));
        }
    }
    unknown
}

fn strange(place: &str, value: &Value, allowed: &[&str]) -> Vec<String> {
    let fields = value.as_object().into_iter().flatten();
    let strange = fields.filter(|(field, _)| !allowed.contains(&field.as_str()));
    strange.map(|(field, _)| format!("unknown field {:?}", format!("{place}{field}"))).collect()
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    let items = value.get(field).and_then(Value::as_array);
    items.into_iter().flatten().enumerate()
}

fn load_admission(json: &str) -> Result<Vec<LimitedResource>, LoadError> {
    let admission: Admission = serde_json::from_str(json)?;
    let Some(index) = admission.plugins.iter().position(|plugin| plugin.name == "ResourceQuota")
    else {
        return Ok(Vec::new());
    };
    let plugin = &admission.plugins[index];
    match &plugin.configuration {
        Some(configuration) => load(configuration.get()),
        None if !plugin.path.is_empty() => Err(LoadError::Path { plugin: index }),
        None => Ok(Vec::new()),
    }
}

/// The errors of limited resources.
pub fn validate(limited: &[LimitedResource]) -> Vec<FieldError> {
    let nameless = limited.iter().enumerate().filter(|(_, limited)| limited.resource.is_empty());
    nameless
        .map(|(at, _)| FieldError::required(format!("limitedResources[{at}].resource"), ""))
        .collect()
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Header {
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Configuration {
    #[serde(deserialize_with = "nullable")]
    limited_resources: Vec<LimitedResource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Admission {
    #[serde(deserialize_with = "nullable")]
    plugins: Vec<Plugin>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Plugin {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    path: String,
    configuration: Option<Box<RawValue>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: &str = r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"ResourceQuotaConfiguration",
        "limitedResources":[{"resource":"pods","matchContains":["cpu"],"matchScopes":
        [{"scopeName":"PriorityClass","operator":"In","values":["high"]}]},{"apiGroup":"apps","resource":null}]}"#;

    #[test]
    fn it_reads_the_plugins_own_file_and_the_one_around_it() {
        let limited = load(QUOTA).unwrap();
        assert_eq!(limited[0].match_contains, ["cpu"]);
        assert_eq!(limited[0].match_scopes[0].values, ["high"]);
        assert_eq!(limited[1].api_group, "apps");
        let around = |plugin: &str| {
            load(&format!(
                r#"{{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[
                {{"name":"Other"}},{plugin}]}}"#
            ))
        };
        assert_eq!(
            around(&format!(r#"{{"name":"ResourceQuota","configuration":{QUOTA}}}"#)).unwrap(),
            limited
        );
        assert_eq!(around(r#"{"name":"ResourceQuota"}"#).unwrap(), []);
        assert_eq!(around(r#"{"name":"More"}"#).unwrap(), []);
        let elsewhere = around(r#"{"name":"ResourceQuota","path":"quota.yaml"}"#).unwrap_err();
        assert!(matches!(elsewhere, LoadError::Path { plugin: 1 }));
    }

    #[test]
    fn it_refuses_unknown_fields() {
        let json = QUOTA
            .replace(r#""resource":"pods""#, r#""resource":"pods","matchContain":[]"#)
            .replace(r#""operator":"#, r#""op":1,"operator":"#)
            .replace(r#""kind":"#, r#""Kind":"x","kind":"#);
        let words = "strict decoding error: unknown field \"Kind\", \
            unknown field \"limitedResources[0].matchContain\", \
            unknown field \"limitedResources[0].matchScopes[0].op\"";
        assert_eq!(load(&json).unwrap_err().to_string(), words);
        let around = format!(
            r#"{{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[
            {{"name":"ResourceQuota","configuration":{json}}}]}}"#
        );
        assert_eq!(load(&around).unwrap_err().to_string(), words);
    }

    #[test]
    fn it_refuses_other_kinds() {
        for (api_version, kind) in [
            ("apiserver.config.k8s.io/v1", "Configuration"),
            ("resourcequota.admission.k8s.io/v1", "Configuration"),
            ("v1", "ResourceQuota"),
            ("", ""),
        ] {
            let json = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"}}"#);
            assert!(matches!(load(&json), Err(LoadError::OtherKind { .. })), "{json}");
        }
        assert!(matches!(load(&QUOTA.replace("[\"cpu\"]", "\"cpu\"")), Err(LoadError::Json(_))));
        let array = QUOTA.replace(r#"{"apiGroup":"apps","resource":null}"#, "[]");
        assert!(matches!(load(&array), Err(LoadError::Shape(_))));
    }

    #[test]
    fn each_needs_the_name_of_a_kind() {
        let errors = validate(&load(QUOTA).unwrap());
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].to_string(), "limitedResources[1].resource: Required value");
    }
}
