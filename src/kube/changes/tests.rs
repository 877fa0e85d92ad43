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
        let deletions = || {
            let mut deletions = Deletions::default();
            deletions.most = usize::MAX;
            deletions
        };
        let mut together = Window { head, deletions: deletions(), ..Window::default() };
        let mut single = Window { head, deletions: deletions(), ..Window::default() };
        together.take_all(&entries);
        entries
            .iter()
            .filter(|entry| entry.sequence > head)
            .for_each(|entry| single.take(entry));
        prop_assert_eq!(together.head, single.head);
        prop_assert_eq!(together.touched, single.touched);
        prop_assert_eq!(together.by_time, single.by_time);
        prop_assert_eq!(together.groups, single.groups);
        prop_assert_eq!(together.deletions.by_time.len(), single.deletions.by_time.len());
    }
}

fn entry(sequence: Sequence, event: Event) -> Entry {
    Entry {
        sequence,
        time: Timestamp::EPOCH,
        actor: Actor::named("test"),
        event,
    }
}

/// Quotas of two namespaces are created and deleted in turn.
fn of_deletions(count: u64) -> Changes {
    let mut window = Window::default();
    window.deletions.most = usize::MAX;
    for number in 0..count {
        let namespace = Name::from(if number % 2 == 0 { "a" } else { "b" });
        window.take(&entry(2 * number + 1, event(0, namespace.clone())));
        window.take(&entry(2 * number + 2, event(1, namespace)));
    }
    Changes {
        head: watch::Sender::new(window.head),
        window: Mutex::new(window),
        stop: CancellationToken::new(),
    }
}

#[test]
fn deletions_are_read_in_portions_and_none_is_missed() {
    const COUNT: u64 = 3 * CHANGES_AT_ONCE as u64;
    let changes = of_deletions(COUNT);
    let all = |kind, namespace: Option<&Name>, from, upto| {
        let (mut found, mut portions, mut after) = (Vec::new(), 0, from);
        while after < upto {
            let (some, until) = changes.deleted(kind, (after, upto), namespace).unwrap();
            assert!(some.len() <= CHANGES_AT_ONCE && until > after);
            found.extend(
                some.iter()
                    .map(|deletion| (deletion.sequence, deletion.born)),
            );
            (portions, after) = (portions + 1, until);
        }
        (found, portions)
    };
    let upto = 2 * COUNT;
    let every = |first: u64, step: usize| {
        let sequences = (first..=upto).step_by(step);
        sequences
            .map(|sequence| (sequence, sequence - 1))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(Kind::Quota, None, 0, upto), (every(2, 2), 3));
    let b = Name::from("b");
    assert_eq!(all(Kind::Quota, Some(&b), 0, upto), (every(4, 4), 2));
    assert_eq!(all(Kind::Group, None, 0, upto), (Vec::new(), 1));
    let some = all(Kind::Quota, None, 3, 8).0;
    assert_eq!(some, [(4, 3), (6, 5), (8, 7)]);
    let floor = {
        let mut window = changes.window.lock();
        window.deletions.most = 0;
        window.take(&entry(upto + 1, event(0, "a".into())));
        window.take(&entry(upto + 2, event(1, "a".into())));
        window.deletions.forgotten_anywhere
    };
    assert_eq!(floor, upto + 2);
    assert!(changes.deleted(Kind::Quota, (upto, floor), None).is_err());
    assert!(changes.since(Kind::Quota, floor, None).is_ok());
}

#[test]
fn touched_namespaces_are_read_in_portions_and_none_is_missed() {
    let changes = of_deletions(0);
    let names = || (0..2 * CHANGES_AT_ONCE + 1).map(|number| Name::from(format!("n{number}")));
    for (sequence, name) in (1..).zip(names()) {
        changes.window.lock().take(&entry(sequence, event(3, name)));
    }
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let some = changes.touched(after, None).unwrap();
        assert!(some.len() <= CHANGES_AT_ONCE);
        let Some((last, _)) = some.last() else { break };
        after = *last;
        found.extend(some.into_iter().map(|(_, name)| name));
    }
    assert_eq!(found, names().collect::<Vec<_>>());
    let one = Name::from("n7");
    assert_eq!(changes.touched(7, Some(&one)).unwrap(), [(8, one.clone())]);
    assert_eq!(changes.touched(8, Some(&one)).unwrap(), []);
}

#[test]
fn an_object_was_born_with_the_entry_that_created_it() {
    let changes = of_deletions(0);
    let uid = Uid::from_uuid([7; 16]);
    let key = Key {
        kind: Kind::Quota,
        namespace: "a".into(),
        name: "q".into(),
    };
    let born = |sequence, kind| {
        let entry = entry(sequence, event(kind, "a".into()));
        changes.window.lock().take(&entry);
        changes.born(&key, &uid)
    };
    assert_eq!(born(1, 0), Some(1));
    assert_eq!(born(2, 0), Some(1), "it was only set anew");
    assert_eq!(born(3, 1), None);
    assert_eq!(born(4, 0), Some(4));
    assert_eq!(changes.born(&key, &Uid::from_uuid([8; 16])), None);
}
