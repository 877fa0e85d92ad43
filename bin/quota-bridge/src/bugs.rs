//! The effects of the planted bugs of the bridge. Without the feature `planted-bugs` there are none.

use std::{collections::BTreeMap, sync::LazyLock};

use parking_lot::Mutex;
use planted::Bug;
use serde_json::Value;

use crate::{filter::Filter, line::Scope};

/// Plants the bug that the environment names.
#[cfg(feature = "planted-bugs")]
pub(crate) fn plant() {
    if let Ok(name) = std::env::var(planted::VARIABLE) {
        let bug = Bug::named(&name);
        planted::plant_in_process(bug.unwrap_or_else(|| panic!("there is no bug {name:?}")));
    }
}

/// The filters of the previous time that this process led.
static FILTERS: LazyLock<Mutex<BTreeMap<Scope, Filter>>> = LazyLock::new(Mutex::default);

/// The maximum number of lines of a message: `most`, or 1 with the bug.
pub(crate) fn message_lines(most: u64) -> u64 {
    match planted::is(Bug::IdsByVersion) {
        true => 1,
        false => most,
    }
}

/// With the bug, the id of a message: uid and version of its object, instead of publisher and number.
pub(crate) fn message_id(message: &[u8]) -> Option<(String, u64)> {
    if !planted::is(Bug::IdsByVersion) {
        return None;
    }
    let line: Value = serde_json::from_slice(message).ok()?;
    let object = match &line["object"]["metadata"] {
        Value::Null => &line,
        metadata => metadata,
    };
    let version = object["resourceVersion"].as_str()?.parse().ok()?;
    Some((object["uid"].as_str()?.to_owned(), version))
}

/// The sequence to expect after a stored message. With the bug, a message that was dropped as a duplicate has an old
/// one.
pub(crate) fn expected(before: u64, stored: u64) -> u64 {
    match planted::is(Bug::IdsByVersion) {
        true => before.max(stored),
        false => stored,
    }
}

/// Whether each page ends its relist.
pub(crate) fn ends_each_page() -> bool {
    planted::is(Bug::EndBeforeLastPage)
}

/// The initial filter of a scope.
pub(crate) fn filter(scope: &Scope) -> Filter {
    match planted::is(Bug::FilterKept) {
        true => FILTERS.lock().get(scope).cloned().unwrap_or_default(),
        false => Filter::default(),
    }
}

/// With the bug, keeps a scope's filter for the next time that this process leads.
pub(crate) fn keep(scope: &Scope, filter: &Filter) {
    if planted::is(Bug::FilterKept) {
        FILTERS.lock().insert(scope.clone(), filter.clone());
    }
}

/// Whether a listed object is published, given the version published before. Without the bug: always.
pub(crate) fn publishes_listed(before: Option<u64>, version: u64) -> bool {
    !(planted::is(Bug::FilterKept) && before == Some(version))
}

/// Additional query parameters of the consistent read for a watermark.
pub(crate) fn read_parameters() -> &'static str {
    match planted::is(Bug::WatermarkWithoutQuorum) {
        true => "&resourceVersion=0",
        false => "",
    }
}
