//! What the planted bugs of the bridge do. Without the feature `planted-bugs` none of it happens.

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

/// Filters of the last time that this process led.
static FILTERS: LazyLock<Mutex<BTreeMap<Scope, Filter>>> = LazyLock::new(Mutex::default);

/// Most lines of a message, of which `most` are right: with ids by version, one.
pub(crate) fn message_lines(most: u64) -> u64 {
    match planted::is(Bug::IdsByVersion) {
        true => 1,
        false => most,
    }
}

/// The id of a message with one line: the uid and version of its object, instead of the publisher's and its number.
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

/// The sequence to expect behind a message that was stored: one that the server took for a duplicate has an old one.
pub(crate) fn expected(before: u64, stored: u64) -> u64 {
    match planted::is(Bug::IdsByVersion) {
        true => before.max(stored),
        false => stored,
    }
}

/// Whether a relist ends with each of its pages.
pub(crate) fn ends_each_page() -> bool {
    planted::is(Bug::EndBeforeLastPage)
}

/// The filter that a scope begins with.
pub(crate) fn filter(scope: &Scope) -> Filter {
    match planted::is(Bug::FilterKept) {
        true => FILTERS.lock().get(scope).cloned().unwrap_or_default(),
        false => Filter::default(),
    }
}

/// Keeps what a scope's filter knows.
pub(crate) fn keep(scope: &Scope, filter: &Filter) {
    if planted::is(Bug::FilterKept) {
        FILTERS.lock().insert(scope.clone(), filter.clone());
    }
}

/// Whether an object that is listed is published, given the version that was published before: always.
pub(crate) fn publishes_listed(before: Option<u64>, version: u64) -> bool {
    !(planted::is(Bug::FilterKept) && before == Some(version))
}

/// What else the read asks for that a watermark rests on.
pub(crate) fn read_parameters() -> &'static str {
    match planted::is(Bug::WatermarkWithoutQuorum) {
        true => "&resourceVersion=0",
        false => "",
    }
}
