use super::*;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
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
