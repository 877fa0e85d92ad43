//! What is shown as available can be reserved, and not more.

use proptest::prelude::*;
use quota_core::{
    decide::{
        self, Basis, Decision, GroupBounds, GroupChange, Policy, Refusal, Request, Requester,
    },
    state::{LimitView, State, room},
};
use quota_semantics::{
    Name, Timestamp,
    admission::{Denial, LimitKind},
    group::{Enforcement, Extensions, Spec},
    object::Footprint,
    quantity::Quantity,
    quota::spec::Spec as QuotaSpec,
    resource::ResourceList,
    uid::Uid,
};
use quota_testkit::histories::{
    things::{namespace, reserve_request},
    world::World,
};

use super::strategy::steps;

/// Amounts of several groups that the steps do not set.
#[derive(Clone, Debug)]
struct Limits {
    each: [u64; 2],
    all: [u64; 2],
    guaranteed: [u64; 2],
    watched: u64,
}

fn limits() -> impl Strategy<Value = Limits> {
    let two = || [0..9_u64, 0..9_u64];
    (two(), [0..20_u64, 0..20_u64], two(), 0..3_u64)
        .prop_map(|(each, all, guaranteed, watched)| Limits { each, all, guaranteed, watched })
}

fn amounts([cpu, pods]: [u64; 2]) -> ResourceList {
    let named = [("requests.cpu", cpu), ("pods", pods)];
    let of = |(name, amount)| (Name::from(name), units(amount));
    named.into_iter().map(of).collect()
}

fn units(amount: u64) -> Quantity {
    Quantity::from_units(i64::try_from(amount).unwrap())
}

/// A world with a default quota for every namespace, a tree in which a child has a guarantee, and a group that denies
/// nothing. A quota of the steps has the name of the default quota, and replaces it.
fn begin(world: &mut World, limits: &Limits) {
    let every = r#"{"labels":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"Exists"}]}}"#;
    let first = r#"{"labels":{"matchLabels":{"kubernetes.io/metadata.name":"team-0"}}}"#;
    let each = Extensions { each: true, ..Extensions::default() };
    let child = Extensions {
        parent: Some("all".into()),
        guaranteed: amounts(limits.guaranteed),
        ..Extensions::default()
    };
    let watched = Extensions { enforcement: Enforcement::Warn, ..Extensions::default() };
    let groups = [
        ("quota-1", every, each, amounts(limits.each)),
        ("all", every, Extensions::default(), amounts(limits.all)),
        ("child", first, child, amounts([20, 20])),
        ("watched", every, watched, amounts([limits.watched; 2])),
    ];
    for (number, (name, selector, extensions, hard)) in groups.into_iter().enumerate() {
        let change = GroupChange {
            name: name.into(),
            fresh_uid: Uid::from_uuid([200 + u8::try_from(number).unwrap(); 16]),
            spec: Spec {
                selector: serde_json::from_str(selector).unwrap(),
                extensions,
                quota: QuotaSpec { hard, ..QuotaSpec::default() },
            },
            metadata: Box::default(),
            precondition: None,
        };
        let set = decide::set_group(&world.state, world.now(), &change, &GroupBounds::default());
        // A guarantee above the limit of the parent is refused.
        world.record(set.unwrap_or_default());
    }
}

fn available(state: &State, space: u8, resource: &Name) -> Option<Quantity> {
    let limits: Vec<LimitView> = state.limits_view(&namespace(space)).views().collect();
    room(&limits).get(resource).map(|room| room.figure.available())
}

fn plain(uid: u8, space: u8, resource: &Name, amount: Quantity) -> Request {
    let footprint = Footprint {
        resources: [(resource.clone(), amount)].into_iter().collect(),
        ..Footprint::default()
    };
    reserve_request(uid, space, None, footprint, Basis::Create, 60)
}

