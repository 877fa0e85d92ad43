//! Amounts in a common unit.

use quota_client::table::beside;
use quota_semantics::quantity::{Format, Quantity};

use super::table::Text;

/// Suffixes from the largest unit to the smallest, each with its value in billionths.
const BINARY: [(&str, i128); 7] = [
    ("Ei", NANOS << 60),
    ("Pi", NANOS << 50),
    ("Ti", NANOS << 40),
    ("Gi", NANOS << 30),
    ("Mi", NANOS << 20),
    ("Ki", NANOS << 10),
    ("", NANOS),
];
const DECIMAL: [(&str, i128); 10] = [
    ("E", NANOS * 1_000_000_000_000_000_000),
    ("P", NANOS * 1_000_000_000_000_000),
    ("T", NANOS * 1_000_000_000_000),
    ("G", NANOS * 1_000_000_000),
    ("M", NANOS * 1_000_000),
    ("k", NANOS * 1_000),
    ("", NANOS),
    ("m", NANOS / 1_000),
    ("u", NANOS / 1_000_000),
    ("n", 1),
];
const NANOS: i128 = 1_000_000_000;

/// The largest amount that is converted to another unit: Kubernetes parses larger ones with a binary suffix as this
/// amount.
const CONVERTED_MAX: i128 = (i64::MAX as i128) * NANOS;

/// The length in characters above which an exact amount has a short form, too.
const LETTERS_MAX: usize = 8;

/// Amounts in a common unit: the largest in which all of them are whole, but none larger than the unit of the first
/// amount, the limit. Without such a unit each amount has its own one in the family of the limit. Long amounts have a short form, rounded, in the
/// unit of the limit.
pub(crate) fn in_one_unit<const N: usize>(amounts: [&Quantity; N]) -> [Text; N] {
    let Some(first) = amounts.first().copied() else {
        return amounts.map(alone);
    };
    let own = || amounts.map(|amount| beside(Some(amount), first).into());
    let nanos = amounts.map(|amount| nanos(amount).unwrap_or(i128::MAX));
    if nanos.iter().any(|nanos| nanos.abs() > CONVERTED_MAX) {
        return own();
    }
    let units = units_of(first);
    let limit = first.exact().to_string();
    let suffix = limit.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let mut units = units.iter().skip_while(|(name, _)| *name != suffix);
    let largest = units.clone().next();
    let fits = |(_, unit): &&(&str, i128)| nanos.iter().all(|amount| amount % unit == 0);
    // A limit that is nothing has no unit of its own.
    let found = match first.is_zero() {
        true => None,
        false => units.find(fits),
    };
    let (Some((suffix, unit)), Some(largest)) = (found, largest) else {
        return own();
    };
    let exact = nanos.map(|amount| match amount / unit {
        0 => "0".to_owned(),
        whole => format!("{whole}{suffix}"),
    });
    let is_long = exact.iter().any(|text| text.len() > LETTERS_MAX);
    let mut short = nanos
        .map(|amount| is_long.then(|| rounded(amount, largest)))
        .into_iter();
    exact.map(|text| Text::with_short(text, short.next().flatten()))
}

/// A single amount in its own unit. A long amount has a short form, rounded, in the largest unit that the amount fills.
pub(crate) fn alone(amount: &Quantity) -> Text {
    let exact = amount.exact().to_string();
    let short = || {
        let nanos = nanos(amount)?;
        let mut units = units_of(amount).iter();
        let filled = units.find(|(_, unit)| nanos.abs() >= *unit)?;
        Some(rounded(nanos, filled))
    };
    let short = (exact.len() > LETTERS_MAX).then(short).flatten();
    Text::with_short(exact, short)
}

/// The units in which an amount can be written; none if it is written with an exponent.
fn units_of(amount: &Quantity) -> &'static [(&'static str, i128)] {
    match amount.format() {
        Format::BinarySI => &BINARY,
        Format::DecimalSI => &DECIMAL,
        Format::DecimalExponent | Format::Unset => &[],
    }
}

