//! The wire format of `EventList`, limited to the fields that are used.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "EventList";

/// How a request to the Kubernetes API ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(borrow)]
    verb: Cow<'a, str>,
    #[serde(borrow)]
    user: User<'a>,
    #[serde(borrow)]
    object_ref: Option<ObjectRef<'a>>,
    #[serde(borrow)]
    response_status: Option<Status<'a>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct User<'a> {
    #[serde(borrow)]
    username: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectRef<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    code: u16,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

impl Event<'_> {
    /// The values of the annotations of this name, from any webhook.
    pub(super) fn annotations_named(&self, name: &str) -> impl Iterator<Item = &str> {
        let all = self.annotations.iter().flatten();
        all.filter(move |(key, _)| key.rsplit('/').next() == Some(name)).map(|(_, value)| &**value)
    }

    pub(super) fn namespace(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.namespace)
    }

    /// The user on whose behalf the request was made.
    pub(super) fn user(&self) -> &str {
        &self.user.username
    }

    /// The status code of the response; 0 if absent.
    pub(super) fn code(&self) -> u16 {
        self.response_status.as_ref().map_or(0, |status| status.code)
    }

    /// Whether the event reports the end of the creation of an object.
    pub(super) fn is_over(&self) -> bool {
        self.stage == "ResponseComplete" && self.verb == "create"
    }

    /// Whether the request was refused, so that nothing was stored. After a server error or a timeout the object may
    /// have been stored.
    pub(super) fn has_certainly_failed(&self) -> bool {
        matches!(self.code(), 400..=499) && !matches!(self.code(), 408 | 499)
    }

    /// Whether the API server's own quota plugin refused the request, in the words of Kubernetes. A webhook's refusal
    /// may have the same words, but begins with the webhook's name.
    pub(super) fn is_refused_by_plugin(&self) -> bool {
        const WORDS: [&str; 3] =
            ["exceeded quota: ", "failed quota: ", "insufficient quota to consume: "];
        let message = self.response_status.as_ref().map_or("", |status| &status.message);
        let (object, words) = message.split_once(" is forbidden: ").unwrap_or_default();
        let is_of_webhook = object.starts_with("admission webhook ");
        self.code() == 403 && !is_of_webhook && WORDS.iter().any(|begin| words.starts_with(begin))
    }
}

/// Splits a list into its events without reading them; or says what is wrong with the list.
pub(super) fn items(body: &[u8]) -> Result<Vec<&RawValue>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        #[serde(default, borrow)]
        api_version: Cow<'a, str>,
        #[serde(default, borrow)]
        kind: Cow<'a, str>,
        #[serde(default, borrow)]
        items: Vec<&'a RawValue>,
    }
    let list: List<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("cannot read the audit events: {error}"))?;
    if list.kind != KIND || list.api_version != API_VERSION {
        let List { api_version, kind, .. } = list;
        return Err(format!(
            "only {KIND} of {API_VERSION} is taken, not {kind:?} of {api_version:?}"
        ));
    }
    Ok(list.items)
}
