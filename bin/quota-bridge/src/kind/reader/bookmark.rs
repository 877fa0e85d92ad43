//! Bookmarks: how far a watch is.

use super::{OnlyMetadata, read};

/// The content of a bookmark.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::kind) struct Bookmark {
    /// All events up to this version were sent.
    pub(in crate::kind) version: String,
    /// All objects that existed when the watch was opened were sent.
    pub(in crate::kind) ends_list: bool,
}

/// Reads a bookmark, of which only the metadata are reliable.
///
/// # Errors
/// It is not what it has to be.
pub(in crate::kind) fn bookmark(json: &str) -> Result<Bookmark, String> {
    let OnlyMetadata { metadata } = read(json)?;
    let ends_list = metadata.annotations.initial_events_end.as_deref() == Some("true");
    Ok(Bookmark {
        version: metadata.resource_version.as_str().to_owned(),
        ends_list,
    })
}
