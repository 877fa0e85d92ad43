//! Quantities, compared with arithmetic that is independent of their representation.

use num_bigint::BigInt;
use quota_semantics::quantity::{Format, Quantity, as_written};

/// Reads the lines of the input as quantities, and adds them up.
pub fn run(data: &[u8]) {
    let mut sum = Quantity::ZERO;
    let mut expected = BigInt::ZERO;
    for text in String::from_utf8_lossy(data).lines().take(16) {
        let Ok(quantity) = text.parse::<Quantity>() else {
            continue;
        };
        let nanos = nanos(&quantity);
        assert_eq!(nanos, meant(text), "{text}");
        assert_eq!(made_again(&quantity), quantity);
        assert_eq!(quantity.clone().canonical().spelling(), None);
        reads_back(&quantity);
        sum.add_assign(&quantity);
        reads_back(&sum);
        expected += &nanos;
        assert_eq!(self::nanos(&sum), expected, "sum with {text}");
        let mut rest = sum.clone();
        rest.sub_assign(&quantity);
        assert_eq!(self::nanos(&rest), &expected - &nanos, "difference with {text}");
        assert_eq!(rest.cmp(&sum), self::nanos(&rest).cmp(&expected), "order with {text}");
    }
}

/// Checks that the written text parses to the same quantity. So does the printed one,
/// except that beyond 64 bits Kubernetes prints the decimal family without a suffix.
fn reads_back(quantity: &Quantity) {
    let json = serde_json::to_string(quantity).unwrap();
    let read: Quantity = as_written(|| serde_json::from_str(&json)).unwrap();
    assert_eq!(&read, quantity, "{json}");
    let printed = quantity.to_string();
    let bound = BigInt::from(i64::MAX) * 1_000_000_000;
    let small = (-&bound..=bound).contains(&nanos(quantity));
    if small || quantity.format() == Format::DecimalExponent {
        let again: Quantity = as_written(|| printed.parse()).unwrap();
        assert_eq!((&again, again.to_string()), (quantity, printed));
    }
}

fn nanos(quantity: &Quantity) -> BigInt {
    match quantity.scaled() {
        Some((digits, power)) => BigInt::from(digits) * ten_to(u32::try_from(power + 9).unwrap()),
        None => BigInt::from_signed_bytes_le(&quantity.nanos_bytes()),
    }
}

/// The quantity that its number and its family make.
fn made_again(quantity: &Quantity) -> Quantity {
    match quantity.scaled() {
        Some((digits, power)) => Quantity::from_scaled(digits, power, quantity.format()),
        None => Quantity::from_nanos_bytes(&quantity.nanos_bytes(), quantity.format()),
    }
}

fn ten_to(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

/// The value of a text in billionths: digits times the suffix, rounded away from zero, binary ones up to `i64::MAX`.
fn meant(text: &str) -> BigInt {
    let unsigned = text.trim_start_matches(['+', '-']);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: BigInt = format!("0{whole}{fraction}").parse().unwrap();
    if digits == BigInt::ZERO {
        return digits;
    }
    let binary =
        ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|candidate| *candidate == suffix);
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
        .iter()
        .position(|candidate| *candidate == suffix);
    let factor =
        binary.map_or(BigInt::from(1), |place| BigInt::from(2).pow(10 * (place as u32 + 1)));
    let power = match (binary, decimal) {
        (Some(_), _) => 0,
        (None, Some(place)) => place as i64 * 3 - 9,
        // An exponent of more than 32 bits is truncated to 32.
        (None, None) => i64::from(suffix[1..].parse::<i64>().unwrap() as i32),
    };
    let power = power - fraction.len() as i64 + 9;
    let mut nanos = if power > 2000 {
        ten_to(2000)
    } else if let Ok(power) = u32::try_from(power) {
        digits * factor * ten_to(power)
    } else if power < -2000 {
        BigInt::from(1)
    } else {
        let divisor = ten_to(u32::try_from(-power).unwrap());
        (digits * factor + &divisor - 1_u8) / divisor
    };
    let largest = match binary {
        Some(_) => BigInt::from(i64::MAX) * 1_000_000_000,
        None => ten_to(40 + 9),
    };
    nanos = nanos.min(largest);
    if text.starts_with('-') { -nanos } else { nanos }
}
