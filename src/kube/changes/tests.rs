//! Compares windows of changes with their ledger.

use proptest::prelude::*;
use quota_core::event::{Actor, QuotaRecord};
use quota_semantics::{Timestamp, quota::Spec, uid::Uid};

use super::*;

fn event(kind: u8, namespace: Name) -> Event {
    let uid = Uid::from_uuid([7; 16]);
    match kind {
        0 => Event::QuotaSet(Arc::new(QuotaRecord {
            namespace,
            name: "q".into(),
            uid,
            created: Timestamp::EPOCH,
            spec: Spec::default(),
            metadata: Box::default(),
        })),
        1 => Event::QuotaDeleted {
            namespace,
            name: "q".into(),
        },
        6 => Event::NamespaceDeleted {
            name: namespace,
            uid,
            relist: None,
        },
        2 => Event::ObjectRefreshed {
            uid,
            namespace,
            version: 1,
            ends_reservation: false,
        },
        _ => Event::ObjectDeleted { uid, namespace },
    }
}

proptest! {
    #[test]
    fn entries_taken_together_change_the_same_as_one_by_one(
        events in prop::collection::vec((0..8_u8, "[ab]"), 0..20),
        head in 0..4_u64,
    ) {
        let actor = Actor::named("test");
        let entries: Vec<Entry> = (1..)
            .zip(events)
            .map(|(sequence, (kind, namespace))| Entry {
                sequence,
                time: Timestamp::EPOCH,
                actor: actor.clone(),
                event: event(kind, namespace.as_str().into()),
            })
            .collect();
        let lives = || QuotaLifetimes { most: usize::MAX, ..QuotaLifetimes::default() };
        let mut together = Window { head, lives: lives(), ..Window::default() };
        let mut single = Window { head, lives: lives(), ..Window::default() };
        together.take_all(&entries);
        entries
            .iter()
            .filter(|entry| entry.sequence > head)
            .for_each(|entry| single.take(entry));
        prop_assert_eq!(together.head, single.head);
        prop_assert_eq!(together.touched, single.touched);
        prop_assert_eq!(together.by_time, single.by_time);
        prop_assert_eq!(together.groups, single.groups);
        prop_assert_eq!(together.lives.by_time.len(), single.lives.by_time.len());
    }
}
