//! Parsing, printing and computing with quantities.

use std::cmp::Ordering;

use quota_semantics::quantity::{Quantity, Scale};
use serde_json::Value;

use super::vectors::{Case, same, same_text};

pub(crate) fn run(case: &Case) -> Result<(), String> {
    let expected = &case.expected;
    match case.text("op").as_str() {
        "parse" => parsed(
            case.text("s")
                .parse()
                .map_err(|error: quota_semantics::quantity::ParseError| error.to_string()),
            expected,
        ),
        "json" => {
            let read = serde_json::from_str::<Quantity>(&case.text("json"));
            // serde_json adds the place to the message.
            parsed(
                read.map_err(|error| {
                    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
                }),
                expected,
            )
        }
        "add" => {
            let mut sum = quantity(case, "a")?;
            sum.add_assign(&quantity(case, "b")?);
            computed(&sum, expected)
        }
        "sub" => {
            let mut rest = quantity(case, "a")?;
            rest.sub_assign(&quantity(case, "b")?);
            computed(&rest, expected)
        }
        "subNonNegative" => {
            computed(&quantity(case, "a")?.subtract_non_negative(&quantity(case, "b")?), expected)
        }
        "cmp" => {
            let order = quantity(case, "a")?.cmp(&quantity(case, "b")?);
            same("cmp", &(order as i64), &expected["cmp"].as_i64().unwrap_or(9))
        }
        "sum" => {
            let values: Vec<String> = case.read("values")?;
            let mut sum = Quantity::ZERO;
            for value in values {
                sum.add_assign(&value.parse().map_err(|_| "does not parse")?);
            }
            computed(&sum, expected)
        }
        "neg" => computed(&quantity(case, "s")?.negated(), expected),
        "roundUp" => {
            let mut rounded = quantity(case, "s")?;
            let scale = if case.json("scale") == "0" { Scale::Unit } else { Scale::Milli };
            let exact = rounded.round_up(scale);
            computed(&rounded, expected)?;
            same("exact", &exact, &(expected["exact"] == true))
        }
        other => Err(format!("unknown op {other:?}")),
    }
}

fn quantity(case: &Case, key: &str) -> Result<Quantity, String> {
    case.text(key).parse().map_err(|error| format!("{key} does not parse: {error}"))
}

fn parsed(result: Result<Quantity, String>, expected: &Value) -> Result<(), String> {
    let quantity = match result {
        Ok(quantity) => quantity,
        Err(error) => return same_text("error", &error, &expected["error"]),
    };
    same("ok", &true, &(expected["ok"] == true))?;
    computed(&quantity, expected)?;
    if let Some(json) = expected.get("json") {
        let ours = serde_json::to_string(&quantity).map_err(|error| error.to_string())?;
        same_text("json", &ours, json)?;
    }
    // Where Kubernetes' own number has wrapped around there is nothing to compare.
    for (key, overflow, ours) in [
        ("value", "valueOverflow", quantity.value()),
        ("milliValue", "milliValueOverflow", quantity.milli_value()),
    ] {
        if let (Some(theirs), false) = (expected[key].as_i64(), expected[overflow] == true) {
            same(key, &ours, &theirs)?;
        }
    }
    Ok(())
}

fn computed(ours: &Quantity, expected: &Value) -> Result<(), String> {
    same_text("string", &ours.to_string(), &expected["string"])?;
    same_text("format", &ours.format().to_string(), &expected["format"])?;
    let sign = match () {
        () if ours.is_negative() => Ordering::Less,
        () if ours.is_positive() => Ordering::Greater,
        () => Ordering::Equal,
    };
    same("sign", &(sign as i64), &expected["sign"].as_i64().unwrap_or(9))?;
    match expected["decimal"].as_str() {
        Some(decimal) => same("decimal", &decimal.parse(), &Ok(ours.clone())),
        None => Ok(()),
    }
}
