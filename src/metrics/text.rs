//! The Prometheus text format, for values that are read at scrape time.

use std::fmt::Write as _;

use quota_service::metrics::Metric;

/// Writes the help and the type of a metric family.
pub(super) fn head(text: &mut String, metric: &Metric) {
    let _ = writeln!(text, "# HELP {} {}", metric.name, metric.help);
    let _ = writeln!(text, "# TYPE {} {}", metric.name, metric.kind.name());
}

/// One sample, its label values in the order of the metric's labels.
pub(super) fn sample(text: &mut String, metric: &Metric, values: &[&str], number: f64) {
    debug_assert_eq!(metric.labels.len(), values.len());
    let names = metric.labels.iter().map(|label| label.name);
    labelled(text, metric, names.zip(values.iter().copied()), number);
}

/// One sample with these labels. An empty value equals an absent label.
pub(super) fn labelled<'l>(
    text: &mut String,
    metric: &Metric,
    labels: impl Iterator<Item = (&'l str, &'l str)>,
    number: f64,
) {
    text.push_str(metric.name);
    let mut separator = '{';
    for (name, value) in labels.filter(|(_, value)| !value.is_empty()) {
        text.push(separator);
        separator = ',';
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                character => text.push(character),
            }
        }
        text.push('"');
    }
    if separator == ',' {
        text.push('}');
    }
    let _ = match number {
        f64::INFINITY => writeln!(text, " +Inf"),
        f64::NEG_INFINITY => writeln!(text, " -Inf"),
        number => writeln!(text, " {number}"),
    };
}
