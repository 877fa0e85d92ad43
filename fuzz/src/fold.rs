//! Histories: the fold, the naive fold, and the stored forms, all compared with each other.

use arbitrary::{Result, Unstructured};
use quota_core::{codec, state::State};
use quota_testkit::histories::{listings::Listing, steps::Step, world::World};

/// Steps of one history.
const STEPS_MAX: usize = 64;

/// A recount is slow: it is done after this many steps, and at the end.
const RECOUNT: usize = 8;

/// Reads the input as steps, and runs them. No grant exceeds a limit, every sum equals that of a recount, and all ways
/// to fold the entries give the same state.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut steps = Vec::new();
    while !input.is_empty() && steps.len() < STEPS_MAX {
        match step(&mut input) {
            Ok(step) => steps.push(step),
            Err(_) => break,
        }
    }
    let mut world = World::default();
    for (number, step) in steps.iter().enumerate() {
        world.step(step);
        world.check_grant();
        if number % RECOUNT == RECOUNT - 1 {
            recounts(&world);
        }
    }
    recounts(&world);
    stored(&world);
}

fn recounts(world: &World) {
    assert_eq!(world.naive.differences(&world.state), Vec::<String>::new());
}

/// The history is the same after being written and read again, as entries and as a snapshot with a tail.
fn stored(world: &World) {
    let digest = world.state.digest();
    let bytes = codec::encode_entries(&world.entries);
    let count = u32::try_from(world.entries.len()).unwrap();
    let entries = codec::decode_entries(1, count, &bytes).unwrap();
    assert_eq!(entries, world.entries);
    let mut state = State::default();
    for (index, entry) in entries.iter().enumerate() {
        if index == entries.len() / 2 {
            let mut image = Vec::new();
            state.image().write(&mut image).unwrap();
            state = State::read(&mut image.as_slice()).unwrap();
        }
        state.apply(entry);
    }
    assert_eq!(state.digest(), digest);
}

/// One step; numbers are small, so that steps collide.
fn step(input: &mut Unstructured<'_>) -> Result<Step> {
    let kind = input.int_in_range(0..=20_u8)?;
    let namespace = input.int_in_range(0..=1_u8)?;
    let mut uid = |most| input.int_in_range(0..=most);
    Ok(match kind {
        0 => Step::SetQuota {
            namespace,
            quota: uid(2)?,
            hard: input.int_in_range(0..=12)?,
            scope: input.int_in_range(0..=3)?,
        },
        1 => Step::DeleteQuota { namespace, quota: uid(2)? },
        2 | 3 => Step::Reserve {
            namespace,
            uid: uid(5)?,
            name: optional(input, 2)?.map(|name| name as u8),
            amount: input.int_in_range(0..=5)?,
            pod: input.arbitrary()?,
            replica: input.ratio(1, 4)?,
            ttl: input.int_in_range(1..=90)?,
        },
        4 => Step::Update {
            namespace,
            uid: uid(5)?,
            amount: input.int_in_range(0..=6)?,
            terminating: input.arbitrary()?,
            replica: input.ratio(1, 4)?,
            version: input.int_in_range(0..=5)?,
        },
        5 => Step::Admit {
            namespace,
            uid: uid(5)?,
            name: input.int_in_range(0..=5)?,
            amount: input.int_in_range(0..=5)?,
            version: optional(input, 4)?,
            replica: input.arbitrary()?,
            holds: input.ratio(4, 5)?,
        },
        6 => Step::AdmitWorkload {
            namespace,
            uid: uid(2)? + 10,
            amount: input.int_in_range(0..=4)?,
            replicas: input.int_in_range(0..=5)?,
            scales: input.arbitrary()?,
        },
        7 => Step::ObserveWorkload {
            namespace,
            uid: uid(2)? + 10,
            amount: input.int_in_range(0..=4)?,
            replicas: input.int_in_range(0..=5)?,
            version: input.int_in_range(0..=6)?,
        },
        8 => Step::Release { namespace, uid: uid(5)? },
        9 => Step::Extend { namespace, uid: uid(5)?, ttl: input.int_in_range(1..=90)? },
        10 => Step::Commit { namespace, uid: uid(5)?, amount: optional(input, 5)? },
        11 => Step::Observe {
            namespace,
            uid: uid(5)?,
            version: input.int_in_range(0..=6)?,
            amount: input.int_in_range(0..=5)?,
            pod: input.arbitrary()?,
            replica: input.ratio(1, 4)?,
            terminating: input.arbitrary()?,
            lapse: optional(input, 120)?.map(|lapse| i64::try_from(lapse).unwrap_or_default() - 60),
        },
        12 => Step::Adopt {
            namespace,
            quota: uid(2)?,
            uid: input.int_in_range(20..=22)?,
            version: input.int_in_range(0..=6)?,
            hard: input.int_in_range(0..=12)?,
        },
        13 => Step::Delete { namespace, uid: uid(12)? },
        14 => Step::Pass {
            seconds: input.int_in_range(-20..=60)?,
            behind: input.int_in_range(0..=100)?,
        },
        _ => Step::Listing(listing(input)?),
    })
}

/// A step of a relist, or a correction.
fn listing(input: &mut Unstructured<'_>) -> Result<Listing> {
    let kind = input.int_in_range(0..=9_u8)?;
    let space = |input: &mut Unstructured<'_>| -> Result<Option<u8>> {
        Ok(optional(input, 1)?.map(|space| space as u8))
    };
    Ok(match kind {
        0 | 1 => Listing::Begin { kind: u8::from(input.ratio(1, 4)?), namespace: space(input)? },
        2 | 3 => Listing::List { uid: input.int_in_range(0..=12)? },
        4 => Listing::Finish {
            kind: u8::from(input.ratio(1, 4)?),
            namespace: space(input)?,
            allow_empty: input.arbitrary()?,
            bookmark: input.arbitrary()?,
            version: input.int_in_range(0..=5)?,
        },
        5 => Listing::Sweep { from: input.int_in_range(0..=8)?, most: input.int_in_range(0..=8)? },
        6 => Listing::Over,
        7 => Listing::Gap,
        _ => Listing::Repair {
            uid: input.int_in_range(0..=12)?,
            amount: input.int_in_range(0..=5)?,
            version: input.int_in_range(0..=6)?,
            gone: input.arbitrary()?,
            seen: input.ratio(4, 5)?,
        },
    })
}

fn optional(input: &mut Unstructured<'_>, most: u64) -> Result<Option<u64>> {
    match input.arbitrary()? {
        true => input.int_in_range(0..=most).map(Some),
        false => Ok(None),
    }
}
