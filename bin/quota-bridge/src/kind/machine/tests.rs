use super::*;

mod any;

const RULES: Rules = Rules {
    page: 500,
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
        is_short: false,
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
    Failure::Status { code, reason: String::new(), message: String::new(), retry_after }
}

#[test]
fn a_list_of_pages_is_a_relist_and_then_it_is_watched() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    assert_eq!(machine.next(at(0)), Step::Page(None));
    let first = machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    assert_eq!(first.begin.unwrap().id, "i/1");
    assert!(first.end.is_none() && machine.shown().is_none());
    assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
    let last = machine.page(&page("7", None, 1), at(0), 0.0);
    let end = last.end.unwrap();
    assert_eq!((end.id.as_str(), end.version.as_str(), end.allow_empty), ("i/1", "7", false));
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
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.page(&page("7", None, 1), at(0), 0.0);
    machine.event(Event::Alive("9"), at(1), 0.0);
    machine.relist(Relist::Again);
    let first = machine.page(&page("8", Some("t"), 1), at(2), 0.0);
    assert_eq!(first.went_back, back(8, 9));
    assert!(first.begin.unwrap().reset);
    let last = machine.page(&page("8", None, 1), at(2), 0.0);
    assert!(last.went_back.is_none() && last.end.is_some());
    // From there on versions count from what was listed.
    machine.relist(Relist::Again);
    let again = machine.page(&page("8", None, 1), at(3), 0.0);
    assert!(again.went_back.is_none() && !again.begin.unwrap().reset);

    // At the begin of a watch it is seen at the end of the list only.
    let watched = Rules { watch_list: true, ..RULES };
    let mut machine = Machine::new(watched, RelistIds::new("i"));
    assert_eq!(machine.next(at(0)), Step::WatchList);
    assert!(machine.event(Event::ListEnds("7"), at(0), 0.0).end.is_some());
    machine.event(Event::Bookmark("9"), at(1), 0.0);
    machine.relist(Relist::Again);
    assert_eq!(machine.next(at(2)), Step::WatchList);
    let first = machine.event(Event::ListEnds("8"), at(2), 0.0);
    assert_eq!(first.went_back, back(8, 9));
    assert!(first.over && first.end.is_none() && machine.shown().is_none());
    assert_eq!(machine.next(at(2)), Step::WatchList);
    let second = machine.event(Event::ListEnds("8"), at(2), 0.0);
    assert!(second.begin.unwrap().reset && second.end.is_some());
    assert_eq!(machine.shown(), Some("8"));
}

/// The pages that are gone would be missing between the begin and the end of the list.
#[test]
fn a_list_whose_messages_are_lost_begins_again() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.relist(Relist::Lost);
    assert_eq!(machine.next(at(0)), Step::Page(None));
    let again = machine.page(&page("7", None, 2), at(0), 0.0);
    assert_eq!(again.begin.unwrap().id, "i/2");
    assert_eq!(again.end.unwrap().id, "i/2");
    assert_eq!(machine.next(at(1)), Step::Watch("7".to_owned()));

    let watched = Rules { watch_list: true, ..RULES };
    let mut machine = Machine::new(watched, RelistIds::new("i"));
    machine.next(at(0));
    machine.event(Event::Alive("3"), at(0), 0.0);
    machine.relist(Relist::Lost);
    assert_eq!(machine.next(at(0)), Step::WatchList);
    let again = machine.event(Event::Alive("3"), at(0), 0.0);
    assert_eq!(again.begin.unwrap().id, "i/2");
}

/// Without a reset the ledger ignores the events of a restored server, since their versions are not newer.
#[test]
fn a_reset_is_repeated_when_messages_are_lost() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    let list = |machine: &mut Machine| {
        let begin = machine.page(&page("7", None, 2), at(0), 0.0).begin;
        begin.unwrap().reset
    };
    machine.relist(Relist::Lost);
    assert!(!list(&mut machine), "there was none");
    machine.relist(Relist::Reset);
    assert!(list(&mut machine));
    for (relist, resets) in [(Relist::Again, false), (Relist::Lost, true)] {
        machine.relist(relist);
        assert_eq!(list(&mut machine), resets, "{relist:?}");
    }
}

