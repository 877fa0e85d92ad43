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
        1 => Event::QuotaDeleted { namespace, name: "q".into() },
        6 => Event::NamespaceDeleted { name: namespace, uid, relist: None },
        2 => Event::ObjectRefreshed { uid, namespace, version: 1, ends_reservation: false },
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
        let deletions = || Deletions { most: usize::MAX, ..Deletions::default() };
        let mut together = Window { head, deletions: deletions(), ..Window::default() };
        let mut single = Window { head, deletions: deletions(), ..Window::default() };
        together.take_all(&entries);
        entries
            .iter()
            .filter(|entry| entry.sequence > head)
            .for_each(|entry| single.take(entry));
        prop_assert_eq!(together.head, single.head);
        prop_assert_eq!(together.figures, single.figures);
        prop_assert_eq!(together.by_time, single.by_time);
        prop_assert_eq!(together.groups, single.groups);
        prop_assert_eq!(together.sets, single.sets);
        prop_assert_eq!(together.deletions.by_time.len(), single.deletions.by_time.len());
    }
}

fn entry(sequence: Sequence, event: Event) -> Entry {
    Entry { sequence, time: Timestamp::EPOCH, actor: Actor::named("test"), event }
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
            found.extend(some.iter().map(|deletion| (deletion.sequence, deletion.created_at)));
            (portions, after) = (portions + 1, until);
        }
        (found, portions)
    };
    let upto = 2 * COUNT;
    let every = |first: u64, step: usize| {
        let sequences = (first..=upto).step_by(step);
        sequences.map(|sequence| (sequence, sequence - 1)).collect::<Vec<_>>()
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
    assert!(changes.check(Kind::Quota, floor, None).is_ok());
}

/// All changes of a kind since a version, and in how many portions they come.
fn all_changes(
    changes: &Changes,
    kind: Kind,
    mut since: Since,
    namespace: Option<&Name>,
) -> (Vec<(Sequence, Change)>, usize) {
    let (mut found, mut portions) = (Vec::new(), 0);
    loop {
        let portion = changes.next(kind, since, namespace).unwrap();
        assert!(portion.changes.len() <= 4 * CHANGES_AT_ONCE);
        assert!(portion.is_all || portion.upto > since.version);
        found.extend(portion.changes);
        portions += 1;
        if portion.is_all {
            assert_eq!(portion.upto, changes.window.lock().head);
            return (found, portions);
        }
        since = Since { version: portion.upto, again: false };
    }
}

const fn since(version: Sequence) -> Since {
    Since { version, again: false }
}

#[test]
fn changes_are_read_in_portions_and_none_is_missed() {
    let changes = of_deletions(0);
    let names = || (0..2 * CHANGES_AT_ONCE + 1).map(|number| Name::from(format!("n{number}")));
    let mut expected = Vec::new();
    for (number, name) in (0..).zip(names()) {
        let mut window = changes.window.lock();
        window.take(&entry(2 * number + 1, event(3, name.clone())));
        window.take(&entry(2 * number + 2, event(0, name.clone())));
        let key = key_of(name.clone());
        expected.push((2 * number + 1, Change::Figures(name)));
        expected.push((2 * number + 2, Change::Object(key)));
    }
    let (found, portions) = all_changes(&changes, Kind::Quota, since(0), None);
    assert_eq!(found, expected);
    assert_eq!(portions, 3);
    let one = Name::from("n7");
    let of_one = |version| all_changes(&changes, Kind::Quota, since(version), Some(&one)).0;
    assert_eq!(of_one(14), &expected[14..16]);
    assert_eq!(of_one(15), &expected[15..16]);
    assert_eq!(of_one(16), []);
}

fn key_of(namespace: Name) -> Key {
    Key { kind: Kind::Quota, namespace, name: "q".into() }
}

#[test]
fn changes_come_in_order_and_those_of_one_entry_come_again() {
    let changes = of_deletions(0);
    let (a, b) = (Name::from("a"), Name::from("b"));
    let group = |sequence| {
        let record = quota_core::event::GroupRecord {
            name: "g".into(),
            uid: Uid::from_uuid([9; 16]),
            created: Timestamp::EPOCH,
            spec: quota_semantics::group::Spec::default(),
            metadata: Box::default(),
        };
        entry(sequence, Event::GroupSet(Arc::new(record)))
    };
    for entry in [
        entry(1, event(0, a.clone())),
        entry(2, event(3, a.clone())),
        entry(3, event(0, b.clone())),
        entry(4, event(1, a.clone())),
        entry(5, event(0, a.clone())),
        group(6),
        entry(7, event(3, b.clone())),
    ] {
        changes.window.lock().take(&entry);
    }
    let all = |kind, version, again| {
        let since = Since { version, again };
        all_changes(&changes, kind, since, None).0
    };
    let quotas = [
        (2, Change::Figures(a.clone())),
        (3, Change::Object(key_of(b.clone()))),
        (4, Change::Deleted),
        (5, Change::Object(key_of(a))),
        (7, Change::Figures(b.clone())),
    ];
    assert_eq!(all(Kind::Quota, 1, false), quotas);
    assert_eq!(all(Kind::Quota, 2, false), &quotas[1..]);
    assert_eq!(all(Kind::Quota, 2, true), quotas);
    assert_eq!(all(Kind::Quota, 3, true), &quotas[2..], "it changed one");
    assert_eq!(all(Kind::Quota, 7, true), &quotas[4..]);
    assert_eq!(all(Kind::Quota, 7, false), []);
    // Before the window it is not known what an entry has changed.
    let first = all(Kind::Quota, 0, true);
    assert_eq!(first.first(), Some(&(0, Change::All)));

    let key = Key { kind: Kind::Group, namespace: Name::default(), name: "g".into() };
    let groups = [(6, Change::Object(key)), (6, Change::All), (7, Change::Figures(b))];
    assert_eq!(all(Kind::Group, 1, true), groups);
    assert_eq!(all(Kind::Group, 6, true), &groups[1..]);
    assert_eq!(all(Kind::Group, 6, false), &groups[2..]);
}

#[test]
fn an_object_was_born_with_the_entry_that_created_it() {
    let changes = of_deletions(0);
    let uid = Uid::from_uuid([7; 16]);
    let key = Key { kind: Kind::Quota, namespace: "a".into(), name: "q".into() };
    let created_at = |sequence, kind| {
        let entry = entry(sequence, event(kind, "a".into()));
        changes.window.lock().take(&entry);
        changes.created_at(&key, &uid)
    };
    assert_eq!(created_at(1, 0), Some(1));
    assert_eq!(created_at(2, 0), Some(1), "it was only set anew");
    assert_eq!(created_at(3, 1), None);
    assert_eq!(created_at(4, 0), Some(4));
    assert_eq!(changes.created_at(&key, &Uid::from_uuid([8; 16])), None);
}
