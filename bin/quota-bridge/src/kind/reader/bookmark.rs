//! Bookmarks of watches.

use super::{OnlyMetadata, read};

/// The content of a bookmark.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kind) struct Bookmark {
    /// The resourceVersion up to which all events have been sent.
    pub(in crate::kind) version: String,
    /// Whether all initial events have been sent.
    pub(in crate::kind) ends_list: bool,
}

/// Parses a bookmark, of which only the metadata are reliable.
///
/// # Errors
/// The JSON is no object with metadata.
pub(in crate::kind) fn bookmark(json: &str) -> Result<Bookmark, String> {
    let OnlyMetadata { metadata } = read(json)?;
    let ends_list = metadata.annotations.initial_events_end.as_deref() == Some("true");
    Ok(Bookmark { version: metadata.resource_version.as_str().to_owned(), ends_list })
}