/// The `RELIST_END` of a replaced task may still be queued when its successor has begun.
#[test]
fn a_task_that_replaces_another_one_uses_other_ids() {
    let ids = RelistIds::new("i");
    let [mut first, mut second] = [(); 2].map(|()| Machine::new(RULES, ids.clone()));
    let first = first.page(&page("7", None, 1), at(0), 0.0);
    let second = second.page(&page("7", Some("t"), 1), at(0), 0.0);
    assert_ne!(first.end.unwrap().id, second.begin.unwrap().id);
}

#[test]
fn an_expired_page_has_the_relist_begin_again() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
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
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.next(at(0));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.failed(&Failure::Unreachable(String::new()), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
    assert_eq!(machine.next(at(1)), Step::Page(Some("t".to_owned())));
    let last = machine.page(&page("7", None, 2), at(1), 0.0);
    assert!(last.begin.is_none());
    assert_eq!(last.end.unwrap().id, "i/1");
}

/// After a restore of etcd the version of a token may be in the future, which a server does not answer with 410.
#[test]
fn a_list_whose_next_page_is_always_refused_begins_again() {
    for failure in [status(500, None), status(404, None)] {
        let mut machine = Machine::new(RULES, RelistIds::new("i"));
        let fail = |machine: &mut Machine| {
            machine.failed(&failure, 1.0);
            assert!(matches!(machine.next(at(0)), Step::Wait(_)));
            machine.next(at(0))
        };
        machine.page(&page("7", Some("t"), 2), at(0), 0.0);
        let next = |token: &str| Step::Page(Some(token.to_owned()));
        for _ in 0..3 {
            assert_eq!(fail(&mut machine), next("t"), "{failure:?}");
        }
        // The failures of earlier pages do not count.
        machine.page(&page("7", Some("u"), 2), at(0), 0.0);
        for _ in 0..3 {
            assert_eq!(fail(&mut machine), next("u"), "{failure:?}");
        }
        assert_eq!(fail(&mut machine), Step::Page(None), "{failure:?}");
        let again = machine.page(&page("5", None, 2), at(0), 0.0);
        assert_eq!(again.begin.unwrap().id, "i/2");
        assert_eq!(again.end.unwrap().id, "i/2");
    }
}

/// Another list would give the server the work of all pages again.
#[test]
fn a_list_goes_on_when_the_server_was_busy_or_out_of_reach() {
    for failure in
        [status(429, None), status(503, None), Failure::Unreachable(String::new()), Failure::Silent]
    {
        let mut machine = Machine::new(RULES, RelistIds::new("i"));
        machine.page(&page("7", Some("t"), 2), at(0), 0.0);
        for _ in 0..10 {
            machine.failed(&failure, 1.0);
            let mut next = machine.next(at(0));
            if matches!(next, Step::Wait(_)) {
                next = machine.next(at(0));
            }
            assert_eq!(next, Step::Page(Some("t".to_owned())), "{failure:?}");
        }
    }
}

#[test]
fn without_every_object_nothing_is_ended() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.next(at(0));
    let spoiled = Page { unreadable: 1, ..page("7", None, 2) };
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
    let doubted = Rules { may_be_empty: false, ..RULES };
    let mut machine = Machine::new(doubted, RelistIds::new("i"));
    assert!(machine.page(&page("7", None, 0), at(0), 0.0).end.is_none());
    machine.relist(Relist::Again);
    assert!(machine.page(&page("7", None, 0), at(59), 0.0).end.is_none());
    assert_eq!(machine.next(at(119)), Step::Page(None));
    let end = machine.page(&page("8", None, 0), at(119), 0.0).end;
    assert!(end.unwrap().allow_empty);
    // Once there was an object, an empty list is doubted as the first one was.
    machine.event(Event::Alive("9"), at(200), 0.0);
    machine.relist(Relist::Again);
    assert!(machine.page(&page("10", None, 0), at(300), 0.0).end.is_none());
    let end = machine.page(&page("10", None, 0), at(360), 0.0).end;
    assert!(end.unwrap().allow_empty);
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    let end = machine.page(&page("7", None, 0), at(0), 0.0).end;
    assert!(end.unwrap().allow_empty);
}

