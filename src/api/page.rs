//! Lists in pages: `limit`, `continue`, and the envelope around the items.

use axum::extract::FromRequestParts;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::request::Parts;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::problem::{Problem, Reason};
use crate::{label_selector::LabelSelector, parse_errors};

pub(super) use crate::routes::Target;
pub(super) use quota_client::wire::Page;

/// The query of a request. Its route has refused unknown parameters.
#[derive(Clone, Debug)]
pub(super) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parse_errors::query(&parts.uri);
        Ok(Self(query.map_err(|why| Problem::new(Reason::Malformed, why))?))
    }
}

/// Selects a page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageQuery {
    /// Most items; none for the largest allowed page.
    pub limit: Option<usize>,
    /// The position where the previous page ended.
    #[serde(rename = "continue")]
    pub after: Option<String>,
    /// Selects items by their labels. The routes of lists without labels refuse it.
    label_selector: Option<String>,
}

impl PageQuery {
    /// The size of the page: as requested, but at most `most`.
    ///
    /// # Errors
    /// `Malformed` for 0.
    pub(super) fn limit(&self, most: usize) -> Result<usize, Problem> {
        limit(self.limit, most)
    }

    /// The position after which the page begins; none at the beginning.
    ///
    /// # Errors
    /// `Malformed` if it is not a token of this list.
    pub(super) fn after<K: DeserializeOwned>(&self) -> Result<Option<K>, Problem> {
        after(self.after.as_deref())
    }

    /// The label selector.
    ///
    /// # Errors
    /// `Malformed` if the text is not a selector, or a long one.
    pub(super) fn labels(&self) -> Result<LabelSelector, Problem> {
        let text = self.label_selector.as_deref().unwrap_or_default();
        LabelSelector::parse(text).map_err(|why| Problem::new(Reason::Malformed, why))
    }
}

/// As [`PageQuery::limit`].
pub(super) fn limit(requested: Option<usize>, most: usize) -> Result<usize, Problem> {
    match requested {
        Some(0) => Err(Problem::new(Reason::Malformed, "limit must be at least 1")),
        Some(requested) => Ok(requested.min(most)),
        None => Ok(most),
    }
}

/// As [`PageQuery::after`], of this `continue`.
pub(super) fn after<K: DeserializeOwned>(token: Option<&str>) -> Result<Option<K>, Problem> {
    let token = token.filter(|token| !token.is_empty());
    token.map(read_token).transpose()
}

fn read_token<K: DeserializeOwned>(token: &str) -> Result<K, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let key = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    key.ok_or_else(|| Problem::new(Reason::Malformed, "continue is not a token of this list"))
}

/// Cuts a list that was read up to one item beyond its page; answers the token for the next page, if there is one.
pub(super) fn cut<T>(
    items: &mut Vec<T>,
    limit: usize,
    token: impl FnOnce(&T) -> Result<String, Problem>,
) -> Result<Option<String>, Problem> {
    if items.len() <= limit {
        return Ok(None);
    }
    items.truncate(limit);
    items.last().map(token).transpose()
}

/// The token for the page after `key`.
pub(super) fn token(key: &impl Serialize) -> Result<String, Problem> {
    let json = serde_json::to_vec(key).map_err(|error| Problem::internal(&error))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}
