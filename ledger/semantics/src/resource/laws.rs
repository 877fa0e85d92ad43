//! Properties of all resource lists.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::quantity::laws::any_quantity;

fn any_list() -> impl Strategy<Value = ResourceList> {
    let name =
        select(vec!["cpu", "memory", "pods", "requests.cpu", "count/x", "zz"]).prop_map(Name::from);
    vec((name, any_quantity()), 0..6).prop_map(ResourceList::from_iter)
}

fn plus(a: &ResourceList, b: &ResourceList) -> ResourceList {
    let mut sum = a.clone();
    sum.add(b);
    sum
}

fn highest(a: &ResourceList, b: &ResourceList) -> ResourceList {
    let mut most = a.clone();
    most.max(b);
    most
}

proptest! {
    #[test]
    fn names_are_sorted_and_unique(list in any_list(), name in "[a-z]{1,3}", quantity in any_quantity()) {
        let mut list = list;
        list.insert(Name::from(name.as_str()), quantity.clone());
        prop_assert_eq!(list.get(&name), Some(&quantity));
        prop_assert!(list.names().zip(list.names().skip(1)).all(|(a, b)| a < b));
        prop_assert_eq!(list.remove(&name), Some(quantity));
        prop_assert_eq!(list.get(&name), None);
    }

    #[test]
    fn to_extend_a_list_is_to_insert_one_by_one(
        list in any_list(),
        more in vec((select(vec!["cpu", "a", "pods", "zz", "m"]), any_quantity()), 0..6),
        others in 0..200_u32,
    ) {
        let others = (0..others).map(|number| (format!("n{number}").as_str().into(), Quantity::ZERO));
        let longer: ResourceList = list.into_iter().chain(others).collect();
        let (mut extended, mut inserted) = (longer.clone(), longer);
        let more: Vec<_> = more.into_iter().map(|(name, amount)| (Name::from(name), amount)).collect();
        extended.extend(more.clone());
        for (name, amount) in more {
            inserted.insert(name, amount);
        }
        prop_assert_eq!(extended.to_string(), inserted.to_string());
    }

    #[test]
    fn what_is_common_is_what_both_have(a in any_list(), b in any_list(), more in 0..200_u32) {
        // One of the lists may be much longer.
        let others = (0..more).map(|number| (format!("n{number}").as_str().into(), Quantity::ZERO));
        let longer: ResourceList = b.into_iter().chain(others).collect();
        for (one, other) in [(&a, &longer), (&longer, &a)] {
            let common: Vec<_> = one.common(other).collect();
            let both = one
                .iter()
                .filter_map(|(name, mine)| Some((name, mine, other.get(name)?)));
            prop_assert_eq!(common, both.collect::<Vec<_>>());
        }
    }

    #[test]
    fn addition_is_that_of_numbers(a in any_list(), b in any_list(), c in any_list()) {
        prop_assert_eq!(plus(&a, &b), plus(&b, &a));
        prop_assert_eq!(plus(&plus(&a, &b), &c), plus(&a, &plus(&b, &c)));
        let mut back = plus(&a, &b);
        back.subtract(&b);
        prop_assert_eq!(back.without_zeros(), a.without_zeros());
    }

    #[test]
    fn max_is_the_least_list_above_both(a in any_list(), b in any_list()) {
        let most = highest(&a, &b);
        prop_assert_eq!(&most, &highest(&b, &a));
        prop_assert_eq!(&most, &highest(&most, &a));
        prop_assert!(a.exceeding(&most).is_empty() && b.exceeding(&most).is_empty());
        for (name, quantity) in most.iter() {
            prop_assert!(a.get(name) == Some(quantity) || b.get(name) == Some(quantity));
        }
    }

    #[test]
    fn min_is_the_largest_list_below_both(a in any_list(), b in any_list()) {
        let mut least = a.clone();
        least.min(&b);
        prop_assert!(least.exceeding(&a).is_empty() && least.exceeding(&b).is_empty());
        prop_assert_eq!(least.len(), highest(&a, &b).len());
        for (name, quantity) in least.iter() {
            prop_assert!(a.get(name) == Some(quantity) || b.get(name) == Some(quantity));
        }
    }

    #[test]
    fn a_delta_is_just_enough(new in any_list(), old in any_list()) {
        let delta = new.delta_over(&old);
        prop_assert!(delta.names().eq(new.names()));
        prop_assert!(delta.iter().all(|(_, quantity)| !quantity.is_negative()));
        let grown = plus(&old, &delta);
        prop_assert!(new.exceeding(&grown).is_empty());
        for (name, quantity) in delta.without_zeros().iter() {
            prop_assert_eq!(new.get(name), grown.get(name), "{}", quantity);
        }
    }

    #[test]
    fn a_mask_cuts_a_list_in_two(list in any_list()) {
        let chosen = |name: &str| name.len() > 3;
        let (inside, outside) = (list.mask(chosen), list.mask(|name| !chosen(name)));
        prop_assert_eq!(inside.len() + outside.len(), list.len());
        prop_assert_eq!(plus(&inside, &outside), list.clone());
        let mut kept = list;
        kept.retain(|name, _| chosen(name));
        prop_assert_eq!(kept, inside);
    }

    #[test]
    fn what_exceeds_is_greater_and_limited(list in any_list(), hard in any_list()) {
        let exceeding = list.exceeding(&hard);
        for name in list.names() {
            let greater = hard.get(name).is_some_and(|limit| list.get(name).is_some_and(|used| used > limit));
            prop_assert_eq!(exceeding.contains(name), greater);
        }
    }

    #[test]
    fn rounding_defaults_never_lowers(list in any_list()) {
        let mut rounded = list.clone();
        rounded.round_up_to_thousandths();
        for (name, quantity) in rounded.iter() {
            let before = list.get(name).cloned().unwrap_or_default();
            let (low, high) = if before.is_negative() { (quantity, &before) } else { (&before, quantity) };
            prop_assert!(low <= high);
        }
    }
}