#[test]
fn a_watch_that_begins_with_a_list_is_a_relist() {
    let rules = Rules { watch_list: true, ..RULES };
    let mut machine = Machine::new(rules, RelistIds::new("i"));
    assert_eq!(machine.next(at(0)), Step::WatchList);
    assert!(machine.event(Event::Alive("3"), at(0), 0.0).begin.is_some());
    assert_eq!(machine.event(Event::Bookmark("3"), at(0), 0.0), Brackets::default());
    let ended = machine.event(Event::ListEnds("7"), at(0), 0.0);
    assert_eq!(ended.end.unwrap().version, "7");
    assert_eq!(machine.shown(), Some("7"));
    // Without an end, pages it is from then on.
    machine.relist(Relist::Again);
    assert_eq!(machine.next(at(11)), Step::WatchList);
    machine.failed(&Failure::Silent, 0.0);
    assert_eq!(machine.next(at(41)), Step::Page(None));
}

#[test]
fn a_streamed_list_that_breaks_is_read_in_pages() {
    let rules = Rules { watch_list: true, ..RULES };
    let broken = Failure::Unreachable(String::new());
    for is_closed in [true, false] {
        for has_begun in [true, false] {
            let mut machine = Machine::new(rules, RelistIds::new("i"));
            assert_eq!(machine.next(at(0)), Step::WatchList);
            if has_begun {
                machine.event(Event::Alive("3"), at(0), 0.0);
            }
            match is_closed {
                true => machine.closed(at(60), 1.0),
                false => machine.failed(&broken, 1.0),
            }
            assert_eq!(machine.next(at(60)), Step::Wait(at(1)));
            assert_eq!(machine.next(at(61)), Step::Page(None));
            let listed = machine.page(&page("7", None, 1), at(61), 0.0);
            assert!(listed.begin.is_some() && listed.end.is_some());
            // Another list may come whole.
            machine.relist(Relist::Again);
            assert_eq!(machine.next(at(62)), Step::WatchList);
        }
    }
    // A server that is busy says so before it begins, and pages would be more work for it.
    let mut machine = Machine::new(rules, RelistIds::new("i"));
    assert_eq!(machine.next(at(0)), Step::WatchList);
    machine.failed(&status(429, Some(at(3))), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(3)));
    assert_eq!(machine.next(at(3)), Step::WatchList);
}

#[test]
fn a_page_that_is_too_long_is_requested_with_half_as_many_objects() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    assert_eq!(machine.next(at(0)), Step::Page(None));
    assert_eq!(machine.page_limit(), 500);
    assert!(machine.halve_page());
    assert_eq!((machine.next(at(0)), machine.page_limit()), (Step::Page(None), 250));
    let first = machine.page(&page("7", Some("t"), 250), at(0), 0.0);
    assert_eq!(first.begin.unwrap().id, "i/1");
    for limit in [125, 62, 31, 15, 7, 3, 1] {
        assert!(machine.halve_page());
        assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
        assert_eq!(machine.page_limit(), limit);
    }
    // One object that is too long is an error. The list goes on there, since the object may shrink.
    assert!(!machine.halve_page());
    for wait in [1, 2, 4] {
        machine.failed(&Failure::TooLong(9), 1.0);
        assert_eq!(machine.next(at(0)), Step::Wait(at(wait)));
        assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
        assert_eq!(machine.page_limit(), 1);
    }
    // Short pages get longer again.
    for (is_short, limit) in [(true, 2), (false, 2), (true, 4), (true, 8)] {
        let page = Page { is_short, ..page("7", Some("t"), 1) };
        machine.page(&page, at(0), 0.0);
        assert_eq!(machine.page_limit(), limit);
    }
    let last = Page { is_short: true, ..page("7", None, 1) };
    assert_eq!(machine.page(&last, at(0), 0.0).end.unwrap().id, "i/1");
    for _ in 0..9 {
        machine.page(&last, at(0), 0.0);
    }
    assert_eq!(machine.page_limit(), RULES.page);
}