/// An amount with one digit after the point, with `~` if it is rounded.
fn rounded(nanos: i128, (suffix, unit): &(&str, i128)) -> String {
    if nanos % unit == 0 {
        return match nanos / unit {
            0 => "0".to_owned(),
            whole => format!("{whole}{suffix}"),
        };
    }
    let tenth = unit / 10;
    let tenths = (nanos.abs() + tenth / 2) / tenth;
    let sign = if nanos < 0 { "-" } else { "" };
    match tenths {
        0 => format!("~{sign}0{suffix}"),
        tenths => format!("~{sign}{}.{}{suffix}", tenths / 10, tenths % 10),
    }
}

/// The amount in billionths; none if it exceeds the type.
fn nanos(amount: &Quantity) -> Option<i128> {
    let (digits, power) = amount.scaled()?;
    let exponent = u32::try_from(i32::from(power) + 9).ok()?;
    10_i128.checked_pow(exponent)?.checked_mul(digits.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown<const N: usize>(amounts: [&str; N]) -> [String; N] {
        let read = amounts.map(|amount| amount.parse::<Quantity>().unwrap());
        in_one_unit(read.each_ref()).map(|text| text.whole().to_owned())
    }

    #[test]
    fn long_amounts_have_a_short_form_in_the_unit_of_the_limit() {
        let amounts = ["30Gi", "3147483648", "0", "-1", "1Gi", "-3147483648"];
        let read = amounts.map(|amount| amount.parse::<Quantity>().unwrap());
        let short = in_one_unit(read.each_ref()).map(|text| text.short().map(str::to_owned));
        let expected = ["30Gi", "~2.9Gi", "0", "~-0Gi", "1Gi", "~-2.9Gi"];
        assert_eq!(short, expected.map(|text| Some(text.to_owned())));
        let read = ["4", "500m"].map(|amount| amount.parse::<Quantity>().unwrap());
        let plain = in_one_unit(read.each_ref());
        assert!(plain.iter().all(|text| text.short().is_none()), "{plain:?}");
    }

    #[test]
    fn a_long_amount_that_stands_alone_is_short_in_the_unit_that_it_fills() {
        for (amount, short) in [
            ("11000116277760", Some("~11.0T")),
            ("5749450Ki", Some("~5.5Gi")),
            ("-1234567890", Some("~-1.2G")),
            ("1234567m", None),
            ("12345678e3", None),
        ] {
            let text = alone(&amount.parse::<Quantity>().unwrap());
            assert_eq!((text.whole(), text.short()), (amount, short));
        }
    }

    #[test]
    fn what_stands_beside_each_other_has_one_unit() {
        assert_eq!(
            shown(["4", "500m", "0", "3500m"]),
            ["4000m", "500m", "0", "3500m"]
        );
        assert_eq!(
            shown(["1Gi", "256Mi", "1Gi"]),
            ["1024Mi", "256Mi", "1024Mi"]
        );
        assert_eq!(shown(["2Gi", "1Gi"]), ["2Gi", "1Gi"]);
        assert_eq!(shown(["1Gi", "1"]), ["1073741824", "1"]);
        assert_eq!(shown(["2k", "1500"]), ["2000", "1500"]);
        assert_eq!(shown(["10", "3", "-1"]), ["10", "3", "-1"]);
        assert_eq!(shown(["1000E", "0"]), ["1000E", "0"]);
        let too_large_in_binary = ["1Ki", "10000000002G"];
        assert_eq!(shown(too_large_in_binary), too_large_in_binary);
        assert_eq!(shown(["0", "1500m"]), ["0", "1500m"]);
        assert_eq!(shown(["1e3", "500m"]), ["1e3", "500m"]);
        assert_eq!(shown(["1Gi", "500m"]), ["1Gi", "500m"]);
        assert_eq!(shown(["0", "1Gi", "2G"]), ["0", "1073741824", "2G"]);
    }

    proptest! {
        #[test]
        fn nothing_is_rounded(
            amounts in prop::collection::vec("[1-9][0-9]{0,12}(m|k|M|G|Ki|Mi|Gi|e3)?", 4),
        ) {
            let read: Vec<Quantity> = amounts.iter().map(|amount| amount.parse().unwrap()).collect();
            let shown = in_one_unit([&read[0], &read[1], &read[2], &read[3]]);
            for (shown, amount) in shown.iter().zip(&read) {
                prop_assert_eq!(&shown.whole().parse::<Quantity>().unwrap(), amount);
            }
        }
    }
}
