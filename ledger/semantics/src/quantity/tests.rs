use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn sum(a: &str, b: &str) -> String {
    let mut sum = quantity(a);
    sum.add_assign(&quantity(b));
    sum.to_string()
}

#[test]
fn it_is_small() {
    assert!(size_of::<Quantity>() <= 40);
}

#[test]
fn only_unusual_spellings_are_remembered() {
    for text in ["010", "+1", "1.500", "1e0", "60.Ki", "+5671Gi", "009.365E3"] {
        assert_eq!(quantity(text).to_string(), text);
        assert!(quantity(text).rare.is_some(), "{text}");
        let mut sum = quantity(text);
        sum.add_assign(&Quantity::ZERO);
        assert_eq!(sum, quantity(text));
        assert_ne!(sum.to_string(), text);
    }
    for text in ["0", "1", "500m", "1Gi", "10e3", "-7"] {
        assert!(quantity(text).rare.is_none(), "{text}");
    }
}

#[test]
fn what_is_hardly_a_number_is_zero_or_fails_by_its_suffix() {
    for text in ["Ki", "m", "+", ".", "-.", "E", ".Gi"] {
        assert!(quantity(text).is_zero(), "{text}");
    }
    assert_eq!("".parse::<Quantity>(), Err(ParseError::Format));
    assert_eq!(" ".parse::<Quantity>(), Err(ParseError::Format));
    // Kubernetes' slow path does require digits.
    for text in ["Pi", "+Ei", "e-10", ".e-10"] {
        assert_eq!(text.parse::<Quantity>(), Err(ParseError::Numeric), "{text}");
    }
    assert_eq!("e".parse::<Quantity>(), Err(ParseError::Suffix));
}

#[test]
fn the_family_of_a_sum_is_that_of_its_first_part_unless_that_is_zero() {
    assert_eq!(sum("1Ki", "1024"), "2Ki");
    assert_eq!(sum("1024", "1Ki"), "2048");
    assert_eq!(sum("0", "1Ki"), "1Ki");
    assert_eq!(sum("0Ki", "1k"), "1k");
    assert_eq!(sum("1Gi", "1m"), "1073741824001m");
    assert_eq!(sum("1Ki", "-1"), "1023");
}

#[test]
fn decimals_beyond_exa_lose_their_suffix_and_binaries_are_capped() {
    assert_eq!(sum("999E", "1E"), "1");
    assert_eq!(quantity("1000E"), quantity("1e21"));
    assert_eq!(quantity("1000E").scaled(), quantity("1e21").scaled());
    assert_eq!(quantity("16Ei"), Quantity::from_units(i64::MAX));
    assert_eq!(quantity("-16Ei"), Quantity::from_units(-i64::MAX));
    assert_eq!(quantity("1Ei").times(1024).to_string(), "1");
}

#[test]
fn what_is_finer_than_a_billionth_is_rounded_away_from_zero() {
    assert_eq!(quantity("0.0000000001"), quantity("1n"));
    assert_eq!(quantity("-1e-2000000000"), quantity("-1n"));
    assert_eq!(quantity("0e-2000000000"), Quantity::ZERO);
    assert_eq!(
        quantity("0.0000000000000000000000001Ki").format(),
        Format::DecimalSI
    );
}

#[test]
fn numbers_have_a_limit() {
    let largest = quantity("1e512");
    for text in ["1e513", "1e2147483647", &"9".repeat(600), "99e511"] {
        assert_eq!(quantity(text), largest, "{text}");
        assert_eq!(quantity(&format!("-{text}")), largest.negated(), "{text}");
    }
    assert_eq!(quantity(&largest.to_string()), largest);
    assert!(quantity("1e511") < largest);
    let (zeros, nines) = ("0".repeat(512), "9".repeat(600));
    assert_eq!(quantity(&format!("1.{zeros}1")), quantity("1000000001n"));
    assert_eq!(quantity(&format!("1.{zeros}0")), quantity("1"));
    assert_eq!(quantity(&format!("0.{nines}")), quantity("1"));
    assert_eq!(quantity(&format!("0.{zeros}1Ki")), quantity("1n"));
    assert_eq!(quantity("0e2147483647"), Quantity::ZERO);
    assert_eq!(quantity("1e510").to_string(), "1e510");
    assert_eq!(quantity(&"9".repeat(512)).value(), i64::MAX);
    // Kubernetes cuts exponents to 32 bits.
    assert_eq!(quantity("1e4294967297"), quantity("10"));
}

#[test]
fn json_numbers_count_by_their_text() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap();
    assert_eq!(read("1.500").to_string(), "1.500");
    assert_eq!(read("1e3").format(), Format::DecimalExponent);
    assert_eq!(
        read("\" 1Gi\\t\"".replace("\\t", " ").as_str()).to_string(),
        "1Gi"
    );
    assert_eq!(read("null").format(), Format::Unset);
    assert!(read("null").is_zero());
    assert!(serde_json::from_str::<Quantity>("\"\\u0031\"").is_err());
    assert_eq!(
        serde_json::from_value::<Quantity>("1Gi".into()).unwrap(),
        quantity("1Gi")
    );
}

#[test]
fn big_whole_numbers_pass_the_integer_check_as_they_do_in_kubernetes() {
    for (text, passes) in [
        ("10", true),
        ("1500m", false),
        ("8Ei", true),
        ("1E", true),
        ("9300P", true),
        ("7Ei", false),
        ("1234567890123456789", false),
    ] {
        assert_eq!(quantity(text).passes_integer_check(), passes, "{text}");
    }
}

#[test]
fn a_spelling_that_does_not_mean_the_number_is_dropped() {
    assert_eq!(quantity("010").spelling(), Some("010"));
    for (spelling, kept) in [
        ("010", Some("010")),
        ("011", None),
        ("10e0", None),
        ("x", None),
    ] {
        assert_eq!(quantity("10").spelled(spelling).spelling(), kept);
    }
}
