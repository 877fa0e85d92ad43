//! Properties of all quantities.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Texts of quantities, up to those that need big integers, below the largest number that is read.
fn text() -> impl Strategy<Value = String> {
    let suffix = select(vec![
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0",
        "e3", "E-3", "e+7", "e-11", "e19",
    ]);
    ("[+-]?", "0{0,2}[0-9]{1,20}", "(\\.[0-9]{0,15})?", suffix)
        .prop_map(|(sign, whole, fraction, suffix)| format!("{sign}{whole}{fraction}{suffix}"))
}

/// Quantities that are usual in manifests and events.
fn usual() -> impl Strategy<Value = Quantity> {
    let suffix = select(vec!["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3"]);
    (0..100_000_u32, suffix).prop_map(|(number, suffix)| quantity(&format!("{number}{suffix}")))
}

pub(crate) fn any_quantity() -> impl Strategy<Value = Quantity> {
    prop_oneof![3 => usual(), 2 => text().prop_map(|text| quantity(&text))]
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Beyond 999E the decimal family prints without a suffix, as in Kubernetes.
fn loses_its_suffix(quantity: &Quantity) -> bool {
    quantity.format() != Format::DecimalExponent && quantity.number().exact_steps(NANOS).is_none()
}

/// Reads JSON that the ledger has written: a sum may be of any length.
fn written(json: &str) -> Quantity {
    as_written(|| serde_json::from_str(json)).unwrap()
}

/// All parts of a quantity.
pub(crate) fn parts(quantity: &Quantity) -> (Vec<u8>, Format, Option<&str>) {
    (quantity.nanos_bytes(), quantity.format(), quantity.spelling())
}

/// The quantity that its parts make.
fn made_again(quantity: &Quantity) -> Quantity {
    match quantity.scaled() {
        Some((digits, power)) => Quantity::from_scaled(digits, power, quantity.format()),
        None => Quantity::from_nanos_bytes(&quantity.nanos_bytes(), quantity.format()),
    }
}

fn plus(a: &Quantity, b: &Quantity) -> Quantity {
    let mut sum = a.clone();
    sum.add_assign(b);
    sum
}

fn minus(a: &Quantity, b: &Quantity) -> Quantity {
    let mut rest = a.clone();
    rest.sub_assign(b);
    rest
}

#[test]
fn what_has_no_suffix_is_exact_in_json() {
    for (text, json) in [
        ("1000E", "\"1000E\""),
        ("1000000000000000000000", "\"1000E\""),
        ("1024Ei", "\"9223372036854775807\""),
        ("1e21", "\"1e21\""),
        ("-1000000E", "\"-1000000E\""),
        ("500m", "\"500m\""),
    ] {
        let mut sum = quantity(text);
        // A sum has no spelling of its own.
        sum.add_assign(&Quantity::ZERO);
        assert_eq!(serde_json::to_string(&sum).unwrap(), json);
        let read: Quantity = serde_json::from_str(json).unwrap();
        assert_eq!(read, quantity(text));
    }
}

/// With a binary suffix no more than 2^63 - 1 can be written.
#[test]
fn binary_sums_of_any_size_are_exact_in_json() {
    for (part, times, json) in [
        ("4Ei", 2, "\"9223372036854775808\""),
        ("-4Ei", 3, "\"-13835058055282163712\""),
        ("1Ei", 1 << 40, "\"1267650600228229401496703205376\""),
        ("1Ei", u64::MAX, "\"21267647932558653965307991459878666240\""),
        ("1Ei", 7, "\"7Ei\""),
    ] {
        let sum = quantity(part).times(times);
        assert_eq!(serde_json::to_string(&sum).unwrap(), json);
        assert_eq!(serde_json::from_str::<Quantity>(json).unwrap(), sum);
    }
}

proptest! {
    #[test]
    fn json_is_exact(quantity in any_quantity(), other in any_quantity(), n in 0..64_u32) {
        let times = quantity.times(1 << n);
        for quantity in [plus(&quantity, &other), minus(&quantity, &other), times, quantity] {
            let text = serde_json::to_string(&quantity).unwrap();
            prop_assert_eq!(written(&text), quantity, "{}", text);
        }
    }

    #[test]
    fn parsing_never_panics_and_is_bounded(
        text in "[+-]?[0-9.]{0,30}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,22}",
    ) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert!(quantity.to_string().len() <= 600);
        }
    }

    #[test]
    fn any_text_parses_or_fails_with_a_reason(text in "\\PC{0,20}") {
        if let Err(error) = text.parse::<Quantity>() {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn what_is_printed_parses_to_the_same(quantity in any_quantity()) {
        if loses_its_suffix(&quantity) {
            return Ok(());
        }
        let printed = quantity.to_string();
        let again: Quantity = as_written(|| printed.parse()).unwrap();
        prop_assert_eq!(&again, &quantity);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn json_keeps_the_text(quantity in any_quantity()) {
        if loses_its_suffix(&quantity) {
            return Ok(());
        }
        let json = serde_json::to_string(&quantity).unwrap();
        let again = written(&json);
        prop_assert_eq!(serde_json::to_string(&again).unwrap(), json);
        prop_assert_eq!(again, quantity);
    }

    #[test]
    fn parts_keep_everything(quantity in any_quantity().prop_map(Quantity::canonical)) {
        let again = made_again(&quantity);
        prop_assert_eq!(parts(&again), parts(&quantity));
        prop_assert_eq!(again.to_string(), quantity.to_string());
    }

    #[test]
    fn any_parts_make_a_quantity(
        digits: i64, power: i8, bytes in vec(any::<u8>(), 0..40), scaled: bool,
    ) {
        let once = match scaled {
            true => Quantity::from_scaled(digits, power, Format::BinarySI),
            false => Quantity::from_nanos_bytes(&bytes, Format::BinarySI),
        };
        let again = made_again(&once);
        prop_assert_eq!(parts(&again), parts(&once));
    }

    #[test]
    fn addition_is_that_of_numbers(a in any_quantity(), b in any_quantity(), c in any_quantity()) {
        prop_assert_eq!(plus(&a, &b), plus(&b, &a));
        prop_assert_eq!(plus(&plus(&a, &b), &c), plus(&a, &plus(&b, &c)));
        prop_assert_eq!(minus(&plus(&a, &b), &b), a.clone());
        prop_assert_eq!(minus(&a, &b), minus(&b, &a).negated());
        prop_assert_eq!(plus(&a, &Quantity::ZERO), a.clone());
        prop_assert!(minus(&a, &a).is_zero());
    }

    #[test]
    fn sums_do_not_depend_on_order(
        (values, shuffled) in vec(any_quantity(), 0..12)
            .prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle())),
    ) {
        let sum = |values: &[Quantity]| values.iter().fold(Quantity::ZERO, |sum, value| plus(&sum, value));
        prop_assert_eq!(sum(&values), sum(&shuffled));
    }

    #[test]
    fn the_first_that_is_not_zero_gives_the_family(a in any_quantity(), b in any_quantity()) {
        let expected = if a.is_zero() { b.format() } else { a.format() };
        prop_assert_eq!(plus(&a, &b).format(), expected);
        prop_assert_eq!(minus(&a, &b).format(), expected);
    }

    #[test]
    fn multiplying_is_adding_again_and_again(a in any_quantity(), n in 0..20_u64) {
        let sum = (0..n).fold(Quantity::ZERO, |sum, _| plus(&sum, &a));
        prop_assert_eq!(a.times(n), sum);
        prop_assert_eq!(minus(&a.times(u64::MAX), &a), a.times(u64::MAX - 1));
    }

    #[test]
    fn adding_times_is_adding_the_product(
        a in any_quantity(), b in any_quantity(), n in prop_oneof![0..20_u64, any::<u64>()],
    ) {
        let mut sum = a.clone();
        sum.add_times(&b, n);
        let once = plus(&a, &b.times(n));
        prop_assert_eq!(parts(&sum), parts(&once));
        sum.add_times(&b, n);
        let twice = plus(&once, &b.times(n));
        prop_assert_eq!(parts(&sum), parts(&twice));
    }

    #[test]
    fn order_is_total_and_that_of_differences(a in any_quantity(), b in any_quantity(), c in any_quantity()) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a < b, minus(&b, &a).is_positive());
        prop_assert_eq!(a == b, minus(&b, &a).is_zero());
        prop_assert_eq!(a.is_negative(), a < Quantity::ZERO);
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        prop_assert_eq!(a.cmp(&b), plus(&a, &c).cmp(&plus(&b, &c)));
    }

    #[test]
    fn equal_numbers_have_equal_hashes(a in any_quantity(), b in any_quantity()) {
        // The same number, computed through a possibly big integer, and in another family.
        let same = minus(&plus(&a, &b), &b);
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        prop_assert_eq!(hasher.hash_one(&same), hasher.hash_one(&a));
    }

    #[test]
    fn a_delta_is_the_difference_or_zero(a in any_quantity(), b in any_quantity()) {
        prop_assert_eq!(a.subtract_non_negative(&b), minus(&a, &b).max(Quantity::ZERO));
    }

    #[test]
    fn rounding_goes_to_the_next_step_away_from_zero(
        a in any_quantity(), scale in select(vec![Scale::Unit, Scale::Milli]),
    ) {
        let mut rounded = a.clone();
        let exact = rounded.round_up(scale);
        let moved = minus(&rounded, &a);
        prop_assert_eq!(exact, moved.is_zero());
        prop_assert!(exact || moved.is_negative() == a.is_negative());
        let step = Quantity::from_number(Number::Small(scale.nanos()), Format::DecimalSI, None);
        prop_assert!(moved < step && moved > step.negated());
        prop_assert!(rounded.round_up(scale));
    }

    #[test]
    fn values_are_rounded_away_from_zero(a in any_quantity()) {
        let mut whole = a.clone();
        whole.round_up(Scale::Unit);
        let held = whole.clamp(Quantity::from_units(i64::MIN), Quantity::from_units(i64::MAX));
        prop_assert_eq!(Quantity::from_units(a.value()), held);
    }

    #[test]
    fn the_integer_check_is_right_where_nothing_overflows(milli in any::<i64>()) {
        let quantity = quantity(&format!("{milli}m"));
        prop_assert_eq!(quantity.milli_value(), milli);
        prop_assert_eq!(quantity.passes_integer_check(), milli % 1000 == 0);
    }
}
