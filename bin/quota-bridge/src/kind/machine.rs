//! The state machine of one kind's task: list, watch, wait. Pure: the server's responses go in, the next request and
//! the begin and end of relists come out.
//!
//! The main rule: a relist ends only if every page of one snapshot arrived, had the right kind, and each of its objects
//! was decoded. Without that end the ledger ends no object.

use std::time::Duration;

use super::Relist;
use crate::{
    kubernetes::Failure,
    line::{Begin, End, RelistIds},
};

/// The delay after a first failure; doubled with each further one, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The maximum delay after failures.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Delay until the next attempt after an incomplete list, or an empty list that is not yet accepted.
const DOUBT_WAIT: Duration = Duration::from_secs(60);

/// The maximum delay that a server can request.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(5 * 60);

/// The number of refusals after which a list does not wait for its next page any longer, but begins again. The server may
/// not know the token any more and say so with another status than 410, as after a restore of etcd.
const PAGE_ATTEMPTS: u32 = 4;

/// The minimum duration of a watch. A watch that ends sooner has failed.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The rules for listing a kind.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The maximum number of objects of a page.
    pub page: u32,
    /// Whether the list is requested as the initial events of a watch, as long as the server supports that.
    pub watch_list: bool,
    /// The interval of periodic lists.
    pub every: Duration,
    /// Whether an empty list is accepted at once, instead of after two empty lists in a row.
    pub may_be_empty: bool,
}

/// The next action of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for this time.
    Wait(Duration),
    /// Request a page, the first one if there is no token.
    Page(Option<String>),
    /// Open a watch that begins with a list.
    WatchList,
    /// Open a watch from this version on.
    Watch(String),
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The version of the list.
    pub version: String,
    /// The token of the next page; none: it is the last one.
    pub next: Option<String>,
    /// The number of objects that were decoded.
    pub read: usize,
    /// The number of objects that could not be decoded.
    pub unreadable: usize,
    /// Whether the page was so short that a page of twice as many objects will not be too long.
    pub is_short: bool,
}

