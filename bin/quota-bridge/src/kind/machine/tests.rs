use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const RULES: Rules = Rules {
    watch_list: false,
    every: Duration::from_secs(6 * 3600),
    may_be_empty: true,
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn page(version: &str, next: Option<&str>, read: usize) -> Page {
    Page {
        version: version.to_owned(),
        next: next.map(str::to_owned),
        read,
        unreadable: 0,
    }
}

fn expired() -> Failure {
    Failure::Status {
        code: 410,
        reason: "Expired".to_owned(),
        message: String::new(),
        retry_after: None,
    }
}

fn status(code: u16, retry_after: Option<Duration>) -> Failure {
    Failure::Status {
        code,
        reason: String::new(),
        message: String::new(),
        retry_after,
    }
}

#[test]
fn a_list_of_pages_is_a_relist_and_then_it_is_watched() {
    let mut machine = Machine::new(RULES, "i");
    assert_eq!(machine.next(at(0)), Step::Page(None));
    let first = machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    assert_eq!(first.begin.unwrap().id, "i/1");
    assert!(first.end.is_none() && machine.shown().is_none());
    assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
    let last = machine.page(&page("7", None, 1), at(0), 0.0);
    let end = last.end.unwrap();
    assert_eq!(
        (end.id.as_str(), end.version.as_str(), end.allow_empty),
        ("i/1", "7", false)
    );
    assert!(last.begin.is_none());
    assert_eq!(machine.next(at(0)), Step::Watch("7".to_owned()));
    machine.event(Event::Alive("9"), at(1), 0.0);
    assert_eq!(machine.shown(), Some("9"));
    machine.closed(at(290), 0.0);
    assert_eq!(machine.next(at(291)), Step::Watch("9".to_owned()));
    assert_eq!(machine.next(at(6 * 3600)), Step::Page(None), "listed again");
}

#[test]
fn a_list_that_is_older_than_what_was_shown_is_of_a_restored_server() {
    let back = |version, newest| Some(WentBack { version, newest });
    // In pages it is seen before the relist begins.
    let mut machine = Machine::new(RULES, "i");
    machine.page(&page("7", None, 1), at(0), 0.0);
    machine.event(Event::Alive("9"), at(1), 0.0);
    machine.relist(false);
    let first = machine.page(&page("8", Some("t"), 1), at(2), 0.0);
    assert_eq!(first.went_back, back(8, 9));
    assert!(first.begin.unwrap().reset);
    let last = machine.page(&page("8", None, 1), at(2), 0.0);
    assert!(last.went_back.is_none() && last.end.is_some());
    // From there on versions count from what was listed.
    machine.relist(false);
    let again = machine.page(&page("8", None, 1), at(3), 0.0);
    assert!(again.went_back.is_none() && !again.begin.unwrap().reset);

    // At the begin of a watch it is seen at the end of the list only.
    let watched = Rules {
        watch_list: true,
        ..RULES
    };
    let mut machine = Machine::new(watched, "i");
    assert_eq!(machine.next(at(0)), Step::WatchList);
    assert!(
        machine
            .event(Event::ListEnds("7"), at(0), 0.0)
            .end
            .is_some()
    );
    machine.event(Event::Bookmark("9"), at(1), 0.0);
    machine.relist(false);
    assert_eq!(machine.next(at(2)), Step::WatchList);
    let first = machine.event(Event::ListEnds("8"), at(2), 0.0);
    assert_eq!(first.went_back, back(8, 9));
    assert!(first.over && first.end.is_none() && machine.shown().is_none());
    assert_eq!(machine.next(at(2)), Step::WatchList);
    let second = machine.event(Event::ListEnds("8"), at(2), 0.0);
    assert!(second.begin.unwrap().reset && second.end.is_some());
    assert_eq!(machine.shown(), Some("8"));
}

#[test]
fn an_expired_page_has_the_relist_begin_again() {
    let mut machine = Machine::new(RULES, "i");
    machine.next(at(0));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.failed(&expired(), 0.0);
    assert_eq!(machine.next(at(0)), Step::Page(None));
    let again = machine.page(&page("9", None, 2), at(0), 0.0);
    assert_eq!(again.begin.unwrap().id, "i/2");
    assert_eq!(again.end.unwrap().id, "i/2");
}

#[test]
fn a_page_that_did_not_come_is_asked_for_again() {
    let mut machine = Machine::new(RULES, "i");
    machine.next(at(0));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.failed(&Failure::Unreachable(String::new()), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
    assert_eq!(machine.next(at(1)), Step::Page(Some("t".to_owned())));
    let last = machine.page(&page("7", None, 2), at(1), 0.0);
    assert!(last.begin.is_none());
    assert_eq!(last.end.unwrap().id, "i/1");
}

#[test]
fn without_every_object_nothing_is_ended() {
    let mut machine = Machine::new(RULES, "i");
    machine.next(at(0));
    let spoiled = Page {
        unreadable: 1,
        ..page("7", None, 2)
    };
    let brackets = machine.page(&spoiled, at(0), 0.0);
    assert!(brackets.begin.is_some() && brackets.over && brackets.end.is_none());
    assert_eq!(machine.next(at(1)), Step::Watch("7".to_owned()));
    assert_eq!(machine.shown(), None, "not all is known");
    assert_eq!(machine.next(at(60)), Step::Page(None));
    assert!(machine.page(&page("8", None, 3), at(60), 0.0).end.is_some());
    machine.event(Event::Unreadable, at(70), 0.0);
    assert_eq!(machine.shown(), None);
    assert_eq!(machine.next(at(129)), Step::Watch("8".to_owned()));
    assert_eq!(machine.next(at(130)), Step::Page(None));
}

#[test]
fn an_empty_list_of_another_server_is_believed_the_second_time() {
    let doubted = Rules {
        may_be_empty: false,
        ..RULES
    };
    let mut machine = Machine::new(doubted, "i");
    assert!(machine.page(&page("7", None, 0), at(0), 0.0).end.is_none());
    machine.relist(false);
    assert!(machine.page(&page("7", None, 0), at(59), 0.0).end.is_none());
    assert_eq!(machine.next(at(119)), Step::Page(None));
    let end = machine.page(&page("8", None, 0), at(119), 0.0).end;
    assert!(end.unwrap().allow_empty);
    // Once there was an object, an empty list is doubted as the first one was.
    machine.event(Event::Alive("9"), at(200), 0.0);
    machine.relist(false);
    assert!(
        machine
            .page(&page("10", None, 0), at(300), 0.0)
            .end
            .is_none()
    );
    let end = machine.page(&page("10", None, 0), at(360), 0.0).end;
    assert!(end.unwrap().allow_empty);
    let mut machine = Machine::new(RULES, "i");
    let end = machine.page(&page("7", None, 0), at(0), 0.0).end;
    assert!(end.unwrap().allow_empty);
}

#[test]
fn a_watch_that_begins_with_a_list_is_a_relist() {
    let rules = Rules {
        watch_list: true,
        ..RULES
    };
    let mut machine = Machine::new(rules, "i");
    assert_eq!(machine.next(at(0)), Step::WatchList);
    assert!(machine.event(Event::Alive("3"), at(0), 0.0).begin.is_some());
    assert_eq!(
        machine.event(Event::Bookmark("3"), at(0), 0.0),
        Brackets::default()
    );
    let ended = machine.event(Event::ListEnds("7"), at(0), 0.0);
    assert_eq!(ended.end.unwrap().version, "7");
    assert_eq!(machine.shown(), Some("7"));
    // Cut before its end, it begins again.
    machine.relist(false);
    assert_eq!(machine.next(at(1)), Step::WatchList);
    machine.event(Event::Alive("3"), at(1), 0.0);
    machine.closed(at(9), 1.0);
    assert_eq!(machine.next(at(9)), Step::Wait(at(1)));
    assert_eq!(machine.next(at(10)), Step::WatchList);
    let begun = machine.event(Event::ListEnds("8"), at(10), 0.0);
    assert_eq!(
        (begun.begin.unwrap().id, begun.end.unwrap().id),
        ("i/3".to_owned(), "i/3".to_owned())
    );
    // Without an end, pages it is from then on.
    machine.relist(false);
    assert_eq!(machine.next(at(11)), Step::WatchList);
    machine.failed(&Failure::Silent, 0.0);
    assert_eq!(machine.next(at(41)), Step::Page(None));
}

#[test]
fn after_an_internal_error_the_next_list_comes_in_pages() {
    let rules = Rules {
        watch_list: true,
        ..RULES
    };
    let mut machine = Machine::new(rules, "i");
    assert_eq!(machine.next(at(0)), Step::WatchList);
    machine.failed(&status(500, None), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
    assert_eq!(machine.next(at(1)), Step::Page(None));
    machine.failed(&status(500, None), 1.0);
    assert_eq!(machine.next(at(1)), Step::Wait(at(2)));
    assert_eq!(machine.next(at(3)), Step::Page(None), "not listed yet");
    let listed = machine.page(&page("7", None, 1), at(3), 0.0);
    assert!(listed.begin.is_some() && listed.end.is_some());
    assert_eq!(machine.next(at(3)), Step::Watch("7".to_owned()));
    // The server may have been without etcd for a moment.
    machine.relist(false);
    assert_eq!(machine.next(at(4)), Step::WatchList);
}

#[test]
fn failures_are_waited_for_and_forgotten() {
    let mut machine = Machine::new(RULES, "i");
    let broken = Failure::Unreachable(String::new());
    let mut waits = Vec::new();
    for _ in 0..8 {
        machine.failed(&broken, 1.0);
        let Step::Wait(wait) = machine.next(at(0)) else {
            panic!("no wait");
        };
        waits.push(wait.as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    machine.failed(&status(429, Some(at(7))), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(7)));
    machine.page(&page("1", None, 1), at(0), 0.0);
    machine.failed(&status(403, None), 0.5);
    assert_eq!(machine.next(at(0)), Step::Wait(FORBIDDEN_WAIT));
    machine.failed(&status(500, None), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
}

#[test]
fn a_server_that_always_says_expired_is_not_asked_in_a_loop() {
    let mut machine = Machine::new(RULES, "i");
    machine.page(&page("1", None, 1), at(0), 0.0);
    machine.failed(&expired(), 1.0);
    assert_eq!(machine.next(at(0)), Step::Page(None));
    machine.failed(&expired(), 1.0);
    assert!(matches!(machine.next(at(0)), Step::Wait(_)));
}

#[test]
fn a_relist_that_is_asked_for_during_another_one_follows_it() {
    let mut machine = Machine::new(RULES, "i");
    machine.next(at(0));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.relist(false);
    assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
    assert_eq!(
        machine
            .page(&page("7", None, 2), at(0), 0.0)
            .end
            .unwrap()
            .id,
        "i/1"
    );
    assert_eq!(machine.next(at(0)), Step::Page(None));
    assert_eq!(
        machine
            .page(&page("7", None, 2), at(0), 0.0)
            .end
            .unwrap()
            .id,
        "i/2"
    );
    assert_eq!(machine.next(at(0)), Step::Watch("7".to_owned()));
}

#[test]
fn a_reset_is_said_until_a_relist_was_whole() {
    let mut machine = Machine::new(RULES, "i");
    machine.relist(true);
    let spoiled = Page {
        unreadable: 1,
        ..page("7", None, 2)
    };
    assert!(machine.page(&spoiled, at(0), 0.0).begin.unwrap().reset);
    machine.relist(false);
    assert!(
        machine
            .page(&page("7", None, 2), at(0), 0.0)
            .begin
            .unwrap()
            .reset
    );
    machine.relist(false);
    assert!(
        !machine
            .page(&page("7", None, 2), at(0), 0.0)
            .begin
            .unwrap()
            .reset
    );
}

/// What a server may do next.
#[derive(Clone, Debug)]
enum Move {
    Create,
    Delete,
    Answer,
    Expire,
    Break,
    Spoil,
    Close,
    Relist,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Create),
        2 => Just(Move::Delete),
        8 => Just(Move::Answer),
        1 => Just(Move::Expire),
        1 => Just(Move::Break),
        1 => Just(Move::Spoil),
        1 => Just(Move::Close),
        1 => Just(Move::Relist),
    ];
    proptest::collection::vec(one, 0..200)
}

proptest! {
    /// Whatever the server does: between the begin and the end of a relist all objects of its snapshot were passed on.
    #[test]
    fn an_end_has_everything_listed_before_it(moves in moves(), watch_list: bool) {
        let mut machine = Machine::new(Rules { watch_list, ..RULES }, "i");
        let mut live = BTreeSet::<u64>::new();
        let (mut version, mut now) = (1_u64, Duration::ZERO);
        // The snapshot that is being listed, and what was passed on since the begin.
        let mut snapshot: Option<(u64, Vec<u64>)> = None;
        let mut passed = BTreeSet::new();
        for one in moves {
            now += Duration::from_secs(70);
            let mut step = machine.next(now);
            if matches!(step, Step::Wait(_)) {
                step = machine.next(now);
            }
            let (mut brackets, mut items) = (Brackets::default(), Vec::new());
            let spoil = matches!(one, Move::Spoil);
            match one {
                Move::Create => { version += 1; live.insert(version); }
                Move::Delete => { version += 1; live.pop_first(); }
                Move::Expire => { machine.failed(&expired(), 0.0); snapshot = None; }
                Move::Break => {
                    machine.failed(&Failure::Unreachable(String::new()), 0.0);
                    if step == Step::WatchList {
                        snapshot = None;
                    }
                }
                Move::Close => { machine.closed(Duration::ZERO, 0.0); if step == Step::WatchList { snapshot = None; } }
                Move::Relist => machine.relist(false),
                Move::Answer | Move::Spoil => match step {
                    Step::Page(token) => {
                        if token.is_none() || snapshot.is_none() {
                            prop_assert!(token.is_none(), "a token of no list");
                            snapshot = Some((version, live.iter().copied().collect()));
                        }
                        let (of, rest) = snapshot.as_mut().unwrap();
                        items = rest.drain(..rest.len().min(2)).collect();
                        let next = (!rest.is_empty()).then_some("more");
                        let mut page = page(&of.to_string(), next, items.len());
                        if spoil { page.read = 0; page.unreadable = items.len().max(1); items.clear(); }
                        brackets = machine.page(&page, now, 0.0);
                    }
                    Step::WatchList => {
                        let (of, rest) = snapshot.get_or_insert_with(|| (version, live.iter().copied().collect()));
                        let event = match rest.pop() {
                            Some(item) if !spoil => { items.push(item); Event::Alive("1") }
                            Some(_) => Event::Unreadable,
                            None => Event::ListEnds(&of.to_string()),
                        };
                        brackets = machine.event(event, now, 0.0);
                    }
                    Step::Watch(_) => {
                        brackets = machine.event(Event::Bookmark(&version.to_string()), now, 0.0);
                    }
                    Step::Wait(_) => {}
                },
            }
            if brackets.over { snapshot = None; }
            if brackets.begin.is_some() { passed.clear(); }
            passed.extend(items);
            if let Some(end) = brackets.end {
                let of: u64 = end.version.parse().unwrap();
                let expected: BTreeSet<u64> = live.iter().copied().filter(|it| *it <= of).collect();
                prop_assert!(expected.is_subset(&passed), "{expected:?} of {passed:?}");
            }
        }
    }
}
