//! `AdmissionReview` as it goes over the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The version that is spoken.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A request to the Kubernetes API, as far as it is of interest. Objects are not read yet.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    /// New with every call.
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Kind<'a>,
    #[serde(borrow)]
    pub(super) resource: Resource<'a>,
    #[serde(default, borrow)]
    pub(super) sub_resource: Cow<'a, str>,
    /// Absent when a collection is deleted.
    #[serde(default, borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(default, borrow)]
    user_info: UserInfo<'a>,
    #[serde(default, borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) old_object: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(default, borrow)]
    pub(super) group: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) version: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) kind: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Resource<'a> {
    #[serde(default, borrow)]
    pub(super) group: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) resource: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
struct UserInfo<'a> {
    #[serde(default, borrow)]
    username: Cow<'a, str>,
}

impl Request<'_> {
    /// On whose behalf the API server acts.
    pub(super) fn user(&self) -> &str {
        &self.user_info.username
    }
}

/// Reads a review; or says what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Request<'_>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Review<'a> {
        #[serde(default, borrow)]
        api_version: Cow<'a, str>,
        #[serde(default, borrow)]
        kind: Cow<'a, str>,
        #[serde(default, borrow)]
        request: Option<&'a RawValue>,
    }
    let unread = |error: serde_json::Error| format!("cannot read the review: {error}");
    let review: Review<'_> = serde_json::from_slice(body).map_err(unread)?;
    if review.kind != KIND || review.api_version != API_VERSION {
        let Review {
            api_version, kind, ..
        } = review;
        return Err(format!(
            "only {KIND} of {API_VERSION} is answered, not {kind:?} of {api_version:?}; \
             set admissionReviewVersions to [\"v1\"]"
        ));
    }
    let request = review.request.ok_or("the review has no request")?;
    let request: Request<'_> = serde_json::from_str(request.get()).map_err(unread)?;
    if request.uid.is_empty() || request.resource.resource.is_empty() {
        return Err("the review's request has no uid or no resource".to_owned());
    }
    Ok(request)
}

/// The answer to a review.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    pub(super) uid: &'a str,
    pub(super) allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) audit_annotations: BTreeMap<&'static str, String>,
}

/// Why a request is not allowed: a Kubernetes `Status`.
#[derive(Debug, Serialize)]
pub(super) struct Status<'a> {
    pub(super) status: &'static str,
    pub(super) code: u16,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) details: Details<'a>,
}

/// What a status is about.
#[derive(Debug, Serialize)]
pub(super) struct Details<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'a str,
    /// The resource, as Kubernetes has it.
    pub(super) kind: &'a str,
}

/// The review that carries an answer.
pub(super) fn write(answer: &Answer<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Review<'a> {
        api_version: &'static str,
        kind: &'static str,
        response: &'a Answer<'a>,
    }
    let review = Review {
        api_version: API_VERSION,
        kind: KIND,
        response: answer,
    };
    serde_json::to_vec(&review).expect("texts and numbers can be written as JSON")
}