/// An event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An existing object with this version.
    Alive(&'a str),
    /// An object that was deleted at this version.
    Deleted(&'a str),
    /// An object that could not be decoded.
    Unreadable,
    /// All events up to this version have been sent.
    Bookmark(&'a str),
    /// All initial objects, and all events up to this version, have been sent.
    ListEnds(&'a str),
}

/// The begin or end of a relist around the lines of a page or an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brackets {
    /// Set if the list is older than the newest version received before: versions have gone back.
    pub went_back: Option<WentBack>,
    /// The relist that begins before these lines.
    pub begin: Option<Begin>,
    /// Whether the list is over after these lines.
    pub over: bool,
    /// The end of the relist after these lines.
    pub end: Option<End>,
}

/// A consistent read returned a version before one that was received: the API server's etcd was restored from a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WentBack {
    /// The version that the read returned.
    pub version: u64,
    /// The newest version that was received.
    pub newest: u64,
}

/// The state of one kind's task.
#[derive(Debug)]
pub struct Machine {
    rules: Rules,
    ids: RelistIds,
    phase: Phase,
    /// The maximum number of objects of the next page.
    page_limit: u32,
    /// The number of failures in a row. During a list only its end resets the number: a list that always breaks at the
    /// same place begins again less and less often.
    failures: u32,
    wait: Option<Duration>,
    relist_at: Duration,
    /// Whether the last list was complete, so that the watch delivers all changes.
    whole: bool,
    empty_since: Option<Duration>,
    /// Whether the next relist reports that versions have gone back.
    reset: bool,
    /// Whether a relist has reported that versions have gone back. The stream may lose that report.
    has_reset: bool,
    /// The newest version received since versions last went back; 0: unknown.
    newest: u64,
    /// Whether another relist was requested during the current one.
    again: bool,
    /// Whether the next list is requested in pages, since the server failed to send the last one at the begin of a
    /// watch.
    pages_next: bool,
}

#[derive(Debug)]
enum Phase {
    /// A list has to begin.
    Due,
    /// Some pages have arrived, more must follow. `refusals`: how often the server refused the next page.
    Paging { list: List, next: String, refusals: u32 },
    /// A watch is open that begins with a list.
    Listing(Option<List>),
    /// All events up to this version have been received.
    Watching(String),
}

#[derive(Debug)]
struct List {
    id: String,
    read: usize,
    unreadable: usize,
}

impl Machine {
    /// The initial state. Relists get the next ids of `ids`.
    pub const fn new(rules: Rules, ids: RelistIds) -> Self {
        Self {
            rules,
            ids,
            phase: Phase::Due,
            page_limit: rules.page,
            failures: 0,
            wait: None,
            relist_at: Duration::ZERO,
            whole: false,
            empty_since: None,
            reset: false,
            has_reset: false,
            newest: 0,
            again: false,
            pages_next: false,
        }
    }

    /// The next step at `now`, a time since an arbitrary begin.
    pub fn next(&mut self, now: Duration) -> Step {
        if let Some(wait) = self.wait.take() {
            return Step::Wait(wait);
        }
        if matches!(self.phase, Phase::Watching(_)) && now >= self.relist_at {
            self.phase = Phase::Due;
        }
        match &self.phase {
            Phase::Due if self.rules.watch_list && !self.pages_next => {
                self.phase = Phase::Listing(None);
                Step::WatchList
            }
            Phase::Due => Step::Page(None),
            Phase::Listing(_) => Step::WatchList,
            Phase::Paging { next, .. } => Step::Page(Some(next.clone())),
            Phase::Watching(version) => Step::Watch(version.clone()),
        }
    }

    /// The time at which a watch is closed for the next relist.
    pub const fn relist_at(&self) -> Duration {
        self.relist_at
    }

    /// The maximum number of objects of the next page.
    pub const fn page_limit(&self) -> u32 {
        self.page_limit
    }

    /// The version up to which all events have been received; none while that is not certain.
    pub fn shown(&self) -> Option<&str> {
        match &self.phase {
            Phase::Watching(version) if self.whole => Some(version),
            _ => None,
        }
    }

    /// Whether a list is being read.
    pub const fn is_listing(&self) -> bool {
        !matches!(self.phase, Phase::Watching(_))
    }

    /// Requests another list.
    pub fn relist(&mut self, relist: Relist) {
        match relist {
            Relist::Again if self.is_listing() => {
                self.again = true;
                return;
            }
            Relist::Again => {}
            Relist::Lost => self.reset |= self.has_reset,
            Relist::Reset => self.reset = true,
        }
        self.phase = Phase::Due;
        self.whole = false;
        self.wait = None;
    }

    /// Processes a page. `jitter` is from 0 to 1.
    pub fn page(&mut self, page: &Page, now: Duration, jitter: f64) -> Brackets {
        if page.is_short {
            self.page_limit = self.page_limit.saturating_mul(2).min(self.rules.page);
        }
        let mut brackets = Brackets::default();
        let mut list = match std::mem::replace(&mut self.phase, Phase::Due) {
            Phase::Paging { list, .. } => list,
            _ => {
                brackets.went_back = self.went_back(&page.version);
                self.begin(&mut brackets)
            }
        };
        list.read += page.read;
        list.unreadable += page.unreadable;
        match &page.next {
            Some(next) => {
                self.phase = Phase::Paging { list, next: next.clone(), refusals: 0 };
            }
            None => self.end(list, &page.version, now, jitter, &mut brackets),
        }
        brackets
    }

    /// Halves the number of objects of the next page, since a page was too long. Returns false if it was a page of one
    /// object.
    pub const fn halve_page(&mut self) -> bool {
        let is_possible = self.page_limit > 1;
        if is_possible {
            self.page_limit /= 2;
        }
        is_possible
    }

    /// Processes an event.
    pub fn event(&mut self, event: Event<'_>, now: Duration, jitter: f64) -> Brackets {
        let mut brackets = Brackets::default();
        let Phase::Listing(list) = &mut self.phase else {
            self.watched(event, now);
            return brackets;
        };
        let list = list.take();
        let mut list = list.unwrap_or_else(|| self.begin(&mut brackets));
        match event {
            Event::ListEnds(version) => self.end(list, version, now, jitter, &mut brackets),
            _ => {
                list.read += usize::from(matches!(event, Event::Alive(_)));
                list.unreadable += usize::from(event == Event::Unreadable);
                self.phase = Phase::Listing(Some(list));
            }
        }
        brackets
    }

    fn watched(&mut self, event: Event<'_>, now: Duration) {
        let Phase::Watching(shown) = &mut self.phase else {
            return;
        };
        self.failures = 0;
        // The kind is not empty any more: its next empty list is doubted again.
        if matches!(event, Event::Alive(_)) {
            self.empty_since = None;
        }
        match event {
            Event::Alive(version)
            | Event::Deleted(version)
            | Event::Bookmark(version)
            | Event::ListEnds(version) => {
                shown.clear();
                shown.push_str(version);
                self.newest = self.newest.max(version.parse().unwrap_or(0));
            }
            // The object is unknown; a list may show it.
            Event::Unreadable => {
                self.whole = false;
                self.relist_at = self.relist_at.min(now + DOUBT_WAIT);
            }
        }
    }

    fn begin(&mut self, brackets: &mut Brackets) -> List {
        let id = self.ids.next();
        self.has_reset |= self.reset;
        brackets.begin = Some(Begin { id: id.clone(), reset: self.reset });
        List { id, read: 0, unreadable: 0 }
    }

    fn end(
        &mut self,
        list: List,
        version: &str,
        now: Duration,
        jitter: f64,
        brackets: &mut Brackets,
    ) {
        self.failures = 0;
        self.pages_next = false;
        brackets.over = true;
        if let Some(back) = self.went_back(version) {
            // The relist began without a reset, so it has to begin again.
            brackets.went_back = Some(back);
            self.phase = Phase::Due;
            self.whole = false;
            return;
        }
        self.phase = Phase::Watching(version.to_owned());
        let is_empty = list.read == 0;
        let since = *self.empty_since.get_or_insert(now);
        let is_believed = !is_empty || self.rules.may_be_empty || now >= since + DOUBT_WAIT;
        if !is_empty {
            self.empty_since = None;
        }
        self.whole = list.unreadable == 0 && is_believed;
        if !self.whole {
            self.relist_at = now + DOUBT_WAIT;
            return;
        }
        let version_number = version.parse().unwrap_or(0);
        self.newest = match std::mem::take(&mut self.reset) {
            true => version_number,
            false => self.newest.max(version_number),
        };
        self.relist_at = match std::mem::take(&mut self.again) {
            true => now,
            false => now + self.rules.every.mul_f64(0.8 + 0.4 * jitter),
        };
        brackets.end =
            Some(End { id: list.id, version: version.to_owned(), allow_empty: is_empty });
    }

    /// Checks whether a list is older than the newest version received. Lists are consistent reads, so the API server
    /// was restored. Unless that was detected before, the next relist reports it.
    fn went_back(&mut self, version: &str) -> Option<WentBack> {
        let version = version.parse().ok().filter(|version| *version > 0)?;
        let newest = self.newest;
        let is_news = version < newest && !self.reset;
        self.reset |= is_news;
        is_news.then_some(WentBack { version, newest })
    }

    /// Processes the end of a watch by the server, after `lasted`.
    pub fn closed(&mut self, lasted: Duration, jitter: f64) {
        if matches!(self.phase, Phase::Listing(_)) {
            self.phase = Phase::Due;
            self.pages_next = true;
            self.fail(None, jitter);
        } else if lasted < SHORTEST_WATCH {
            self.fail(None, jitter);
        }
    }

    /// Processes a failed request, or an unusable response.
    pub fn failed(&mut self, failure: &Failure, jitter: f64) {
        if let Phase::Listing(list) = &self.phase {
            // Other servers, or load balancers before them, would break every such list: with an etcd that reports no
            // progress the server answers 500. A server that is busy does not get more work by pages.
            let is_busy = list.is_none() && failure.code() == Some(429);
            self.pages_next = !is_busy;
            self.phase = Phase::Due;
            // A server that does not support that returns an error, or waits forever.
            let cannot = matches!(failure.code(), Some(400 | 406 | 422));
            self.rules.watch_list &= !(cannot || *failure == Failure::Silent);
        }
        let is_lost = match (&mut self.phase, failure.code()) {
            // A server that is busy or cannot be reached says nothing about the token, and gets no more work by new lists.
            (_, None | Some(429 | 503)) => false,
            (Phase::Paging { refusals, .. }, Some(_)) => {
                *refusals += 1;
                *refusals >= PAGE_ATTEMPTS
            }
            _ => false,
        };
        if failure.is_expired() || is_lost {
            self.phase = Phase::Due;
            self.whole = false;
        }
        let may_go_on = failure.is_expired() || *failure == Failure::Silent;
        if may_go_on && self.failures == 0 {
            self.failures = 1;
            return;
        }
        match failure {
            Failure::Status { retry_after, .. } => self.fail(*retry_after, jitter),
            // A list with a page of the wrong kind begins again.
            Failure::Unreadable(_) => {
                if !matches!(self.phase, Phase::Watching(_)) {
                    self.phase = Phase::Due;
                }
                self.fail(None, jitter);
            }
            _ => self.fail(None, jitter),
        }
    }

    fn fail(&mut self, retry_after: Option<Duration>, jitter: f64) {
        let factor = 2_u32.saturating_pow(self.failures);
        let wait = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
        self.failures = self.failures.saturating_add(1);
        let wait = wait.mul_f64(0.5 + 0.5 * jitter);
        self.wait = Some(retry_after.map_or(wait, |wait| wait.min(LONGEST_RETRY_AFTER)));
    }
}

#[cfg(test)]
mod tests;
