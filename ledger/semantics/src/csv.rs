//! Comma-separated values (RFC 4180).

/// Appends a line.
pub fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    for (number, field) in fields.enumerate() {
        if number > 0 {
            text.push(',');
        }
        // A spreadsheet must not take a name for a formula.
        let is_formula = field.starts_with(['=', '+', '@', '\t', '\r'])
            || field.starts_with('-') && field.parse::<f64>().is_err();
        if is_formula || field.contains([',', '"', '\n', '\r']) {
            text.push('"');
            if is_formula {
                text.push('\'');
            }
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_separates_is_quoted_and_nothing_is_a_formula() {
        let mut text = String::new();
        let fields = ["a", "b,c", "say \"no\"", "=1+1", "-x", "-1.5", ""];
        line(&mut text, fields.into_iter().map(str::to_owned));
        assert_eq!(text, "a,\"b,c\",\"say \"\"no\"\"\",\"'=1+1\",\"'-x\",-1.5,\r\n");
    }
}
