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
    assert_eq!(quantity("0.0000000000000000000000001Ki").format(), Format::DecimalSI);
}

#[test]
fn numbers_have_a_limit() {
    let quantity = |text: &str| of_any_length(|| quantity(text));
    let largest = quantity("1e40");
    for text in ["1e41", "1e2147483647", &"9".repeat(600), "99e39", "1000E"] {
        let text = &text.replace("000E", &format!("{}E", "0".repeat(30)));
        assert_eq!(quantity(text), largest, "{text}");
        assert_eq!(quantity(&format!("-{text}")), largest.negated(), "{text}");
    }
    assert_eq!(quantity(&largest.to_string()), largest);
    assert!(quantity("1e39") < largest);
    assert_eq!(quantity("0.001e42"), quantity("1e39"));
    assert_eq!(quantity("0.0001e45"), largest);
    let (zeros, nines) = ("0".repeat(512), "9".repeat(600));
    assert_eq!(quantity(&format!("1.{zeros}1")), quantity("1000000001n"));
    assert_eq!(quantity(&format!("1.{zeros}0")), quantity("1"));
    assert_eq!(quantity(&format!("0.{nines}")), quantity("1"));
    assert_eq!(quantity(&format!("0.{zeros}1Ki")), quantity("1n"));
    assert_eq!(quantity("0e2147483647"), Quantity::ZERO);
    assert_eq!(quantity("1e39").to_string(), "1e39");
    assert_eq!(quantity(&"9".repeat(512)).value(), i64::MAX);
    // Kubernetes cuts exponents to 32 bits.
    assert_eq!(quantity("1e4294967297"), quantity("10"));
}

/// A text with a million zeros is a quantity in Kubernetes, which keeps all of them.
#[test]
fn a_text_has_at_most_64_bytes() {
    let zeros = |bytes: usize| format!("{}1", "0".repeat(bytes - 1));
    assert_eq!(quantity(&zeros(64)), quantity("1"));
    for text in [zeros(65), zeros(1 << 20), "1".repeat(65), "x".repeat(65)] {
        assert_eq!(text.parse::<Quantity>(), Err(ParseError::TooLong));
        let json = format!("\"{text}\"");
        assert_eq!(Quantity::from_json_token(&json), Err(ParseError::TooLong));
        let error = serde_json::from_str::<Quantity>(&json).unwrap_err().to_string();
        assert!(error.contains("not be longer than 64 bytes"), "{error}");
    }
    let long = of_any_length(|| quantity(&zeros(1 << 20)));
    assert_eq!((long.spelling(), long.to_string()), (None, "1".to_owned()));
    assert!(zeros(65).parse::<Quantity>().is_err(), "only inside");
}

#[test]
fn the_longest_canonical_text_of_a_text_is_a_text() {
    let digits = "987654321".repeat(7);
    for text in [
        format!("-{}.{}", &digits[..52], &digits[..9]),
        format!("{}u", &digits[..63]),
        format!("-{}e-9", &digits[..60]),
        format!("{}.{}e40", &digits[..1], &digits[..50]),
        format!("-{}.{}", "9".repeat(40), "9".repeat(9)),
    ] {
        let canonical = quantity(&text).times(1_000_000_000);
        let json = serde_json::to_string(&canonical).unwrap();
        assert!(json.len() <= TEXT_MAX_BYTES + 2, "{json}");
        let read = as_written(|| serde_json::from_str::<Quantity>(&json));
        assert_eq!(read.unwrap(), canonical);
    }
}

#[test]
fn what_the_ledger_reads_has_no_unusual_spelling() {
    for (token, text) in
        [("\"010\"", "10"), ("1.500", "1500m"), ("\" +1Gi\"", "1Gi"), ("\"1e0\"", "1")]
    {
        let read = Quantity::from_json_token(token).unwrap();
        let kept: Quantity = serde_json::from_str(token).unwrap();
        assert_eq!((read.to_string(), read.spelling()), (text.to_owned(), None));
        assert_eq!(kept.canonical().to_string(), text);
    }
}

#[test]
fn only_large_numbers_take_more_memory() {
    for text in ["1", "010", "-9223372036854775807", "1e29"] {
        assert_eq!(quantity(text).extra_bytes(), 0, "{text}");
    }
    let extra = quantity("1e40").extra_bytes();
    assert!((48..96).contains(&extra), "{extra}");
}

#[test]
fn json_numbers_count_by_their_text() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap();
    assert_eq!(read("1.500").to_string(), "1.500");
    assert_eq!(read("1e3").format(), Format::DecimalExponent);
    assert_eq!(read("\" 1Gi\\t\"".replace("\\t", " ").as_str()).to_string(), "1Gi");
    assert_eq!(read("null").format(), Format::Unset);
    assert!(read("null").is_zero());
    assert!(serde_json::from_str::<Quantity>("\"\\u0031\"").is_err());
    assert_eq!(serde_json::from_value::<Quantity>("1Gi".into()).unwrap(), quantity("1Gi"));
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
fn decimals_and_parts_are_rounded_to_a_billionth() {
    for (text, decimal) in [
        ("0", "0"),
        ("1500m", "1.5"),
        ("-1500m", "-1.5"),
        ("1n", "0.000000001"),
        ("1Gi", "1073741824"),
        ("1e40", "10000000000000000000000000000000000000000"),
    ] {
        assert_eq!(quantity(text).decimal(), decimal, "{text}");
    }
    for (text, n, decimal) in [
        ("1", 3, "0.333333333"),
        ("-2", 3, "-0.666666667"),
        ("3n", 2, "0.000000002"),
        ("-3n", 2, "-0.000000002"),
        ("1e40", 3, "3333333333333333333333333333333.333333333"),
        ("1", 0, "0"),
    ] {
        let text = text.replace("1e40", "10000000000000000000000000000000");
        assert_eq!(quantity(&text).divided(n).decimal(), decimal, "{text}");
    }
}
