//! The checkers are checked: by histories that are right, and by such that are not.

use crate::support::{
    linear::{
        history::{Operation, Reply, Request, step},
        search::is_linearizable,
        witness::{Entry, Kind, check},
    },
    random::Random,
};

const HARD: i64 = 10;

fn operation(uid: &str, request: Request, called: u64, answer: Option<(u64, Reply)>) -> Operation {
    Operation { namespace: 0, uid: uid.to_owned(), request, called, answer }
}

fn done(uid: &str, request: Request, called: u64, returned: u64) -> Operation {
    operation(uid, request, called, Some((returned, Reply::Done)))
}

fn denied(uid: &str, units: i64, called: u64, returned: u64, at: u64) -> Operation {
    let answer = Some((returned, Reply::Denied(at)));
    operation(uid, Request::Reserve(units), called, answer)
}

fn granted(sequence: u64, uid: &str, units: i64) -> Entry {
    Entry { sequence, namespace: 0, uid: uid.to_owned(), kind: Kind::Granted, units }
}

#[test]
fn the_search_knows_right_from_wrong() {
    use Request::{Commit, Release, Reserve};
    let right = [
        vec![],
        vec![done("a", Reserve(10), 0, 1), denied("b", 1, 2, 3, 1)],
        // Concurrent: the one that is denied came second, or the one that makes room came first.
        vec![denied("b", 1, 0, 5, 1), done("a", Reserve(10), 1, 4)],
        vec![
            done("a", Reserve(10), 0, 1),
            done("b", Reserve(5), 2, 9),
            done("a", Release(10), 3, 4),
        ],
        vec![done("a", Reserve(10), 0, 1), done("a", Commit(4), 2, 3), done("b", Reserve(4), 4, 5)],
        // Never answered: it happened, late.
        vec![
            operation("a", Reserve(10), 0, None),
            done("b", Reserve(1), 1, 2),
            done("b", Release(1), 3, 4),
            denied("c", 1, 5, 6, 3),
        ],
        // Never answered, and never happened.
        vec![
            operation("a", Reserve(10), 0, None),
            done("b", Reserve(10), 1, 2),
            denied("c", 10, 3, 4, 1),
        ],
    ];
    for history in right {
        assert!(is_linearizable(&history, HARD), "{history:?}");
    }
    let wrong = [
        vec![done("a", Reserve(11), 0, 1)],
        vec![denied("a", 10, 0, 1, 0)],
        vec![done("a", Reserve(6), 0, 5), done("b", Reserve(6), 1, 4)],
        // The room comes only after the answer.
        vec![
            done("a", Reserve(10), 0, 1),
            done("b", Reserve(5), 2, 3),
            done("a", Release(10), 4, 5),
        ],
        vec![done("a", Reserve(10), 0, 1), done("a", Release(10), 2, 3), denied("b", 1, 4, 5, 2)],
        // It cannot have happened only for one of two.
        vec![
            operation("a", Reserve(10), 0, None),
            denied("b", 1, 1, 2, 1),
            done("c", Reserve(1), 3, 4),
        ],
    ];
    for history in wrong {
        assert!(!is_linearizable(&history, HARD), "{history:?}");
    }
}

#[test]
fn the_witness_is_heard_and_not_believed() {
    use Request::Reserve;
    let a = done("a", Reserve(10), 0, 1);
    let b = denied("b", 1, 2, 3, 1);
    let right =
        |operations: &[Operation], entries: &[Entry]| check(operations, entries, HARD).is_empty();
    assert!(right(&[a.clone(), b.clone()], &[granted(1, "a", 10)]));
    // Lost, unasked, twice, granted and said to be denied, denied where there is room, too much, and out of time.
    assert!(!right(std::slice::from_ref(&a), &[]));
    assert!(!right(&[], &[granted(1, "a", 10)]));
    assert!(!right(std::slice::from_ref(&a), &[granted(1, "a", 10), granted(2, "a", 10)]));
    assert!(!right(&[a.clone(), b.clone()], &[granted(1, "a", 10), granted(2, "b", 1)]));
    assert!(!right(&[a.clone(), denied("b", 1, 2, 3, 0)], &[granted(1, "a", 10)]));
    let more = done("c", Reserve(1), 4, 5);
    assert!(!right(&[a.clone(), more], &[granted(1, "a", 10), granted(2, "c", 1)]));
    let (first, second) = (done("a", Reserve(2), 0, 1), done("b", Reserve(2), 2, 3));
    let turned = [granted(1, "b", 2), granted(2, "a", 2)];
    assert!(!right(&[first.clone(), second.clone()], &turned));
    assert!(right(&[first, second], &[granted(1, "a", 2), granted(2, "b", 2)]));
    let unknown = operation("a", Reserve(2), 0, None);
    assert!(right(std::slice::from_ref(&unknown), &[]) && right(&[unknown], &[granted(1, "a", 2)]));
}

/// A history of a model: operations happen one after the other, their calls and returns lie around that.
fn made(seed: u64) -> (Vec<Operation>, Vec<Entry>) {
    let mut random = Random::new(seed, "history");
    let (mut operations, mut entries) = (Vec::new(), Vec::new());
    let mut standing: Vec<(String, i64)> = Vec::new();
    let (mut held, mut sequence) = (0, 0);
    for number in 0..150u64 {
        let moment = 100 * (number + 10);
        let (called, returned) = (moment - random.below(160), moment + random.below(160));
        let reserves = standing.is_empty() || random.once_in(2);
        let (uid, request) = match reserves {
            true => (format!("u{number}"), Request::Reserve(1 + random.below(5).cast_signed())),
            false => {
                let (uid, units) = standing.swap_remove(random.index(standing.len()));
                (uid, Request::Release(units))
            }
        };
        let (reply, kind) = match request {
            Request::Reserve(units) if held + units > HARD => (Reply::Denied(sequence), None),
            Request::Reserve(units) => {
                standing.push((uid.clone(), units));
                (Reply::Done, Some((Kind::Granted, units)))
            }
            _ => (Reply::Done, Some((Kind::Released, 0))),
        };
        held = step(held, HARD, request, reply).unwrap();
        if let Some((kind, units)) = kind {
            sequence += 1;
            entries.push(Entry { sequence, namespace: 0, uid: uid.clone(), kind, units });
        }
        let answer = (!random.once_in(100)).then_some((returned, reply));
        operations.push(operation(&uid, request, called, answer));
    }
    (operations, entries)
}

#[test]
fn both_take_what_a_model_makes_and_refuse_what_is_changed_in_it() {
    let (mut seen, mut found) = (0, 0);
    for seed in 0..40 {
        let (operations, entries) = made(seed);
        assert!(is_linearizable(&operations, HARD), "seed {seed}");
        assert_eq!(check(&operations, &entries, HARD), Vec::<String>::new(), "seed {seed}");
        let mut random = Random::new(seed, "change");
        let mut changed = operations;
        let place = loop {
            let place = random.index(changed.len());
            if let (Request::Reserve(_), Some((_, reply))) =
                (changed[place].request, &mut changed[place].answer)
            {
                *reply = match reply {
                    Reply::Done => Reply::Denied(0),
                    Reply::Denied(_) => Reply::Done,
                };
                break place;
            }
        };
        let noticed = !check(&changed, &entries, HARD).is_empty();
        assert!(noticed, "seed {seed}: {:?}", changed[place]);
        seen += 1;
        found += u64::from(!is_linearizable(&changed, HARD));
    }
    // Where other operations go on at the same time, some changes could be true.
    assert!(found * 2 > seen, "{found} of {seen}");
}
