use super::*;

fn list(text: &str) -> ResourceList {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_list_is_sorted_and_the_last_of_a_name_counts() {
    let list = list(r#"{"pods":"2","cpu":1.50,"pods":"010","memory":null}"#);
    assert_eq!(list.pretty(), "cpu=1500m,memory=0,pods=010");
    assert_eq!(
        serde_json::to_string(&list).unwrap(),
        r#"{"cpu":"1500m","memory":"0","pods":"010"}"#
    );
    assert_eq!(list.get("pods"), Some(&Quantity::from_units(10)));
    assert_eq!(list.get("pod"), None);
}

#[test]
fn null_is_the_empty_list() {
    assert!(list("null").is_empty());
    assert!(serde_json::from_str::<ResourceList>("[]").is_err());
    assert!(serde_json::from_str::<ResourceList>(r#"{"cpu":"1 Gi"}"#).is_err());
}

#[test]
fn sums_create_names_and_differences_go_below_zero() {
    let mut sum = list(r#"{"b":"1Ki","d":"1"}"#);
    sum.add(&list(r#"{"a":"010","b":"1Ki","c":"2","e":"3"}"#));
    assert_eq!(sum.pretty(), "a=010,b=2Ki,c=2,d=1,e=3");
    sum.subtract(&list(r#"{"a":"10","f":"1Gi"}"#));
    assert_eq!(sum.pretty(), "a=0,b=2Ki,c=2,d=1,e=3,f=-1Gi");
    assert_eq!(sum.without_zeros().len(), 5);
}

#[test]
fn the_larger_one_wins_and_of_equals_the_other() {
    let mut most = list(r#"{"a":"1024","b":"5","c":"1"}"#);
    most.max(&list(r#"{"a":"1Ki","b":"4","d":"-1"}"#));
    assert_eq!(most.pretty(), "a=1Ki,b=5,c=1,d=-1");
}

#[test]
fn a_delta_is_never_negative_and_has_the_new_names() {
    let new = list(r#"{"a":"3","b":"1","c":"010","d":"-1"}"#);
    let old = list(r#"{"a":"1","b":"2","e":"7"}"#);
    assert_eq!(new.delta_over(&old).pretty(), "a=2,b=0,c=010,d=0");
}

#[test]
fn only_names_on_both_sides_can_exceed() {
    let used = list(r#"{"a":"2","b":"2","c":"9"}"#);
    let hard = list(r#"{"a":"1","b":"2","d":"0"}"#);
    assert_eq!(used.exceeding(&hard), [Name::from("a")]);
}

#[test]
fn a_few_amounts_are_added_to_many_as_to_few() {
    let name = |number: usize| Name::from(format!("r{number:0>3}"));
    let one = Quantity::from_units(1);
    let many = || (0..200).map(|n| (name(2 * n), Quantity::from_units(5)));
    for few in [vec![0, 7, 398], vec![1, 2, 399], vec![], vec![100]] {
        let few: ResourceList = few.into_iter().map(|n| (name(n), one.clone())).collect();
        let mut sum: ResourceList = many().collect();
        sum.add(&few);
        let added = |n: usize| few.get(&name(n)).map_or(0, |_| 1);
        let there = (0..400).filter(|n: &usize| n.is_multiple_of(2) || added(*n) == 1);
        let expected = |n: usize| if n.is_multiple_of(2) { 5 + added(n) } else { 1 };
        let expected: ResourceList =
            there.map(|n| (name(n), Quantity::from_units(expected(n)))).collect();
        assert_eq!(sum, expected);
        sum.subtract(&few);
        assert_eq!(sum.without_zeros(), many().collect());
    }
}

#[test]
fn lists_of_many_names_are_joined_in_one_pass() {
    let named = |letter: char| -> ResourceList {
        let name = |number| format!("{letter}{number:06}").as_str().into();
        (0..200_000).map(|number| (name(number), Quantity::from_units(1))).collect()
    };
    let (front, back) = (named('a'), named('z'));
    // One by one, each name of the front would move the whole back: hours.
    let mut sum = back.clone();
    sum.add(&front);
    let mut extended = back.clone();
    extended.extend(front.clone());
    let both: ResourceList = front.into_iter().chain(back).collect();
    assert!(sum == both && extended == both);
}

#[test]
fn very_many_amounts_are_added_to_many() {
    let name = |number: usize| Name::from(format!("r{number:0>6}"));
    let one = Quantity::from_units(1);
    let every = |step: usize, from: usize| -> ResourceList {
        let numbers = (from..60_000).step_by(step);
        numbers.map(|number| (name(number), one.clone())).collect()
    };
    for (mine, theirs) in [(2, 3), (1, 20), (20, 1), (7, 7)] {
        let (mut sum, added) = (every(mine, 1), every(theirs, 0));
        let mut slowly: std::collections::BTreeMap<_, _> = sum.clone().into_iter().collect();
        for (name, amount) in added.iter() {
            let entry = slowly.entry(name.clone()).or_default();
            entry.add_assign(amount);
        }
        sum.add(&added);
        assert!(sum.iter().eq(slowly.iter()), "{mine} {theirs}");
        sum.extend(added.clone());
        slowly.extend(added);
        assert!(sum.iter().eq(slowly.iter()), "{mine} {theirs}");
    }
}

#[test]
fn zeros_are_dropped_of_the_given_names() {
    let mut sum = list(r#"{"a":"0","b":"1","c":"0","d":"0"}"#);
    sum.drop_zeros_of(&list(r#"{"a":"7","b":"7","d":"7","e":"7"}"#));
    assert_eq!(sum.pretty(), "b=1,c=0");
    sum.drop_zeros_of(&list(r#"{"b":"7"}"#));
    assert_eq!(sum.pretty(), "b=1,c=0");
}