#[test]
fn failures_are_counted_until_a_list_ends() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    let wrong = Failure::Unreadable(String::new());
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(machine.next(at(0)), Step::Page(None));
        // The first page always comes, and the second one never does.
        machine.page(&page("7", Some("t"), 2), at(0), 0.0);
        assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
        machine.failed(&wrong, 1.0);
        assert_eq!(machine.next(at(0)), Step::Wait(at(wait)));
    }
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.page(&page("7", None, 2), at(0), 0.0);
    machine.failed(&wrong, 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
    // In a watch every event shows that the server works.
    machine.event(Event::Alive("8"), at(0), 0.0);
    machine.failed(&wrong, 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(at(1)));
}

#[test]
fn pages_that_always_expire_do_not_begin_lists_in_a_loop() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    let mut waits = Vec::new();
    for _ in 0..4 {
        machine.page(&page("7", Some("t"), 2), at(0), 0.0);
        machine.failed(&expired(), 1.0);
        match machine.next(at(0)) {
            Step::Wait(wait) => waits.push(wait),
            step => assert_eq!(step, Step::Page(None)),
        }
    }
    assert_eq!(waits, [at(2), at(4), at(8)], "all but the first one wait");
}

#[test]
fn after_an_internal_error_the_next_list_comes_in_pages() {
    let rules = Rules { watch_list: true, ..RULES };
    let mut machine = Machine::new(rules, RelistIds::new("i"));
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
    machine.relist(Relist::Again);
    assert_eq!(machine.next(at(4)), Step::WatchList);
}

#[test]
fn failures_are_waited_for_and_forgotten() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
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
    machine.failed(&status(503, Some(at(86_400))), 1.0);
    assert_eq!(machine.next(at(0)), Step::Wait(LONGEST_RETRY_AFTER));
    machine.page(&page("1", None, 1), at(0), 0.0);
    // An API server that has just started may not know yet what is permitted, or what is served.
    for (code, wait) in [(403, 1), (404, 2), (500, 4)] {
        machine.failed(&status(code, None), 1.0);
        assert_eq!(machine.next(at(0)), Step::Wait(at(wait)));
    }
}

#[test]
fn a_server_that_always_says_expired_is_not_asked_in_a_loop() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.page(&page("1", None, 1), at(0), 0.0);
    machine.failed(&expired(), 1.0);
    assert_eq!(machine.next(at(0)), Step::Page(None));
    machine.failed(&expired(), 1.0);
    assert!(matches!(machine.next(at(0)), Step::Wait(_)));
}

#[test]
fn a_relist_that_is_asked_for_during_another_one_follows_it() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.next(at(0));
    machine.page(&page("7", Some("t"), 2), at(0), 0.0);
    machine.relist(Relist::Again);
    assert_eq!(machine.next(at(0)), Step::Page(Some("t".to_owned())));
    assert_eq!(machine.page(&page("7", None, 2), at(0), 0.0).end.unwrap().id, "i/1");
    assert_eq!(machine.next(at(0)), Step::Page(None));
    assert_eq!(machine.page(&page("7", None, 2), at(0), 0.0).end.unwrap().id, "i/2");
    assert_eq!(machine.next(at(0)), Step::Watch("7".to_owned()));
}

#[test]
fn a_reset_is_said_until_a_relist_was_whole() {
    let mut machine = Machine::new(RULES, RelistIds::new("i"));
    machine.relist(Relist::Reset);
    let spoiled = Page { unreadable: 1, ..page("7", None, 2) };
    assert!(machine.page(&spoiled, at(0), 0.0).begin.unwrap().reset);
    machine.relist(Relist::Again);
    assert!(machine.page(&page("7", None, 2), at(0), 0.0).begin.unwrap().reset);
    machine.relist(Relist::Again);
    assert!(!machine.page(&page("7", None, 2), at(0), 0.0).begin.unwrap().reset);
}
