//! The wire format of `AdmissionReview`.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Serialize,
    de::{
        DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer,
    },
};
use serde_json::value::RawValue;

use crate::problem::in_plain_words;

/// The supported version.
const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// A request to the Kubernetes API, limited to the fields that are used.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    /// Unique per call.
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow, deserialize_with = "fields")]
    pub(super) kind: Kind<'a>,
    #[serde(borrow, deserialize_with = "fields")]
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
    #[serde(default, borrow, deserialize_with = "fields")]
    user_info: UserInfo<'a>,
    #[serde(default, borrow, deserialize_with = "object")]
    pub(super) object: Option<Object<'a>>,
    #[serde(default, borrow, deserialize_with = "object")]
    pub(super) old_object: Option<Object<'a>>,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
}

/// An object. Its parts are kept as raw JSON: what of them counts depends on the kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Object<'a> {
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

impl<'a> Object<'a> {
    /// The parts by their names.
    pub(super) fn parts(&self) -> impl Iterator<Item = (&'static str, &'a RawValue)> {
        let &Self { metadata, spec, status, .. } = self;
        let parts = [("metadata", metadata), ("spec", spec), ("status", status)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part?)))
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(default, borrow)]
    pub(super) group: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) version: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) kind: Cow<'a, str>,
}

impl Kind<'_> {
    /// Group and version.
    pub(super) fn api_version(&self) -> Cow<'_, str> {
        match self.group.is_empty() {
            true => Cow::Borrowed(&*self.version),
            false => Cow::Owned(format!("{}/{}", self.group, self.version)),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
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
    /// The user on whose behalf the API server acts.
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
        request: Option<Fields<Request<'a>>>,
    }
    let Fields(review): Fields<Review<'_>> = serde_json::from_slice(body)
        .map_err(|error| format!("cannot read the review: {}", in_plain_words(&error)))?;
    if review.kind != KIND || review.api_version != API_VERSION {
        let Review { api_version, kind, .. } = review;
        return Err(format!(
            "only {KIND} of {API_VERSION} is answered, not {kind:?} of {api_version:?}; \
             set admissionReviewVersions to [\"v1\"]"
        ));
    }
    let Fields(request) = review.request.ok_or("the review has no request")?;
    if request.uid.is_empty() || request.resource.resource.is_empty() {
        return Err("the review's request has no uid or no resource".to_owned());
    }
    Ok(request)
}

/// A struct that is read from the fields of an object. The derived code alone takes a list of their values as well.
struct Fields<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

fn fields<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Fields::deserialize(deserializer).map(|Fields(value)| value)
}

fn object<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Object<'a>>, D::Error> {
    let object: Option<Fields<_>> = Option::deserialize(deserializer)?;
    Ok(object.map(|Fields(object)| object))
}

/// The request of a review that cannot be read as a whole.
pub(super) struct Unread<'a> {
    pub(super) request: Request<'a>,
    /// A field that occurs twice: nothing that the review says about itself is certain.
    pub(super) repeated: Option<String>,
}

/// Reads the request of a review that cannot be read as a whole, up to the place of the error, if that is enough to
/// answer.
pub(super) fn head(body: &[u8]) -> Option<Unread<'_>> {
    let mut head = Head::default();
    let whole = Part { head: &mut head, of_request: false };
    // This fails where reading the review failed; the fields before that place are kept.
    let _ = whole.deserialize(&mut serde_json::Deserializer::from_slice(body));
    let is_review = head.kind == KIND && head.api_version == API_VERSION;
    (is_review && !head.request.uid.is_empty())
        .then_some(Unread { request: head.request, repeated: head.repeated })
}

#[derive(Default)]
struct Head<'a> {
    api_version: Cow<'a, str>,
    kind: Cow<'a, str>,
    request: Request<'a>,
    repeated: Option<String>,
}

/// The fields of a review and of its request, without those that nothing depends on.
const REVIEW_FIELDS: [&str; 3] = ["apiVersion", "kind", "request"];
const REQUEST_FIELDS: [&str; 11] = [
    "uid",
    "kind",
    "resource",
    "subResource",
    "name",
    "namespace",
    "operation",
    "userInfo",
    "object",
    "oldObject",
    "dryRun",
];

/// Reads the fields of a review, or of its request, one by one.
struct Part<'h, 'a> {
    head: &'h mut Head<'a>,
    of_request: bool,
}

impl<'a> DeserializeSeed<'a> for Part<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Part<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let known: &[&str] = match self.of_request {
            false => &REVIEW_FIELDS,
            true => &REQUEST_FIELDS,
        };
        let mut seen = [false; REQUEST_FIELDS.len()];
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let head = &mut *self.head;
            let field = known.iter().position(|field| *field == key);
            if let Some(field) = field
                && std::mem::replace(&mut seen[field], true)
            {
                head.repeated.get_or_insert_with(|| key.into_owned());
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match (self.of_request, &*key) {
                (false, "apiVersion") => head.api_version = map.next_value()?,
                (false, "kind") => head.kind = map.next_value()?,
                (false, "request") => map.next_value_seed(Part { head, of_request: true })?,
                (true, "uid") => head.request.uid = given(map.next_value()?),
                (true, "kind") => head.request.kind = given(map.next_value()?),
                (true, "resource") => head.request.resource = given(map.next_value()?),
                (true, "subResource") => head.request.sub_resource = given(map.next_value()?),
                (true, "name") => head.request.name = given(map.next_value()?),
                (true, "namespace") => head.request.namespace = given(map.next_value()?),
                (true, "operation") => head.request.operation = given(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The value of a field; the default if it has another type, so that the fields after it are read as well.
fn given<'a, T: Default + Deserialize<'a>>(json: &'a RawValue) -> T {
    serde_json::from_str(json.get()).unwrap_or_default()
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
    pub(super) warnings: Vec<Cow<'a, str>>,
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

/// The object that a status refers to.
#[derive(Debug, Serialize)]
pub(super) struct Details<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) group: &'a str,
    /// The resource: Kubernetes writes the plural name into `kind`.
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
    let review = Review { api_version: API_VERSION, kind: KIND, response: answer };
    serde_json::to_vec(&review).expect("texts and numbers can be written as JSON")
}
