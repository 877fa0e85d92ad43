//! Properties that hold for any behaviour of the server.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A possible next action of the server.
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
    Lose,
    TooLong,
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
        1 => Just(Move::Lose),
        1 => Just(Move::TooLong),
    ];
    proptest::collection::vec(one, 0..200)
}

proptest! {
    /// For any behaviour of the server: between the begin and the end of a relist all objects of its snapshot are
    /// passed on.
    #[test]
    fn an_end_has_everything_listed_before_it(moves in moves(), watch_list: bool) {
        let mut machine = Machine::new(Rules { page: 2, watch_list, ..RULES }, RelistIds::new("i"));
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
                Move::Relist => machine.relist(Relist::Again),
                Move::Lose => {
                    machine.relist(Relist::Lost);
                    snapshot = None;
                    passed.clear();
                }
                Move::TooLong => { machine.halve_page(); }
                Move::Answer | Move::Spoil => match step {
                    Step::Page(token) => {
                        if token.is_none() || snapshot.is_none() {
                            prop_assert!(token.is_none(), "a token of no list");
                            snapshot = Some((version, live.iter().copied().collect()));
                        }
                        let (of, rest) = snapshot.as_mut().unwrap();
                        let limit = machine.page_limit() as usize;
                        items = rest.drain(..rest.len().min(limit)).collect();
                        let next = (!rest.is_empty()).then_some("more");
                        let mut page = page(&of.to_string(), next, items.len());
                        page.is_short = true;
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