fn reserve(
    state: &State,
    now: Timestamp,
    space: u8,
    resource: &Name,
    amount: Quantity,
) -> Result<Decision, Refusal> {
    let by = Requester { principal: "reader".into(), is_admin: false, is_anybody: false };
    let request = plain(240, space, resource, amount);
    decide::reserve(state, now, &by, &request, &Policy::default())
}

/// Checks each namespace of a world. Returns the number of resources with room, and how many of them a group bounds.
fn check(world: &World) -> [usize; 2] {
    let mut seen = [0; 2];
    let (state, now) = (&world.state, world.now());
    for space in 0..2 {
        let limits: Vec<LimitView> = state.limits_view(&namespace(space)).views().collect();
        for (resource, room) in room(&limits) {
            let available = room.figure.available();
            if available.is_positive() {
                match reserve(state, now, space, resource, available.clone()) {
                    Ok(_) => {}
                    // The labels of the namespace are not known yet, so its groups are not either.
                    Err(Refusal::NotReady { .. }) => continue,
                    Err(other) => panic!("{available} of {resource} is not available: {other:?}"),
                }
            }
            let mut more = available.clone().max(Quantity::ZERO);
            more.add_assign(&"1n".parse().unwrap());
            let denied = match reserve(state, now, space, resource, more.clone()) {
                Err(Refusal::Denied(denied)) => denied,
                Err(Refusal::NotReady { .. }) => continue,
                other => panic!("{more} of {resource} is beyond {available}: {other:?}"),
            };
            let Denial::ExceedsHard { quota, .. } = &denied.denial else {
                panic!("{denied:?}");
            };
            // A denial names the first limit that fails, which need not be the one that leaves least.
            if available.is_positive() {
                assert_eq!(*quota, room.bound_by.name);
            }
            let bound_by = denied.quotas.iter().find(|checked| {
                (&checked.name, checked.kind) == (&room.bound_by.name, room.bound_by.kind)
            });
            let checked = &bound_by.unwrap().resources;
            let checked = checked.iter().find(|limit| limit.resource == *resource);
            let (checked, figure) = (checked.unwrap(), &room.figure.figure);
            assert_eq!(checked.hard, figure.hard);
            assert_eq!(checked.used, figure.used.clone().unwrap_or_default());
            assert_eq!(checked.reserved, figure.reserved);
            let others = checked.guaranteed_to_others.clone().unwrap_or_default();
            assert_eq!(others, room.figure.guaranteed_to_others);
            seen[0] += 1;
            seen[1] += usize::from(room.bound_by.kind == LimitKind::ClusterResourceQuota);
        }
        // What no limit bounds can be reserved without end.
        let named = Name::from("requests.cpu");
        if !room(&limits).contains_key(&named) {
            let much = reserve(state, now, space, &named, units(1 << 40));
            assert!(matches!(much, Ok(_) | Err(Refusal::NotReady { .. })), "{much:?}");
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn exactly_what_is_available_can_be_reserved(steps in steps()) {
        World::run_checking(&steps, |world| { check(world); });
    }

    #[test]
    fn exactly_what_is_available_below_a_tree_can_be_reserved(limits in limits(), steps in steps()) {
        let mut world = World::default();
        begin(&mut world, &limits);
        let [all, by_groups] = check(&world);
        prop_assert!(all >= 4 && by_groups >= 4, "{all}, {by_groups}");
        for step in &steps {
            world.step(step);
            check(&world);
        }
    }

    #[test]
    fn the_room_that_is_reserved_is_gone(limits in limits(), steps in steps()) {
        let mut world = World::default();
        begin(&mut world, &limits);
        for step in &steps {
            world.step(step);
        }
        let mut uid = 240;
        for space in 0..2 {
            for resource in ["requests.cpu", "pods"].map(Name::from) {
                let available = available(&world.state, space, &resource);
                let Some(available) = available.filter(Quantity::is_positive) else { continue };
                uid += 1;
                let request = plain(uid, space, &resource, available);
                if world.reserve(&request).is_ok() {
                    prop_assert_eq!(self::available(&world.state, space, &resource), Some(Quantity::ZERO));
                }
            }
        }
    }
}
