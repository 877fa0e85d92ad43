//! Turns the reports of a source into entries, in one batch with its cursor.

use std::{ops::RangeInclusive, sync::Arc};

use crate::{
    decide::{self, Bookmark, Relist, Sighting, Verdict},
    event::{Actor, Cursor, DeadLetter, Event, RelistBegin, RelistScope},
    transaction::WriteTransaction,
};
use quota_semantics::{Name, Timestamp, uid::Uid};

/// A report of a source: one message as read, or what is known of lost messages.
#[derive(Clone, Debug)]
pub enum Observation {
    /// An event that was understood.
    Sighting(Sighting),
    /// An event that was not understood.
    Rejected {
        /// The event.
        letter: DeadLetter,
        /// The kind of its object, if it could be determined.
        resource: Option<Name>,
    },
    /// Watermarks of the source.
    Bookmark {
        /// The bookmark.
        bookmark: Bookmark,
        /// When the source received the bookmark; none: it was sent just now.
        received: Option<Timestamp>,
    },
    /// A relist begins or ends.
    Relist {
        /// The statement.
        relist: Relist,
        /// The name of the source, and when the source received the statement; none: it was sent just now.
        received: Option<(Name, Timestamp)>,
    },
    /// Positions were lost before they could be consumed: after all items before this one, and before all items after
    /// it.
    Gap {
        /// The source's name.
        source: Name,
        /// The missing positions.
        positions: RangeInclusive<u64>,
    },
}

/// How far a source is consumed.
#[derive(Clone, Debug)]
pub struct Consumed {
    /// The source's name.
    pub source: Name,
    /// The present position of the source.
    pub cursor: Cursor,
}

/// The number of events by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// New events.
    pub accepted: u64,
    /// Old events, and events that are irrelevant to quotas.
    pub ignored: u64,
    /// Events that were not understood.
    pub rejected: u64,
}

impl std::ops::AddAssign for Recorded {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.ignored += other.ignored;
        self.rejected += other.rejected;
    }
}

/// Relist statements by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relisted {
    /// The events of accepted statements: relists that began, were closed, or ended without consequence.
    pub decided: Vec<Event>,
    /// Statements without effect: a begin when too many are open, an end without a begin.
    pub passed_over: Vec<Relist>,
    /// Statements that were consumed before their source was reset, and are read again: they may not reflect later
    /// events.
    pub outdated: Vec<Relist>,
}

/// Records the reports of a source and its cursor in the same decision, hence in the same batch. If the source is
/// consumed that far already, nothing happens. `ignored` is the number of further reports that are irrelevant to
/// quotas.
pub fn record(
    transaction: &mut WriteTransaction<'_>,
    actor: &Arc<Actor>,
    items: Vec<Observation>,
    ignored: u64,
    consumed: Option<&Consumed>,
) -> (Recorded, Relisted) {
    let mut advance = match consumed {
        None => None,
        Some(Consumed { source, cursor }) => {
            match decide::advance(transaction.state(), source, cursor) {
                None => return <_>::default(),
                advance => advance,
            }
        }
    };
    let mut recording =
        Recording { transaction, actor, listed: Vec::new(), relisted: Relisted::default() };
    let mut recorded = Recorded { ignored, ..Recorded::default() };
    for item in items {
        let is_news = match item {
            Observation::Rejected { letter, resource } => {
                recording.note([decide::reject(letter, resource)]);
                recorded.rejected += 1;
                continue;
            }
            Observation::Gap { source, positions } => {
                // The cursor is before the gap, and must not go back.
                let is_behind =
                    consumed.is_some_and(|consumed| consumed.cursor.position < *positions.start());
                let passed = advance.take_if(|_| is_behind);
                let gap = decide::gap(&source, *positions.start(), *positions.end());
                recording.note(passed.into_iter().chain([gap]));
                continue;
            }
            Observation::Sighting(sighting) => recording.see(sighting),
            Observation::Bookmark { bookmark, received } => recording.progress(&bookmark, received),
            Observation::Relist { relist, received: Some((source, time)) }
                if decide::was_consumed_before(recording.transaction.state(), &source, time) =>
            {
                recording.relisted.outdated.push(relist);
                false
            }
            Observation::Relist { relist, .. } => recording.relist(relist),
        };
        *match is_news {
            true => &mut recorded.accepted,
            false => &mut recorded.ignored,
        } += 1;
    }
    recording.record_listed();
    recording.note(advance);
    (recorded, recording.relisted)
}

/// The state of recording a list of items.
struct Recording<'a, 'b> {
    transaction: &'a mut WriteTransaction<'b>,
    actor: &'a Arc<Actor>,
    /// Listed objects that are as recorded.
    listed: Vec<Uid>,
    relisted: Relisted,
}

impl Recording<'_, '_> {
    fn note(&mut self, events: impl IntoIterator<Item = Event>) {
        self.transaction.record(self.actor, events);
    }

    /// Records a sighting. Returns whether it is new.
    fn see(&mut self, sighting: Sighting) -> bool {
        let (state, source) = (self.transaction.state(), &self.actor.principal);
        let sighting = match decide::replace(state, source, sighting) {
            Ok(events) => {
                self.note(events);
                return true;
            }
            Err(sighting) => sighting,
        };
        match decide::observe(self.transaction.state(), sighting) {
            Verdict::Accepted(events) => {
                self.note(events);
                true
            }
            Verdict::Ignored(old) => {
                let listed = decide::listed(self.transaction.state(), &self.actor.principal, &old);
                self.listed.extend(listed.cloned());
                false
            }
        }
    }

    /// Records a bookmark. Returns whether it is new.
    fn progress(&mut self, bookmark: &Bookmark, received: Option<Timestamp>) -> bool {
        let (state, source, now) =
            (self.transaction.state(), &self.actor.principal, self.transaction.now());
        let received = received.map_or(now, |received| received.min(now));
        let event = decide::advance_watermarks(state, source, bookmark, received);
        let is_news = event.is_some();
        self.note(event);
        is_news
    }

    /// Records the begin or the end of a relist. Returns whether it has an effect.
    fn relist(&mut self, relist: Relist) -> bool {
        self.record_listed();
        let (state, source) = (self.transaction.state(), &self.actor.principal);
        let events = match &relist {
            Relist::Begin { resource, namespace, id, allow_empty, resets_versions } => {
                let scope = RelistScope {
                    resource: resource.clone(),
                    namespace: namespace.clone(),
                    source: source.clone(),
                };
                let begin = RelistBegin { scope, id: id.clone(), allow_empty: *allow_empty };
                decide::begin_relist(state, begin, *resets_versions)
            }
            Relist::Finish(finish) => decide::close_relist(state, source, finish),
        };
        let means = !events.is_empty();
        match means {
            true => self.relisted.decided.extend(events.iter().cloned()),
            false => self.relisted.passed_over.push(relist),
        }
        self.note(events);
        means
    }

    /// Records which objects were listed. Called before a list or the batch ends.
    fn record_listed(&mut self) {
        if self.listed.is_empty() {
            return;
        }
        let listed = Event::ObjectsListed {
            source: self.actor.principal.clone(),
            uids: std::mem::take(&mut self.listed),
        };
        self.note([listed]);
    }
}
